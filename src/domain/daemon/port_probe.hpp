/// Whether a TCP port can be had, and who has it if not.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace imex::domain {

/// Binds and listens for a moment. Errors: kAlreadyExists naming pid and program of the holder
/// where /proc tells, kInvalidArgument (no address of this machine), kPermissionDenied.
[[nodiscard]] Result<void> probe_tcp_port(const std::string& address, std::uint16_t port);

}  // namespace imex::domain
