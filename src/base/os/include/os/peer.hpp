/// Reaching into another process of the same user: its descriptors and its memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/fd.hpp"

namespace imex::os {

/// Opens, for reading and writing, the file behind descriptor `fd` of process `pid`, through /proc.
/// Errors: kNotFound (no such process or descriptor, or not visible from this PID namespace),
/// kPermissionDenied (another user, or not permitted to look).
[[nodiscard]] Result<UniqueFd> open_peer_fd(std::int32_t pid, int fd);

/// Copies `bytes` from `address` of process `pid`, in one copy by the kernel. Errors:
/// kPermissionDenied (the system forbids it), kPeerLost (the process is gone), kInvalidArgument
/// (part of the range is not mapped there), kUnsupported.
[[nodiscard]] Result<void> read_peer_memory(std::int32_t pid, std::uintptr_t address,
                                            std::byte* target, std::size_t bytes);

}  // namespace imex::os
