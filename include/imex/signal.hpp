/// A one-way event counter in shared memory.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include <imex/export.h>
#include <imex/wait.hpp>

namespace imex {

/// State of one Signal in shared memory: one cache line, format v1 (docs/formats/segment.md).
/// All-zero bytes are a valid fresh cell, so new memory needs no initialisation.
/// Both fields share the line on purpose: notify() touches both, waiters write only around a sleep.
struct alignas(64) SignalCell {
  /// Bit 0: the producer is gone. Bits 1-63: notifications so far, never reset.
  /// Written by notify()/abandon() (release), read by wait_until() (acquire).
  std::atomic<std::uint64_t> value;
  /// Threads asleep or about to be. Saves a system call, carries no data; a waiter that crashes
  /// leaves it too high, which costs the producer one system call per notify() and nothing else.
  std::atomic<std::uint32_t> waiters;
};
static_assert(sizeof(SignalCell) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::endian::native == std::endian::little);  // the futex word is value's low half

/// The producer counts up, consumers wait for a count. Writes made before notify() are visible
/// after the wait_until() that observes it, in whatever process. Thread-safe and process-safe.
/// Borrows the cell: the mapping must outlive the Signal.
class IMEX_API Signal {
 public:
  explicit Signal(SignalCell& cell) noexcept : cell_(&cell) {}

  /// Adds `count` (>= 1) notifications. Never blocks; a system call only if someone sleeps.
  void notify(std::uint32_t count = 1) noexcept;

  /// Marks the producer as gone: every wait not yet met, now or later, ends with kAbandoned.
  void abandon() noexcept;

  /// Notifications so far (acquire).
  [[nodiscard]] std::uint64_t count() const noexcept;

  /// Blocks until `target` notifications were counted, the producer abandoned the signal, the abort
  /// word was set or the deadline passed. A count that was reached wins over the other three.
  [[nodiscard]] WaitResult wait_until(std::uint64_t target, const WaitOptions& options) noexcept;

 private:
  SignalCell* cell_;
};

}  // namespace imex
