/// Durations counted by size: 16 classes per power of two, so a quantile is right within 6 %.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace imex::inference {

/// Trivially copyable, so that it can lie in shared memory. One writer.
class TimeHistogram {
 public:
  void add(std::uint64_t nanoseconds) noexcept {
    ++counts_[class_of(nanoseconds)];
    ++count_;
    sum_ += nanoseconds;
  }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t sum() const noexcept { return sum_; }
  /// The duration that a share of `q` (0 to 1) does not exceed: the middle of its class; 0 if
  /// empty.
  [[nodiscard]] std::uint64_t quantile(double q) const noexcept {
    const auto wanted = static_cast<std::uint64_t>(q * static_cast<double>(count_));
    std::uint64_t seen = 0;
    for (std::size_t at = 0; at < counts_.size(); ++at) {
      seen += counts_[at];
      if (seen != 0 && seen >= wanted) return middle_of(at);
    }
    return 0;
  }

 private:
  static constexpr std::size_t kClasses = 16, kPowers = 40;

  static std::size_t class_of(std::uint64_t value) noexcept {
    if (value < kClasses) return value;
    const auto power = static_cast<std::size_t>(std::bit_width(value)) - 5;
    const std::size_t at = (power + 1) * kClasses + ((value >> power) - kClasses);
    return at < kClasses * kPowers ? at : kClasses * kPowers - 1;
  }
  static std::uint64_t middle_of(std::size_t at) noexcept {
    if (at < kClasses) return at;
    const std::size_t power = at / kClasses - 1;
    const std::uint64_t begin = (kClasses + at % kClasses) << power;
    return begin + ((std::uint64_t{1} << power) >> 1U);
  }

  std::array<std::uint32_t, kClasses * kPowers> counts_{};
  std::uint64_t count_ = 0, sum_ = 0;
};

}  // namespace imex::inference
