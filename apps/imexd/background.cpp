#include "background.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "domain/daemon.hpp"

namespace imexd {

using imex::domain::ExitCode;
using imex::os::UniqueFd;

namespace {

/// What the child told; a child that died without a word has failed.
int wait_for_word(int pipe, pid_t child) {
  unsigned char status = 0;
  ssize_t bytes = 0;
  while ((bytes = ::read(pipe, &status, 1)) < 0 && errno == EINTR) {
  }
  if (bytes == 1) return status;
  int end = 0;
  if (::waitpid(child, &end, 0) == child && WIFEXITED(end) && WEXITSTATUS(end) != 0) {
    return WEXITSTATUS(end);
  }
  return ExitCode::kInternal;
}

/// Standard error stays: logs may go there, and a failed start must be seen.
void leave_terminal() {
  ::setsid();
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return;
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(null.get(), STDOUT_FILENO);
}

}  // namespace

std::optional<int> Background::fork_now() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    std::perror("pipe");
    return ExitCode::kInternal;
  }
  const UniqueFd from_child(ends[0]);
  to_parent_ = UniqueFd(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) {
    std::perror("fork");
    return ExitCode::kInternal;
  }
  if (child > 0) {
    to_parent_.reset();
    return wait_for_word(from_child.get(), child);
  }
  leave_terminal();
  return std::nullopt;
}

void Background::tell_parent(int status) noexcept {
  if (!to_parent_) return;
  const auto byte = static_cast<unsigned char>(status);
  [[maybe_unused]] const auto written = ::write(to_parent_.get(), &byte, 1);
  to_parent_.reset();
}

}  // namespace imexd
