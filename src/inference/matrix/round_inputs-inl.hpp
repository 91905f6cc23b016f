// Inputs as packed matrices want them. Included once per instruction set by kernels.cpp.
#if defined(IMEX_INFERENCE_ROUND_INPUTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef IMEX_INFERENCE_ROUND_INPUTS_INL_HPP
#undef IMEX_INFERENCE_ROUND_INPUTS_INL_HPP
#else
#define IMEX_INFERENCE_ROUND_INPUTS_INL_HPP
#endif

#include "inference/matrix/activations.hpp"
#include "packed_layout.hpp"
#include "vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace imex::inference {
namespace HWY_NAMESPACE {

/// 16 inputs of a block, rounded: the sum of them, and their words of pairs. Word 4k + i of a half
/// has inputs 4k + i and 4k + i + 2, for i of 0 and 1; what i of 2 and 3 have is not used.
struct Half {
  IntVector integers[kParts];

  HWY_INLINE Half(const float* values, float inverse) {
    for (std::size_t part = 0; part != kParts; ++part) {
      const IntVector rounded = hn::NearestInt(
          hn::Mul(hn::LoadU(Floats(), values + part * kTileLanes), hn::Set(Floats(), inverse)));
      // NaN and what exceeds 32767 by rounding stay within 16 bits: no product can overflow.
      integers[part] = hn::Max(hn::Min(rounded, hn::Set(Ints(), 32767)), hn::Set(Ints(), -32767));
    }
  }
  [[nodiscard]] HWY_INLINE std::int32_t sum() const {
    IntVector all = integers[0];
    for (std::size_t part = 1; part != kParts; ++part) all = hn::Add(all, integers[part]);
    return hn::GetLane(hn::SumOfLanes(Ints(), all));
  }
};

/// Writes the pairs of both halves: pair_input() as shuffles.
HWY_INLINE void store_pairs(const Half& low, const Half& high, std::uint32_t* pairs) {
#if HWY_TARGET == HWY_SCALAR
  const auto integer = [&](std::uint32_t input) {
    return static_cast<std::uint32_t>(
        hn::GetLane(input < 16 ? low.integers[input] : high.integers[input - 16]));
  };
  for (std::uint32_t pair = 0; pair != 16; ++pair) {
    pairs[pair] = (integer(pair_input(pair, 0)) & 0xffffU) | integer(pair_input(pair, 1)) << 16U;
  }
#else
  const auto words = [](IntVector integers) HWY_ATTR {
    const WordVector bits = hn::BitCast(Words(), integers);
    return hn::Or(hn::And(bits, hn::Set(Words(), 0xffffU)),
                  hn::ShiftLeft<16>(hn::Shuffle1032(bits)));
  };
  for (std::size_t part = 0; part != kParts; ++part) {
    hn::StoreU(hn::InterleaveLower(Words(), words(low.integers[part]), words(high.integers[part])),
               Words(), pairs + part * kTileLanes);
  }
#endif
}

/// Rounds the inputs of one token to integers of 16 bits, block by block. Integer comparison of
/// magnitudes lets a NaN win, which then makes the scale a NaN.
HWY_INLINE void round_inputs(const float* values, std::size_t blocks, InputBlock* out,
                             std::size_t out_stride) {
  const Floats df;
  const Ints di;
  for (std::size_t b = 0; b != blocks; ++b, values += 32, out += out_stride) {
    IntVector largest = hn::Zero(di);
    for (std::size_t i = 0; i != 32; i += kTileLanes) {
      largest = hn::Max(largest, hn::BitCast(di, hn::Abs(hn::LoadU(df, values + i))));
    }
    const float magnitude = hn::GetLane(hn::BitCast(df, hn::MaxOfLanes(di, largest)));
    // Below this the inverse would overflow; the block then counts as zero.
    const bool zero = magnitude < 0x1p-100F;
    const float inverse = zero ? 0.0F : 32767.0F / magnitude;
    const Half low(values, inverse);
    const Half high(values + 16, inverse);
    const std::int32_t low_sum = low.sum();
    const std::int32_t high_sum = high.sum();
    out->scale = zero ? 0.0F : magnitude / 32767.0F;
    out->scaled_sum = out->scale * static_cast<float>(low_sum + high_sum);
    out->negative_sum = -(low_sum + high_sum);
    out->half_negative_sums = {-low_sum, -high_sum};
    store_pairs(low, high, out->pairs.data());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace imex::inference
HWY_AFTER_NAMESPACE();

#endif  // included once per instruction set
