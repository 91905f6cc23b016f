/// Exponentials of logits. Written out, not taken from the C library, and compiled without fused
/// operations: hosts with different libraries and processors get the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "inference/sampling/sampler.hpp"

namespace imex::inference {

/// Relative probabilities: e^((logit - largest) / temperature), 1 for the largest. The power has an
/// error of about one unit in the last place; below e^-87 it is 0.
struct Weighing {
  float largest = 0;
  float temperature = 1;

  [[nodiscard]] float of(float logit) const noexcept;
  /// of() for many, into `out`.
  void of(std::span<const float> logits, std::span<float> out) const noexcept;
};

/// Sum of e^logit. Each term is rounded by itself, whatever the largest is, and terms add up in
/// double: a sum over parts differs from that of the whole by some 2^-50 of it.
[[nodiscard]] ExponentialSum sum_of_exponentials(std::span<const float> logits) noexcept;
[[nodiscard]] ExponentialSum operator+(const ExponentialSum& a, const ExponentialSum& b) noexcept;
/// Natural logarithm; -infinity for a sum of nothing.
[[nodiscard]] double log_of(const ExponentialSum& sum) noexcept;

}  // namespace imex::inference
