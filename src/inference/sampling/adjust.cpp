#include "adjust.hpp"

#include <limits>

namespace imex::inference {
namespace {

/// visit(logit, count) once for each id of the part that occurs, with its number of occurrences.
template <class Visit>
void for_each_occurring(const LogitsPart& part, std::span<const std::span<const std::uint32_t>> all,
                        std::span<std::uint32_t> counts, Visit visit) noexcept {
  for (const auto ids : all) {
    for (const std::uint32_t id : ids) {
      if (part.find(id) != nullptr) ++counts[id - part.first];
    }
  }
  for (const auto ids : all) {
    for (const std::uint32_t id : ids) {
      float* const logit = part.find(id);
      if (logit == nullptr || counts[id - part.first] == 0) continue;
      visit(*logit, counts[id - part.first]);
      counts[id - part.first] = 0;
    }
  }
}

}  // namespace

void add_bias(const LogitsPart& part, const SamplingOptions& options) noexcept {
  for (const auto& [id, bias] : options.logit_bias) {
    if (float* const logit = part.find(id)) *logit += bias;
  }
}

void apply_penalties(const LogitsPart& part, const SamplingOptions& options,
                     const Progress& progress, std::span<std::uint32_t> counts) noexcept {
  const std::span<const std::uint32_t> everything[] = {progress.prompt, progress.generated};
  if (options.repetition_penalty != 1) {
    for_each_occurring(part, everything, counts, [&](float& logit, std::uint32_t) {
      logit = logit > 0 ? logit / options.repetition_penalty : logit * options.repetition_penalty;
    });
  }
  if (options.frequency_penalty != 0 || options.presence_penalty != 0) {
    for_each_occurring(part, std::span(everything).last(1), counts,
                       [&](float& logit, std::uint32_t count) {
                         logit -= options.frequency_penalty * static_cast<float>(count);
                         logit -= options.presence_penalty;
                       });
  }
}

void mask(const LogitsPart& part, std::span<const std::uint32_t> ids) noexcept {
  for (const std::uint32_t id : ids) {
    if (float* const logit = part.find(id)) *logit = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace imex::inference
