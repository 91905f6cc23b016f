// Vectors, and what kernels do with them. Included once per instruction set by kernels.cpp, which
// see.
#if defined(IMEX_INFERENCE_MATRIX_VECTORS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef IMEX_INFERENCE_MATRIX_VECTORS_INL_HPP
#undef IMEX_INFERENCE_MATRIX_VECTORS_INL_HPP
#else
#define IMEX_INFERENCE_MATRIX_VECTORS_INL_HPP
#endif

#include <cstddef>
#include <cstdint>
#include <utility>

#include "hwy/highway.h"
#include "inference/matrix/matrix.hpp"

HWY_BEFORE_NAMESPACE();
namespace imex::inference {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kTileRows>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using FloatVector = hn::Vec<Floats>;
using IntVector = hn::Vec<Ints>;
using WordVector = hn::Vec<Words>;
inline constexpr std::size_t kTileLanes = hn::MaxLanes(Floats());
inline constexpr std::size_t kParts = kTileRows / kTileLanes;  // vectors that make up a tile's rows

/// How far ahead of a product with one token its weights are asked for: the prefetchers of
/// processors stop at each page, and one core has few requests under way by itself.
inline constexpr std::size_t kAheadBytes = 1024;

/// sum + low halves multiplied + high halves multiplied, per lane of 32 bits, of weights and one
/// pair of inputs; all halves are signed.
struct PlainDot {
  static HWY_INLINE IntVector add(IntVector sum, WordVector weights, const std::uint32_t& pair) {
    return add(sum, weights, hn::Set(Words(), pair));
  }
  static HWY_INLINE IntVector add(IntVector sum, WordVector weights, WordVector pairs) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
    const hn::Repartition<std::int16_t, Ints> halves;
    auto none = hn::Zero(Ints());
    return hn::ReorderWidenMulAccumulate(Ints(), hn::BitCast(halves, weights),
                                         hn::BitCast(halves, pairs), sum, none);
#else
    const IntVector input = hn::BitCast(Ints(), pairs);
    const IntVector low = hn::ShiftRight<16>(hn::ShiftLeft<16>(input));
    const IntVector high = hn::ShiftRight<16>(input);
    const IntVector both = hn::BitCast(Ints(), weights);
    sum = hn::Add(sum, hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(both)), low));
    return hn::Add(sum, hn::Mul(hn::ShiftRight<16>(both), high));
#endif
  }
};

#if HWY_TARGET == HWY_AVX3
/// One instruction, which Highway 1.0 has no name for. By hand also because compilers do not always
/// let it read and broadcast its input, and a register and an instruction saved are the gain.
struct VnniDot {
  static HWY_INLINE IntVector add(IntVector sum, WordVector weights, const std::uint32_t& pair) {
    asm("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum.raw) : "v"(weights.raw), "m"(pair));
    return sum;
  }
  static HWY_INLINE IntVector add(IntVector sum, WordVector weights, WordVector pairs) {
    asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(weights.raw), "v"(pairs.raw));
    return sum;
  }
};
#endif

template <std::size_t... kIndex, class Body>
HWY_INLINE void unrolled(std::index_sequence<kIndex...> /*of*/, const Body& body) {
  (body(std::integral_constant<std::uint32_t, kIndex>()), ...);
}
/// body(0) ... body(kCount - 1), the number being a constant in it.
template <std::size_t kCount, class Body>
HWY_INLINE void unrolled(const Body& body) {
  unrolled(std::make_index_sequence<kCount>(), body);
}
// What a body needs to be compiled for this instruction set, and into its caller.
#undef IMEX_INLINED
#define IMEX_INLINED HWY_ATTR __attribute__((always_inline))
// Sums of tokens are registers only in loops without a counter. Without vectors there are too few.
#undef IMEX_TOKENS_UNROLLED
#if HWY_TARGET == HWY_SCALAR
#define IMEX_TOKENS_UNROLLED
#else
#define IMEX_TOKENS_UNROLLED HWY_UNROLL(8)
#endif

HWY_INLINE WordVector load_words(const std::byte* from) {
  return hn::LoadU(Words(), reinterpret_cast<const std::uint32_t*>(from));
}
HWY_INLINE FloatVector load_halves(const std::byte* from) {
  const hn::Rebind<hwy::float16_t, Floats> halves;
  return hn::PromoteTo(Floats(), hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from)));
}
template <class Byte>  // std::int8_t or std::uint8_t
HWY_INLINE FloatVector load_bytes(const std::byte* from) {
  const hn::Rebind<Byte, Floats> bytes;
  return hn::ConvertTo(
      Floats(), hn::PromoteTo(Ints(), hn::LoadU(bytes, reinterpret_cast<const Byte*>(from))));
}

}  // namespace HWY_NAMESPACE
}  // namespace imex::inference
HWY_AFTER_NAMESPACE();

#endif  // included once per instruction set
