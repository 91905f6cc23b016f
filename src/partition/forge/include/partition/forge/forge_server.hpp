/// The administrator's service on the wire: gRPC `forge.Forge` over Administration. No gRPC type
/// shows here.
///
///     auto server = ForgeServer::start({.listen = {"0.0.0.0:1079"}, .tls = ..., .rules = ...},
///                                      administration, log);
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "net/tls.hpp"
#include "partition/forge/administration.hpp"
#include "partition/forge/caller.hpp"

namespace imex::partition::forge {

struct ForgeServerOptions {
  /// "HOST:PORT", "[::1]:0" (any free port), "unix:/run/imex/forge.sock".
  std::vector<std::string> listen{};
  /// The server's identity and the authority that callers' certificates must be of. Files are read
  /// again when they change, within ten seconds.
  std::optional<net::TlsSources> tls{};
  /// Without TLS, for development: only on Unix sockets and loopback addresses, and whoever can
  /// connect is an operator.
  bool trust_local = false;
  std::vector<CallerRule> rules{};
  /// A call with a later deadline, or none, ends by then.
  std::chrono::milliseconds call_limit = std::chrono::seconds(60);
  std::uint32_t threads_max = 16;
};

/// One line per refused or failed call, for the log: caller, method, what was wrong. Never holds
/// what a request contained.
using ForgeLog = std::function<void(std::string_view line)>;

class ForgeServer {
 public:
  /// `administration` must outlive it. Errors: kInvalidArgument (no address, neither TLS nor a
  /// place that may go without), those of load_tls_identity(), kUnavailable (cannot listen).
  [[nodiscard]] static Result<std::unique_ptr<ForgeServer>> start(const ForgeServerOptions& options,
                                                                  Administration& administration,
                                                                  ForgeLog log = {});
  /// Calls off what waits for fabric managers, lets the other calls end for two seconds, then
  /// cancels them.
  ~ForgeServer();
  ForgeServer(const ForgeServer&) = delete;
  ForgeServer& operator=(const ForgeServer&) = delete;

  /// What it listens on, with the ports that port 0 became.
  [[nodiscard]] const std::vector<std::string>& addresses() const noexcept;

 private:
  struct Impl;
  explicit ForgeServer(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace imex::partition::forge
