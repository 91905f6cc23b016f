#include "metrics/latency_histogram.hpp"

#include <cmath>

namespace imex::metrics {

Nanos LatencyHistogram::Snapshot::percentile(double quantile) const noexcept {
  if (count == 0) return Nanos(0);
  const double clamped = std::clamp(quantile, 0.0, 1.0);
  const auto rank = std::max<std::uint64_t>(
      static_cast<std::uint64_t>(std::ceil(clamped * static_cast<double>(count))), 1);
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += counts[bucket];
    if (seen >= rank) return Nanos(static_cast<std::int64_t>(bucket_end(bucket)));
  }
  return Nanos(static_cast<std::int64_t>(kLongest));
}

LatencyHistogram::Snapshot LatencyHistogram::Snapshot::since(
    const Snapshot& earlier) const noexcept {
  Snapshot result;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    result.counts[bucket] = counts[bucket] - earlier.counts[bucket];
    result.count += result.counts[bucket];
  }
  result.sum_ns = sum_ns - earlier.sum_ns;
  return result;
}

LatencyHistogram::Snapshot LatencyHistogram::snapshot() const noexcept {
  Snapshot result;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    result.counts[bucket] = counts_[bucket].load(std::memory_order_relaxed);
    result.count += result.counts[bucket];  // of the same loads, so that percentiles add up
  }
  result.sum_ns = sum_ns_.load(std::memory_order_relaxed);
  return result;
}

}  // namespace imex::metrics
