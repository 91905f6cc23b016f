/// What the control service answers, checked. Without gRPC, so that it can be fuzzed alone.
#pragma once

#include <vector>

#include "domain/control_client.hpp"

namespace imex::control::v1 {
class ListReply;
}

namespace imex::domain {

/// Errors: kDataLoss (texts too long or not printable: they end on a terminal and in paths).
[[nodiscard]] Result<std::vector<ChannelGrant>> from_proto(const control::v1::ListReply& reply);

}  // namespace imex::domain
