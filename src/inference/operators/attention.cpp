#include "inference/operators/attention.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/assert.hpp"
#include "targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "vectors-inl.hpp"

// A row is one query head of one token. Rows are computed in bands: a band walks over the cache
// once, in stretches whose keys and values stay in L2, and in each stretch takes its rows in tiles,
// which share loads. Nothing that a row adds up depends on its tile: every score is summed over d
// in order, every element of the output over positions in order, whatever stands in the registers
// beside it.
HWY_BEFORE_NAMESPACE();
namespace imex::inference {
namespace HWY_NAMESPACE {
namespace {

constexpr std::size_t kBlock = KvLayout::kBlockTokens;
constexpr std::size_t kStretch = 256;  // positions; part of the result: maxima are taken over it
constexpr std::size_t kBand = 32;
constexpr std::size_t kTile = 4;
// Vectors that a tile accumulates at a time: enough to hide the latency of multiply-add, few enough
// for 16 registers (AVX2) or 32.
constexpr std::size_t kAccumulators = HWY_TARGET == HWY_AVX2 ? 8 : 16;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
static_assert(kBlock % kLanes == 0, "a vector of scores lies in one block");

/// Where one kv head lies in the blocks of one sequence.
class Reader {
 public:
  Reader(const KvCache& cache, std::size_t kv_head, const std::uint32_t* blocks)
      : cache_(cache), kv_head_(kv_head), blocks_(blocks) {}

  [[nodiscard]] std::size_t head_size() const { return cache_.layout.head_size; }
  /// Element 0 of the keys of `position` and what follows in its block; next element: + kBlock.
  [[nodiscard]] const float* keys(std::size_t position) const {
    return cache_.keys + offset(position) + position % kBlock;
  }
  [[nodiscard]] const float* value(std::size_t position) const {
    return cache_.values + offset(position) + position % kBlock * head_size();
  }

 private:
  [[nodiscard]] std::size_t offset(std::size_t position) const {
    return cache_.layout.head_offset(blocks_[position / kBlock], kv_head_);
  }

  const KvCache& cache_;
  std::size_t kv_head_;
  const std::uint32_t* blocks_;
};

struct Range {
  std::size_t begin, end;  // positions
  [[nodiscard]] bool empty() const { return begin >= end; }
  [[nodiscard]] Range within(Range other) const {
    return {std::max(begin, other.begin), std::min(end, other.end)};
  }
};

struct Row {
  const float* query;
  float* out;  // sum of values so far, weighed relative to `largest`
  Range visible;
  float largest = kMinusInfinity;  // score so far
  float weights = 0;               // their sum so far
};

/// Scores of a tile, then weights. First index: row; second: position in the stretch.
using Scores = float[kTile][kStretch];

/// Vectors of scores at `position` and after, one per kLanes positions.
template <std::size_t kRows, std::size_t kVectors>
void score_vectors(const Reader& reader, const Row* rows, std::size_t position, Scores& scores) {
  const std::size_t d = reader.head_size();
  const float* keys[kVectors];
  for (std::size_t v = 0; v != kVectors; ++v) keys[v] = reader.keys(position + v * kLanes);
  Vector sums[kRows][kVectors];
  for (auto& row : sums) std::fill_n(row, kVectors, hn::Zero(kTag));
  for (std::size_t i = 0; i != d; ++i) {
    Vector key[kVectors];
    for (std::size_t v = 0; v != kVectors; ++v) key[v] = hn::LoadU(kTag, keys[v] + i * kBlock);
    for (std::size_t r = 0; r != kRows; ++r) {
      const Vector query = hn::Set(kTag, rows[r].query[i]);
      for (std::size_t v = 0; v != kVectors; ++v) {
        sums[r][v] = hn::MulAdd(query, key[v], sums[r][v]);
      }
    }
  }
  for (std::size_t r = 0; r != kRows; ++r) {
    for (std::size_t v = 0; v != kVectors; ++v) {
      hn::StoreU(sums[r][v], kTag, scores[r] + position % kStretch + v * kLanes);
    }
  }
}

/// Scores of all vectors that touch the range: as many at a time as possible, then half as many.
template <std::size_t kRows, std::size_t kVectors>
void score(const Reader& reader, const Row* rows, Range range, Scores& scores) {
  for (; range.begin + (kVectors - 1) * kLanes < range.end; range.begin += kVectors * kLanes) {
    score_vectors<kRows, kVectors>(reader, rows, range.begin, scores);
  }
  if constexpr (kVectors > 1) score<kRows, kVectors / 2>(reader, rows, range, scores);
}

/// Turns the scores of one row into weights relative to its largest score so far, to which it
/// refers what it has summed before.
void weigh(Row& row, Range range, float scale, std::size_t d, float* scores) {
  const std::size_t begin = range.begin % kStretch;
  const std::size_t end = (range.end - 1) % kStretch + 1;
  const std::size_t first = begin / kLanes * kLanes;
  const std::size_t last = (end + kLanes - 1) / kLanes * kLanes;
  std::fill(scores + first, scores + begin, kMinusInfinity);
  std::fill(scores + end, scores + last, kMinusInfinity);

  Vector top = hn::Set(kTag, row.largest);
  for (std::size_t i = first; i != last; i += kLanes) {
    top = hn::Max(top, hn::LoadU(kTag, scores + i));
  }
  top = hn::MaxOfLanes(kTag, top);
  const Vector factor = hn::Set(kTag, scale);
  Vector sum = hn::Zero(kTag);
  for (std::size_t i = first; i != last; i += kLanes) {
    const Vector below = hn::Sub(hn::LoadU(kTag, scores + i), top);
    const Vector weight = exp_nonpositive(hn::Mul(below, factor));
    hn::StoreU(weight, kTag, scores + i);
    sum = hn::Add(sum, weight);
  }
  const float largest = hn::GetLane(top);
  const Vector before = hn::Mul(hn::Sub(hn::Set(kTag, row.largest), top), factor);
  const Vector shrink = exp_nonpositive(before);
  row.weights = row.weights * hn::GetLane(shrink) + sum_of_lanes(sum);
  if (row.largest != largest) {
    for_each_vector(0, d, [&](std::size_t i, auto access) {
      access.store(hn::Mul(access.load(row.out + i), shrink), row.out + i);
    });
  }
  row.largest = largest;
}

/// Adds the weighted values of the range to some columns of the outputs of a tile.
template <std::size_t kRows, std::size_t kVectors, class Access>
void add_columns(const Reader& reader, const Row* rows, const float (*weights)[kStretch],
                 Range range, std::size_t column, Access access) {
  const std::size_t d = reader.head_size();
  Vector sums[kRows][kVectors];
  for (std::size_t r = 0; r != kRows; ++r) {
    for (std::size_t v = 0; v != kVectors; ++v) {
      sums[r][v] = access.load(rows[r].out + column + v * kLanes);
    }
  }
  for (std::size_t position = range.begin; position != range.end;) {
    const float* value = reader.value(position) + column;
    const std::size_t end = std::min(range.end, (position / kBlock + 1) * kBlock);
    for (; position != end; ++position, value += d) {
      Vector part[kVectors];
      for (std::size_t v = 0; v != kVectors; ++v) part[v] = access.load(value + v * kLanes);
      for (std::size_t r = 0; r != kRows; ++r) {
        const Vector weight = hn::Set(kTag, weights[r][position % kStretch]);
        for (std::size_t v = 0; v != kVectors; ++v) {
          sums[r][v] = hn::MulAdd(weight, part[v], sums[r][v]);
        }
      }
    }
  }
  for (std::size_t r = 0; r != kRows; ++r) {
    for (std::size_t v = 0; v != kVectors; ++v) {
      access.store(sums[r][v], rows[r].out + column + v * kLanes);
    }
  }
}

/// All columns from `column` on: as many at a time as possible, then half as many.
template <std::size_t kRows, std::size_t kVectors>
void add_values(const Reader& reader, const Row* rows, const float (*weights)[kStretch],
                Range range, std::size_t column = 0) {
  const std::size_t d = reader.head_size();
  for (; column + kVectors * kLanes <= d; column += kVectors * kLanes) {
    add_columns<kRows, kVectors>(reader, rows, weights, range, column, Whole{});
  }
  if constexpr (kVectors > 1) {
    add_values<kRows, kVectors / 2>(reader, rows, weights, range, column);
  } else if (column != d) {
    add_columns<kRows, 1>(reader, rows, weights, range, column, Part(d - column));
  }
}

/// One stretch of positions for a tile of rows, whose ranges begin and end in ascending order.
template <std::size_t kRows>
void take_stretch(const Reader& reader, Row* rows, Range stretch, float scale) {
  constexpr std::size_t kVectors = std::bit_floor(kAccumulators / kRows);
  Range seen[kRows];
  for (std::size_t r = 0; r != kRows; ++r) seen[r] = rows[r].visible.within(stretch);
  const Range any{seen[0].begin / kBlock * kBlock, seen[kRows - 1].end};
  if (Range{seen[0].begin, any.end}.empty()) return;

  alignas(64) Scores scores;
  score<kRows, kVectors>(reader, rows, any, scores);
  for (std::size_t r = 0; r != kRows; ++r) {
    if (!seen[r].empty()) weigh(rows[r], seen[r], scale, reader.head_size(), scores[r]);
  }
  // What all rows see is added for all together; before and after it each row stands alone. A
  // weight of zero would not do for positions that a row must not see: their memory may hold a NaN.
  Range common{seen[kRows - 1].begin, seen[0].end};
  if (common.empty()) common = {stretch.end, stretch.end};
  for (std::size_t r = 0; r != kRows; ++r) {
    const Range before = seen[r].within({stretch.begin, common.begin});
    if (!before.empty()) add_values<1, kAccumulators>(reader, rows + r, scores + r, before);
  }
  if (!common.empty()) add_values<kRows, kVectors>(reader, rows, scores, common);
  for (std::size_t r = 0; r != kRows; ++r) {
    const Range after = seen[r].within({common.end, stretch.end});
    if (!after.empty()) add_values<1, kAccumulators>(reader, rows + r, scores + r, after);
  }
}

void take_band(const Reader& reader, Row* rows, std::size_t count) {
  const std::size_t d = reader.head_size();
  const float scale = 1.0F / std::sqrt(static_cast<float>(d));
  for (std::size_t r = 0; r != count; ++r) std::fill_n(rows[r].out, d, 0.0F);
  const Range all{rows[0].visible.begin, rows[count - 1].visible.end};
  for (std::size_t begin = all.begin / kStretch * kStretch; begin < all.end; begin += kStretch) {
    const Range stretch{begin, begin + kStretch};
    std::size_t r = 0;
    for (; r + kTile <= count; r += kTile) take_stretch<kTile>(reader, rows + r, stretch, scale);
    switch (count - r) {
      case 3:
        take_stretch<3>(reader, rows + r, stretch, scale);
        break;
      case 2:
        take_stretch<2>(reader, rows + r, stretch, scale);
        break;
      case 1:
        take_stretch<1>(reader, rows + r, stretch, scale);
        break;
      default:
        break;
    }
  }
  for (std::size_t r = 0; r != count; ++r) {
    const Vector weights = hn::Set(kTag, rows[r].weights);
    for_each_vector(0, d, [&](std::size_t i, auto access) {
      access.store(hn::Div(access.load(rows[r].out + i), weights), rows[r].out + i);
    });
  }
}

void attend_all(const KvCache& cache, const std::uint32_t* blocks, const Queries& queries) {
  const Reader reader(cache, queries.kv_head, blocks);
  Row band[kBand];
  std::size_t count = 0;
  for (std::size_t token = 0; token != queries.tokens; ++token) {
    const std::size_t end = queries.position + token + 1;
    const bool cut = queries.window != 0 && end > queries.window;
    for (std::size_t head = 0; head != queries.heads; ++head) {
      const std::size_t column = head * reader.head_size();
      band[count++] = {.query = queries.in + token * queries.in_stride + column,
                       .out = queries.out + token * queries.out_stride + column,
                       .visible = {cut ? end - queries.window : 0, end}};
      if (count != kBand) continue;
      take_band(reader, band, count);
      count = 0;
    }
  }
  if (count != 0) take_band(reader, band, count);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace imex::inference
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace imex::inference {

HWY_EXPORT(attend_all);

void attend(const KvCache& cache, std::span<const std::uint32_t> blocks,
            const Queries& queries) noexcept {
  IMEX_ASSERT(queries.kv_head < cache.layout.kv_heads, "a kv head of the cache");
  IMEX_ASSERT(queries.tokens == 0 ||
                  KvLayout::blocks_for(queries.position + queries.tokens) <= blocks.size(),
              "a block for each position");
  HWY_DYNAMIC_DISPATCH(attend_all)(cache, blocks.data(), queries);
}

}  // namespace imex::inference
#endif
