/// When a domain is to be looked at again: at once after a write or a fabric event, bursts taken
/// together, later and later while it fails, and once per interval in any case. Pure.
#pragma once

#include <cstdint>

#include "base/random.hpp"
#include "base/time.hpp"

namespace imex::partition::reconciler {

struct WakeTimes {
  /// Period of passes when nothing happens.
  Nanos interval = std::chrono::seconds(60);
  /// The least time between the starts of two passes: what arrives in between is taken together.
  Nanos spacing = std::chrono::milliseconds(20);
  /// First wait after a failure; doubles up to `interval`, each time less or more by up to a
  /// quarter.
  Nanos backoff_first = std::chrono::milliseconds(100);
};

class Waker {
 public:
  explicit Waker(const WakeTimes& times) : times_(times) {}

  /// Something was written or happened. Costs nothing when called a thousand times.
  void wake(Time now);
  /// A pass begins: what was woken for so far is served by it.
  void begin(Time now);
  /// It ended, all as wanted.
  void settled(Time now);
  /// It ended and more can be done at once.
  void again(Time now);
  /// Look at `at` at the latest.
  void not_later_than(Time at) noexcept;
  /// It failed. While the manager cannot be reached at all, writes and events do not shorten the
  /// wait below `backoff_first`.
  void failed(Time now, bool reachable, Random& random);

  [[nodiscard]] Time due() const noexcept { return due_; }
  [[nodiscard]] std::uint32_t failures() const noexcept { return failures_; }

 private:
  [[nodiscard]] Time earliest() const noexcept;

  WakeTimes times_;
  Time due_{0};
  Time begun_{INT64_MIN / 2};
  Time not_before_{INT64_MIN / 2};
  std::uint32_t failures_ = 0;
  bool woken_ = false;
};

}  // namespace imex::partition::reconciler
