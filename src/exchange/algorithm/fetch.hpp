/// Reading a peer's private memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lane.hpp"
#include "os/peer.hpp"

namespace imex::exchange {

/// Copies from an address of the peer's through the kernel, also where the peer is a thread of this
/// process: one whose wait has ended may have freed the memory. False: that is so, the peer is
/// gone, or it passed another address than it has; the lane says which.
[[nodiscard]] inline bool fetch(Lane& lane, const Link& link, std::uint64_t address, std::byte* to,
                                std::size_t bytes) {
  const auto read = os::read_peer_memory(link.pid, address, to, bytes);
  // What was read counts only if the peer still waited for it.
  if (lane.waits.aborted(*link.header)) return false;
  if (read) return true;
  lane.unreachable = link.header->rank;
  lane.unreachable_code = read.error().code;
  return false;
}

}  // namespace imex::exchange
