/// What a daemon answers, checked: it comes from another machine. Without gRPC, so that it can be
/// fuzzed alone.
#pragma once

#include <string>

#include "domain/domain_view.hpp"

namespace imex::command::v1 {
class Status;
class Health;
}  // namespace imex::command::v1

namespace imex::domain {

/// Slots must be 0, 1, 2, ...: the view is indexed by them. Texts are cut and without control
/// characters, numbers within their range. `where` names the daemon in errors: kDataLoss.
[[nodiscard]] Result<StatusReport> from_proto(const command::v1::Status& status,
                                              const std::string& where);
[[nodiscard]] Result<HealthReport> from_proto(const command::v1::Health& health,
                                              const std::string& where);

}  // namespace imex::domain
