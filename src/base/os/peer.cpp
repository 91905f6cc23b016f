#include "os/peer.hpp"

#include <fcntl.h>
#include <sys/uio.h>

#include <cerrno>

#include <fmt/format.h>

namespace imex::os {

Result<UniqueFd> open_peer_fd(std::int32_t pid, int fd) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
  UniqueFd opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!opened) return fail(system_error(errno, fmt::format("open {}", path)));
  return opened;
}

Result<void> read_peer_memory(std::int32_t pid, std::uintptr_t address, std::byte* target,
                              std::size_t bytes) {
  while (bytes != 0) {
    const iovec local{.iov_base = target, .iov_len = bytes};
    // An address of the other process: never dereferenced here.
    const iovec remote{
        .iov_base = reinterpret_cast<void*>(address),  // NOLINT(performance-no-int-to-ptr)
        .iov_len = bytes};
    const ssize_t done = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (done <= 0) {
      const int error = done == 0 ? EFAULT : errno;
      Error failure = system_error(error, fmt::format("read {} bytes of process {}", bytes, pid));
      if (error == ESRCH) failure.code = Errc::kPeerLost;
      if (error == EFAULT) failure.code = Errc::kInvalidArgument;
      if (error == ENOSYS) failure.code = Errc::kUnsupported;
      return fail(std::move(failure));
    }
    address += static_cast<std::size_t>(done);
    target += done;
    bytes -= static_cast<std::size_t>(done);
  }
  return {};
}

}  // namespace imex::os
