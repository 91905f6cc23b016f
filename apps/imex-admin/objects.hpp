/// Messages as JSON: keys as in forge.proto, ids as text, enumerations by name.
#pragma once

#include "client.hpp"
#include "render.hpp"

namespace imex::admin {

[[nodiscard]] Json to_json(const pb::NvlinkNmxcEndpoint& endpoint);
[[nodiscard]] Json to_json(const pb::NVLinkLogicalPartition& partition);
[[nodiscard]] Json to_json(const pb::NVLinkPartition& partition);
[[nodiscard]] Json to_json(const pb::MachineNVLinkInfo& info);
[[nodiscard]] Json to_json(const pb::Instance& instance);

/// "READY"
[[nodiscard]] std::string state_name(pb::TenantState state);

/// Or null.
[[nodiscard]] Json id_json(bool given, const pb::UUID& id);

}  // namespace imex::admin
