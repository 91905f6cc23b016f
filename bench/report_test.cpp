#include "bench/report.hpp"

#include <gtest/gtest.h>

namespace imex::bench {
namespace {

TEST(SummarizeTest, MedianDeviationAndExtremesInMicroseconds) {
  const Summary summary = summarize({5'000, 1'000, 2'000, 100'000, 3'000});
  EXPECT_EQ(summary.n, 5U);
  EXPECT_DOUBLE_EQ(summary.median_us, 3);
  EXPECT_DOUBLE_EQ(summary.mad_us, 2);
  EXPECT_DOUBLE_EQ(summary.min_us, 1);
  EXPECT_DOUBLE_EQ(summary.max_us, 100);
}

TEST(SummarizeTest, EvenCountTakesTheMiddleOfTwo) {
  EXPECT_DOUBLE_EQ(summarize({1'000, 2'000}).median_us, 1.5);
}

TEST(SummarizeTest, P99LeavesOneInAHundredAbove) {
  Samples samples;
  for (std::int64_t i = 1; i <= 200; ++i) samples.push_back(i * 1'000);
  EXPECT_DOUBLE_EQ(summarize(samples).p99_us, 198);
  EXPECT_DOUBLE_EQ(summarize({7'000}).p99_us, 7);
}

TEST(SummarizeTest, NoSamplesGiveZeros) { EXPECT_EQ(summarize({}).n, 0U); }

TEST(MarkTest, IsMetUpToItsLimit) {
  EXPECT_TRUE((Mark{"", 3.0, 3.0}.met()));
  EXPECT_FALSE((Mark{"", 3.01, 3.0}.met()));
}

}  // namespace
}  // namespace imex::bench
