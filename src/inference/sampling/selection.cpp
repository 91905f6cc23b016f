#include "selection.hpp"

#include <algorithm>
#include <limits>

namespace imex::inference {
namespace {

constexpr std::size_t kBlock = 64;
constexpr std::size_t kFew = 512;  // a heap of more is slower than selecting among all

/// Whether any of kBlock logits is above the bar. No branch, so that it becomes vectors.
bool any_above(const float* logits, float bar) noexcept {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i != kBlock; ++i) found |= logits[i] > bar ? 1U : 0U;
  return found != 0;
}

/// Whether any is NaN or +infinity.
bool any_fault(const float* logits) noexcept {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i != kBlock; ++i) {
    found |= logits[i] <= std::numeric_limits<float>::max() ? 0U : 1U;
  }
  return found != 0;
}

/// A heap whose front is the worst candidate. Later ids lose against equal logits, so only a larger
/// logit than the front's is of interest.
void select_few(std::span<const float> logits, std::uint32_t first_id, std::size_t count,
                std::vector<Candidate>& out) {
  float bar = -std::numeric_limits<float>::infinity();
  const auto offer = [&](std::size_t i) {
    if (!(logits[i] > bar)) return;
    if (out.size() == count) {
      std::pop_heap(out.begin(), out.end(), better);
      out.pop_back();
    }
    out.push_back({logits[i], first_id + static_cast<std::uint32_t>(i)});
    std::push_heap(out.begin(), out.end(), better);
    if (out.size() == count) bar = out.front().logit;
  };
  std::size_t i = 0;
  for (; i + kBlock <= logits.size(); i += kBlock) {
    if (!any_above(logits.data() + i, bar)) continue;
    for (std::size_t j = i; j != i + kBlock; ++j) offer(j);
  }
  for (; i != logits.size(); ++i) offer(i);
}

void select_many(std::span<const float> logits, std::uint32_t first_id, std::size_t count,
                 std::vector<Candidate>& out) {
  for (std::size_t i = 0; i != logits.size(); ++i) {
    if (logits[i] > -std::numeric_limits<float>::infinity()) {
      out.push_back({logits[i], first_id + static_cast<std::uint32_t>(i)});
    }
  }
  if (count >= out.size()) return;
  const auto end = out.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(out.begin(), end, out.end(), better);
  out.resize(count);
}

}  // namespace

std::optional<std::size_t> find_fault(std::span<const float> logits) noexcept {
  std::size_t i = 0;
  while (i + kBlock <= logits.size() && !any_fault(logits.data() + i)) i += kBlock;
  for (; i != logits.size(); ++i) {
    if (!(logits[i] <= std::numeric_limits<float>::max())) return i;
  }
  return std::nullopt;
}

void select_best(std::span<const float> logits, std::uint32_t first_id, std::size_t count,
                 std::vector<Candidate>& out) {
  out.clear();
  if (count == 0) return;
  (count <= kFew ? select_few : select_many)(logits, first_id, count, out);
  std::sort(out.begin(), out.end(), better);
}

}  // namespace imex::inference
