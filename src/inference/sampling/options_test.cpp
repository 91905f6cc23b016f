#include "inference/sampling/options.hpp"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inference/sampling/sampler.hpp"

namespace imex::inference {
namespace {

using ::testing::HasSubstr;
constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

std::string complaint(const SamplingOptions& options) {
  const auto result = validate(options, 100);
  if (result) return "none";
  EXPECT_EQ(result.error().code, Errc::kInvalidArgument);
  EXPECT_FALSE(result.error().hint.empty());
  return result.error().message;
}

TEST(SamplingOptionsTest, DefaultsAndLimitsAreValid) {
  EXPECT_EQ(complaint({}), "none");
  EXPECT_EQ(complaint({.logit_bias = {{99, -100.0F}, {0, 100.0F}},
                       .repetition_penalty = 0.01F,
                       .frequency_penalty = -2,
                       .presence_penalty = 2,
                       .min_tokens = 1'000'000,
                       .temperature = 0,
                       .top_k = 1'000'000,
                       .min_p = 1,
                       .top_p = 1e-30F,
                       .logprobs = 20}),
            "none");
}

TEST(SamplingOptionsTest, EachRangeIsCheckedAndNamed) {
  EXPECT_EQ(complaint({.temperature = -0.5}), "temperature must lie in 0 to 100, found -0.5");
  EXPECT_EQ(complaint({.top_p = 0}), "top_p must be above 0 and at most 1, found 0");
  EXPECT_EQ(complaint({.logprobs = 21}), "logprobs must be at most 20, found 21");
  EXPECT_EQ(complaint({.logit_bias = {{100, 1.0F}}}),
            "logit_bias names token 100, the vocabulary has 100");
  EXPECT_EQ(complaint({.logit_bias = {{7, 1.0F}, {8, 1.0F}, {7, 2.0F}}}),
            "logit_bias names token 7 twice");
  EXPECT_THAT(complaint({.logit_bias = {{7, 101.0F}}}), HasSubstr("logit_bias of token 7"));
  EXPECT_THAT(complaint({.repetition_penalty = 0}), HasSubstr("repetition_penalty"));
  EXPECT_THAT(complaint({.frequency_penalty = 2.5}), HasSubstr("frequency_penalty"));
  EXPECT_THAT(complaint({.presence_penalty = -3}), HasSubstr("presence_penalty"));
  EXPECT_THAT(complaint({.min_p = 1.5}), HasSubstr("min_p"));
}

TEST(SamplingOptionsTest, NaNIsInNoRange) {
  EXPECT_NE(complaint({.temperature = kNoNumber}), "none");
  EXPECT_NE(complaint({.top_p = kNoNumber}), "none");
  EXPECT_NE(complaint({.min_p = kNoNumber}), "none");
  EXPECT_NE(complaint({.repetition_penalty = kNoNumber}), "none");
}

TEST(SamplingOptionsTest, AllThatIsWrongIsSaidAtOnce) {
  const std::string all = complaint({.temperature = 1000, .min_p = -1, .top_p = 2});
  EXPECT_THAT(all, HasSubstr("temperature"));
  EXPECT_THAT(all, HasSubstr("min_p"));
  EXPECT_THAT(all, HasSubstr("top_p"));
}

TEST(SamplingOptionsTest, ASamplerRefusesStopTokensBeyondTheVocabulary) {
  const auto sampler = Sampler::create({}, {.size = 10, .stop_tokens = {2, 10}});
  ASSERT_FALSE(sampler);
  EXPECT_EQ(sampler.error().code, Errc::kInvalidArgument);
  EXPECT_THAT(sampler.error().message, HasSubstr("stop token 10"));
  EXPECT_FALSE(Sampler::create({.top_p = -1}, {.size = 10}));
}

}  // namespace
}  // namespace imex::inference
