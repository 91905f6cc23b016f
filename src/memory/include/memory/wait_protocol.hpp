/// The spinning stages of a wait (exchange.md 3.4), over any condition that a poll can see.
#pragma once

#include <chrono>
#include <cstdint>

#include <imex/wait.hpp>

#include "memory/atomics.hpp"

namespace imex::memory {

/// WaitOptions in the words of a policy. Borrows the abort words; null: none.
template <class Atomics>
struct WaitLimits {
  SteadyTime deadline = kNoDeadline;
  const typename Atomics::Word64* abort = nullptr;
  const typename Atomics::Word64* abort_also = nullptr;  ///< looked at while `abort` is 0
  WaitPolicy policy{};
};

enum class SpinEnd : std::uint8_t {
  kDone,       ///< the poll was met
  kAborted,    ///< the abort word was set
  kDeadline,   ///< the deadline passed
  kExhausted,  ///< all stages are used up; only where the policy allows to sleep
};

/// [U] acquire: pairs with [T] in abort_trip(); what was written before the abort is visible after
/// it.
template <class Atomics>
[[nodiscard]] std::uint64_t load_abort(Atomics& atomics, const WaitLimits<Atomics>& limits) {
  for (const auto* word : {limits.abort, limits.abort_also}) {
    if (word == nullptr) continue;
    const std::uint64_t seen = atomics.load(*word, std::memory_order_acquire, Site::kAbortPoll);
    if (seen != 0) return seen;
  }
  return 0;
}

/// Calls `poll` until it returns true, through the stages tight loads, loads with pauses, yields.
/// Clock and abort word are looked at once per batch of loads, so that the tight loop stays tight
/// and an abort is still seen within microseconds. `abort_word` receives the word with kAborted.
template <class Atomics, class Poll>
[[nodiscard]] SpinEnd wait_spinning(Atomics& atomics, const WaitLimits<Atomics>& limits,
                                    std::uint64_t& abort_word, Poll&& poll) {
  const auto guard = [&](SteadyTime now) {
    abort_word = load_abort(atomics, limits);
    if (abort_word != 0) return poll() ? SpinEnd::kDone : SpinEnd::kAborted;
    // What arrived by the deadline counts, also when this thread was not running just then.
    if (now >= limits.deadline) return poll() ? SpinEnd::kDone : SpinEnd::kDeadline;
    return SpinEnd::kExhausted;
  };
  const auto stage = [&](std::uint32_t length_ns, std::uint32_t batch, auto&& between) {
    if (length_ns == 0) return SpinEnd::kExhausted;
    SteadyTime end{};  // known after the first batch: reading the clock may outlast a short wait
    for (bool first = true;; first = false) {
      for (std::uint32_t i = 0; i != batch; ++i) {
        if (poll()) return SpinEnd::kDone;
        between();
      }
      const SteadyTime now = atomics.now();
      if (const SpinEnd reason = guard(now); reason != SpinEnd::kExhausted) return reason;
      if (first) end = now + std::chrono::nanoseconds(length_ns - 1);
      if (now >= end) return SpinEnd::kExhausted;
    }
  };
  if (const SpinEnd reason = stage(limits.policy.spin_ns, Atomics::kLoadsPerCheck, [] {});
      reason != SpinEnd::kExhausted) {
    return reason;
  }
  if (const SpinEnd reason =
          stage(limits.policy.pause_ns, Atomics::kPausesPerCheck, [&] { atomics.pause(); });
      reason != SpinEnd::kExhausted) {
    return reason;
  }
  for (std::uint32_t round = 0; round < limits.policy.yield_rounds || !limits.policy.sleep;
       round += limits.policy.sleep ? 1 : 0) {
    if (poll()) return SpinEnd::kDone;
    if (const SpinEnd reason = guard(atomics.now()); reason != SpinEnd::kExhausted) return reason;
    atomics.yield();
  }
  return SpinEnd::kExhausted;
}

/// Sets the abort word unless it is set already, and wakes who sleeps on it. `word` is not zero in
/// its low half. Says whether this call was the first. Wakes in any case: the winner may have died
/// between setting and waking.
template <class Atomics>
bool abort_trip(Atomics& atomics, typename Atomics::Word64& cell, std::uint64_t word) {
  // [T] release: pairs with [U]. No count of sleepers as in notify(): it happens once.
  const bool first = atomics.compare_exchange(cell, std::uint64_t{0}, word,
                                              std::memory_order_release, Site::kAbortTrip);
  atomics.wake_all(cell);
  return first;
}

}  // namespace imex::memory
