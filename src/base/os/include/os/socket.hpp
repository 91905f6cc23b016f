/// Unix sequenced-packet sockets that carry descriptors.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "os/fd.hpp"

namespace imex::os {

struct PeerCredentials {
  std::uint32_t uid = 0, gid = 0;
  std::int32_t pid = 0;  ///< 0 when the peer lives in a sibling PID namespace
};

enum class UnixSocket : std::uint8_t { kPackets, kStream };
/// Binds and listens, SOCK_SEQPACKET unless asked otherwise, non-blocking. Paths over 107 bytes
/// work (bound through the directory's descriptor). A socket file nobody listens on is replaced; a
/// live one is kAlreadyExists. The file appears with its final mode in one step.
[[nodiscard]] Result<UniqueFd> listen_unix(const std::string& path, std::uint32_t mode,
                                           int backlog = 128,
                                           UnixSocket kind = UnixSocket::kPackets);
/// Errors: kNotFound, kPermissionDenied, kUnavailable (nobody listens), kDeadlineExceeded. Blocking
/// socket. Long paths work.
[[nodiscard]] Result<UniqueFd> connect_unix(const std::string& path,
                                            std::chrono::milliseconds timeout,
                                            UnixSocket kind = UnixSocket::kPackets);
/// Does not wait: kResourceExhausted when nobody is in the queue; kUnavailable when this process
/// has no descriptor or memory for the connection, which then stays in the queue. The socket made
/// is blocking.
[[nodiscard]] Result<UniqueFd> accept_unix(int listener);
/// The same of a stream listener, TCP or Unix; the socket made is non-blocking.
[[nodiscard]] Result<UniqueFd> accept_stream(int listener);
[[nodiscard]] Result<PeerCredentials> peer_credentials(int socket);

inline constexpr std::size_t kMaxPassedFds = 8;

struct Packet {
  std::size_t bytes = 0;   ///< 0: end of file
  bool truncated = false;  ///< more bytes or descriptors than there was room for
  std::vector<UniqueFd> fds;
};

/// Sends one packet of at least one byte with descriptors. Never raises SIGPIPE. Errors:
/// kUnavailable (peer gone), kResourceExhausted (`wait` false and full), kInvalidArgument.
[[nodiscard]] Result<void> send_packet(int socket, std::span<const std::byte> bytes,
                                       std::span<const int> fds = {}, bool wait = true);
/// Receives one packet. `wait` false: kResourceExhausted when there is none.
[[nodiscard]] Result<Packet> receive_packet(int socket, std::span<std::byte> buffer, bool wait);
/// Blocks until readable. Errors: kDeadlineExceeded.
[[nodiscard]] Result<void> wait_readable(int socket,
                                         std::chrono::steady_clock::time_point deadline);

}  // namespace imex::os
