/// All variables that begin with IMEX_ or NIM_ and that some part of Imex reads.
#pragma once

#include <string>
#include <string_view>

namespace imex::inference {

/// Also those of Kubernetes' service links ("NIM_LLM_SERVICE_HOST", "NIM_LLM_PORT_8000_TCP"), which
/// appear by themselves beside a service of such a name.
[[nodiscard]] bool is_known_variable(std::string_view name);

/// "unknown variable NIM_MODEL_PAHT is ignored; the nearest known one is NIM_MODEL_PATH".
[[nodiscard]] std::string unknown_variable(std::string_view name);

/// What a run does not need but must never show.
[[nodiscard]] bool is_secret_variable(std::string_view name) noexcept;

}  // namespace imex::inference
