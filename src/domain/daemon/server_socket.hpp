/// Sockets that a server of the daemon listens on, and who has the port if it cannot be had.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "os/fd.hpp"

namespace imex::domain {

struct ServerSocket {
  os::UniqueFd fd;   ///< non-blocking
  std::string name;  ///< for messages
  std::string path;  ///< of a Unix socket: its file goes with the server
};

/// Never beside another process. Errors: kAlreadyExists naming pid and program of the holder where
/// /proc tells, kInvalidArgument (no address of this machine), kPermissionDenied.
[[nodiscard]] Result<ServerSocket> listen_tcp(const std::string& address, std::uint16_t port);
/// A Unix stream socket; see os::listen_unix().
[[nodiscard]] Result<ServerSocket> listen_local(const std::string& path, std::uint32_t mode);

}  // namespace imex::domain
