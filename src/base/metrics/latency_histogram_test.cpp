#include "metrics/latency_histogram.hpp"

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace imex::metrics {
namespace {

using Snapshot = LatencyHistogram::Snapshot;

// Goal: buckets cover all numbers without gap or overlap, in order, and none is wider than 1/16 of
// its start.
TEST(LatencyHistogramTest, BucketsTileTheNumbers) {
  std::uint64_t next = 0;
  for (std::size_t bucket = 0; bucket < LatencyHistogram::kBuckets; ++bucket) {
    const std::uint64_t end = LatencyHistogram::bucket_end(bucket);
    ASSERT_EQ(LatencyHistogram::bucket_of(next), bucket);
    ASSERT_EQ(LatencyHistogram::bucket_of(end), bucket);
    ASSERT_LE((end - next) * 16, next + 15) << "from " << next << " to " << end;
    next = end + 1;
  }
  EXPECT_EQ(next, LatencyHistogram::kLongest + 1);
  EXPECT_EQ(LatencyHistogram::bucket_of(UINT64_MAX), LatencyHistogram::kBuckets - 1);
}

// Against sorting all values: never below the true percentile, at most 1/16 above.
TEST(LatencyHistogramTest, PercentilesAreWithinASixteenth) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    LatencyHistogram histogram;
    std::vector<std::int64_t> values;
    const auto bits = static_cast<unsigned>(random() % 38 + 2);
    for (int i = 0; i < 1000; ++i) {
      values.push_back(static_cast<std::int64_t>(random() >> (64 - bits)));
      histogram.record(Nanos(values.back()));
    }
    std::sort(values.begin(), values.end());
    const Snapshot snapshot = histogram.snapshot();
    for (const auto& [quantile, rank] :
         {std::pair{0.001, 0}, {0.5, 499}, {0.9, 899}, {0.99, 989}, {1.0, 999}}) {
      const std::int64_t truth = values[static_cast<std::size_t>(rank)];
      const std::int64_t told = snapshot.percentile(quantile).count();
      ASSERT_GE(told, truth) << quantile;
      ASSERT_LE(told, truth + truth / 16) << quantile;
    }
  }
}

TEST(LatencyHistogramTest, EmptyAndExtremeValues) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.snapshot().p99(), Nanos(0));
  histogram.record(Nanos(-5));
  EXPECT_EQ(histogram.snapshot().p50(), Nanos(0));
  histogram.record(Nanos::max());
  EXPECT_EQ(histogram.snapshot().percentile(1.0),
            Nanos(static_cast<std::int64_t>(LatencyHistogram::kLongest)));
  EXPECT_EQ(histogram.snapshot().percentile(7.0), histogram.snapshot().percentile(1.0));
  EXPECT_EQ(histogram.snapshot().percentile(-1.0), Nanos(0));
}

TEST(LatencyHistogramTest, DifferencesOfSnapshotsShowOnlyTheNew) {
  LatencyHistogram histogram;
  for (int i = 0; i < 100; ++i) histogram.record(Nanos(1'000'000));
  const Snapshot before = histogram.snapshot();
  histogram.record(Nanos(10));
  const Snapshot fresh = histogram.snapshot().since(before);
  EXPECT_EQ(fresh.count, 1U);
  EXPECT_EQ(fresh.sum_ns, 10U);
  EXPECT_EQ(fresh.p99(), Nanos(10));
}

TEST(LatencyHistogramTest, NoRecordIsLostBetweenThreads) {
  constexpr int kThreads = 4;
  constexpr int kRecords = 10'000;
  LatencyHistogram histogram;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRecords; ++i) histogram.record(Nanos(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Snapshot snapshot = histogram.snapshot();
  EXPECT_EQ(snapshot.count, static_cast<std::uint64_t>(kThreads) * kRecords);
  EXPECT_EQ(snapshot.sum_ns, static_cast<std::uint64_t>(kThreads) * kRecords * (kRecords - 1) / 2);
}

}  // namespace
}  // namespace imex::metrics
