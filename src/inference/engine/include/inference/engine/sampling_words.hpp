/// Sampling options as words, for memory that processes of one build share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/sampling/options.hpp"

namespace imex::inference {

[[nodiscard]] std::vector<std::uint32_t> write_sampling_options(const SamplingOptions& options);
/// Errors: kInternal (not what write_sampling_options() made).
[[nodiscard]] Result<SamplingOptions> read_sampling_options(std::span<const std::uint32_t> words);

}  // namespace imex::inference
