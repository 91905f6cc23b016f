/// Reading a peer's private memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lane.hpp"
#include "os/peer.hpp"

namespace imex::exchange {

/// Copies from an address of the peer's: a thread of this process, or through the kernel. A failure
/// means that the peer is gone or passed other sizes; callers treat it as an end of the wait.
[[nodiscard]] inline bool fetch(Lane& lane, const Link& link, std::uint64_t address, std::byte* to,
                                std::size_t bytes) {
  if (link.pid == 0) {
    std::memcpy(to,
                reinterpret_cast<const std::byte*>(address),  // NOLINT(performance-no-int-to-ptr)
                bytes);
    return true;
  }
  if (os::read_peer_memory(link.pid, address, to, bytes)) return true;
  lane.unreachable = link.header->rank;
  return false;
}

}  // namespace imex::exchange
