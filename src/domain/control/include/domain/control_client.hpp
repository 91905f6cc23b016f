/// Client of a daemon's privileged control service: who may use which channel.
///
///     auto control = domain::ControlClient::connect("/run/imex/10.0.0.11/control.sock");
///     auto grant = control->grant({.workload = "job-7", .gpu_indexes = {0, 1}});
///     bind_into_container(grant->path);
///
/// Thread-safe. Every call ends by its timeout. No gRPC type shows here.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace imex::domain {

struct GrantRequestOptions {
  std::string workload;                    ///< 1 to 128 printable characters
  std::vector<std::uint64_t> gpu_uids;     ///< that sessions may claim
  std::vector<std::uint32_t> gpu_indexes;  ///< the same by index; both empty: all GPUs of the node
  std::optional<std::uint32_t> uid;        ///< user that may open the channel; unset: the caller's
};

struct ChannelGrant {
  std::string workload;
  std::uint32_t channel = 0;
  std::string path;  ///< socket to bind into the workload's container
  std::uint32_t uid = 0;
  std::vector<std::uint64_t> gpu_uids;
};

class ControlClient {
 public:
  /// Paths over 107 bytes work. Errors: kNotFound (no such socket).
  [[nodiscard]] static Result<ControlClient> connect(
      const std::string& socket_path, std::chrono::milliseconds timeout = std::chrono::seconds(5));
  ControlClient(ControlClient&&) noexcept;
  ControlClient& operator=(ControlClient&&) noexcept;
  ~ControlClient();

  /// Idempotent. Errors: kInvalidArgument, kPermissionDenied, kUnavailable (no daemon, or this node
  /// is in a minority of its domain), kResourceExhausted (no free channel), kDeadlineExceeded.
  [[nodiscard]] Result<ChannelGrant> grant(const GrantRequestOptions& options);
  /// Idempotent: a workload that holds nothing is fine. Ends its sessions on this node.
  [[nodiscard]] Result<void> release(const std::string& workload);
  [[nodiscard]] Result<std::vector<ChannelGrant>> list();

 private:
  struct Impl;
  explicit ControlClient(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace imex::domain
