/// The protocol of protocol/round.hpp between all ranks of a lane.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lane.hpp"
#include "protocol/round.hpp"

namespace imex::exchange {

/// What a rank says when it enters a round.
struct Entry {
  std::uint64_t words[3] = {};
};

/// The protocol's view of what one rank tells another.
struct HostPost {
  PeerBlock* block;
  [[nodiscard]] std::atomic<std::uint64_t>& ready() const noexcept { return block->ready; }
  [[nodiscard]] std::atomic<std::uint64_t>& done() const noexcept { return block->done; }
};

/// Tells all peers; what this rank wrote before is visible to who sees it.
inline void enter_round(Lane& lane, const Entry& entry) {
  const std::uint64_t round = ++lane.exchanges;
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const Link& link = lane.links[lane.peer(i)];
    std::copy_n(entry.words, 3, link.out->ready_words);
    round_enter(lane.atomics, HostPost{link.out}, round);
    wake(*link.header);
  }
}

/// Waits for a peer to enter the round. Its words may be read until this rank has finished it.
/// False: the wait has ended.
[[nodiscard]] inline bool await_entry(Lane& lane, const Link& link) {
  return lane.waits.until(*link.header, [&] {
    return round_entered(lane.atomics, HostPost{link.in}, lane.exchanges) ==
           memory::SlotState::kReady;
  });
}

/// Tells all peers that part `part` (1 or 2) of the round is done.
inline void finish_part(Lane& lane, std::uint32_t part) {
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const Link& link = lane.links[lane.peer(i)];
    round_finish(lane.atomics, HostPost{link.out}, lane.exchanges, part);
    wake(*link.header);
  }
}

/// Waits until a peer has finished that part, or a later one. False: the wait has ended.
[[nodiscard]] inline bool await_part(Lane& lane, const Link& link, std::uint32_t part) {
  return lane.waits.until(*link.header, [&] {
    return round_finished(lane.atomics, HostPost{link.in}, lane.exchanges, part);
  });
}

}  // namespace imex::exchange
