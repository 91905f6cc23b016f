/// Waiting until what was asked for is so.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/time.hpp"
#include "partition/client/client.hpp"

namespace imex::partition::client {

struct WaitOptions {
  std::chrono::steady_clock::time_point deadline{};
  /// Between two looks; grows by half each time.
  Nanos pause = std::chrono::milliseconds(5), pause_max = std::chrono::milliseconds(500);
  /// What was seen, in words, whenever that changes: "Provisioning, 2 of 4 GPUs in place".
  std::function<void(const std::string&)> progress{};
};

/// A controller that cannot be reached is waited for, too: it may be restarting. Errors of all:
/// kDeadlineExceeded says what was seen last; kFailedPrecondition (it became Error; says why),
/// kNotFound (somebody deleted it), those of the client but kUnavailable.
[[nodiscard]] Result<PartitionView> wait_ready(Client& client, const LogicalPartitionId& id,
                                               const WaitOptions& options);
[[nodiscard]] Result<VpcView> wait_ready(Client& client, const VpcId& id,
                                         const WaitOptions& options);
/// The instance, and each of its GPUs in the partition it is wanted in.
[[nodiscard]] Result<InstanceView> wait_ready(Client& client, const InstanceId& id,
                                              const WaitOptions& options);

[[nodiscard]] Result<void> wait_gone(Client& client, const LogicalPartitionId& id,
                                     const WaitOptions& options);
[[nodiscard]] Result<void> wait_gone(Client& client, const VpcId& id, const WaitOptions& options);
[[nodiscard]] Result<void> wait_gone(Client& client, const InstanceId& id,
                                     const WaitOptions& options);

}  // namespace imex::partition::client
