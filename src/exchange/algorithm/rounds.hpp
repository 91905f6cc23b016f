/// Rounds of two-shot algorithms on memory that the peers reach directly: who has entered with
/// what, and who has finished a part.
#pragma once

#include <cstdint>

#include "lane.hpp"

namespace imex::exchange {

/// What a rank says when it enters a round.
struct Entry {
  std::uint64_t words[3] = {};
};

/// Tells all peers; what this rank wrote before is visible to who sees it.
inline void enter_round(Lane& lane, const Entry& entry) {
  const std::uint64_t round = ++lane.exchanges;
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const Link& link = lane.links[lane.peer(i)];
    std::copy_n(entry.words, 3, link.out->ready_words);
    memory::slot_publish(lane.atomics, link.out->ready, round);
    wake(*link.header);
  }
}

/// Waits for a peer to enter the round. Its words may be read until this rank enters the next one:
/// before that, nobody can. False: the wait has ended.
[[nodiscard]] inline bool await_entry(Lane& lane, const Link& link) {
  return lane.waits.until(*link.header, [&] {
    // One word holds all rounds, and the peer cannot be ahead: it waits for us to enter.
    return memory::slot_poll(lane.atomics, link.in->ready, lane.exchanges) ==
           memory::SlotState::kReady;
  });
}

/// Tells all peers that part `part` (1 or 2) of the round is done.
inline void finish_part(Lane& lane, std::uint32_t part) {
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const Link& link = lane.links[lane.peer(i)];
    memory::slot_publish(lane.atomics, link.out->done, 2 * lane.exchanges + part - 2);
    wake(*link.header);
  }
}

/// Waits until a peer has finished that part, or a later one. False: the wait has ended.
[[nodiscard]] inline bool await_part(Lane& lane, const Link& link, std::uint32_t part) {
  const std::uint64_t wanted = 2 * lane.exchanges + part - 2;
  return lane.waits.until(*link.header, [&] {
    return memory::slot_poll(lane.atomics, link.in->done, wanted) != memory::SlotState::kEarly;
  });
}

}  // namespace imex::exchange
