/// What the tuner's model leaves open is tried: the first exchanges of a size go through each
/// likely algorithm in turn, and the fastest stays. Costs nothing that a program would not have had
/// to exchange anyway. Pure; every rank must be asked in the same order.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <imex/communicator.hpp>

#include "tuner.hpp"

namespace imex::exchange {

/// Of one lane and one step of sizes. Used by the thread that has the lane, but for choice().
class Trial {
 public:
  static constexpr std::size_t kCandidatesMax = 5;
  /// The fastest of so many counts: one that a preemption hit is no measurement.
  static constexpr std::uint32_t kRounds = 6;
  using Times = std::array<float, kCandidatesMax>;  ///< by candidate, nanoseconds

  /// Candidates: what the model predicts to be at most 2.5 times slower than the best; and two
  /// levels, where there are groups, since it knows one distance only.
  void begin(const TuningQuestion& question, const Costs& costs);
  [[nodiscard]] bool begun() const noexcept { return count_ != 0; }
  [[nodiscard]] bool decided() const noexcept { return choice() != Algorithm::kAuto; }
  /// kAuto: not decided. Any thread.
  [[nodiscard]] Algorithm choice() const noexcept {
    return choice_.load(std::memory_order_relaxed);  // alone; nothing else is read by it
  }

  /// The algorithm of the next exchange, while not decided.
  [[nodiscard]] Algorithm next() const noexcept { return candidates_[done_ % count_]; }
  /// How long it took here. True: that was the last one, decide().
  [[nodiscard]] bool took(float ns) noexcept;
  [[nodiscard]] const Times& times() const noexcept { return best_ns_; }
  /// By the times of all ranks: an exchange takes as long as its slowest rank.
  void decide(std::span<const Times> by_rank) noexcept;

 private:
  std::array<Algorithm, kCandidatesMax> candidates_{};
  Times best_ns_{};
  std::uint32_t count_ = 0, done_ = 0;
  std::atomic<Algorithm> choice_{Algorithm::kAuto};
};

}  // namespace imex::exchange
