#include "inference/operators/activation.hpp"

#include "base/assert.hpp"
#include "targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "activation.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace imex::inference {
namespace HWY_NAMESPACE {
namespace {

void silu(const float* gate, const float* up, std::size_t size, float* out) {
  const Vector one = hn::Set(kTag, 1.0F);
  for_each_vector(0, size, [&](std::size_t i, auto access) {
    // 1 / (1 + e^-x) is e^x / (1 + e^x) too: the one whose power is at most 1 cannot overflow.
    const Vector x = access.load(gate + i);
    const Vector power = exp_nonpositive(hn::Neg(hn::Abs(x)));
    const Vector numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(kTag)), power, one);
    const Vector sigmoid = hn::Div(numerator, hn::Add(one, power));
    access.store(hn::Mul(hn::Mul(x, sigmoid), access.load(up + i)), out + i);
  });
}

/// The exponent of all ones makes NaN and infinity, the largest patterns of all once the sign is
/// gone. One integer maximum per vector, no branch.
bool any_not_finite(const float* values, std::size_t size) {
  const hn::RebindToSigned<Tag> bits;
  auto largest = hn::Zero(bits);
  for_each_vector(0, size, [&](std::size_t i, auto access) {
    largest = hn::Max(largest, hn::BitCast(bits, hn::Abs(access.load(values + i))));
  });
  return hn::GetLane(hn::MaxOfLanes(bits, largest)) >= 0x7f80'0000;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace imex::inference
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imex::inference {

HWY_EXPORT(silu);
HWY_EXPORT(any_not_finite);

void silu_multiply(std::span<const float> gate, std::span<const float> up,
                   std::span<float> out) noexcept {
  IMEX_ASSERT(up.size() == gate.size() && out.size() == gate.size(), "sizes of one row");
  HWY_DYNAMIC_DISPATCH(silu)(gate.data(), up.data(), gate.size(), out.data());
}

bool has_nan(std::span<const float> values) noexcept {
  return HWY_DYNAMIC_DISPATCH(any_not_finite)(values.data(), values.size());
}

}  // namespace imex::inference
#endif
