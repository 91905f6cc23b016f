#include <algorithm>

#include "base/assert.hpp"
#include "inference/operators/attention.hpp"

namespace imex::inference {

void append(const KvCache& cache, std::span<const std::uint32_t> blocks, std::size_t position,
            std::span<const float> key, std::span<const float> value) noexcept {
  const KvLayout& layout = cache.layout;
  const std::size_t d = layout.head_size;
  IMEX_ASSERT(key.size() == layout.kv_heads * d && value.size() == key.size(), "all kv heads");
  IMEX_ASSERT(position / KvLayout::kBlockTokens < blocks.size(), "a block for the position");
  const std::size_t slot = position % KvLayout::kBlockTokens;
  for (std::size_t head = 0; head != layout.kv_heads; ++head) {
    const std::size_t at = layout.head_offset(blocks[position / KvLayout::kBlockTokens], head);
    float* const column = cache.keys + at + slot;
    for (std::size_t i = 0; i != d; ++i) column[i * KvLayout::kBlockTokens] = key[head * d + i];
    std::copy_n(value.data() + head * d, d, cache.values + at + slot * d);
  }
}

}  // namespace imex::inference
