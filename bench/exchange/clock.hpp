/// A clock that costs little to read and that all cores share.
#pragma once

#include <chrono>
#include <cstdint>

#if !defined(__x86_64__)
#include <atomic>
#endif
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace imex::bench {

/// The time-stamp counter where it is invariant and shared (every x86-64 of the last decade; its
/// rate is measured against the steady clock), else the steady clock.
class TickClock {
 public:
  TickClock() noexcept {
    const auto begin = std::chrono::steady_clock::now();
    const std::uint64_t first = now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(20)) {
    }
    const auto elapsed = std::chrono::steady_clock::now() - begin;
    per_ns_ = static_cast<double>(now() - first) /
              static_cast<double>(std::chrono::nanoseconds(elapsed).count());
  }
  [[nodiscard]] static std::uint64_t now() noexcept {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
  }
  /// Not before the loads above have their values.
  [[nodiscard]] static std::uint64_t now_after_loads() noexcept {
#if defined(__x86_64__)
    _mm_lfence();
#else
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
    return now();
  }
  /// Not before the stores above are in the cache.
  [[nodiscard]] static std::uint64_t now_after_stores() noexcept {
#if defined(__x86_64__)
    _mm_mfence();
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
    return now();
  }
  [[nodiscard]] std::uint64_t ticks(double ns) const noexcept {
    return static_cast<std::uint64_t>(ns * per_ns_);
  }
  [[nodiscard]] double ns(std::int64_t ticks) const noexcept {
    return static_cast<double>(ticks) / per_ns_;
  }

 private:
  double per_ns_ = 1;
};

}  // namespace imex::bench
