/// Processes: watching, starting, ending; and what this process may use of the machine.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "base/uuid.hpp"
#include "os/fd.hpp"

namespace imex::os {

/// Descriptor that becomes readable when the process ends. Errors: kNotFound.
[[nodiscard]] Result<UniqueFd> open_pidfd(std::int32_t pid);
[[nodiscard]] Result<void> signal_pidfd(int pidfd, int signal_number);
/// Whether `fd` is a pidfd at all (a client may send anything), and the pid it names as seen from
/// this PID namespace; 0 when not visible from here. Errors: kInvalidArgument (something else),
/// kNotFound (ended).
[[nodiscard]] Result<std::int32_t> pid_of_pidfd(int fd);
/// Field 22 of /proc/PID/stat; tells a reused pid apart. Errors: kNotFound.
[[nodiscard]] Result<std::uint64_t> process_start_ticks(std::int32_t pid);
/// The effective user of this process.
[[nodiscard]] std::uint32_t user_id() noexcept;

/// A child that dies with the thread that started it (PR_SET_PDEATHSIG): start from the main
/// thread.
class Child {
 public:
  struct Options {
    std::vector<std::string> arguments;                            ///< [0] is the program's path
    std::vector<std::pair<std::string, std::string>> environment;  ///< added to the inherited one
    int stdin_fd = -1, stdout_fd = -1, stderr_fd = -1;             ///< -1: inherited
    bool die_with_parent = true;
  };
  [[nodiscard]] static Result<Child> start(const Options& options);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();  ///< SIGKILL and wait, if still running

  [[nodiscard]] std::int32_t pid() const noexcept { return pid_; }
  [[nodiscard]] Result<void> kill(int signal_number) const;
  /// Exit status as the shell has it (128 + signal), or nothing if still running at the deadline.
  [[nodiscard]] std::optional<int> wait(std::chrono::milliseconds timeout);

 private:
  Child() = default;
  std::int32_t pid_ = -1;
  UniqueFd pidfd_;
  std::optional<int> status_;
};

/// Cores this process may use: affinity mask cut by the cgroup's CPU quota (v1 and v2), at least 1.
[[nodiscard]] unsigned usable_cores() noexcept;
/// Cores 0 to 1023 that the calling thread may run on, a bit each; all zero if the kernel does not
/// say. Of several processes: their union is what they share.
using CoreMask = std::array<std::uint64_t, 16>;
[[nodiscard]] CoreMask core_mask() noexcept;
[[nodiscard]] Result<void> pin_to_core(unsigned core);
/// CLOCK_BOOTTIME.
[[nodiscard]] Time now() noexcept;
/// /proc/sys/kernel/random/boot_id
[[nodiscard]] Result<Uuid> boot_id();
[[nodiscard]] std::string host_name();

}  // namespace imex::os
