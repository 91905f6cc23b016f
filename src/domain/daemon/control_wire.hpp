/// Requests of the control service as the daemon knows them: what comes in is checked here. Without
/// gRPC, so that it can be fuzzed alone.
#pragma once

#include <string>

#include "control_service.hpp"

namespace imex::control::v1 {
class GrantRequest;
class ReleaseRequest;
}  // namespace imex::control::v1

namespace imex::domain {

/// Errors: kInvalidArgument.
[[nodiscard]] Result<GrantAsked> read_grant(const control::v1::GrantRequest& request);
/// The workload. Errors: kInvalidArgument.
[[nodiscard]] Result<std::string> read_release(const control::v1::ReleaseRequest& request);

}  // namespace imex::domain
