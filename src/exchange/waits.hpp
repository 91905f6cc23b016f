/// Waiting for peers on one lane: the stages of memory/wait_protocol.hpp, then sleep.
#pragma once

#include <chrono>
#include <cstdint>

#include <imex/wait.hpp>

#include "layout.hpp"
#include "memory/atomics.hpp"
#include "memory/wait_protocol.hpp"
#include "os/futex.hpp"
#include "recorder.hpp"

namespace imex::exchange {

using memory::HostAtomics;

/// Wakes the owner of a window if it sleeps. Call after what it waits for was stored.
inline void wake(WindowHeader& header) noexcept {
  // Relaxed, and not ordered with the store before it: a sleeper that is missed looks again by
  // itself after kSleepSlice. A full fence would cost every message more than that ever will.
  if (header.asleep.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  header.asleep.store(0, std::memory_order_relaxed);
  os::futex_wake_all(&header.asleep);
}

/// Sets a rank's abort word and wakes it.
inline void abort_rank(WindowHeader& header, std::uint64_t word) noexcept {
  HostAtomics atomics;
  memory::abort_trip(atomics, header.abort.word, word);
  wake(header);
}

enum class WaitEnd : std::uint8_t { kDone, kAborted, kDeadline, kDeparted };

/// One per lane; not thread-safe. Borrows the own window's header and `watched`, which is null or
/// ends the waits as well.
class Waits {
 public:
  Waits(WindowHeader& own, const AbortCell* watched, std::chrono::nanoseconds timeout,
        const WaitPolicy& policy) noexcept
      : own_(own),
        watched_(watched == nullptr ? nullptr : &watched->word),
        timeout_(timeout),
        policy_(policy) {}

  /// Calls `poll` until it is true; false once the wait has ended otherwise, see end(). Waits for
  /// what `peer` does.
  template <class Poll>
  [[gnu::always_inline]] bool until(const WindowHeader& peer, Poll&& poll) {
    for (std::uint32_t i = 0; i != kFirstLooks; ++i) {
      if (poll()) [[likely]]
        return true;
    }
    return until_slowly(peer, poll);
  }

  /// What notes waits that are not over at once; lives as long as this.
  void set_recorder(LaneRecorder& recorder) noexcept { recorder_ = &recorder; }
  void set_policy(const WaitPolicy& policy) noexcept { policy_ = policy; }

  /// Whether an abort has come; then it has ended a wait for `peer`.
  [[nodiscard]] bool aborted(const WindowHeader& peer) noexcept {
    // Acquire: pairs with the release in memory::abort_trip().
    abort_word_ = own_.abort.word.load(std::memory_order_acquire);
    if (abort_word_ == 0 && watched_ != nullptr)
      abort_word_ = watched_->load(std::memory_order_acquire);
    if (abort_word_ == 0) return false;
    return !fail(peer, WaitEnd::kAborted);
  }

  [[nodiscard]] WaitEnd end() const noexcept { return end_; }
  [[nodiscard]] std::uint64_t abort_word() const noexcept { return abort_word_; }
  /// The rank that the last failed wait was for.
  [[nodiscard]] std::uint32_t awaited() const noexcept { return awaited_; }

 private:
  /// Without a look at the clock, which costs as much as twenty of them: about one hand-off.
  static constexpr std::uint32_t kFirstLooks = 64;
  /// How long a sleeper may stay asleep whose wake-up was missed; see wake().
  static constexpr std::chrono::milliseconds kSleepSlice{1};

  template <class Poll>
  [[gnu::noinline]] bool until_slowly(const WindowHeader& peer, Poll& poll) {
    if (recorder_ != nullptr) recorder_->waits_for(peer.rank);
    const bool came = until_slowly_unseen(peer, poll);
    // Who has failed goes on being seen as waiting until its operation has ended.
    if (recorder_ != nullptr && came) recorder_->waits_for(kNoRank);
    return came;
  }

  template <class Poll>
  bool until_slowly_unseen(const WindowHeader& peer, Poll& poll) {
    HostAtomics atomics;
    const SteadyTime begin = atomics.now();
    memory::WaitLimits<HostAtomics> limits{
        .abort = &own_.abort.word, .abort_also = watched_, .policy = policy_};
    if (timeout_ != std::chrono::nanoseconds::zero()) limits.deadline = begin + timeout_;
    switch (memory::wait_spinning(atomics, limits, abort_word_, poll)) {
      case memory::SpinEnd::kDone:
        return true;
      case memory::SpinEnd::kAborted:
        return fail(peer, WaitEnd::kAborted);
      case memory::SpinEnd::kDeadline:
        return fail(peer, WaitEnd::kDeadline);
      case memory::SpinEnd::kExhausted:
        break;
    }
    return sleep_until(peer, limits, poll);
  }

  template <class Poll>
  bool sleep_until(const WindowHeader& peer, const memory::WaitLimits<HostAtomics>& limits,
                   Poll& poll) {
    HostAtomics atomics;
    for (;;) {
      own_.asleep.store(1, std::memory_order_seq_cst);  // before the looks that follow
      // Both before the poll: what came before an abort or a departure is not missed.
      const bool departed = peer.departed.load(std::memory_order_acquire) != 0;
      abort_word_ = memory::load_abort(atomics, limits);
      const SteadyTime now = atomics.now();
      const bool done = poll();
      if (done || abort_word_ != 0 || departed || now >= limits.deadline) {
        own_.asleep.store(0, std::memory_order_relaxed);
        if (done) return true;
        return fail(peer, abort_word_ != 0 ? WaitEnd::kAborted
                          : departed       ? WaitEnd::kDeparted
                                           : WaitEnd::kDeadline);
      }
      const SteadyTime slice = now + kSleepSlice;
      static_cast<void>(
          os::futex_wait(&own_.asleep, 1, slice < limits.deadline ? slice : limits.deadline));
    }
  }

  bool fail(const WindowHeader& peer, WaitEnd end) noexcept {
    end_ = end;
    awaited_ = peer.rank;
    return false;
  }

  WindowHeader& own_;
  const std::atomic<std::uint64_t>* watched_;
  const std::chrono::nanoseconds timeout_;
  LaneRecorder* recorder_ = nullptr;
  WaitPolicy policy_;
  WaitEnd end_ = WaitEnd::kDone;
  std::uint64_t abort_word_ = 0;
  std::uint32_t awaited_ = kNoRank;
};

}  // namespace imex::exchange
