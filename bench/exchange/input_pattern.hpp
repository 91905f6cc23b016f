/// Inputs whose results are known exactly, as those of nccl-tests, and the comparison with them.
///
/// What a rank puts in depends on the rank, the number of the call and the place, so that an old
/// result, one of another place, one without a rank or with a rank twice all differ from the wanted
/// one. The comparison knows nothing of the library's arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <imex/data_type.hpp>

#include "exchange/tick_board.hpp"

namespace imex::bench {

/// The bits of a small whole number: exact, or it is our own mistake.
[[nodiscard]] std::uint64_t element_bits(DataType type, unsigned value) noexcept;

/// For reductions. All inputs and results are whole numbers from 0 to 7, which even floats of 8
/// bits hold; integers do not wrap on the way, averages have no remainder.
class ReducedPattern {
 public:
  ReducedPattern(DataType type, ReduceOp op, std::uint32_t rank, std::uint32_t ranks);

  /// Elements from number `first` on of the rank's input in call number `call`.
  void fill(std::span<std::byte> input, std::uint64_t call, std::size_t first) const noexcept;
  /// `result` against the reduction of all ranks' inputs.
  [[nodiscard]] Tally compare(std::span<const std::byte> result, std::uint64_t call,
                              std::size_t first) const noexcept;

  /// Input of a rank at element i of call k, x = i + k; and the reduction of all.
  [[nodiscard]] static unsigned input_at(ReduceOp op, std::uint32_t rank, std::uint32_t ranks,
                                         std::uint64_t x) noexcept;
  [[nodiscard]] static unsigned result_at(ReduceOp op, std::uint32_t ranks,
                                          std::uint64_t x) noexcept;

 private:
  /// What repeats itself, long enough to be copied and compared in long pieces.
  [[nodiscard]] std::span<const std::byte> from(const std::vector<std::byte>& pattern,
                                                std::uint64_t call,
                                                std::size_t first) const noexcept;
  std::size_t element_bytes_;
  std::size_t period_;        // elements
  std::size_t stride_bytes_;  // whole periods
  std::vector<std::byte> input_, result_;
};

/// For operations that only move bytes: any bytes, another word at each place.
class MovedPattern {
 public:
  explicit MovedPattern(std::size_t element_bytes) noexcept : element_bytes_(element_bytes) {}

  /// Bytes from `first` on of the vector of `rank`.
  static void fill(std::span<std::byte> vector, std::uint32_t rank, std::uint64_t call,
                   std::size_t first) noexcept;
  /// Counts in elements.
  [[nodiscard]] Tally compare(std::span<const std::byte> result, std::uint32_t rank,
                              std::uint64_t call, std::size_t first) const;

 private:
  std::size_t element_bytes_;
};

}  // namespace imex::bench
