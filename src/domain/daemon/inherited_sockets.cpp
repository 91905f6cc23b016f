#include "inherited_sockets.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <sstream>

#include <fmt/format.h>

#include "os/file.hpp"

namespace imex::domain {

namespace {

/// Names the descriptor of a memfd with one line for each socket: "DESCRIPTOR PATH". The lines of
/// 2048 channels would not fit into the environment itself.
constexpr const char* kVariable = "IMEX_DAEMON_SOCKETS";
constexpr std::size_t kListBytesMax = 16U << 20U;

bool set_close_on_exec(int fd, bool on) noexcept {
  return ::fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) == 0;
}

bool listens(int fd) noexcept {
  int on = 0, domain = 0;
  socklen_t size = sizeof on;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &size) == 0 && on == 1 &&
         ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

int number_from(const char* text) noexcept {
  const std::string_view digits(text);
  int number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc{} && end == digits.data() + digits.size() ? number : -1;
}

}  // namespace

Result<void> leave_to_successor(ListeningSockets sockets) {
  ::unsetenv(kVariable);
  if (sockets.empty()) return {};
  os::UniqueFd list(::memfd_create("imex-sockets", 0));
  if (!list) return fail(system_error(errno, "make the list of sockets for the next program"));
  std::string lines;
  for (const auto& [path, socket] : sockets) lines += fmt::format("{} {}\n", socket.get(), path);
  IMEX_CHECK_OK(os::write_all(list.get(), std::as_bytes(std::span(lines)), "list of sockets"));
  for (auto& [path, socket] : sockets) {
    if (!set_close_on_exec(socket.get(), false)) {
      return fail(system_error(errno, "leave " + path + " open for the next program"));
    }
    static_cast<void>(socket.release());
  }
  ::setenv(kVariable, std::to_string(list.release()).c_str(), 1);
  return {};
}

ListeningSockets take_from_predecessor() {
  ListeningSockets sockets;
  const char* number = std::getenv(kVariable);
  const int fd = number == nullptr ? -1 : number_from(number);
  ::unsetenv(kVariable);
  if (fd <= STDERR_FILENO || ::lseek(fd, 0, SEEK_SET) != 0) return sockets;
  const os::UniqueFd list(fd);
  const auto lines = os::read_file(fmt::format("/proc/self/fd/{}", fd), kListBytesMax);
  if (!lines) return sockets;
  std::istringstream in(*lines);
  std::string path;
  for (int socket = -1; in >> socket && in.get() == ' ' && std::getline(in, path);) {
    if (listens(socket) && set_close_on_exec(socket, true)) {
      sockets.insert_or_assign(path, os::UniqueFd(socket));
    }
  }
  return sockets;
}

}  // namespace imex::domain
