#include "trial.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/assert.hpp"

namespace imex::exchange {

namespace {

/// How far the model may be wrong.
constexpr double kTrustFactor = 2.5;

}  // namespace

void Trial::begin(const TuningQuestion& question, const Costs& costs) {
  struct Likely {
    Algorithm algorithm;
    double ns;
  };
  std::vector<Likely> likely;
  for (std::uint32_t number = 1; number != kAlgorithmCount; ++number) {
    const auto algorithm = static_cast<Algorithm>(number);
    if (algorithm == Algorithm::kTwoLevel) continue;
    const double ns = predict(algorithm, question, costs);
    if (ns != std::numeric_limits<double>::infinity()) likely.push_back({algorithm, ns});
  }
  IMEX_ASSERT(!likely.empty(), "the ring serves every size");
  std::ranges::sort(likely, {}, &Likely::ns);
  count_ = 0;
  if (question.shape.groups > 1) candidates_[count_++] = Algorithm::kTwoLevel;
  for (const Likely& each : likely) {
    if (count_ == kCandidatesMax || each.ns > likely[0].ns * kTrustFactor) break;
    candidates_[count_++] = each.algorithm;
  }
  best_ns_.fill(std::numeric_limits<float>::max());
  done_ = 0;
  if (count_ == 1) choice_.store(candidates_[0], std::memory_order_relaxed);
}

bool Trial::took(float ns) noexcept {
  float& best = best_ns_[done_ % count_];
  best = std::min(best, ns);
  return ++done_ == count_ * kRounds;
}

void Trial::decide(std::span<const Times> by_rank) noexcept {
  std::size_t fastest = 0;
  float fastest_ns = std::numeric_limits<float>::max();
  for (std::size_t i = 0; i != count_; ++i) {
    float slowest = 0;
    for (const Times& times : by_rank) slowest = std::max(slowest, times[i]);
    if (slowest < fastest_ns) {
      fastest = i;
      fastest_ns = slowest;
    }
  }
  choice_.store(candidates_[fastest], std::memory_order_relaxed);
}

}  // namespace imex::exchange
