#include "os/fd.hpp"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

namespace imex::os {

void UniqueFd::reset(int fd) noexcept {
  const int old = std::exchange(fd_, fd);
  // Linux frees the number even when close() reports EINTR: repeating could close somebody else's.
  if (old >= 0) ::close(old);
}

Result<UniqueFd> UniqueFd::duplicate() const {
  UniqueFd copy(::fcntl(fd_, F_DUPFD_CLOEXEC, 0));
  if (!copy) return fail(system_error(errno, fmt::format("duplicate descriptor {}", fd_)));
  return copy;
}

bool same_open_file(int first, int second) noexcept {
  const pid_t self = ::getpid();
  return ::syscall(SYS_kcmp, self, self, KCMP_FILE, first, second) == 0;
}

}  // namespace imex::os
