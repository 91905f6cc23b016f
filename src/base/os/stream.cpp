#include "os/stream.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include <fmt/format.h>

#include "syscall.hpp"

namespace imex::os {

Result<UniqueFd> begin_connect(const std::string& address, std::uint16_t port) {
  const addrinfo hints{.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                       .ai_family = AF_UNSPEC,
                       .ai_socktype = SOCK_STREAM,
                       .ai_protocol = 0,
                       .ai_addrlen = 0,
                       .ai_addr = nullptr,
                       .ai_canonname = nullptr,
                       .ai_next = nullptr};
  addrinfo* list = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) {
    return fail(Errc::kInvalidArgument, fmt::format("'{}' is no IP address", address));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(list, ::freeaddrinfo);
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail(system_error(errno, "create a TCP socket"));
  const int on = 1;
  // Only a matter of speed: whether it fails does not count.
  static_cast<void>(::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  const int done = retry([&] { return ::connect(fd.get(), found->ai_addr, found->ai_addrlen); });
  if (done == 0 || errno == EINPROGRESS) return fd;
  return fail(system_error(errno, fmt::format("connect to {} port {}", address, port)));
}

Result<void> finish_connect(int socket) {
  int problem = 0;
  socklen_t bytes = sizeof problem;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &problem, &bytes) != 0) problem = errno;
  if (problem == 0) return {};
  Error error = system_error(problem, "no connection");
  if (error.code != Errc::kDeadlineExceeded) error.code = Errc::kUnavailable;
  return fail(std::move(error));
}

Result<void> set_non_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0) return {};
  return fail(system_error(errno, "make a descriptor non-blocking"));
}

Result<std::size_t> send_some(int socket, std::string_view bytes) {
  const ssize_t sent =
      retry([&] { return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (errno == EAGAIN) return std::size_t{0};
  Error error = system_error(errno, "send");
  error.code = Errc::kUnavailable;
  return fail(std::move(error));
}

Result<std::optional<std::size_t>> receive_some(int socket, std::span<char> room) {
  const ssize_t received = retry([&] { return ::recv(socket, room.data(), room.size(), 0); });
  if (received >= 0) return std::optional(static_cast<std::size_t>(received));
  if (errno == EAGAIN) return std::optional<std::size_t>();
  Error error = system_error(errno, "receive");
  error.code = Errc::kUnavailable;
  return fail(std::move(error));
}

}  // namespace imex::os
