#include "os/fd.hpp"

#include <fcntl.h>
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

}  // namespace imex::os
