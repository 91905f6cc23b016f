#include "os/socket.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include "os/random.hpp"
#include "syscall.hpp"

namespace imex::os {

namespace {

using Clock = std::chrono::steady_clock;

struct Address {
  sockaddr_un name{};
  socklen_t bytes = 0;

  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&name);
  }
};

Result<void> check_path(const std::string& path) {
  if (path.empty() || path.back() == '/' || path.find('\0') != std::string::npos) {
    return fail(Errc::kInvalidArgument, fmt::format("'{}' is no path of a socket", path));
  }
  return {};
}

bool fits(const std::string& path) noexcept { return path.size() < sizeof(sockaddr_un::sun_path); }

/// `path` must fit.
Address address_of(const std::string& path) noexcept {
  Address address;
  address.name.sun_family = AF_UNIX;
  std::memcpy(address.name.sun_path, path.c_str(), path.size() + 1);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

/// Folder and name of a socket; names in the folder go through its descriptor.
struct Place {
  UniqueFd directory;
  std::string directory_path, name;

  /// Address of another name in the same folder; over 107 bytes through the descriptor.
  [[nodiscard]] Address address(const std::string& other) const {
    const std::string direct = directory_path + "/" + other;
    return address_of(fits(direct) ? direct
                                   : fmt::format("/proc/self/fd/{}/{}", directory.get(), other));
  }
};

Result<Place> open_place(const std::string& path) {
  Place place;
  const auto slash = path.find_last_of('/');
  place.directory_path = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  place.name = slash == std::string::npos ? path : path.substr(slash + 1);
  place.directory = UniqueFd(retry(
      [&] { return ::open(place.directory_path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!place.directory) {
    return fail(system_error(errno, fmt::format("open directory '{}'", place.directory_path)));
  }
  return place;
}

/// Holds off others that replace a stale socket in the same folder: without it two could both find
/// it stale, and the slower one would unlink a live socket.
Result<void> lock_place(const Place& place) {
  constexpr auto kPatience = std::chrono::seconds(5);  // the holder needs well under a millisecond
  const auto deadline = Clock::now() + kPatience;
  while (retry([&] { return ::flock(place.directory.get(), LOCK_EX | LOCK_NB); }) != 0) {
    if (errno != EWOULDBLOCK) {
      return fail(system_error(errno, fmt::format("lock directory '{}'", place.directory_path)));
    }
    if (Clock::now() >= deadline) {
      return fail(Errc::kUnavailable,
                  fmt::format("directory '{}' is locked by another process for over {} s",
                              place.directory_path, kPatience.count()));
    }
    const timespec pause = to_timespec(std::chrono::milliseconds(1));
    ::nanosleep(&pause, nullptr);
  }
  return {};
}

Result<UniqueFd> make_socket(int flags, UnixSocket kind = UnixSocket::kPackets) {
  const int type = kind == UnixSocket::kStream ? SOCK_STREAM : SOCK_SEQPACKET;
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | flags, 0));
  if (!fd) return fail(system_error(errno, "create a Unix socket"));
  return fd;
}

/// An address that reaches an existing socket whatever the length of its path. `keep` holds the
/// descriptor behind it.
Result<Address> existing_address(const std::string& path, UniqueFd& keep) {
  if (fits(path)) return address_of(path);
  keep = UniqueFd(retry([&] { return ::open(path.c_str(), O_PATH | O_CLOEXEC); }));
  if (!keep) return fail(system_error(errno, fmt::format("open socket '{}'", path)));
  return address_of(fmt::format("/proc/self/fd/{}", keep.get()));
}

/// Succeeds if the path is free or taken by a socket that nobody listens on.
Result<void> check_replaceable(const std::string& path) {
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) != 0) {
    if (errno == ENOENT) return {};
    return fail(system_error(errno, fmt::format("look at '{}'", path)));
  }
  if (!S_ISSOCK(facts.st_mode)) {
    return fail(Errc::kAlreadyExists, fmt::format("'{}' exists and is no socket", path));
  }
  IMEX_TRY(const UniqueFd probe, make_socket(SOCK_NONBLOCK));
  UniqueFd keep;
  IMEX_TRY(const Address address, existing_address(path, keep));
  if (retry([&] { return ::connect(probe.get(), address.get(), address.bytes); }) == 0 ||
      errno == EAGAIN || errno == EPROTOTYPE) {  // full backlog; another type of socket: both live
    return fail(Errc::kAlreadyExists, fmt::format("somebody listens on '{}' already", path));
  }
  if (errno == ECONNREFUSED || errno == ENOENT) return {};
  return fail(system_error(errno, fmt::format("probe socket '{}'", path)));
}

/// Binds under a name that nobody knows, with no access for others, and only then sets the mode:
/// renamed into place, the file appears with its final mode and a listener behind it.
Result<UniqueFd> listen_at(const Place& place, std::uint32_t mode, int backlog, UnixSocket kind) {
  IMEX_TRY(UniqueFd fd, make_socket(SOCK_NONBLOCK, kind));
  const std::string temporary = fmt::format(".imex-{:016x}", SystemRandom().next_u64());
  // bind() makes the file with the mode of the socket's own inode, less the umask.
  if (::fchmod(fd.get(), 0600) != 0) return fail(system_error(errno, "restrict a new socket"));
  const Address address = place.address(temporary);
  if (::bind(fd.get(), address.get(), address.bytes) != 0) {
    return fail(system_error(errno, fmt::format("bind a socket in '{}'", place.directory_path)));
  }
  const int directory = place.directory.get();
  OnExit remove([&] { ::unlinkat(directory, temporary.c_str(), 0); });
  if (::listen(fd.get(), backlog) != 0) {
    return fail(system_error(errno, fmt::format("listen on '{}'", place.name)));
  }
  if (::fchmodat(directory, temporary.c_str(), mode, 0) != 0) {
    return fail(system_error(errno, fmt::format("set the mode of socket '{}'", place.name)));
  }
  if (::renameat(directory, temporary.c_str(), directory, place.name.c_str()) != 0) {
    return fail(system_error(errno, fmt::format("name socket '{}'", place.name)));
  }
  remove.dismiss();
  return fd;
}

Result<void> set_send_timeout(int socket, std::chrono::microseconds timeout) {
  timeval value{};
  value.tv_sec = static_cast<time_t>(timeout.count() / 1'000'000);
  value.tv_usec = static_cast<suseconds_t>(timeout.count() % 1'000'000);
  if (::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &value, sizeof value) != 0) {
    return fail(system_error(errno, "set the time-out of a socket"));
  }
  return {};
}

Error connect_error(int error, const std::string& path) {
  if (error == EPROTOTYPE) {
    return Error{Errc::kFailedPrecondition,
                 fmt::format("'{}' is no sequenced-packet socket", path)};
  }
  if (error == EAGAIN) {
    return Error{Errc::kDeadlineExceeded,
                 fmt::format("connect to '{}': not accepted in time", path)};
  }
  Error result = system_error(error, fmt::format("connect to '{}'", path));
  if (error == ECONNREFUSED) result.hint = "is its daemon running?";
  return result;
}

/// Blocks until the socket has one of `events` (or an error, or its end).
Result<void> wait_for(int socket, short events, Clock::time_point deadline) {
  for (;;) {
    pollfd entry{socket, events, 0};
    const bool endless = deadline == Clock::time_point::max();
    const timespec left = endless ? timespec{} : to_timespec(time_left(deadline));
    const int ready = ::ppoll(&entry, 1, endless ? nullptr : &left, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return fail(system_error(errno, "wait on a socket"));
    if (ready == 0) return fail(Errc::kDeadlineExceeded, "socket not ready at the deadline");
    if ((entry.revents & POLLNVAL) != 0) {
      return fail(Errc::kInvalidArgument, fmt::format("wait on descriptor {}: not open", socket));
    }
    return {};
  }
}

using ControlBuffer = std::array<std::byte, CMSG_SPACE(kMaxPassedFds * sizeof(int))>;

/// Takes over every descriptor in the control data, also of a truncated packet: else they leak.
std::vector<UniqueFd> take_fds(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    fds.reserve(fds.size() + count);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

Result<UniqueFd> accept_one(int listener, int flags) {
  for (;;) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | flags));
    if (fd) return fd;
    const int error = errno;
    if (error == EINTR || error == ECONNABORTED) continue;
    if (error == EAGAIN) return fail(Errc::kResourceExhausted, "nobody waits");
    Error result = system_error(error, "accept a connection");
    // Told apart from "nobody waits": the connection stays in the queue and the listener readable.
    if (result.code == Errc::kResourceExhausted) result.code = Errc::kUnavailable;
    return fail(std::move(result));
  }
}

}  // namespace

Result<UniqueFd> listen_unix(const std::string& path, std::uint32_t mode, int backlog,
                             UnixSocket kind) {
  IMEX_CHECK_OK(check_path(path));
  IMEX_TRY(const Place place, open_place(path));
  IMEX_CHECK_OK(lock_place(place));
  IMEX_CHECK_OK(check_replaceable(path));
  auto listener = listen_at(place, mode, backlog, kind);
  if (!listener)
    return fail(std::move(listener).error().context(fmt::format("listen on '{}'", path)));
  return listener;
}

Result<UniqueFd> connect_unix(const std::string& path, std::chrono::milliseconds timeout,
                              UnixSocket kind) {
  IMEX_CHECK_OK(check_path(path));
  UniqueFd keep;
  IMEX_TRY(const Address address, existing_address(path, keep));
  IMEX_TRY(UniqueFd fd, make_socket(0, kind));
  const auto deadline = Clock::now() + timeout;
  // A full backlog blocks a Unix connect(); SO_SNDTIMEO bounds that. 0 would mean for ever.
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(time_left(deadline));
    IMEX_CHECK_OK(set_send_timeout(fd.get(), std::max(left, std::chrono::microseconds(1))));
    if (::connect(fd.get(), address.get(), address.bytes) == 0) break;
    if (errno != EINTR) return fail(connect_error(errno, path));
  }
  IMEX_CHECK_OK(set_send_timeout(fd.get(), std::chrono::microseconds(0)));
  return fd;
}

Result<UniqueFd> accept_unix(int listener) { return accept_one(listener, 0); }

Result<UniqueFd> accept_stream(int listener) { return accept_one(listener, SOCK_NONBLOCK); }

Result<PeerCredentials> peer_credentials(int socket) {
  ucred facts{};
  socklen_t bytes = sizeof facts;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &facts, &bytes) != 0) {
    return fail(system_error(errno, "ask for the peer's credentials"));
  }
  return PeerCredentials{facts.uid, facts.gid, facts.pid};
}

Result<void> send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> fds,
                         bool wait) {
  if (bytes.empty() || fds.size() > kMaxPassedFds) {
    return fail(Errc::kInvalidArgument,
                fmt::format("send {} bytes with {} descriptors: at least 1 byte, "
                            "at most {} descriptors",
                            bytes.size(), fds.size(), kMaxPassedFds));
  }
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};  // sendmsg() only reads it
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) ControlBuffer control{};
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  const int flags = MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT);
  for (;;) {
    if (retry([&] { return ::sendmsg(socket, &message, flags); }) >= 0) return {};
    const int error = errno;
    if (error == EAGAIN && wait) {  // the socket itself is non-blocking
      IMEX_CHECK_OK(wait_for(socket, POLLOUT, Clock::time_point::max()));
      continue;
    }
    Error result = system_error(error, fmt::format("send a packet of {} bytes", bytes.size()));
    if (error == EMSGSIZE || error == EBADF) result.code = Errc::kInvalidArgument;
    if (error == ETOOMANYREFS) result.code = Errc::kResourceExhausted;  // descriptors in flight
    return fail(std::move(result));
  }
}

Result<Packet> receive_packet(int socket, std::span<std::byte> buffer, bool wait) {
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) ControlBuffer control;
  const int flags = MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT);
  for (;;) {
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(socket, &message, flags);
    if (got >= 0) {
      Packet packet;
      packet.bytes = static_cast<std::size_t>(got);
      packet.truncated = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
      packet.fds = take_fds(message);
      return packet;
    }
    const int error = errno;
    // A peer that closed with packets unread: reported once, ahead of what it had sent us. Going on
    // gives those packets, then end of file.
    if (error == EINTR || error == ECONNRESET) continue;
    if (error == EAGAIN && wait) {  // the socket itself is non-blocking
      IMEX_CHECK_OK(wait_for(socket, POLLIN, Clock::time_point::max()));
      continue;
    }
    if (error == EAGAIN) return fail(Errc::kResourceExhausted, "no packet waits");
    return fail(system_error(error, "receive a packet"));
  }
}

Result<void> wait_readable(int socket, Clock::time_point deadline) {
  return wait_for(socket, POLLIN, deadline);
}

}  // namespace imex::os
