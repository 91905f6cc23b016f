/// Client of a daemon's command service: what it says about itself. Read-only.
///
///     auto daemon = domain::CommandClient::connect({.socket =
///     "/run/imex/10.0.0.11/command.sock"}); auto report = daemon->status();
///
/// Every call ends by its timeout. No gRPC type shows here. One thread at a time per client.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "domain/domain_view.hpp"

namespace imex::domain {

/// Where a daemon can be asked: a Unix socket if `socket` is set, else address (or name) and port.
struct CommandEndpoint {
  std::string socket;
  std::string address;
  std::uint16_t port = 50005;
  /// "unix:/run/command.sock", "10.0.0.11:50005", "[::1]:50005".
  [[nodiscard]] std::string to_string() const;
};

class CommandClient {
 public:
  /// Does not talk yet. Socket paths over 107 bytes work. Errors: kNotFound (no such socket),
  /// kInvalidArgument.
  [[nodiscard]] static Result<CommandClient> connect(const CommandEndpoint& endpoint);
  CommandClient(CommandClient&&) noexcept;
  CommandClient& operator=(CommandClient&&) noexcept;
  ~CommandClient();

  /// Errors of all: kUnavailable (nobody listens), kDeadlineExceeded, kVersionMismatch (something
  /// else answers), kDataLoss (its answer makes no sense).
  [[nodiscard]] Result<StatusReport> status(
      std::chrono::milliseconds timeout = std::chrono::seconds(5));
  [[nodiscard]] Result<HealthReport> health(
      std::chrono::milliseconds timeout = std::chrono::seconds(5));

  /// Calls `seen` with the status now and after each change, until it returns false or `timeout` is
  /// over (then kDeadlineExceeded). A daemon that goes away is kUnavailable.
  [[nodiscard]] Result<void> watch(const std::function<bool(const StatusReport&)>& seen,
                                   std::chrono::milliseconds timeout);

 private:
  struct Impl;
  explicit CommandClient(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

/// Asks all at once; by the end of `timeout` each has answered or is an error. Same order as asked.
[[nodiscard]] std::vector<Result<StatusReport>> ask_all(
    const std::vector<CommandEndpoint>& endpoints, std::chrono::milliseconds timeout);

}  // namespace imex::domain
