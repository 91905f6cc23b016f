#include "inference/operators/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "target_test.hpp"

namespace imex::inference {
namespace {

class AttentionTest : public TargetTest {};
/// Memory that nothing was written to, and values that must be noticed.
constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

/// A sequence in a cache whose other memory holds NaN: what must not be read shows.
class Sequence {
 public:
  Sequence(KvLayout layout, std::size_t tokens, std::uint32_t seed, std::uint32_t block_seed)
      : layout_(layout),
        key_(random_floats(tokens * layout.kv_heads * layout.head_size, seed)),
        value_(random_floats(tokens * layout.kv_heads * layout.head_size, seed + 1)) {
    blocks_.resize(2 * KvLayout::blocks_for(tokens) + 3);
    std::iota(blocks_.begin(), blocks_.end(), 0U);
    std::shuffle(blocks_.begin(), blocks_.end(), std::minstd_rand(block_seed));
    keys_.assign(blocks_.size() * layout.block_floats(), kPoison);
    values_ = keys_;
    blocks_.resize(KvLayout::blocks_for(tokens));
    for (std::size_t p = 0; p != tokens; ++p) {
      append(cache(), blocks_, p, at(key_, p), at(value_, p));
    }
  }

  KvCache cache() { return {layout_, keys_.data(), values_.data()}; }
  [[nodiscard]] const std::vector<std::uint32_t>& blocks() const { return blocks_; }
  void forget_blocks_before(std::size_t position) {
    std::fill_n(blocks_.begin(), position / KvLayout::kBlockTokens, 1'000'000'000U);
  }
  float& value(std::size_t position, std::size_t head, std::size_t i) {
    const std::size_t block = blocks_[position / KvLayout::kBlockTokens];
    return values_[layout_.head_offset(block, head) +
                   position % KvLayout::kBlockTokens * layout_.head_size + i];
  }

  /// The definition, in double.
  [[nodiscard]] std::vector<double> attended(const float* query, std::size_t head,
                                             std::size_t position, std::size_t window) const {
    const std::size_t d = layout_.head_size;
    const std::size_t first = window != 0 && position + 1 > window ? position + 1 - window : 0;
    std::vector<double> scores, out(d);
    for (std::size_t p = first; p <= position; ++p) {
      double score = 0;
      for (std::size_t i = 0; i != d; ++i) score += double{query[i]} * element(key_, p, head, i);
      scores.push_back(score / std::sqrt(static_cast<double>(d)));
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (std::size_t p = first; p <= position; ++p) {
      for (std::size_t i = 0; i != d; ++i) {
        out[i] += scores[p - first] / sum * element(value_, p, head, i);
      }
    }
    return out;
  }

 private:
  [[nodiscard]] std::span<const float> at(const std::vector<float>& all, std::size_t p) const {
    const std::size_t size = layout_.kv_heads * layout_.head_size;
    return std::span(all).subspan(p * size, size);
  }
  [[nodiscard]] double element(const std::vector<float>& all, std::size_t p, std::size_t head,
                               std::size_t i) const {
    return at(all, p)[head * layout_.head_size + i];
  }

  KvLayout layout_;
  std::vector<float> key_, value_, keys_, values_;
  std::vector<std::uint32_t> blocks_;
};

/// All heads of all tokens in one call: [token][head][d].
std::vector<float> attend_together(Sequence& sequence, const std::vector<float>& queries,
                                   Queries what) {
  what.in_stride = what.out_stride = what.heads * sequence.cache().layout.head_size;
  std::vector<float> out(queries.size(), kPoison);
  what.in = queries.data();
  what.out = out.data();
  attend(sequence.cache(), sequence.blocks(), what);
  return out;
}

/// The same, each head of each token in a call of its own.
std::vector<float> attend_alone(Sequence& sequence, const std::vector<float>& queries,
                                const Queries& what) {
  const std::size_t d = sequence.cache().layout.head_size;
  std::vector<float> out(queries.size(), kPoison);
  for (std::size_t row = 0; row != what.tokens * what.heads; ++row) {
    attend(sequence.cache(), sequence.blocks(),
           {.kv_head = what.kv_head,
            .position = what.position + row / what.heads,
            .window = what.window,
            .in = queries.data() + row * d,
            .out = out.data() + row * d});
  }
  return out;
}

TEST_P(AttentionTest, EqualsTheDefinition) {
  std::uint32_t seed = 0;
  for (const std::size_t d : {2U, 8U, 10U, 16U, 64U, 80U, 96U, 128U}) {
    for (const std::size_t tokens : {1U, 2U, 15U, 16U, 17U, 100U, 256U, 257U, 530U}) {
      ++seed;
      Sequence sequence({.kv_heads = 2, .head_size = d}, tokens, seed, seed);
      for (const std::size_t heads : {1U, 2U, 3U, 5U}) {
        for (const std::size_t window : {0U, 1U, 7U, 40U, 300U}) {
          const Queries what{
              .kv_head = seed % 2, .heads = heads, .position = tokens - 1, .window = window};
          const auto queries = random_floats(heads * d, seed, 3);
          const auto out = attend_together(sequence, queries, what);
          for (std::size_t head = 0; head != heads; ++head) {
            const auto want =
                sequence.attended(queries.data() + head * d, what.kv_head, tokens - 1, window);
            for (std::size_t i = 0; i != d; ++i) {
              ASSERT_NEAR(out[head * d + i], want[i], 2e-6)
                  << "d " << d << ", " << tokens << " tokens, window " << window;
            }
          }
        }
      }
    }
  }
}

// Goal: bits depend on nothing but the row. Method: tokens and heads together, alone, and in a
// cache with other block numbers; the tokens lie around the borders of blocks and of stretches.
TEST_P(AttentionTest, BitsDoNotDependOnCompanyNorOnBlockNumbers) {
  std::uint32_t seed = 0;
  for (const std::size_t d : {8U, 64U, 80U}) {
    for (const std::size_t position : {0U, 3U, 250U, 500U}) {
      for (const std::size_t window : {0U, 1U, 20U, 270U}) {
        for (const std::size_t heads : {1U, 3U, 4U, 7U}) {
          const Queries what{
              .kv_head = 1, .heads = heads, .tokens = 21, .position = position, .window = window};
          Sequence sequence({.kv_heads = 2, .head_size = d}, position + 21, seed, seed);
          Sequence elsewhere({.kv_heads = 2, .head_size = d}, position + 21, seed, seed + 1);
          const auto queries = random_floats(21 * heads * d, seed, 3);
          const auto together = attend_together(sequence, queries, what);
          ASSERT_EQ(attend_alone(sequence, queries, what), together) << d << ' ' << window;
          ASSERT_EQ(attend_together(elsewhere, queries, what), together) << d << ' ' << window;
          if (window == 0) continue;
          sequence.forget_blocks_before(std::max(position + 1, window) - window);
          ASSERT_EQ(attend_together(sequence, queries, what), together) << "blocks before it";
        }
      }
    }
  }
}

TEST_P(AttentionTest, TokensOfAPrefillEqualTheDefinition) {
  constexpr std::size_t kTokens = 300, kSize = 16;
  Sequence sequence({.kv_heads = 1, .head_size = kSize}, kTokens, 1, 2);
  const auto queries = random_floats(kTokens * 2 * kSize, 3, 3);
  const auto out = attend_together(sequence, queries, {.heads = 2, .tokens = kTokens});
  for (std::size_t row = 0; row != kTokens * 2; ++row) {
    const auto want = sequence.attended(queries.data() + row * kSize, 0, row / 2, 0);
    for (std::size_t i = 0; i != kSize; ++i) ASSERT_NEAR(out[row * kSize + i], want[i], 2e-6);
  }
}

TEST_P(AttentionTest, EqualValuesAreReturnedWhateverTheWeights) {
  Sequence sequence({.kv_heads = 1, .head_size = 64}, 600, 1, 2);
  for (std::size_t p = 0; p != 600; ++p) {
    for (std::size_t i = 0; i != 64; ++i) sequence.value(p, 0, i) = static_cast<float>(i) - 20;
  }
  const auto out = attend_together(sequence, random_floats(64, 3, 10), {.position = 599});
  for (std::size_t i = 0; i != 64; ++i) {
    EXPECT_NEAR(out[i], static_cast<double>(i) - 20, 1e-4);
  }
}

// Scores of some thousands would overflow any power that is not relative to the largest.
TEST_P(AttentionTest, LargeScoresChooseTheirToken) {
  Sequence sequence({.kv_heads = 1, .head_size = 64}, 600, 1, 2);
  const auto queries = random_floats(64, 3, 1e6F);
  const auto want = sequence.attended(queries.data(), 0, 599, 0);
  const auto out = attend_together(sequence, queries, {.position = 599});
  for (std::size_t i = 0; i != 64; ++i) EXPECT_NEAR(out[i], want[i], 1e-5);
}

TEST_P(AttentionTest, ANaNThatIsSeenIsNotHidden) {
  Sequence sequence({.kv_heads = 1, .head_size = 8}, 300, 1, 2);
  const auto queries = random_floats(8, 3);
  sequence.value(20, 0, 5) = kPoison;
  EXPECT_TRUE(std::isnan(attend_together(sequence, queries, {.position = 299})[5]));
  EXPECT_FALSE(std::isnan(attend_together(sequence, queries, {.position = 19})[5]));
  EXPECT_FALSE(std::isnan(attend_together(sequence, queries, {.position = 299, .window = 279})[5]));
  append(sequence.cache(), sequence.blocks(), 3, std::vector<float>(8, kPoison), queries);
  for (const float v : attend_together(sequence, queries, {.position = 299})) {
    EXPECT_TRUE(std::isnan(v));
  }
}

IMEX_ON_EVERY_TARGET(AttentionTest);

}  // namespace
}  // namespace imex::inference
