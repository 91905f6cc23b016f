#include "inference/operators/rope.hpp"

#include <cmath>

#include "base/assert.hpp"
#include "targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rope.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace imex::inference {
namespace HWY_NAMESPACE {
namespace {

/// Plain loops: the compiler makes the vectors.
void turn(float* heads, std::size_t count, std::size_t half, const float* HWY_RESTRICT cosines,
          const float* HWY_RESTRICT sines, RopePairs pairs) {
  for (float* head = heads; count != 0; --count, head += 2 * half) {
    if (pairs == RopePairs::kHalves) {
      float* HWY_RESTRICT low = head;
      float* HWY_RESTRICT high = head + half;
      for (std::size_t i = 0; i < half; ++i) {
        const float a = low[i], b = high[i];
        low[i] = a * cosines[i] - b * sines[i];
        high[i] = a * sines[i] + b * cosines[i];
      }
    } else {
      float* HWY_RESTRICT both = head;
      for (std::size_t i = 0; i < half; ++i) {
        const float a = both[2 * i], b = both[2 * i + 1];
        both[2 * i] = a * cosines[i] - b * sines[i];
        both[2 * i + 1] = a * sines[i] + b * cosines[i];
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace imex::inference
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imex::inference {

HWY_EXPORT(turn);

RopeTable::RopeTable(const Shape& shape)
    : head_size_(shape.head_size), context_(shape.context), rows_(shape.head_size * shape.context) {
  const std::size_t half = head_size_ / 2;
  IMEX_ASSERT(head_size_ != 0 && head_size_ % 2 == 0, "heads rotate in pairs");
  IMEX_ASSERT(shape.factors.empty() || shape.factors.size() == half, "a factor for each pair");
  std::vector<double> frequencies(half);
  for (std::size_t i = 0; i != half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head_size_);
    const double divisor = shape.factors.empty() ? 1.0 : double{shape.factors[i]};
    frequencies[i] = std::pow(shape.theta, exponent) / divisor;
  }
  for (std::size_t position = 0; position != context_; ++position) {
    float* const row = rows_.data() + position * head_size_;
    for (std::size_t i = 0; i != half; ++i) {
      const double angle = static_cast<double>(position) * frequencies[i];
      row[i] = static_cast<float>(std::cos(angle));
      row[half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

void RopeTable::rotate(std::span<float> heads, std::size_t position,
                       RopePairs pairs) const noexcept {
  IMEX_ASSERT(position < context_, "a position of the table");
  IMEX_ASSERT(heads.size() % head_size_ == 0, "whole heads");
  const float* const row = rows_.data() + position * head_size_;
  HWY_DYNAMIC_DISPATCH(turn)
  (heads.data(), heads.size() / head_size_, head_size_ / 2, row, row + head_size_ / 2, pairs);
}

}  // namespace imex::inference
#endif
