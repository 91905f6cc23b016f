/// The daemon's state as Prometheus reads it.
#pragma once

#include <string>

namespace imex::command::v1 {
class Health;
}

namespace imex::domain {

/// Text format 0.0.4: status, peers, channels, GPUs, counters, certificate.
[[nodiscard]] std::string metrics_text(const command::v1::Health& health);

}  // namespace imex::domain
