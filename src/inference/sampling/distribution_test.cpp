// Draws have the distribution that the options name (chi-square with fixed seeds), and cost no
// memory once a sampler has settled.
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "inference/sampling/sampler.hpp"
#include "inference/testing/allocation.hpp"

namespace imex::inference {
namespace {

constexpr int kDraws = 40'000;
const std::vector<float> kLogits{0.5F, 2, -1, 1, 1.5F, 0, 2, -3};

/// Sum of squared deviations over expected counts; tokens of probability 0 must not come.
double chi_square(const std::vector<int>& counts, const std::vector<double>& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i != counts.size(); ++i) {
    const double want = kDraws * weights[i] / total;
    if (want == 0) {
      EXPECT_EQ(counts[i], 0) << i;
    } else {
      sum += (counts[i] - want) * (counts[i] - want) / want;
    }
  }
  return sum;
}

enum class Along { kPositions, kSequences };

std::vector<int> counts_of(const SamplingOptions& options, Along along) {
  auto sampler = Sampler::create(options, {.size = 8, .stop_tokens = {}});
  EXPECT_TRUE(sampler);
  std::vector<int> counts(8);
  for (std::uint64_t i = 0; i != kDraws; ++i) {
    std::vector<float> logits = kLogits;
    Progress progress;
    (along == Along::kPositions ? progress.position : progress.sequence) = i;
    const auto sample = sampler->sample(logits, progress);
    EXPECT_TRUE(sample);
    if (sample) ++counts[sample->token];
  }
  return counts;
}

std::vector<double> weights_of(double temperature, double least_logit) {
  std::vector<double> weights;
  for (const float logit : kLogits) {
    weights.push_back(double{logit} < least_logit ? 0 : std::exp(double{logit} / temperature));
  }
  return weights;
}

// Limits: chance exceeds them once in 10^4 (7, 4 and 3 degrees of freedom).
TEST(DistributionTest, PlainDrawsFollowTheSoftmax) {
  for (const auto along : {Along::kPositions, Along::kSequences}) {
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      EXPECT_LT(chi_square(counts_of({.temperature = 1, .seed = seed}, along), weights_of(1, -9)),
                29.9);
      EXPECT_LT(
          chi_square(counts_of({.temperature = 0.6F, .seed = seed}, along), weights_of(0.6, -9)),
          29.9);
    }
  }
}

TEST(DistributionTest, CutsRenormaliseWhatTheyLeave) {
  // Weights e^2, e^2, e^1.5, e^1, e^0.5: the five best.
  EXPECT_LT(chi_square(counts_of({.top_k = 5, .seed = 4}, Along::kPositions), weights_of(1, 0.5)),
            23.5);
  // e^(1 - 2) = 0.37 stays, e^(0.5 - 2) = 0.22 goes.
  EXPECT_LT(chi_square(counts_of({.min_p = 0.3F, .seed = 5}, Along::kPositions), weights_of(1, 1)),
            21.1);
  // The four best have 0.84 of all.
  EXPECT_LT(chi_square(counts_of({.top_p = 0.8F, .seed = 6}, Along::kPositions), weights_of(1, 1)),
            21.1);
  EXPECT_LT(chi_square(counts_of({.top_k = 7, .top_p = 0.8F, .seed = 7}, Along::kPositions),
                       weights_of(1, 1)),
            21.1);
}

TEST(SamplerAllocationsTest, ASettledSamplerTakesNoMemory) {
  const std::vector<std::uint32_t> ids{1, 2, 3, 500, 3};
  for (const SamplingOptions& options :
       std::vector<SamplingOptions>{{.temperature = 0},
                                    {.temperature = 1, .logprobs = 5},
                                    {.logit_bias = {{3, 1.0F}},
                                     .repetition_penalty = 1.2F,
                                     .presence_penalty = 1,
                                     .min_tokens = 9,
                                     .top_k = 40,
                                     .min_p = 0.01F,
                                     .top_p = 0.9F,
                                     .logprobs = 20},
                                    {.top_p = 0.95F}}) {
    auto sampler = Sampler::create(options, {.size = 5000, .stop_tokens = {2}});
    ASSERT_TRUE(sampler);
    std::vector<float> logits(5000);
    for (std::uint64_t position = 0; position != 10; ++position) {
      for (std::size_t i = 0; i != logits.size(); ++i) {
        logits[i] = static_cast<float>((i * 7919 + position) % 5000) * 1e-3F;
      }
      const testing::AllocationCount allocations;
      const auto sample =
          sampler->sample(logits, {.prompt = ids, .generated = ids, .position = position});
      ASSERT_TRUE(sample);
      EXPECT_TRUE(position < 4 || allocations.count() == 0) << position;
    }
  }
}

}  // namespace
}  // namespace imex::inference
