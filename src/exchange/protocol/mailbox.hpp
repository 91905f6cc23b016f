/// Question and answer in the same line: the asker writes its part and tags it 2k - 1, the owner of
/// the slice reads it, writes the result over it and tags that 2k. Two moves of the line per
/// exchange; separate lines for the answer would make four.
///
/// A line has one writer at a time, by turns, and each turn begins by acquiring the other's tag: no
/// slots, no credits. Proven by exchange/mailbox_model_test.cpp.
#pragma once

#include <cstdint>

#include "memory/slot_protocol.hpp"

namespace imex::exchange {

[[nodiscard]] constexpr std::uint64_t question_tag(std::uint64_t exchange) noexcept {
  return 2 * exchange - 1;
}
[[nodiscard]] constexpr std::uint64_t answer_tag(std::uint64_t exchange) noexcept {
  return 2 * exchange;
}

/// Asker, line `i`, whose answer of the exchange before has been read.
template <class Atomics, class Slot>
void mailbox_ask(Atomics& atomics, Slot slot, std::uint32_t i, std::uint64_t exchange) {
  memory::slot_publish(atomics, slot.tag(i), question_tag(exchange));
}

/// Owner: the question in line `i` may be read, and the line written, once this is kReady.
template <class Atomics, class Slot>
[[nodiscard]] memory::SlotState mailbox_asked(Atomics& atomics, Slot slot, std::uint32_t i,
                                              std::uint64_t exchange) {
  return memory::slot_poll(atomics, slot.tag(i), question_tag(exchange));
}

/// Owner: the answer lies in line `i`.
template <class Atomics, class Slot>
void mailbox_answer(Atomics& atomics, Slot slot, std::uint32_t i, std::uint64_t exchange) {
  memory::slot_publish(atomics, slot.tag(i), answer_tag(exchange));
}

/// Asker: the answer in line `i` may be read once this is kReady.
template <class Atomics, class Slot>
[[nodiscard]] memory::SlotState mailbox_answered(Atomics& atomics, Slot slot, std::uint32_t i,
                                                 std::uint64_t exchange) {
  return memory::slot_poll(atomics, slot.tag(i), answer_tag(exchange));
}

}  // namespace imex::exchange
