/// When to try something again that keeps failing. Pure: time and randomness come in.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/random.hpp"
#include "base/time.hpp"

namespace imex::fabric {

struct BackoffOptions {
  Nanos first = std::chrono::milliseconds(500);
  Nanos max = std::chrono::seconds(30);
};

/// Delays that double from `first` to `max`, each drawn between half of it and the whole, so that
/// many clients of one controller that came back do not arrive together.
class Backoff {
 public:
  /// Borrows `random`.
  Backoff(BackoffOptions options, Random& random) noexcept : options_(options), random_(&random) {}

  void failed(Time now);
  void succeeded() noexcept;
  /// Never before the first failure.
  [[nodiscard]] bool may_try(Time now) const noexcept { return now >= not_before_; }
  [[nodiscard]] Time not_before() const noexcept { return not_before_; }
  [[nodiscard]] std::uint32_t failures() const noexcept { return failures_; }

 private:
  BackoffOptions options_;
  Random* random_;
  Time not_before_{INT64_MIN};
  std::uint32_t failures_ = 0;
};

}  // namespace imex::fabric
