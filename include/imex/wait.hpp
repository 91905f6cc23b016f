/// How a thread waits for memory that another process writes, and what a wait returns.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include <imex/export.h>
#include <imex/result.hpp>

namespace imex {

using SteadyTime = std::chrono::steady_clock::time_point;

/// Deadline of a wait that may last for ever; it can still be aborted.
inline constexpr SteadyTime kNoDeadline = SteadyTime::max();

/// The word that ends waits from outside. One writer wins: the first non-zero value stays.
/// All-zero bytes mean "go on", so fresh memory needs no initialisation.
/// Written by the node daemon when a peer is lost or memory is revoked, and by abort() of any
/// thread; read by every wait loop. Value: bits 0-15 Errc, bits 32-63 the rank concerned (kNoRank:
/// none).
struct alignas(64) AbortCell {
  std::atomic<std::uint64_t> word;
};
static_assert(sizeof(AbortCell) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

/// The stages a wait goes through, in order; each stage checks value, abort word and deadline.
/// A run-time object: choose per communicator, not per build. Trivially copyable.
/// Cost of being wrong: a pure spin is a thousand times slower once ranks outnumber cores.
struct WaitPolicy {
  std::uint32_t spin_ns =
      2'000;  ///< tight loads, in batches of 50; `pause` would double the latency
  std::uint32_t pause_ns = 20'000;  ///< loads with a pause instruction between them
  std::uint32_t yield_rounds = 50;  ///< sched_yield() between loads
  bool sleep = true;                ///< then sleep in the kernel (futex); false: keep yielding

  /// For this process: short spins when `ranks_on_host` exceeds the cores usable by it (affinity
  /// mask and cgroup quota), the defaults above otherwise. Reads /proc and /sys once per process.
  [[nodiscard]] IMEX_API static WaitPolicy for_ranks(std::uint32_t ranks_on_host) noexcept;
  /// The same for ranks that share `cores`, which a rank pinned to one of them cannot count.
  [[nodiscard]] IMEX_API static WaitPolicy for_ranks(std::uint32_t ranks_on_host,
                                                     std::uint32_t cores) noexcept;
};

enum class WaitStatus : std::uint8_t {
  kDone = 0,       ///< the count was reached
  kDeadline = 1,   ///< the deadline passed first
  kAbandoned = 2,  ///< the producer abandoned the signal below the count
  kAborted = 3,    ///< the abort word was set; WaitResult::abort says by what and whom
};

/// What a wait in a hot loop returns: three registers, no allocation.
struct [[nodiscard]] WaitResult {
  WaitStatus status = WaitStatus::kDone;
  std::uint64_t seen = 0;   ///< the count last read
  std::uint64_t abort = 0;  ///< the abort word when status is kAborted

  [[nodiscard]] bool ok() const noexcept { return status == WaitStatus::kDone; }
  /// The same as a Result, with code, message and rank filled in.
  [[nodiscard]] IMEX_API Result<std::uint64_t> to_result() const;
};

/// Limits and guards of one wait. Borrows the abort cell.
struct WaitOptions {
  SteadyTime deadline = kNoDeadline;
  const AbortCell* abort = nullptr;
  WaitPolicy policy{};
};

}  // namespace imex
