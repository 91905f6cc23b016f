#include "inference/operators/norm.hpp"

#include <cmath>

#include "base/assert.hpp"
#include "targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "norm.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace imex::inference {
namespace HWY_NAMESPACE {
namespace {

/// 1 / sqrt(mean of squares + epsilon) of the vectors that element(i, access) returns.
template <class Element>
float scale_of(std::size_t size, float epsilon, Element element) {
  constexpr std::size_t kSums = 4;  // one would wait for each multiplication
  Vector sums[kSums] = {hn::Zero(kTag), hn::Zero(kTag), hn::Zero(kTag), hn::Zero(kTag)};
  std::size_t i = 0;
  for (; i + kSums * kLanes <= size; i += kSums * kLanes) {
    for (std::size_t s = 0; s != kSums; ++s) {
      const Vector x = element(i + s * kLanes, Whole{});
      sums[s] = hn::MulAdd(x, x, sums[s]);
    }
  }
  for_each_vector(i, size, [&](std::size_t at, auto access) {
    const Vector x = element(at, access);
    sums[0] = hn::MulAdd(x, x, sums[0]);
  });
  const Vector sum = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  return 1.0F / std::sqrt(sum_of_lanes(sum) / static_cast<float>(size) + epsilon);
}

void scale_and_weigh(const float* x, const float* weight, std::size_t size, float scale,
                     float* out) {
  const Vector factor = hn::Set(kTag, scale);
  for_each_vector(0, size, [&](std::size_t i, auto access) {
    access.store(hn::Mul(hn::Mul(access.load(x + i), factor), access.load(weight + i)), out + i);
  });
}

/// A vector of the new x, which it stores.
class Adder {
 public:
  Adder(float* x, const float* const* terms, std::size_t count)
      : x_(x), terms_(terms), count_(count) {}

  template <class Access>
  Vector operator()(std::size_t i, Access access) const {
    Vector sum = hn::Zero(kTag);
    for (std::size_t t = 0; t != count_; ++t) sum = hn::Add(sum, access.load(terms_[t] + i));
    sum = hn::Add(access.load(x_ + i), sum);
    access.store(sum, x_ + i);
    return sum;
  }

 private:
  float* x_;
  const float* const* terms_;
  std::size_t count_;
};

void norm(const float* x, const float* weight, std::size_t size, float epsilon, float* out) {
  const float scale =
      scale_of(size, epsilon, [x](std::size_t i, auto access) { return access.load(x + i); });
  scale_and_weigh(x, weight, size, scale, out);
}

void add(float* x, const float* const* terms, std::size_t count, std::size_t size) {
  for_each_vector(0, size, Adder(x, terms, count));
}

void add_norm(float* x, const float* const* terms, std::size_t count, const float* weight,
              std::size_t size, float epsilon, float* out) {
  scale_and_weigh(x, weight, size, scale_of(size, epsilon, Adder(x, terms, count)), out);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace imex::inference
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imex::inference {

HWY_EXPORT(norm);
HWY_EXPORT(add);
HWY_EXPORT(add_norm);

void rms_norm(std::span<const float> x, std::span<const float> weight, float epsilon,
              std::span<float> out) noexcept {
  IMEX_ASSERT(weight.size() == x.size() && out.size() == x.size(), "sizes of one row");
  HWY_DYNAMIC_DISPATCH(norm)(x.data(), weight.data(), x.size(), epsilon, out.data());
}

void add_terms(std::span<float> x, std::span<const float* const> terms) noexcept {
  HWY_DYNAMIC_DISPATCH(add)(x.data(), terms.data(), terms.size(), x.size());
}

void add_rms_norm(std::span<float> x, std::span<const float* const> terms,
                  std::span<const float> weight, float epsilon, std::span<float> out) noexcept {
  IMEX_ASSERT(weight.size() == x.size() && out.size() == x.size(), "sizes of one row");
  HWY_DYNAMIC_DISPATCH(add_norm)
  (x.data(), terms.data(), terms.size(), weight.data(), x.size(), epsilon, out.data());
}

}  // namespace imex::inference
#endif
