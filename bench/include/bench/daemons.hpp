/// Private daemons of a benchmark: one domain on loopback addresses, in a temporary directory.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "os/fd.hpp"
#include "os/process.hpp"

namespace imex::bench {

/// Starts daemons 0 .. count-1 of one domain and ends them, and removes their files, when
/// destroyed. Start from the main thread (children die with the thread that made them).
class Daemons {
 public:
  /// Writes configuration and node list; starts nothing. `program`: path of imexd.
  [[nodiscard]] static Result<Daemons> prepare(std::string program, std::uint32_t count);
  Daemons(Daemons&&) noexcept = default;
  Daemons& operator=(Daemons&&) noexcept;
  ~Daemons();

  /// Starts one daemon that is not running. Returns before it is ready.
  [[nodiscard]] Result<void> start(std::uint32_t index);
  /// Waits for the readiness message of `count` starts since the last call. Errors:
  /// kDeadlineExceeded.
  [[nodiscard]] Result<void> wait_ready(std::uint32_t count, std::chrono::seconds timeout);
  /// SIGTERM and wait. Errors: kDeadlineExceeded (it is killed then).
  [[nodiscard]] Result<void> stop(std::uint32_t index);
  /// Starts all and waits until every pair is connected.
  [[nodiscard]] Result<void> start_all();

  [[nodiscard]] std::string channel(std::uint32_t index) const;  ///< socket of channel 0
  [[nodiscard]] std::string command_socket(std::uint32_t index) const;
  [[nodiscard]] std::int32_t pid(std::uint32_t index) const {
    return children_[index].front().pid();
  }
  [[nodiscard]] std::uint32_t count() const noexcept {
    return static_cast<std::uint32_t>(children_.size());
  }

 private:
  Daemons(std::string program, std::string directory, os::UniqueFd notify);
  [[nodiscard]] std::string node_directory(std::uint32_t index) const;
  std::string program_, directory_;
  os::UniqueFd notify_;
  std::vector<std::vector<os::Child>> children_;  // per node: none or one
};

/// Waits until each daemon says that it is READY and connected to all `count` nodes, itself
/// included. Runs a worker process, because asking takes threads. Returns the time at which it saw
/// that.
[[nodiscard]] Result<std::int64_t> wait_until_up(const std::vector<std::string>& command_sockets,
                                                 std::uint32_t count, std::chrono::seconds timeout);

}  // namespace imex::bench
