// Products with F32, F16 and BF16 matrices. Included once per instruction set by kernels.cpp.
#if defined(IMEX_INFERENCE_PLAIN_KERNELS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef IMEX_INFERENCE_PLAIN_KERNELS_INL_HPP
#undef IMEX_INFERENCE_PLAIN_KERNELS_INL_HPP
#else
#define IMEX_INFERENCE_PLAIN_KERNELS_INL_HPP
#endif

#include <array>
#include <cstring>
#include <type_traits>

#include "kernels.hpp"
#include "vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace imex::inference {
namespace HWY_NAMESPACE {

template <class Raw>  // float, hwy::float16_t, hwy::bfloat16_t
HWY_INLINE FloatVector load_weights(const std::byte* from) {
  if constexpr (std::is_same_v<Raw, float>) {
    return hn::LoadU(Floats(), reinterpret_cast<const float*>(from));
  } else {
    const hn::Rebind<Raw, Floats> raw;
    return hn::PromoteTo(Floats(), hn::LoadU(raw, reinterpret_cast<const Raw*>(from)));
  }
}

/// kRows rows, `step` apart, and kTokens tokens. Each output has its own vector of sums, one
/// addition per step of kTileLanes columns, and one fixed order of adding its lanes in the end.
template <class Raw, std::size_t kRows, std::size_t kTokens>
HWY_INLINE void multiply_rows(const PlainWork& work, std::size_t first_row, std::size_t step) {
  const Floats df;
  const std::byte* const weights = work.weights + first_row * work.weights_stride_bytes;
  const std::size_t stride = step * work.weights_stride_bytes;
  // The same place of a later row: what lies right behind a part of the columns is not wanted.
  const std::size_t ahead =
      (kAheadBytes / (work.columns * sizeof(Raw)) + 1) * work.weights_stride_bytes;
  const float* const in = work.in;
  FloatVector sums[kRows * kTokens];
  unrolled<kRows * kTokens>([&](auto i) IMEX_INLINED { sums[i] = hn::Zero(df); });
  const auto add = [&](const std::byte* row_bytes, std::size_t row_stride, const float* inputs,
                       std::size_t input_stride) IMEX_INLINED {
    FloatVector x[kTokens];
    unrolled<kTokens>(
        [&](auto token) IMEX_INLINED { x[token] = hn::LoadU(df, inputs + token * input_stride); });
    unrolled<kRows>([&](auto row) IMEX_INLINED {
      const FloatVector w = load_weights<Raw>(row_bytes + row * row_stride);
      unrolled<kTokens>([&](auto token) IMEX_INLINED {
        FloatVector& sum = sums[row * kTokens + token];
        sum = hn::MulAdd(w, x[token], sum);
      });
    });
  };
  const std::size_t whole = work.columns / kTileLanes * kTileLanes;
  for (std::size_t c = 0; c != whole; c += kTileLanes) {
    if (kTokens == 1 && c * sizeof(Raw) % 64 == 0) {
      unrolled<kRows>([&](auto row) IMEX_INLINED {
        __builtin_prefetch(weights + row * stride + ahead + c * sizeof(Raw));
      });
    }
    add(weights + c * sizeof(Raw), stride, in + c, work.in_stride);
  }
  if (const std::size_t rest = work.columns - whole; rest != 0) {
    // Nothing behind the last column is read: it may be the end of a mapping, or not a number.
    alignas(64) std::byte row_rest[kRows * kTileLanes * sizeof(Raw)] = {};
    alignas(64) float in_rest[kTokens * kTileLanes] = {};
    for (std::size_t row = 0; row != kRows; ++row) {
      std::memcpy(row_rest + row * kTileLanes * sizeof(Raw),
                  weights + row * stride + whole * sizeof(Raw), rest * sizeof(Raw));
    }
    for (std::size_t token = 0; token != kTokens; ++token) {
      std::memcpy(in_rest + token * kTileLanes, in + token * work.in_stride + whole,
                  rest * sizeof(float));
    }
    add(row_rest, kTileLanes * sizeof(Raw), in_rest, kTileLanes);
  }
  unrolled<kRows * kTokens>([&](auto i) IMEX_INLINED {
    work.out[i % kTokens * work.out_stride + first_row + i / kTokens * step] =
        hn::GetLane(hn::SumOfLanes(df, sums[i]));
  });
}

/// A PlainKernel.
template <class Raw, std::size_t kTokens>
void multiply_plain(const PlainWork& work) {
  // With one token each row of several is at the beginning of a part of all rows: see kStreams.
  constexpr std::size_t kRows = kTokens == 1 ? kStreams : 4;
  const std::size_t groups = work.rows / kRows;
  const std::size_t step = kTokens == 1 ? groups : 1;
  for (std::size_t i = 0; i != groups; ++i) {
    multiply_rows<Raw, kRows, kTokens>(work, kTokens == 1 ? i : i * kRows, step);
  }
  for (std::size_t row = groups * kRows; row != work.rows; ++row) {
    multiply_rows<Raw, 1, kTokens>(work, row, 1);
  }
}

template <class Raw>
constexpr std::array<PlainKernel, kNarrowWidths> plain_kernels() {
  return {&multiply_plain<Raw, 1>, &multiply_plain<Raw, 2>, &multiply_plain<Raw, 4>};
}

}  // namespace HWY_NAMESPACE
}  // namespace imex::inference
HWY_AFTER_NAMESPACE();

#endif  // included once per instruction set
