// Vectors of floats and what all operators need of them. Included once per instruction set by each
// of them, after foreach_target.h.
#if defined(IMEX_INFERENCE_OPERATORS_VECTORS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef IMEX_INFERENCE_OPERATORS_VECTORS_INL_HPP
#undef IMEX_INFERENCE_OPERATORS_VECTORS_INL_HPP
#else
#define IMEX_INFERENCE_OPERATORS_VECTORS_INL_HPP
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace imex::inference {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;
inline constexpr Tag kTag{};
inline constexpr std::size_t kLanes = hn::MaxLanes(kTag);  // exact: no target here is scalable

/// How a vector is read and written: all of it, or its first lanes only (the others are zero).
struct Whole {
  static Vector load(const float* from) { return hn::LoadU(kTag, from); }
  static void store(Vector value, float* to) { hn::StoreU(value, kTag, to); }
};
class Part {
 public:
  explicit Part(std::size_t lanes) : mask_(hn::FirstN(kTag, lanes)) {}
  Vector load(const float* from) const { return hn::MaskedLoad(mask_, kTag, from); }
  void store(Vector value, float* to) const { hn::BlendedStore(value, mask_, kTag, to); }

 private:
  hn::Mask<Tag> mask_;
};

/// body(i, access) for the vectors at i = begin, begin + kLanes, ... of `size` floats.
template <class Body>
void for_each_vector(std::size_t begin, std::size_t size, Body body) {
  for (; begin + kLanes <= size; begin += kLanes) body(begin, Whole{});
  if (begin < size) body(begin, Part(size - begin));
}

inline float sum_of_lanes(Vector v) { return hn::GetLane(hn::SumOfLanes(kTag, v)); }

/// e^x for x <= 0 with an error of at most 1 unit in the last place (measured: 0.98); 0 below
/// -87.33, where the value would be subnormal. NaN stays NaN.
inline Vector exp_nonpositive(Vector x) {
  // x = n ln2 + r with |r| <= ln2 / 2. Adding 1.5 * 2^23 rounds to an integer, which then stands in
  // the low bits; the 127 more are the bias of an exponent, which leaves 2^n by a shift.
  const Vector magic = hn::Set(kTag, 12582912.0F + 127.0F);
  const Vector shifted = hn::MulAdd(x, hn::Set(kTag, 1.44269504F), magic);
  const Vector n = hn::Sub(shifted, magic);
  const hn::RebindToUnsigned<Tag> bits;
  const Vector power = hn::BitCast(kTag, hn::ShiftLeft<23>(hn::BitCast(bits, shifted)));
  // ln2 in two parts, the first so short that n times it is exact without fused operations too.
  Vector r = hn::NegMulAdd(n, hn::Set(kTag, 0.693359375F), x);
  r = hn::NegMulAdd(n, hn::Set(kTag, -2.12194440e-4F), r);
  // e^r = 1 + r + r^2 p(r), the coefficients of Cephes' expf.
  Vector p = hn::Set(kTag, 1.9875691500e-4F);
  for (const float c :
       {1.3981999507e-3F, 8.3334519073e-3F, 4.1665795894e-2F, 1.6666665459e-1F, 5.0000001201e-1F}) {
    p = hn::MulAdd(p, r, hn::Set(kTag, c));
  }
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(kTag, 1.0F));
  const Vector result = hn::Mul(p, power);
  return hn::IfThenElse(hn::Lt(x, hn::Set(kTag, -87.33F)), hn::Zero(kTag), result);
}

}  // namespace HWY_NAMESPACE
}  // namespace imex::inference
HWY_AFTER_NAMESPACE();

#endif
