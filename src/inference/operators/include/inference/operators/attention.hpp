/// Attention over a paged cache of keys and values: float32, blocks of 16 tokens, one cache per
/// layer and rank. Sequences name their blocks by tables; who owns a block is not known here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace imex::inference {

/// Where things lie, in floats. Keys:   [block][kv head][d][16 tokens]
///                              Values: [block][kv head][16 tokens][d]
/// Keys are transposed inside a block: the scores of 16 tokens are one vector, built without sums
/// across its lanes (docs/adr/0018).
struct KvLayout {
  static constexpr std::size_t kBlockTokens = 16;

  std::size_t kv_heads = 0;
  std::size_t head_size = 0;

  /// Blocks that `tokens` tokens of a sequence need.
  [[nodiscard]] static constexpr std::size_t blocks_for(std::size_t tokens) noexcept {
    return (tokens + kBlockTokens - 1) / kBlockTokens;
  }
  /// One head of one block, in the keys or in the values.
  [[nodiscard]] constexpr std::size_t head_floats() const noexcept {
    return kBlockTokens * head_size;
  }
  /// One block; block b begins at b times this, in the keys and in the values.
  [[nodiscard]] constexpr std::size_t block_floats() const noexcept {
    return kv_heads * head_floats();
  }
  [[nodiscard]] constexpr std::size_t head_offset(std::size_t block,
                                                  std::size_t kv_head) const noexcept {
    return block * block_floats() + kv_head * head_floats();
  }
};

/// Borrows the memory of one layer's cache. 64-byte alignment makes it fast, none is needed.
struct KvCache {
  KvLayout layout;
  float* keys = nullptr;
  float* values = nullptr;
};

/// Writes the key and the value of one token, all kv heads ([kv head][d] each), at `position`.
/// `blocks` is the sequence's table: block position / 16 is written.
void append(const KvCache& cache, std::span<const std::uint32_t> blocks, std::size_t position,
            std::span<const float> key, std::span<const float> value) noexcept;

/// Consecutive tokens of one sequence, and of each the query heads that share one kv head.
/// A token's heads lie one after another, d floats each; tokens are `stride` floats apart.
struct Queries {
  std::size_t kv_head = 0;
  std::size_t heads = 1;     ///< per token
  std::size_t tokens = 1;    ///< > 1 in a prefill: keys and values are then read once for several
  std::size_t position = 0;  ///< of the first token
  std::size_t window = 0;    ///< tokens that a query sees, itself included; 0: all
  const float* in = nullptr;
  std::size_t in_stride = 0;
  float* out = nullptr;  ///< laid out as `in`, must not overlap it
  std::size_t out_stride = 0;
};

/// out = softmax(q K^T / sqrt(d)) V over positions [max(0, p + 1 - window), p] of each token's
/// position p; appended before. Reads no memory of other positions' values and no block that lies
/// wholly outside, so a table may name anything there.
///
/// The bits of a result depend only on its query, the keys and values that it sees, position and
/// window: not on block numbers, nor on which tokens and heads share the call. Softmax keeps a
/// running maximum over stretches of 256 positions. Allocates nothing.
void attend(const KvCache& cache, std::span<const std::uint32_t> blocks,
            const Queries& queries) noexcept;

}  // namespace imex::inference
