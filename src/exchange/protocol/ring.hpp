/// A stream of messages from one sender to one receiver through `slots` slots in the receiver's
/// memory, with credits: for every pattern in which the data themselves do not prove a slot free.
/// The orders are those of memory/slot_protocol.hpp, which src/memory/slot_model_test.cpp proves.
#pragma once

#include <cstdint>

#include "memory/slot_protocol.hpp"

namespace imex::exchange {

/// `ring.tag(slot)` lies at the receiver, `ring.credit()` at the sender.
template <class Atomics, class Ring>
[[nodiscard]] bool ring_has_room(Atomics& atomics, Ring ring, std::uint64_t message,
                                 std::uint32_t slots) {
  return memory::credit_allows(atomics, ring.credit(), message, slots);
}

template <class Atomics, class Ring>
void ring_publish(Atomics& atomics, Ring ring, std::uint64_t message, std::uint32_t slots) {
  memory::slot_publish(atomics, ring.tag(memory::slot_index(message, slots)), message);
}

template <class Atomics, class Ring>
[[nodiscard]] memory::SlotState ring_poll(Atomics& atomics, Ring ring, std::uint64_t message,
                                          std::uint32_t slots) {
  return memory::slot_poll(atomics, ring.tag(memory::slot_index(message, slots)), message);
}

/// Everything up to `message` has been read.
template <class Atomics, class Ring>
void ring_release(Atomics& atomics, Ring ring, std::uint64_t message) {
  memory::credit_return(atomics, ring.credit(), message);
}

}  // namespace imex::exchange
