/// Root mean square norms, and the end of an exchange: sums of terms of several ranks.
///
/// Each result depends on its row alone. A row is reduced in the same order whichever function does
/// it: add_rms_norm() gives the bits of add_terms() followed by rms_norm().
#pragma once

#include <span>

namespace imex::inference {

/// out = x / sqrt(mean(x^2) + epsilon) * weight. `out` may be `x`.
void rms_norm(std::span<const float> x, std::span<const float> weight, float epsilon,
              std::span<float> out) noexcept;

/// x += (terms[0] + terms[1] + ...), the terms summed in order from +0.0. They have the size of `x`
/// and may lie in a peer's memory: each is read once.
void add_terms(std::span<float> x, std::span<const float* const> terms) noexcept;

/// add_terms() and rms_norm() of the new `x` in one pass over the terms. `out` must not be `x`.
void add_rms_norm(std::span<float> x, std::span<const float* const> terms,
                  std::span<const float> weight, float epsilon, std::span<float> out) noexcept;

}  // namespace imex::inference
