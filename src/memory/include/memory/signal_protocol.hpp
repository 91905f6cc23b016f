/// The protocol behind imex::Signal, as templates over an atomics policy.
///
/// One 64-bit word counts notifications (bits 1-63) and holds the flag "producer gone" (bit 0):
/// both lie in the futex word, so neither can slip in between a waiter's last look and its sleep. A
/// second word counts waiters that sleep or are about to; spinning waiters do not appear in it, so
/// that notify() costs no system call while peers spin.
///
/// The pairs, all proven by src/memory/signal_model_test.cpp, which fails for each weaker order:
///   [A] producer: change `value`, then load `waiters`   } store-load on both sides (Dekker): at
///   least [B] sleeper: add to `waiters`, then load `value`    } one side sees the other. All four
///   seq_cst. [A] also releases the payload; [B] and the spinning load [P] acquire it.
#pragma once

#include <cstdint>

#include <imex/wait.hpp>

#include "memory/atomics.hpp"
#include "memory/wait_protocol.hpp"

namespace imex::memory {

inline constexpr std::uint64_t kSignalAbandoned = 1;
inline constexpr unsigned kSignalCountShift = 1;

/// The two words of a SignalCell. Borrows them.
template <class Atomics>
struct SignalWords {
  typename Atomics::Word64& value;
  typename Atomics::Word32& waiters;
};

template <class Atomics>
void signal_wake_sleepers(Atomics& atomics, SignalWords<Atomics> signal) {
  // [A] seq_cst: must not be satisfied before the change of `value`; see [B].
  if (atomics.load(signal.waiters, std::memory_order_seq_cst, Site::kSignalWaiters) != 0) {
    atomics.wake_all(signal.value);
  }
}

template <class Atomics>
void signal_notify(Atomics& atomics, SignalWords<Atomics> signal, std::uint32_t count) {
  // [A] seq_cst, not release: this add must precede the load of `waiters` (store-load order).
  atomics.fetch_add(signal.value, std::uint64_t{count} << kSignalCountShift,
                    std::memory_order_seq_cst, Site::kSignalAdd);
  signal_wake_sleepers(atomics, signal);
}

template <class Atomics>
void signal_abandon(Atomics& atomics, SignalWords<Atomics> signal) {
  // [A] as in notify(). An "or", so that abandoning twice is abandoning once.
  atomics.fetch_or(signal.value, kSignalAbandoned, std::memory_order_seq_cst, Site::kSignalAbandon);
  signal_wake_sleepers(atomics, signal);
}

/// Whether `value` ends a wait for `target`, and how. A count that was reached wins over the flag.
[[nodiscard]] inline bool signal_settled(std::uint64_t value, std::uint64_t target,
                                         WaitResult& result) noexcept {
  result.seen = value >> kSignalCountShift;
  if (result.seen >= target) {
    result.status = WaitStatus::kDone;
    return true;
  }
  result.status = WaitStatus::kAbandoned;
  return (value & kSignalAbandoned) != 0;
}

/// The last stage: sleeps until the value settles, the abort word is set or the deadline passes.
template <class Atomics>
[[nodiscard]] WaitResult signal_sleep(Atomics& atomics, SignalWords<Atomics> signal,
                                      std::uint64_t target, const WaitLimits<Atomics>& limits) {
  WaitResult result;
  // [B] seq_cst: must precede the load of `value` below; see [A]. A thread is counted in only here.
  atomics.fetch_add(signal.waiters, std::uint32_t{1}, std::memory_order_seq_cst,
                    Site::kSignalCountIn);
  for (bool timed_out = false;;) {
    // The abort word first: a count that came before the abort is then never missed.
    result.abort = load_abort(atomics, limits);
    const std::uint64_t value =
        atomics.load(signal.value, std::memory_order_seq_cst, Site::kSignalRecheck);  // [B]
    if (signal_settled(value, target, result)) break;
    if (result.abort != 0) {
      result.status = WaitStatus::kAborted;
      break;
    }
    if (timed_out) {
      result.status = WaitStatus::kDeadline;
      break;
    }
    // The kernel compares both words again: a change since the loads means no sleep.
    timed_out = atomics.sleep(signal.value, value, limits.abort, limits.deadline) ==
                os::FutexResult::kTimedOut;
  }
  // Relaxed: tells nobody anything. Seen late it costs the producer one system call.
  atomics.fetch_add(signal.waiters, ~std::uint32_t{0}, std::memory_order_relaxed,
                    Site::kSignalCountOut);
  if (result.status != WaitStatus::kAborted) result.abort = 0;
  return result;
}

template <class Atomics>
[[nodiscard]] WaitResult signal_wait(Atomics& atomics, SignalWords<Atomics> signal,
                                     std::uint64_t target, const WaitLimits<Atomics>& limits) {
  WaitResult result;
  // [P] acquire: pairs with the release in [A]; the payload is visible once the count is.
  const auto poll = [&] {
    return signal_settled(atomics.load(signal.value, std::memory_order_acquire, Site::kSignalPoll),
                          target, result);
  };
  if (poll()) return result;
  switch (wait_spinning(atomics, limits, result.abort, poll)) {
    case SpinEnd::kDone:
      result.abort = 0;
      return result;
    case SpinEnd::kAborted:
      result.status = WaitStatus::kAborted;
      return result;
    case SpinEnd::kDeadline:
      result.status = WaitStatus::kDeadline;
      return result;
    case SpinEnd::kExhausted:
      break;
  }
  return signal_sleep(atomics, signal, target, limits);
}

}  // namespace imex::memory
