/// The sum of what all ranks computed, read where they wrote it: the exchange inside a layer.
///
/// Every rank writes its partial sums into memory that its peers have mapped and meets them; then
/// the addition to the residual stream and the next norm read the peers' memory directly. No copy
/// is made. Two sets of buffers take turns, so that nobody writes what is still being read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "inference/split/reduction_tree.hpp"
#include "rounds.hpp"

namespace imex::inference {

/// In what order the partial sums of one phase are added.
struct SumOrder {
  /// One sum per rank, ascending.
  static SumOrder by_rank(std::uint32_t ranks);
  /// Along the tree over `leaves` of which rank r owns owned[r].
  static SumOrder by_tree(std::uint32_t leaves, std::span<const Range> owned);

  bool tree = false;
  std::uint32_t sums_max = 1;  ///< of one rank
  std::vector<TreeSum::Step> steps;
  std::uint32_t depth = 1;  ///< vectors on the stack at once
};

class PartialExchange {
 public:
  struct Shape {
    std::uint32_t rows = 0, width = 0;  ///< most rows of one exchange; floats per row
    std::uint32_t sums = 1;             ///< most partial sums of one rank
    std::uint32_t depth = 1;            ///< most vectors on the stack of a tree
  };
  /// Collective. Borrows `rounds`. Errors: as Communicator::allocate().
  [[nodiscard]] static Result<PartialExchange> create(Rounds& rounds, const Shape& shape);

  /// Where this rank writes partial sum `index` of the next exchange, before run(): rows that are
  /// stride() floats apart.
  [[nodiscard]] float* own(std::uint32_t index) noexcept;
  [[nodiscard]] std::size_t stride() const noexcept { return stride_; }

  /// Returns when all ranks have written `rows` rows. Errors: those of the communicator.
  [[nodiscard]] Result<void> run(const SumOrder& order, std::uint32_t rows);

  /// Vectors whose sum, in this order, is the total of a row; until the next call. `last`, unless
  /// null, is one more.
  [[nodiscard]] std::span<const float* const> terms(std::uint32_t row,
                                                    const float* last = nullptr) noexcept;
  /// To be called when all terms have been read.
  void finish(ExchangeTimes& times) noexcept;

  /// Shared memory of one rank.
  [[nodiscard]] static std::uint64_t window_bytes(const Shape& shape) noexcept;

 private:
  explicit PartialExchange(Rounds& rounds) noexcept : rounds_(&rounds) {}
  [[nodiscard]] float* part(std::uint32_t rank, std::uint32_t index) const noexcept;
  void sum_along_tree(std::uint32_t row) noexcept;

  Rounds* rounds_;
  Shape shape_;
  std::size_t stride_ = 0;
  Rounds::Window window_;
  std::uint64_t set_ = 0;  // of the next exchange
  const SumOrder* order_ = nullptr;
  bool reduced_ = false;             // the total lies in the own part already
  std::vector<const float*> terms_;  // room for one row
  std::vector<float> stack_;         // of a tree: depth vectors
};

}  // namespace imex::inference
