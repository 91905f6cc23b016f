/// Distribution of durations for hot paths: recording neither allocates nor locks.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/time.hpp"

namespace imex::metrics {

/// Log-linear buckets: each power of two is cut into 16, so a bucket is at most 1/16 of its value
/// wide. 5 KiB. Durations below 0 count as 0, those of 2^42 ns (73 min) and more as that.
class LatencyHistogram {
 public:
  static constexpr unsigned kSubBits = 4;  ///< 2^4 buckets per power of two
  static constexpr std::uint64_t kLongest = (std::uint64_t{1} << 42U) - 1;

  /// Bucket of a number of nanoseconds: numbers below 32 have one each.
  [[nodiscard]] static constexpr std::size_t bucket_of(std::uint64_t ns) noexcept {
    const std::uint64_t value = std::min(ns, kLongest);
    const auto width = static_cast<unsigned>(std::bit_width(value));
    const unsigned shift = width > kSubBits + 1 ? width - kSubBits - 1 : 0;
    return (std::size_t{shift} << kSubBits) + static_cast<std::size_t>(value >> shift);
  }
  /// The largest number of nanoseconds in a bucket.
  [[nodiscard]] static constexpr std::uint64_t bucket_end(std::size_t bucket) noexcept {
    constexpr std::size_t kSub = std::size_t{1} << kSubBits;
    if (bucket < 2 * kSub) return bucket;
    const std::size_t shift = (bucket >> kSubBits) - 1;
    const std::uint64_t start = std::uint64_t{bucket - (shift << kSubBits)} << shift;
    return start + (std::uint64_t{1} << shift) - 1;
  }
  static constexpr std::size_t kBuckets = 624;

  /// A state of the histogram to compute with.
  struct Snapshot {
    std::array<std::uint64_t, kBuckets> counts{};
    std::uint64_t count = 0;
    std::uint64_t sum_ns = 0;

    /// The duration that `quantile` (0 to 1) of all do not exceed, up to 1/16 too high; 0 if there
    /// are none.
    [[nodiscard]] Nanos percentile(double quantile) const noexcept;
    [[nodiscard]] Nanos p50() const noexcept { return percentile(0.50); }
    [[nodiscard]] Nanos p99() const noexcept { return percentile(0.99); }
    /// What came after `earlier`, a snapshot of the same histogram.
    [[nodiscard]] Snapshot since(const Snapshot& earlier) const noexcept;
  };

  /// Wait-free, from any thread.
  void record(Nanos duration) noexcept {
    const std::uint64_t ns =
        duration.count() < 0 ? 0 : static_cast<std::uint64_t>(duration.count());
    // Relaxed: the counts publish nothing else, and a reader may see them a moment apart.
    counts_[bucket_of(ns)].fetch_add(1, std::memory_order_relaxed);
    sum_ns_.fetch_add(ns, std::memory_order_relaxed);
  }
  [[nodiscard]] Snapshot snapshot() const noexcept;

 private:
  // Written by record() in any thread, read by snapshot().
  std::array<std::atomic<std::uint64_t>, kBuckets> counts_{};
  std::atomic<std::uint64_t> sum_ns_{0};
};
static_assert(LatencyHistogram::bucket_of(LatencyHistogram::kLongest) + 1 ==
              LatencyHistogram::kBuckets);

}  // namespace imex::metrics
