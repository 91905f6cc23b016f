#include "inference/split/split_plan.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

namespace imex::inference {
namespace {

using ::testing::HasSubstr;

/// SmolLM2-135M with matrices of 4 bits: 20 bytes for 32 weights.
SplitFacts smollm2() {
  SplitFacts facts;
  facts.query_heads = 9;
  facts.kv_heads = 3;
  facts.feed_forward = 1536;
  facts.vocabulary = 49'152;
  facts.feed_forward_unit = 32;
  facts.vocabulary_unit = 16;
  facts.query_head_bytes = std::uint64_t{2} * 64 * 576 * 20 / 32;
  facts.kv_head_bytes = facts.query_head_bytes;
  facts.feed_forward_bytes = std::uint64_t{3} * 576 * 20 / 32;
  facts.vocabulary_bytes = 612;
  facts.layers = 30;
  return facts;
}

TEST(SplitPlanTest, QueryHeadsAreSplitInsideAGroup) {
  const auto plan = plan_split(smollm2(), 2);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->shares[0].query_heads, (Range{0, 5}));
  EXPECT_EQ(plan->shares[1].query_heads, (Range{5, 9}));
  // The head in the middle serves query heads of both.
  EXPECT_EQ(plan->shares[0].kv_heads, (Range{0, 2}));
  EXPECT_EQ(plan->shares[1].kv_heads, (Range{1, 3}));
  EXPECT_EQ(plan->shares[0].feed_forward, (Range{0, 768}));
  EXPECT_EQ(plan->shares[1].feed_forward, (Range{768, 1536}));
  EXPECT_EQ(plan->shares[1].vocabulary, (Range{24'576, 49'152}));
}

TEST(SplitPlanTest, WhatARankReadsIsTheSumOfItsParts) {
  const SplitFacts facts = smollm2();
  const auto one = plan_split(facts, 1);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->shares[0].weight_bytes,
            30 * (12 * facts.query_head_bytes + 1536 * facts.feed_forward_bytes) +
                49'152 * facts.vocabulary_bytes);
}

TEST(SplitPlanTest, TooManyRanksAreRefusedWithThePossibleSizes) {
  for (const std::uint32_t ranks : {0U, 10U, 4'000'000'000U}) {
    const auto plan = plan_split(smollm2(), ranks);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, Errc::kInvalidArgument);
    EXPECT_THAT(plan.error().message, HasSubstr("9 query heads"));
    EXPECT_THAT(plan.error().hint, HasSubstr("from 1 to 9"));
  }
}

RC_GTEST_PROP(SplitPlanTest, EveryCutIsWholeAndOnItsUnits, ()) {
  SplitFacts facts;
  facts.kv_heads = *rc::gen::inRange<std::uint32_t>(1, 17);
  facts.query_heads = facts.kv_heads * *rc::gen::inRange<std::uint32_t>(1, 9);
  facts.feed_forward = *rc::gen::inRange<std::uint32_t>(1, 3000);
  facts.vocabulary = *rc::gen::inRange<std::uint32_t>(1, 5000);
  facts.head_unit = *rc::gen::element(1U, 2U, 4U);
  facts.feed_forward_unit = *rc::gen::element(1U, 4U, 32U);
  facts.vocabulary_unit = *rc::gen::element(1U, 16U);
  facts.query_head_bytes = *rc::gen::inRange<std::uint64_t>(1, 1'000'000);
  facts.kv_head_bytes = *rc::gen::inRange<std::uint64_t>(1, 1'000'000);
  facts.feed_forward_bytes = 3;
  facts.vocabulary_bytes = 5;
  facts.layers = 7;
  const bool invariant = *rc::gen::arbitrary<bool>();
  const std::uint32_t ranks = *rc::gen::inRange<std::uint32_t>(1, ranks_max(facts, invariant) + 1);
  const auto plan = plan_split(facts, ranks, invariant);
  RC_ASSERT(plan.has_value());

  const auto whole = [&](Range RankShare::* part, std::uint32_t count, std::uint32_t unit) {
    std::uint32_t begin = 0;
    for (const RankShare& share : plan->shares) {
      const Range& range = share.*part;
      RC_ASSERT(range.begin == begin);
      RC_ASSERT(range.size() > 0U);
      RC_ASSERT(range.begin % unit == 0U);
      begin = range.end;
    }
    RC_ASSERT(begin == count);
  };
  whole(&RankShare::query_heads, facts.query_heads, facts.head_unit);
  whole(&RankShare::feed_forward, facts.feed_forward,
        invariant ? plan->leaves.feed_forward_per_leaf : facts.feed_forward_unit);
  whole(&RankShare::vocabulary, facts.vocabulary, facts.vocabulary_unit);
  const std::uint32_t group = facts.query_heads / facts.kv_heads;
  for (const RankShare& share : plan->shares) {
    RC_ASSERT(share.kv_heads.begin == share.query_heads.begin / group);
    RC_ASSERT(share.kv_heads.end == (share.query_heads.end - 1) / group + 1);
  }
}

}  // namespace
}  // namespace imex::inference
