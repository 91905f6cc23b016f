/// Rotary position embedding: pair i of a head of size d at position p turns by the angle
/// p * theta^(-2i/d) / factors[i].
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "inference/operators/rope_pairs.hpp"

namespace imex::inference {

/// Sines and cosines of all positions, made in double and rounded once. Immutable, so ranks that
/// are threads share one. Takes context * head_size * 4 bytes and some 30 ns per pair to make: 64
/// MiB and a quarter of a second for 128 Ki tokens and heads of 128.
class RopeTable {
 public:
  struct Shape {
    std::size_t head_size = 0;  ///< even
    std::size_t context = 0;    ///< positions are below it
    double theta = 10'000;
    std::span<const float> factors = {};  ///< divisors of the frequencies; empty: all one
  };
  explicit RopeTable(const Shape& shape);

  /// Rotates one head, or several that lie one after another.
  void rotate(std::span<float> heads, std::size_t position, RopePairs pairs) const noexcept;

  [[nodiscard]] std::size_t head_size() const noexcept { return head_size_; }
  [[nodiscard]] std::size_t context() const noexcept { return context_; }

 private:
  std::size_t head_size_;
  std::size_t context_;
  std::vector<float> rows_;  // per position: head_size / 2 cosines, then as many sines
};

}  // namespace imex::inference
