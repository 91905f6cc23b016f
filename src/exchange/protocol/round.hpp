/// Rounds on memory that the peers reach directly: each rank says that it has entered round k (its
/// buffers may be used from then on), later that it has finished a part of it (the others' buffers
/// are not used any more, what they wait for is there).
///
/// One word for all rounds, each with one writer: a rank enters round k + 1 only when all peers
/// have finished round k, so a peer that reads what was said at the entry is never overtaken. The
/// orders are those of memory/slot_protocol.hpp. Proven by exchange/protocol_model_test.cpp.
#pragma once

#include <cstdint>

#include "memory/slot_protocol.hpp"

namespace imex::exchange {

/// `post.ready()` and `post.done()` lie at who reads them.
template <class Atomics, class Post>
void round_enter(Atomics& atomics, Post post, std::uint64_t round) {
  memory::slot_publish(atomics, post.ready(), round);
}

/// kReady: the peer has entered, and what it wrote before may be read.
template <class Atomics, class Post>
[[nodiscard]] memory::SlotState round_entered(Atomics& atomics, Post post, std::uint64_t round) {
  return memory::slot_poll(atomics, post.ready(), round);
}

/// `part` is 1 or 2; each round ends with one of them.
[[nodiscard]] constexpr std::uint64_t part_number(std::uint64_t round,
                                                  std::uint32_t part) noexcept {
  return 2 * round + part - 2;
}

template <class Atomics, class Post>
void round_finish(Atomics& atomics, Post post, std::uint64_t round, std::uint32_t part) {
  memory::slot_publish(atomics, post.done(), part_number(round, part));
}

/// The peer has finished that part, or a later one.
template <class Atomics, class Post>
[[nodiscard]] bool round_finished(Atomics& atomics, Post post, std::uint64_t round,
                                  std::uint32_t part) {
  return memory::slot_poll(atomics, post.done(), part_number(round, part)) !=
         memory::SlotState::kEarly;
}

}  // namespace imex::exchange
