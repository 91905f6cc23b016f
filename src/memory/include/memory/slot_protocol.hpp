/// When a receiver may read a slot and when its sender may write it again: templates over an
/// atomics policy, for lanes between one sender and one receiver (exchange.md 1.5 to 1.7).
///
/// A lane has `slots` slots in the receiver's memory; epoch k (from 1 on) uses slot (k - 1) %
/// slots. Two formats:
///
///  - tagged: the payload, and a word that holds the epoch. Any element type.
///      [C] the sender tags the slot after the payload (release); [D] the receiver polls (acquire).
///  - words: each 64-bit word carries its own readiness, being anything but kEmptyWord. The
///  receiver
///      empties a word after it was read.
///      [G] and [H] and [I] are relaxed; [J], one fence per lane and epoch between emptying and the
///      next send, keeps an emptying from landing on top of the peer's next word.
///
/// Who may send epoch k + slots? In an exchange where every rank hears from every rank, whoever has
/// received epoch k + 1 from everybody: two slots, no credit, no barrier. In all others the
/// receiver returns credits: [E] it publishes the last epoch it has read (release), [F] the sender
/// looks before it writes (acquire).
///
/// Proven by src/memory/slot_model_test.cpp, with one slot too few and with each weaker order
/// failing.
#pragma once

#include <cstdint>

#include "memory/atomics.hpp"

namespace imex::memory {

[[nodiscard]] constexpr std::uint32_t slot_index(std::uint64_t epoch,
                                                 std::uint32_t slots) noexcept {
  return static_cast<std::uint32_t>((epoch - 1) % slots);
}

enum class SlotState : std::uint8_t {
  kEarly,    ///< not published yet
  kReady,    ///< the payload may be read
  kOverrun,  ///< a later epoch lies here: sender and receiver disagree about the lane; never ignore
             ///< it
};

/// Sender, tagged: the payload of `epoch` is written. [C] release: pairs with [D].
template <class Atomics>
void slot_publish(Atomics& atomics, typename Atomics::Word64& tag, std::uint64_t epoch) {
  atomics.store(tag, epoch, std::memory_order_release, Site::kSlotPublish);
}

/// Receiver, tagged. [D] acquire: pairs with [C]; after kReady the payload is visible.
template <class Atomics>
[[nodiscard]] SlotState slot_poll(Atomics& atomics, const typename Atomics::Word64& tag,
                                  std::uint64_t epoch) {
  const std::uint64_t seen = atomics.load(tag, std::memory_order_acquire, Site::kSlotPoll);
  if (seen == epoch) return SlotState::kReady;
  return seen < epoch ? SlotState::kEarly : SlotState::kOverrun;
}

/// Receiver: epochs up to `epoch` are read. [E] release: the reads come before; pairs with [F].
template <class Atomics>
void credit_return(Atomics& atomics, typename Atomics::Word64& credit, std::uint64_t epoch) {
  atomics.store(credit, epoch, std::memory_order_release, Site::kCreditReturn);
}

/// Sender: whether the slot of `epoch` is free. [F] acquire: pairs with [E]. A credit beyond what
/// was sent is the peer's mistake (or malice) and grants nothing.
template <class Atomics>
[[nodiscard]] bool credit_allows(Atomics& atomics, const typename Atomics::Word64& credit,
                                 std::uint64_t epoch, std::uint32_t slots) {
  const std::uint64_t returned = atomics.load(credit, std::memory_order_acquire, Site::kCreditPoll);
  return returned < epoch && epoch - returned <= slots;
}

/// What an empty word holds: zero, so that fresh memory is a valid empty slot. A format maps its
/// payload around this value.
inline constexpr std::uint64_t kEmptyWord = 0;

/// Sender, words. [G] relaxed: the word is its own signal; pairs with [H].
template <class Atomics>
void word_send(Atomics& atomics, typename Atomics::Word64& word, std::uint64_t value) {
  atomics.store(word, value, std::memory_order_relaxed, Site::kWordSend);
}

/// Receiver, words: kEmptyWord until there is one. [H] relaxed: pairs with [G].
template <class Atomics>
[[nodiscard]] std::uint64_t word_poll(Atomics& atomics, const typename Atomics::Word64& word) {
  return atomics.load(word, std::memory_order_relaxed, Site::kWordPoll);
}

/// Receiver, words: empties a word that was read. [I] relaxed: ordered by [J].
template <class Atomics>
void word_arm(Atomics& atomics, typename Atomics::Word64& word) {
  atomics.store(word, kEmptyWord, std::memory_order_relaxed, Site::kWordArm);
}

/// [J] once per lane and epoch, after the last poll and emptying of epoch k, before the first send
/// of epoch k + 1 (rule R1). Releases the emptying with the sends that follow, and acquires what
/// the polls before it have seen, in one step. Free on x86 (a compiler barrier), `dmb ish` on
/// AArch64.
template <class Atomics>
void lane_fence(Atomics& atomics) {
  atomics.fence(Site::kLaneFence);
}

}  // namespace imex::memory
