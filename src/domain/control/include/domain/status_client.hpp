/// What a daemon of this machine says about itself, through its command socket.
/// No gRPC type shows here. Each call connects, asks and ends within its timeout.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/uuid.hpp"
#include "domain/membership.hpp"

namespace imex::domain {

/// One slot of the node list as the asked daemon sees it.
struct NodePeer {
  NodeId node = kNoNode;
  std::string host;     ///< as in the node list
  std::string address;  ///< empty: the slot is unassigned
  PairState state = PairState::kInvalid;
  DaemonStatus status = DaemonStatus::kUnavailable;
  std::string version;
  Uuid instance;
  std::chrono::milliseconds since{0};  ///< age of `state`
  std::string last_error;
};
struct NodeStatus {
  DaemonStatus status = DaemonStatus::kUnavailable;
  std::string version, host_name, last_error;
  NodeId node = kNoNode;
  Uuid domain_id, instance;
  std::uint64_t list_epoch = 0;
  bool assigned_only = true;    ///< unassigned slots do not count
  std::vector<NodePeer> peers;  ///< all slots, own one included

  /// The asked daemon's view: UP when it is READY and connected to every slot that counts, DOWN
  /// when it is not READY, else DEGRADED. (`nvidia-imex-ctl -N` asks all nodes.)
  [[nodiscard]] std::string_view domain_state() const noexcept;
};
struct ChannelUse {
  std::uint32_t channel = 0;
  std::string workload, path;
  std::uint32_t uid = 0, sessions = 0, exports = 0, imports = 0;
  std::uint64_t export_bytes = 0, refused = 0;
  std::vector<std::uint64_t> gpu_uids;
};

/// Errors: kNotFound (no such socket), kUnavailable, kDeadlineExceeded, kDataLoss (numbers out of
/// range).
[[nodiscard]] Result<NodeStatus> ask_status(const std::string& command_socket,
                                            std::chrono::milliseconds timeout);
[[nodiscard]] Result<std::vector<ChannelUse>> ask_channels(const std::string& command_socket,
                                                           std::chrono::milliseconds timeout);

}  // namespace imex::domain
