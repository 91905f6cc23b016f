/// What one rendering may use up, counted over all that it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace imex::inference {

/// What ran out is remembered: functions that make or walk values then stop early and give what
/// they have, and the evaluator, which looks after each of them, refuses. So none of them needs a
/// result for it.
class RenderBudget {
 public:
  static constexpr std::uint64_t kStepsMax = 1'000'000;
  /// Of all texts and containers together, whether they still live or not.
  static constexpr std::uint64_t kBytesMax = std::uint64_t{128} << 20U;
  static constexpr unsigned kDepthMax = 100;

  /// False from the first limit that is passed.
  bool step(std::uint64_t count = 1) noexcept {
    steps_ += count;
    if (steps_ > kStepsMax) run_out("more than 1000000 steps");
    return !spent();
  }
  /// Walking this many entries of a dictionary or bytes of a text, both far cheaper than a step.
  bool walk(std::size_t entries) noexcept { return entries < 32 ? !spent() : step(entries / 32); }
  bool search(std::size_t bytes) noexcept { return bytes < 1024 ? !spent() : step(bytes / 1024); }

  bool make(std::size_t bytes) noexcept {
    bytes_ += bytes;
    if (bytes_ > kBytesMax) run_out("texts and lists of more than 128 MiB together");
    return !spent();
  }
  /// Looking into a value at this depth.
  bool enter(unsigned depth) noexcept {
    if (depth > kDepthMax) run_out("a value nested deeper than 100, or one that contains itself");
    return step();
  }

  [[nodiscard]] bool spent() const noexcept { return !what_.empty(); }
  [[nodiscard]] std::string_view what() const noexcept { return what_; }

 private:
  void run_out(std::string_view what) noexcept {
    if (what_.empty()) what_ = what;
  }
  std::uint64_t steps_ = 0, bytes_ = 0;
  std::string_view what_;
};

}  // namespace imex::inference
