/// Client of imex-rack's control socket: `imex rack ...`, tests, other programs.
///
///     IMEX_TRY(auto client, rack::ControlClient::connect(path, std::chrono::seconds(5)));
///     IMEX_TRY(const auto id, client.set_fault({.kind = "link-down", .domain = "rack-0", .tray =
///     3}));
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "os/fd.hpp"

namespace imex::rack {

/// docs/formats/rack-control.md says what the fields mean to each kind. What is not set matches
/// everything.
struct FaultRequest {
  std::string kind{}, domain{};
  std::optional<std::uint32_t> tray{}, switch_tray{}, chip{}, trunk{}, gpu{}, link{}, partition{},
      count{}, number{};
  std::string method{}, text{};
  std::optional<double> probability{};
  std::optional<std::uint64_t> after_ms{}, for_ms{}, delay_ms{};
};

class ControlClient {
 public:
  /// Errors: those of os::connect_unix.
  [[nodiscard]] static Result<ControlClient> connect(const std::string& path,
                                                     std::chrono::milliseconds timeout);

  /// One JSON object each way, without newlines. An answer with "ok": false comes back as its
  /// error. Errors: also kUnavailable (the rack went away), kDeadlineExceeded.
  [[nodiscard]] Result<std::string> call(const std::string& request);
  /// The whole answer of "status" as JSON.
  [[nodiscard]] Result<std::string> status() { return call(R"({"op":"status"})"); }
  /// The id of the fault.
  [[nodiscard]] Result<std::uint64_t> set_fault(const FaultRequest& fault);
  [[nodiscard]] Result<void> clear_fault(const std::string& domain, std::uint64_t id);
  [[nodiscard]] Result<void> clear_manager_fault(std::uint64_t id);
  /// Empty kind or domain: all. How many were cleared.
  [[nodiscard]] Result<std::uint64_t> clear_faults(const std::string& domain,
                                                   const std::string& kind);
  /// Without `gpu`: the whole tray.
  [[nodiscard]] Result<void> reset_gpu(const std::string& domain, std::uint32_t tray,
                                       std::optional<std::uint32_t> gpu);

 private:
  ControlClient(os::UniqueFd socket, std::chrono::milliseconds timeout)
      : socket_(std::move(socket)), timeout_(timeout) {}
  os::UniqueFd socket_;
  std::chrono::milliseconds timeout_;
};

}  // namespace imex::rack
