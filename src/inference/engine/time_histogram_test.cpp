#include "inference/engine/time_histogram.hpp"

#include <gtest/gtest.h>

namespace imex::inference {
namespace {

TEST(TimeHistogramTest, QuantilesAreWithinSixPercent) {
  TimeHistogram times;
  EXPECT_EQ(times.quantile(0.5), 0U);
  for (std::uint64_t value = 1; value <= 100'000; ++value) times.add(value);
  EXPECT_EQ(times.count(), 100'000U);
  EXPECT_EQ(times.sum(), std::uint64_t{100'000} * 100'001 / 2);
  for (const double q : {0.01, 0.5, 0.9, 0.99, 1.0}) {
    EXPECT_NEAR(static_cast<double>(times.quantile(q)), q * 100'000, q * 6'000) << q;
  }
}

TEST(TimeHistogramTest, SmallAndHugeTimesHaveTheirPlace) {
  TimeHistogram times;
  times.add(0);
  EXPECT_EQ(times.quantile(1), 0U);
  times.add(UINT64_MAX);
  EXPECT_GT(times.quantile(1), std::uint64_t{1} << 40U);
}

}  // namespace
}  // namespace imex::inference
