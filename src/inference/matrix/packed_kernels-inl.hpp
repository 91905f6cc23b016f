// Products of packed matrices with few tokens. Included once per instruction set by kernels.cpp.
#if defined(IMEX_INFERENCE_PACKED_KERNELS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef IMEX_INFERENCE_PACKED_KERNELS_INL_HPP
#undef IMEX_INFERENCE_PACKED_KERNELS_INL_HPP
#else
#define IMEX_INFERENCE_PACKED_KERNELS_INL_HPP
#endif

#include <array>
#include <type_traits>

#include "kernels.hpp"
#include "packed_layout.hpp"
#include "vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace imex::inference {
namespace HWY_NAMESPACE {

/// Bit `kFrom` of both halves of each lane moved to bit `kTo`; bits above come along.
template <std::uint32_t kFrom, std::uint32_t kTo>
HWY_INLINE WordVector moved(WordVector bits) {
  if constexpr (kFrom > kTo) return hn::ShiftRight<kFrom - kTo>(bits);
  if constexpr (kFrom < kTo) return hn::ShiftLeft<kTo - kFrom>(bits);
  return bits;
}

/// Hands the weights of a group to use(pair of 32 inputs, vector), for the rows of one part.
/// `half`: which of the groups of 16 in 32 inputs this one is.
template <PackedLayout kLayout, std::uint32_t kHalf, class Use>
HWY_INLINE void take_apart(const std::byte* integers, const Use& use) {
  constexpr std::uint32_t kWordBytes = kTileRows * 4;
  if constexpr (kLayout.bits == 8) {
    const WordVector mask = hn::Set(Words(), 0x00ff00ffU);
    unrolled<8>([&](auto word) IMEX_INLINED {
      const WordVector bytes = load_words(integers + word * kWordBytes);
      use(std::integral_constant<std::uint32_t, byte_pair(word, 0)>(), hn::And(bytes, mask));
      use(std::integral_constant<std::uint32_t, byte_pair(word, 1)>(),
          hn::And(hn::ShiftRight<8>(bytes), mask));
    });
  } else {
    const WordVector mask = hn::Set(Words(), 0x000f000fU);
    constexpr std::uint32_t kRestBits = kLayout.bits - 4;
    const WordVector rest_mask = hn::Set(Words(), ((1U << kRestBits) - 1) * 0x00100010U);
    const WordVector rest =
        kRestBits == 0 ? hn::Zero(Words()) : load_words(integers + kLayout.rest_at());
    unrolled<kLayout.group_columns / 8>([&](auto word) IMEX_INLINED {
      const WordVector nibbles = load_words(integers + word * kWordBytes);
      unrolled<4>([&](auto j) IMEX_INLINED {
        constexpr std::uint32_t kPair = word * 4 + j;
        WordVector weights = hn::And(moved<j * 4, 0>(nibbles), mask);
        if constexpr (kRestBits != 0) {
          weights = hn::Or(weights, hn::And(moved<kPair * kRestBits, 4>(rest), rest_mask));
        }
        constexpr std::uint32_t kOf32 =
            kLayout.group_columns == 32 ? kPair : half_pair(kPair, kHalf);
        use(std::integral_constant<std::uint32_t, kOf32>(), weights);
      });
    });
  }
}

/// The scales of a block's rows that its groups share.
template <PackedLayout kLayout>
struct Shared {
  FloatVector scale, minimum;

  HWY_INLINE Shared(const std::byte* block, std::size_t part)
      : scale(hn::Zero(Floats())), minimum(scale) {
    if constexpr (kLayout.nested) {
      scale = load_halves(block + part * kTileLanes * 2);
      if constexpr (kLayout.minimum) {
        minimum = hn::Neg(load_halves(block + (kTileRows + part * kTileLanes) * 2));
      }
    }
  }
};

/// The factors of the rows of one part in one group: value = scale * integer + minimum.
struct Scales {
  FloatVector scale, minimum;
};
template <PackedLayout kLayout>
HWY_INLINE Scales load_scales(const std::byte* block, std::uint32_t group, std::size_t part,
                              const Shared<kLayout>& shared) {
  const std::size_t row = part * kTileLanes;
  Scales found{shared.scale, shared.minimum};
  if constexpr (kLayout.nested) {
    using Byte = std::conditional_t<kLayout.minimum, std::uint8_t, std::int8_t>;
    found.scale = hn::Mul(shared.scale, load_bytes<Byte>(block + kLayout.scales_at(group) + row));
    if constexpr (kLayout.minimum) {
      found.minimum =
          hn::Mul(shared.minimum, load_bytes<Byte>(block + kLayout.minimums_at(group) + row));
    }
  } else {
    found.scale = load_halves(block + kLayout.scales_at(group) + row * 2);
    if constexpr (kLayout.minimum) {
      found.minimum = load_halves(block + kLayout.minimums_at(group) + row * 2);
    }
  }
  return found;
}

/// Adds a group's integer products to a token's sum: the same operations in every kernel.
template <bool kMinimum>
HWY_INLINE FloatVector add_scaled(FloatVector sum, IntVector product, const Scales& of,
                                  const InputBlock& in) {
  const Floats df;
  if constexpr (kMinimum) sum = hn::MulAdd(of.minimum, hn::Set(df, in.scaled_sum), sum);
  return hn::MulAdd(hn::ConvertTo(df, product), hn::Mul(of.scale, hn::Set(df, in.scale)), sum);
}

/// One group of one part: adds to sums[token].
template <PackedLayout kLayout, std::size_t kTokens, class Dot, std::uint32_t kHalf>
HWY_INLINE void add_group(const std::byte* block, std::uint32_t group, std::size_t part,
                          const Shared<kLayout>& shared, const InputBlock* in, FloatVector* sums) {
  // Integer sums are exact in any order: several per token where one would wait for itself.
  constexpr std::size_t kChains = kTokens < 4 ? 4 / kTokens : 1;
  IntVector products[kTokens * kChains];
  IMEX_TOKENS_UNROLLED for (std::size_t i = 0; i != kTokens * kChains; ++i) {
    products[i] = hn::Zero(Ints());
    if (kLayout.offset_shift != 0 && i < kTokens) {
      const std::int32_t& sum =
          kLayout.group_columns == 32 ? in[i].negative_sum : in[i].half_negative_sums[kHalf];
      products[i] = hn::ShiftLeft<kLayout.offset_shift>(hn::Set(Ints(), sum));
    }
  }
  take_apart<kLayout, kHalf>(block + kLayout.integers_at(group) + part * kTileLanes * 4,
                             [&](auto pair, WordVector weights) IMEX_INLINED {
                               IMEX_TOKENS_UNROLLED for (std::size_t token = 0; token != kTokens;
                                                         ++token) {
                                 IntVector& sum = products[token + pair / 2 % kChains * kTokens];
                                 sum = Dot::add(sum, weights, in[token].pairs[pair]);
                               }
                             });

  const Scales scales = load_scales<kLayout>(block, group, part, shared);
  IMEX_TOKENS_UNROLLED for (std::size_t token = 0; token != kTokens; ++token) {
    IntVector product = products[token];
    if constexpr (kChains == 2) product = hn::Add(product, products[kTokens + token]);
    if constexpr (kChains == 4) {
      product = hn::Add(hn::Add(product, products[1]), hn::Add(products[2], products[3]));
    }
    sums[token] = add_scaled<kLayout.minimum>(sums[token], product, scales, in[token]);
  }
}

/// One block of a tile's columns: adds to sums[part][token]. `inputs` are those of the block;
/// `ahead` is what one token will want next.
template <PackedLayout kLayout, std::size_t kTokens, class Dot>
HWY_INLINE void add_block(const std::byte* block, const InputBlock* inputs, const std::byte* ahead,
                          FloatVector (&sums)[kParts][kTokens]) {
  constexpr std::uint32_t kPer32 = 32 / kLayout.group_columns;  // groups that share 32 inputs
  for (std::size_t part = 0; part != kParts; ++part) {
    const Shared<kLayout> shared(block, part);
    for (std::uint32_t group = 0; group != kLayout.groups; group += kPer32) {
      if (kTokens == 1 && part == 0) {
        constexpr std::size_t kShare = kLayout.block_bytes() / kLayout.groups * kPer32;
        for (std::size_t line = 0; line < kShare; line += 64) {
          __builtin_prefetch(ahead + group / kPer32 * kShare + line);
        }
      }
      unrolled<kPer32>([&](auto half) IMEX_INLINED {
        add_group<kLayout, kTokens, Dot, half>(block, group + half, part, shared,
                                               inputs + group / kPer32 * kTokens, sums[part]);
      });
    }
  }
}

template <std::size_t kTokens>
HWY_INLINE void clear(FloatVector (&sums)[kParts][kTokens]) {
  for (std::size_t part = 0; part != kParts; ++part) {
    IMEX_TOKENS_UNROLLED for (std::size_t token = 0; token != kTokens; ++token) {
      sums[part][token] = hn::Zero(Floats());
    }
  }
}

/// A PackedKernel. The order of float additions is that of the columns, for each output alone.
template <PackedLayout kLayout, std::size_t kTokens, class Dot>
void multiply_tile(const PackedWork& work) {
  FloatVector sums[kParts][kTokens];
  clear(sums);
  for (std::size_t b = 0; b != work.blocks; ++b) {
    const std::byte* const block = work.weights + b * kLayout.block_bytes();
    add_block<kLayout, kTokens, Dot>(block, work.in + b * kLayout.block_columns() / 32 * kTokens,
                                     block + kAheadBytes, sums);
  }
  for (std::size_t part = 0; part != kParts; ++part) {
    IMEX_TOKENS_UNROLLED for (std::size_t token = 0; token != kTokens; ++token) {
      hn::StoreU(sums[part][token], Floats(),
                 work.out + token * work.out_stride + part * kTileLanes);
    }
  }
}

/// A StreamKernel: for each output the same operations as multiply_tile().
template <PackedLayout kLayout, class Dot>
void multiply_streams(const StreamWork& work) {
  FloatVector sums[kStreams][kParts][1];
  for (auto& of_tile : sums) clear(of_tile);
  const std::size_t tile_bytes = work.blocks * kLayout.block_bytes();
  for (std::size_t b = 0; b != work.blocks; ++b) {
    const std::size_t at = b * kLayout.block_bytes();
    // Behind a part of the columns lie others', behind those this stream's next tile.
    std::size_t ahead = at + kAheadBytes;
    if (ahead >= tile_bytes) ahead += work.next_bytes - tile_bytes;
    const std::byte* tile = work.weights;
    const InputBlock* const inputs = work.in + b * kLayout.block_columns() / 32;
    for (auto& of_tile : sums) {
      add_block<kLayout, 1, Dot>(tile + at, inputs, tile + ahead, of_tile);
      tile += work.weights_stride_bytes;
    }
  }
  for (std::size_t stream = 0; stream != kStreams; ++stream) {
    for (std::size_t part = 0; part != kParts; ++part) {
      hn::StoreU(sums[stream][part][0], Floats(),
                 work.out + stream * work.out_stride + part * kTileLanes);
    }
  }
}

template <PackedLayout kLayout, class Dot>
constexpr std::array<PackedKernel, kNarrowWidths> packed_kernels() {
  return {&multiply_tile<kLayout, 1, Dot>, &multiply_tile<kLayout, 2, Dot>,
          &multiply_tile<kLayout, 4, Dot>};
}

}  // namespace HWY_NAMESPACE
}  // namespace imex::inference
HWY_AFTER_NAMESPACE();

#endif  // included once per instruction set
