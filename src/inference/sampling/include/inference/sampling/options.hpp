/// What a request asks of sampling. The defaults sample from the distribution as the model gives
/// it.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace imex::inference {

/// Applied in the order of the fields; those that cut renormalise what they leave.
struct SamplingOptions {
  /// Added to logits: (id, -100 to 100), each id once.
  std::vector<std::pair<std::uint32_t, float>> logit_bias = {};
  /// Divides positive logits of tokens of prompt and text, multiplies negative ones. 0.01 to 100.
  float repetition_penalty = 1;
  /// Taken from a logit for each time that its token was generated. -2 to 2.
  float frequency_penalty = 0;
  /// Taken from the logit of a token that was generated at all. -2 to 2.
  float presence_penalty = 0;
  /// Stop tokens are masked until so many tokens were generated.
  std::uint32_t min_tokens = 0;
  /// Logits are divided by it. 0 to 100; 0: the largest logit, of equal ones the lowest id.
  float temperature = 1;
  /// Only the k largest logits, of equal ones the lowest ids; 0: all.
  std::uint32_t top_k = 0;
  /// Only tokens at least so probable, relative to the most probable one. 0 to 1; 0: all.
  float min_p = 0;
  /// The fewest most probable tokens that have this share together. Above 0 to 1; 1: all.
  float top_p = 1;
  std::uint64_t seed = 0;
  /// Unset: no log-probabilities. Else of the token and of so many most probable ones, at most 20.
  std::optional<std::uint32_t> logprobs = {};
};

inline constexpr std::uint32_t kMaxLogprobs = 20;

/// Every option in its range. Errors: kInvalidArgument with all that is wrong.
[[nodiscard]] Result<void> validate(const SamplingOptions& options, std::uint32_t vocabulary);

}  // namespace imex::inference
