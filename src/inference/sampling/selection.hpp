/// The order of candidates, and the best of many without sorting them all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "inference/sampling/sampler.hpp"

namespace imex::inference {

/// Total order: the larger logit, of equal ones the lower id.
[[nodiscard]] constexpr bool better(const Candidate& a, const Candidate& b) noexcept {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// The first index whose logit is NaN or +infinity.
[[nodiscard]] std::optional<std::size_t> find_fault(std::span<const float> logits) noexcept;

/// The `count` best in order into `out`, or fewer where logits are -infinity. Few cost one pass
/// that compares blocks with the worst candidate so far; many a selection over all.
void select_best(std::span<const float> logits, std::uint32_t first_id, std::size_t count,
                 std::vector<Candidate>& out);

}  // namespace imex::inference
