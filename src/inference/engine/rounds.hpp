/// Meetings of all ranks, one after another: what each wrote before a meeting can be read by all
/// after it, where it lies.
///
/// Who has seen a peer come to meeting n knows that the peer has read everything of meeting n - 1.
/// So memory may be written again two meetings after it was read from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <imex/communicator.hpp>

#include "base/result.hpp"
#include "inference/engine/time_histogram.hpp"

namespace imex::inference {

/// Times of one rank in the exchanges inside layers.
struct ExchangeTimes {
  TimeHistogram exchange;   ///< from the arrival of the last rank to the end
  TimeHistogram imbalance;  ///< from the own arrival to that of the last rank
};

class Rounds {
 public:
  /// Memory of the same size in every rank.
  struct Window {
    std::vector<std::byte> local;     // of a single rank, which needs no shared memory
    std::vector<std::byte*> of_rank;  ///< as mapped here; 64-byte aligned
    std::span<std::byte> shared;      // own part, if there is a communicator
  };

  /// Collective. Without a communicator: one rank. Borrows it. Errors: those of allocate().
  [[nodiscard]] static Result<Rounds> create(Communicator* communicator);
  /// Collective. Errors: as Communicator::allocate().
  [[nodiscard]] Result<Window> allocate(std::size_t bytes);

  /// Returns when all ranks have come. Errors: those of the communicator, which is of no more use
  /// then.
  [[nodiscard]] Result<void> meet();
  /// Of the meetings so far.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// To be called when what the last meeting was for is done, which ends its time.
  void finish(ExchangeTimes& times) noexcept;

  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const noexcept { return ranks_; }
  [[nodiscard]] Communicator* communicator() const noexcept { return communicator_; }

 private:
  Communicator* communicator_ = nullptr;
  std::uint32_t rank_ = 0, ranks_ = 1;
  std::uint64_t number_ = 0;
  std::uint64_t arrived_ns_ = 0;
  Window arrivals_;
};

}  // namespace imex::inference
