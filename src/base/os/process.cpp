#include "os/process.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <string_view>

#include <fmt/format.h>

#include "os/file.hpp"
#include "syscall.hpp"

namespace imex::os {

namespace {

// Numbers of the generic system call table, Linux 5.3; Debian 12's libc has no wrappers.
constexpr long kPidfdSendSignal = 424;
constexpr long kPidfdOpen = 434;

/// Number after `key` at the start of a line.
std::optional<std::int64_t> number_after(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at != 0 && text[at - 1] != '\n') continue;
    std::string_view rest = text.substr(at + key.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    std::int64_t value = 0;
    if (std::from_chars(rest.data(), rest.data() + rest.size(), value).ec == std::errc{})
      return value;
  }
  return std::nullopt;
}

bool is_pidfd(int fd) {
  const std::string link = fmt::format("/proc/self/fd/{}", fd);
  std::array<char, 64> target{};
  const ssize_t bytes = ::readlink(link.c_str(), target.data(), target.size());
  // Names of files start with a slash, so none of them can look like this one.
  return bytes > 0 &&
         std::string_view(target.data(), static_cast<std::size_t>(bytes)) == "anon_inode:[pidfd]";
}

}  // namespace

Result<UniqueFd> open_pidfd(std::int32_t pid) {
  if (pid <= 0) return fail(Errc::kInvalidArgument, fmt::format("{} is no process number", pid));
  UniqueFd fd(static_cast<int>(::syscall(kPidfdOpen, pid, 0)));  // always close-on-exec
  if (!fd) return fail(system_error(errno, fmt::format("open process {}", pid)));
  return fd;
}

Result<void> signal_pidfd(int pidfd, int signal_number) {
  if (::syscall(kPidfdSendSignal, pidfd, signal_number, nullptr, 0) != 0) {
    return fail(system_error(errno, fmt::format("send signal {} to a process", signal_number)));
  }
  return {};
}

Result<std::int32_t> pid_of_pidfd(int fd) {
  if (!is_pidfd(fd)) {
    return fail(Errc::kInvalidArgument, fmt::format("descriptor {} does not name a process", fd));
  }
  IMEX_TRY(const std::string facts, read_file(fmt::format("/proc/self/fdinfo/{}", fd)));
  const auto pid = number_after(facts, "Pid:");
  if (!pid || *pid < -1 || *pid > INT_MAX) {
    return fail(Errc::kInternal, fmt::format("no process number for descriptor {} in /proc", fd));
  }
  if (*pid == -1)
    return fail(Errc::kNotFound, fmt::format("the process of descriptor {} has ended", fd));
  return static_cast<std::int32_t>(*pid);
}

Result<std::uint64_t> process_start_ticks(std::int32_t pid) {
  const std::string path = fmt::format("/proc/{}/stat", pid);
  auto text = read_file(path);
  if (!text) {
    // Ended between open and read: ESRCH, which is "not found" as well.
    return fail(std::move(text).error().context(fmt::format("start time of process {}", pid)));
  }
  // Field 2 is the name in parentheses and may itself hold blanks and parentheses; field 3 follows
  // the last one.
  std::string_view rest = *text;
  rest.remove_prefix(std::min(rest.rfind(')'), rest.size() - 1) + 1);
  for (int field = 3; field <= 22 && !rest.empty(); ++field) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    if (field == 22) break;
    rest.remove_prefix(std::min(rest.find(' '), rest.size()));
  }
  std::uint64_t ticks = 0;
  if (std::from_chars(rest.data(), rest.data() + rest.size(), ticks).ec != std::errc{}) {
    return fail(Errc::kInternal, fmt::format("'{}' has no field 22", path));
  }
  return ticks;
}

std::uint32_t user_id() noexcept { return ::geteuid(); }

}  // namespace imex::os
