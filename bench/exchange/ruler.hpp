/// One rank's hold on the tick board: meeting the others, leaving at one agreed tick, and measuring
/// what a hand-off and a cache line cost between ranks 0 and 1.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "bench/report.hpp"
#include "exchange/clock.hpp"
#include "exchange/floor.hpp"
#include "exchange/tick_board.hpp"

namespace imex::bench {

class Ruler {
 public:
  /// Ranks that share cores give them away while they wait.
  Ruler(const TickBoard& board, std::uint32_t rank, std::size_t cores)
      : board_(board), rank_(rank), yields_(board.ranks() > cores), one_core_(cores < 2) {}

  /// Something else that ends a wait: the communicator knows who was lost.
  void watch(std::function<std::optional<Error>()> health) { health_ = std::move(health); }
  /// Ends the waits of all ranks: this one does not go on.
  void give_up() noexcept;

  /// Returns when all ranks have called it, with rank 0's `value`. Errors of every wait here:
  /// kPeerLost, those of the health, kDeadlineExceeded after a minute.
  Result<std::uint64_t> agree(std::uint64_t value);
  Result<void> meet();

  /// All ranks leave await_tick() at the tick that this returned in each.
  Result<std::uint64_t> arrange_start();
  void await_tick(std::uint64_t tick) const noexcept {
    while (TickClock::now() < tick) {
      if (yields_) std::this_thread::yield();
    }
  }

  /// One barrier() which one rank, another each time, enters clearly later than the others have.
  /// Returns how many ranks had not entered when this one came out: 0 if it is a barrier.
  Result<std::uint64_t> late_entries(const std::function<Result<void>()>& barrier);

  /// Of one line between ranks 0 and 1, the best of some batches; 0 in the other ranks.
  Result<double> round_trip_ns();
  /// `hand_off` is left out. Of a block of `bytes`, at most the board's.
  Result<LineCosts> line_costs(std::uint64_t bytes);

  [[nodiscard]] const TickClock& clock() const noexcept { return clock_; }
  [[nodiscard]] const TickBoard& board() const noexcept { return board_; }
  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }

 private:
  template <class Done>
  Result<void> wait(bool yields, Done&& done);
  template <class Value>
  Result<std::uint64_t> meet_for(Value&& value);
  Result<void> still_on(std::chrono::steady_clock::time_point& deadline);
  template <class Work>
  Result<double> turns(std::uint32_t count, Work&& work);
  template <class Work>
  Result<double> best_turn(std::uint32_t batches, std::uint32_t count, Work&& work);
  /// The others stay out of the way of ranks 0 and 1 until those have come.
  Result<void> nap();

  const TickBoard& board_;
  const std::uint32_t rank_;
  const bool yields_, one_core_;
  const TickClock clock_;
  std::function<std::optional<Error>()> health_;
  std::uint64_t meetings_ = 0, turns_ = 0, staggered_ = 0;
};

}  // namespace imex::bench
