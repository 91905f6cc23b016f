/// What changes logits before any token is compared with another: bias, penalties, mask.
#pragma once

#include <cstdint>
#include <span>

#include "inference/sampling/sampler.hpp"

namespace imex::inference {

/// Logits of the ids from `first` on.
struct LogitsPart {
  std::span<float> logits;
  std::uint32_t first = 0;

  [[nodiscard]] float* find(std::uint32_t id) const noexcept {
    return id >= first && id - first < logits.size() ? &logits[id - first] : nullptr;
  }
};

void add_bias(const LogitsPart& part, const SamplingOptions& options) noexcept;

/// Repetition, then frequency, then presence. `counts` has an element per id of the part, all zero,
/// and is left so. O(ids so far).
void apply_penalties(const LogitsPart& part, const SamplingOptions& options,
                     const Progress& progress, std::span<std::uint32_t> counts) noexcept;

void mask(const LogitsPart& part, std::span<const std::uint32_t> ids) noexcept;

}  // namespace imex::inference
