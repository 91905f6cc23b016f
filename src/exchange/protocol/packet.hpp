/// Data and readiness in one cache line: a message is a run of lines, each tagged with its number.
///
/// Slots rotate by message number. A message k goes to every peer and one comes from every peer, so
/// whoever has all messages k + 1 may overwrite those of epoch k (two slots are enough; more keep
/// the lines of the next message from being fought for). Tags are 64 bit wide and never come again.
///
/// Orders are those of memory/slot_protocol.hpp: [C] the tag releases the payload beside it, [D]
/// seeing the tag acquires it. Proven by exchange/packet_model_test.cpp.
#pragma once

#include <cstdint>

#include "memory/slot_protocol.hpp"

namespace imex::exchange {

/// `slot.tag(i)` is the tag of line i; `fill(i)` writes the payload of line i.
template <class Atomics, class Slot, class Fill>
void packet_send(Atomics& atomics, Slot slot, std::uint32_t lines, std::uint64_t message,
                 Fill&& fill) {
  for (std::uint32_t i = 0; i != lines; ++i) {
    fill(i);
    memory::slot_publish(atomics, slot.tag(i), message);
  }
}

/// `wait(poll)` calls `poll` until it is true and says whether it was; `drain(i)` takes the payload
/// of line i, which may not be touched after packet_receive() has returned. False: the wait ended,
/// or the line carries a later message (`overrun`).
template <class Atomics, class Slot, class Wait, class Drain>
[[nodiscard]] bool packet_receive(Atomics& atomics, Slot slot, std::uint32_t lines,
                                  std::uint64_t message, bool& overrun, Wait&& wait,
                                  Drain&& drain) {
  for (std::uint32_t i = 0; i != lines; ++i) {
    memory::SlotState state = memory::SlotState::kEarly;
    const bool came = wait([&] {
      state = memory::slot_poll(atomics, slot.tag(i), message);
      return state != memory::SlotState::kEarly;
    });
    if (!came) return false;
    if (state == memory::SlotState::kOverrun) {
      overrun = true;
      return false;
    }
    drain(i);
  }
  return true;
}

}  // namespace imex::exchange
