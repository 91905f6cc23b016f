/// Stream sockets that never block: the caller waits with poll_any().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "os/fd.hpp"

namespace imex::os {

/// Starts a TCP connection to an address literal (IPv6 may have a %scope); once the socket is
/// writable, finish_connect() tells how it went. Small writes are sent at once. Errors:
/// kInvalidArgument, kUnavailable, kResourceExhausted (descriptors).
[[nodiscard]] Result<UniqueFd> begin_connect(const std::string& address, std::uint16_t port);
/// Errors: kUnavailable (refused, no route), kDeadlineExceeded (of the kernel).
[[nodiscard]] Result<void> finish_connect(int socket);

[[nodiscard]] Result<void> set_non_blocking(int fd);

/// Bytes that were taken; 0: wait until it is writable. Never raises SIGPIPE. Errors: kUnavailable.
[[nodiscard]] Result<std::size_t> send_some(int socket, std::string_view bytes);
/// Bytes that had come; 0: end of file; nothing: wait until it is readable. Errors: kUnavailable.
[[nodiscard]] Result<std::optional<std::size_t>> receive_some(int socket, std::span<char> room);

}  // namespace imex::os
