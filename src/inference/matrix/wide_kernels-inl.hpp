// Products of packed matrices with many tokens: integers are taken apart once, into memory that
// stays in the first-level cache, and used by all. Included once per instruction set by
// kernels.cpp.
#if defined(IMEX_INFERENCE_WIDE_KERNELS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef IMEX_INFERENCE_WIDE_KERNELS_INL_HPP
#undef IMEX_INFERENCE_WIDE_KERNELS_INL_HPP
#else
#define IMEX_INFERENCE_WIDE_KERNELS_INL_HPP
#endif

#include "kernels.hpp"
#include "packed_kernels-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace imex::inference {
namespace HWY_NAMESPACE {

/// An ExpandKernel.
template <PackedLayout kLayout>
void expand(const std::byte* block, std::size_t blocks, std::size_t tile, ExpandedGroup* out) {
  constexpr std::uint32_t kPer32 = 32 / kLayout.group_columns;
  for (std::size_t b = 0; b != blocks; ++b, block += kLayout.block_bytes()) {
    for (std::uint32_t first = 0; first != kLayout.groups; first += kPer32, ++out) {
      for (std::size_t part = 0; part != kParts; ++part) {
        const Shared<kLayout> shared(block, part);
        unrolled<kPer32>([&](auto half) IMEX_INLINED {
          const std::uint32_t group = first + half;
          take_apart<kLayout, half>(
              block + kLayout.integers_at(group) + part * kTileLanes * 4,
              [&](auto pair, WordVector weights) IMEX_INLINED {
                if constexpr (kLayout.offset_shift != 0) {
                  // Both halves less the offset: the highest bits keep what they borrow.
                  const WordVector guard = hn::Set(Words(), 0x80008000U);
                  constexpr std::uint32_t kOffset = 1U << kLayout.offset_shift;
                  weights = hn::Xor(
                      hn::Sub(hn::Or(weights, guard), hn::Set(Words(), kOffset * 0x00010001U)),
                      guard);
                }
                hn::Store(weights, Words(), out->pairs[pair][tile] + part * kTileLanes);
              });
          const Scales scales = load_scales<kLayout>(block, group, part, shared);
          hn::Store(scales.scale, Floats(), out->scales[half][tile] + part * kTileLanes);
          if constexpr (kLayout.minimum) {
            hn::Store(scales.minimum, Floats(), out->minimums[tile] + part * kTileLanes);
          }
        });
      }
    }
  }
}

/// Vectors of rows that use one vector of inputs before it is given up: sixteen registers of sums
/// are enough to keep the units busy, and more than the older instruction sets have.
inline constexpr std::size_t kAtOnce = (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON) ? 2 : 1;

/// One group, rows of kVectors vectors from `row` on: adds to sums[vector][token].
template <ExpandedKind kKind, std::size_t kVectors, class Dot, std::uint32_t kHalf>
HWY_INLINE void add_expanded(const ExpandedGroup& group, std::size_t row, const InputBlock* in,
                             FloatVector (*sums)[Activations::kTokenTile]) {
  constexpr std::size_t kTokens = Activations::kTokenTile;
  constexpr std::uint32_t kPer32 = kKind == ExpandedKind::kHalves ? 2 : 1;
  IntVector products[kVectors][kTokens];
  unrolled<kVectors>([&](auto v) IMEX_INLINED {
    IMEX_TOKENS_UNROLLED for (IntVector& product : products[v]) product = hn::Zero(Ints());
  });
  unrolled<16 / kPer32>([&](auto index) IMEX_INLINED {
    constexpr std::uint32_t kPair = kPer32 == 1 ? index : half_pair(index, kHalf);
    const std::uint32_t* const words = group.pairs[kPair][0] + row;
    if constexpr (kVectors == 1) {
      const WordVector weights = hn::Load(Words(), words);
      IMEX_TOKENS_UNROLLED for (std::size_t token = 0; token != kTokens; ++token) {
        products[0][token] = Dot::add(products[0][token], weights, in[token].pairs[kPair]);
      }
    } else {
      static_assert(kVectors == 2);
      const WordVector first = hn::Load(Words(), words);
      const WordVector second = hn::Load(Words(), words + kTileLanes);
      IMEX_TOKENS_UNROLLED for (std::size_t token = 0; token != kTokens; ++token) {
        const WordVector input = hn::Set(Words(), in[token].pairs[kPair]);
        products[0][token] = Dot::add(products[0][token], first, input);
        products[1][token] = Dot::add(products[1][token], second, input);
      }
    }
  });
  unrolled<kVectors>([&](auto v) IMEX_INLINED {
    const Scales scales{hn::Load(Floats(), group.scales[kHalf][0] + row + v * kTileLanes),
                        hn::Load(Floats(), group.minimums[0] + row + v * kTileLanes)};
    IMEX_TOKENS_UNROLLED for (std::size_t token = 0; token != kTokens; ++token) {
      sums[v][token] =
          add_scaled < kKind ==
          ExpandedKind::kMinimum > (sums[v][token], products[v][token], scales, in[token]);
    }
  });
}

/// A WideKernel: the bits are those of multiply_tile().
template <ExpandedKind kKind, std::size_t kTiles, class Dot>
void multiply_expanded(const WideWork& work) {
  constexpr std::size_t kTokens = Activations::kTokenTile;
  constexpr std::size_t kVectors = kTiles * kParts < kAtOnce ? 1 : kAtOnce;
  for (std::size_t row = 0; row != kTiles * kTileRows; row += kVectors * kTileLanes) {
    FloatVector sums[kVectors][kTokens];
    unrolled<kVectors>([&](auto v) IMEX_INLINED {
      IMEX_TOKENS_UNROLLED for (std::size_t token = 0; token != kTokens; ++token) {
        const float* const before = work.out + token * work.out_stride + row + v * kTileLanes;
        sums[v][token] = work.add ? hn::LoadU(Floats(), before) : hn::Zero(Floats());
      }
    });
    const InputBlock* in = work.in;
    for (std::size_t g = 0; g != work.groups; ++g, in += kTokens) {
      add_expanded<kKind, kVectors, Dot, 0>(work.weights[g], row, in, sums);
      if constexpr (kKind == ExpandedKind::kHalves) {
        add_expanded<kKind, kVectors, Dot, 1>(work.weights[g], row, in, sums);
      }
    }
    unrolled<kVectors>([&](auto v) IMEX_INLINED {
      IMEX_TOKENS_UNROLLED for (std::size_t token = 0; token != kTokens; ++token) {
        hn::StoreU(sums[v][token], Floats(),
                   work.out + token * work.out_stride + row + v * kTileLanes);
      }
    });
  }
}

template <ExpandedKind kKind, class Dot>
constexpr std::array<WideKernel, kWideTiles> wide_kernels() {
  return {&multiply_expanded<kKind, 1, Dot>, &multiply_expanded<kKind, 2, Dot>};
}

}  // namespace HWY_NAMESPACE
}  // namespace imex::inference
HWY_AFTER_NAMESPACE();

#endif  // included once per instruction set
