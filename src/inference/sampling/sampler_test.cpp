// The sampler against a naive one, written from the definition: everything sorted, all in double.
#include "inference/sampling/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "inference/sampling/philox.hpp"

namespace imex::inference {
namespace {

using Ids = std::vector<std::uint32_t>;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Request {
  SamplingOptions options;
  Vocabulary vocabulary;
  std::vector<float> logits;
  Ids prompt, generated;
  std::uint64_t sequence = 0, position = 0;

  [[nodiscard]] Progress progress() const { return {prompt, generated, sequence, position}; }
};

struct Expected {
  std::uint32_t token = 0;
  double logprob = 0;
  std::vector<std::pair<std::uint32_t, double>> ranking;  // by logit, with log-probabilities
  bool certain = true;  // no border so near that rounding may decide
};

std::vector<double> naive_logits(const Request& r) {
  std::vector<double> logits(r.logits.begin(), r.logits.begin() + r.vocabulary.size);
  for (const auto& [id, bias] : r.options.logit_bias) logits[id] += double{bias};
  std::set<std::uint32_t> seen(r.prompt.begin(), r.prompt.end());
  std::map<std::uint32_t, int> counts;
  for (const std::uint32_t id : r.generated) ++counts[id];
  seen.insert(r.generated.begin(), r.generated.end());
  for (const std::uint32_t id : seen) {
    const double penalty = double{r.options.repetition_penalty};
    if (id < logits.size()) logits[id] *= logits[id] > 0 ? 1 / penalty : penalty;
  }
  for (const auto& [id, count] : counts) {
    if (id >= logits.size()) continue;
    logits[id] -= double{r.options.frequency_penalty} * count;
    logits[id] -= double{r.options.presence_penalty};
  }
  if (r.generated.size() < r.options.min_tokens) {
    for (const std::uint32_t id : r.vocabulary.stop_tokens) logits[id] = -double{kInfinity};
  }
  // Ties are ties of floats.
  for (double& logit : logits) logit = double{static_cast<float>(logit)};
  return logits;
}

Expected naive_sample(const Request& r) {
  const std::vector<double> logits = naive_logits(r);
  Expected expected;
  const auto check = [&](double value, double border, double scale) {
    // Equal numbers are so for the sampler too: ties, and weights of one.
    if (value != border && std::abs(value - border) <= 1e-5 * scale) expected.certain = false;
  };
  double sum = 0;
  const double largest = *std::max_element(logits.begin(), logits.end());
  for (const double logit : logits) sum += std::exp(logit - largest);
  for (std::uint32_t id = 0; id != logits.size(); ++id) {
    if (std::isfinite(logits[id])) {
      expected.ranking.emplace_back(id, logits[id] - largest - std::log(sum));
    }
  }
  std::stable_sort(expected.ranking.begin(), expected.ranking.end(),
                   [&](auto& a, auto& b) { return logits[a.first] > logits[b.first]; });
  // A rounding of the penalties in float may swap two that are all but equal.
  for (std::size_t i = 1; i < expected.ranking.size(); ++i) {
    const double a = logits[expected.ranking[i - 1].first], b = logits[expected.ranking[i].first];
    if (a != b) check(a, b, 1);
  }
  const auto choose = [&](std::uint32_t id) {
    expected.token = id;
    expected.logprob = logits[id] - largest - std::log(sum);
    return expected;
  };
  if (r.options.temperature == 0) return choose(expected.ranking[0].first);

  const auto weight = [&](std::uint32_t id) {
    return std::exp((logits[id] - largest) / double{r.options.temperature});
  };
  Ids kept;
  for (const auto& [id, logprob] : expected.ranking) {
    if (r.options.top_k != 0 && kept.size() == r.options.top_k) break;
    check(weight(id), double{r.options.min_p}, double{r.options.min_p});
    if (weight(id) < double{r.options.min_p}) break;
    kept.push_back(id);
  }
  double total = 0, running = 0;
  for (const std::uint32_t id : kept) total += weight(id);
  if (r.options.top_p < 1) {
    std::size_t count = 0;
    while (count != kept.size() && running < double{r.options.top_p} * total) {
      running += weight(kept[count++]);
      check(running, double{r.options.top_p} * total, total);
    }
    kept.resize(count);
  }
  std::sort(kept.begin(), kept.end());
  total = running = 0;
  for (const std::uint32_t id : kept) total += weight(id);
  const double target = total * uniform_of({r.options.seed, r.sequence, r.position});
  std::uint32_t token = kept.back();
  for (auto id = kept.rbegin(); id != kept.rend(); ++id) {
    running += weight(*id);
    check(total - running, target, total);
    if (total - running <= target) {
      token = *id;
      break;
    }
  }
  return choose(token);
}

template <class T>
T one_of(std::vector<T> values) {
  return *rc::gen::elementOf(std::move(values));
}

Request any_request() {
  Request r;
  r.vocabulary.size = *rc::gen::inRange(3U, 900U);
  const std::size_t padding = *rc::gen::inRange<std::size_t>(0, 5);
  std::minstd_rand random(*rc::gen::arbitrary<std::uint32_t>());
  std::normal_distribution<float> normal(0, one_of<float>({0.1F, 2, 10}));
  const float levels = one_of<float>({1, 1000});  // ties, or few of them
  for (std::size_t i = 0; i != r.vocabulary.size; ++i) {
    r.logits.push_back(std::round(normal(random) * levels) / levels);
  }
  r.logits.resize(r.logits.size() + padding, 1e9F);  // would win if it were looked at
  const auto ids = [&](std::size_t count) {
    Ids all(count);
    for (std::uint32_t& id : all) id = static_cast<std::uint32_t>(random() % r.logits.size());
    return all;
  };
  r.prompt = ids(*rc::gen::inRange<std::size_t>(0, 30));
  r.generated = ids(*rc::gen::inRange<std::size_t>(0, 30));
  r.vocabulary.stop_tokens = {0, r.vocabulary.size - 1};
  r.sequence = random();
  r.position = random();
  SamplingOptions& o = r.options;
  for (std::uint32_t id = 0; id < *rc::gen::inRange(0U, 3U); ++id) {
    o.logit_bias.emplace_back(id, one_of<float>({-100, -1, 5}));
  }
  o.repetition_penalty = one_of<float>({1, 1.3F, 0.5F});
  o.frequency_penalty = one_of<float>({0, 0.5F, -2});
  o.presence_penalty = one_of<float>({0, 1, -0.3F});
  o.min_tokens = one_of<std::uint32_t>({0, 10, 100});
  o.temperature = one_of<float>({0, 0.3F, 1, 2.5F, 100});
  o.top_k = one_of<std::uint32_t>({0, 1, 2, 40, 5000});
  o.min_p = one_of<float>({0, 0.05F, 0.6F, 1});
  o.top_p = one_of<float>({1, 0.95F, 0.5F, 1e-6F});
  o.seed = random();
  if (random() % 2 == 0) o.logprobs = one_of<std::uint32_t>({0, 1, 20});
  return r;
}

Sampler sampler_of(const Request& r) {
  auto sampler = Sampler::create(r.options, r.vocabulary);
  EXPECT_TRUE(sampler) << sampler.error().to_string();
  return *std::move(sampler);
}

RC_GTEST_PROP(SamplerProperty, EqualsTheNaiveOneWithAllOptions, ()) {
  const Request r = any_request();
  const Expected expected = naive_sample(r);
  RC_CLASSIFY(!expected.certain, "left to rounding");
  if (!expected.certain) return;
  Sampler sampler = sampler_of(r);
  for (int again = 0; again != 2; ++again) {  // what the first call left must not matter
    std::vector<float> logits = r.logits;
    const auto sample = sampler.sample(logits, r.progress());
    RC_ASSERT(sample.has_value());
    RC_ASSERT(sample->token == expected.token);
    RC_ASSERT(sample->logprob.has_value() == r.options.logprobs.has_value());
    if (!r.options.logprobs) continue;
    RC_ASSERT(std::abs(double{*sample->logprob} - expected.logprob) < 1e-4);
    RC_ASSERT(sample->alternatives.size() ==
              std::min<std::size_t>(*r.options.logprobs, expected.ranking.size()));
    for (std::size_t i = 0; i != sample->alternatives.size(); ++i) {
      const auto& [id, logprob] = expected.ranking[i];
      RC_ASSERT(sample->alternatives[i].token == id);
      RC_ASSERT(std::abs(double{sample->alternatives[i].logprob} - logprob) < 1e-4);
    }
  }
}

/// Equal but for what the order of a sum in double changes, and one rounding to float.
bool all_but_equal(float a, float b) { return std::abs(a - b) <= 1e-12F + 0x1p-23F * std::abs(a); }

RC_GTEST_PROP(SamplerProperty, CandidatesOfPartsChooseWhatTheWholeDoes, ()) {
  Request r = any_request();
  if (r.options.temperature != 0 && r.options.top_k == 0) r.options.top_k = 7;
  Sampler sampler = sampler_of(r);
  RC_ASSERT(sampler.needs_only_candidates());
  std::vector<float> logits = r.logits;
  const auto whole = sampler.sample(logits, r.progress());
  RC_ASSERT(whole.has_value());

  const auto ranks = *rc::gen::inRange<std::size_t>(1, 9);
  std::vector<std::size_t> borders{0, r.logits.size()};
  while (borders.size() <= ranks) {
    borders.push_back(*rc::gen::inRange<std::size_t>(0, r.logits.size() + 1));  // empty parts too
  }
  std::sort(borders.begin(), borders.end());
  std::vector<Candidates> parts(borders.size() - 1);
  logits = r.logits;
  for (std::size_t rank = 0; rank != parts.size(); ++rank) {
    sampler_of(r).collect(
        std::span(logits).subspan(borders[rank], borders[rank + 1] - borders[rank]),
        static_cast<std::uint32_t>(borders[rank]), r.progress(), parts[rank]);
    RC_ASSERT(parts[rank].best.size() <= sampler.candidate_count());
  }
  Sampler other = sampler_of(r);
  const auto merged = other.choose(parts, r.progress());
  RC_ASSERT(merged.has_value());
  RC_ASSERT(merged->token == whole->token);
  RC_ASSERT(merged->logprob.has_value() == whole->logprob.has_value());
  RC_ASSERT(!merged->logprob || all_but_equal(*merged->logprob, *whole->logprob));
  RC_ASSERT(merged->alternatives.size() == whole->alternatives.size());
  for (std::size_t i = 0; i != whole->alternatives.size(); ++i) {
    RC_ASSERT(merged->alternatives[i].token == whole->alternatives[i].token);
    RC_ASSERT(all_but_equal(merged->alternatives[i].logprob, whole->alternatives[i].logprob));
  }
}

Request small_request() {
  Request r;
  r.vocabulary = {.size = 6, .stop_tokens = {5}};
  r.logits = {1, 3, 3, 2, -1, 4};
  return r;
}

std::uint32_t token_of(Request r) {
  const auto sample = sampler_of(r).sample(r.logits, r.progress());
  EXPECT_TRUE(sample) << sample.error().to_string();
  return sample ? sample->token : 0xffff'ffffU;
}

TEST(SamplerTest, TemperatureZeroTakesTheLowestIdOfATie) {
  Request r = small_request();
  r.options.temperature = 0;
  EXPECT_EQ(token_of(r), 5U);
  r.logits[5] = 3;
  EXPECT_EQ(token_of(r), 1U);
}

TEST(SamplerTest, StopTokensWaitForTheMinimumLength) {
  Request r = small_request();
  r.options.temperature = 0;
  r.options.min_tokens = 2;
  r.generated = {0};
  EXPECT_EQ(token_of(r), 1U);
  r.generated = {0, 0};
  EXPECT_EQ(token_of(r), 5U);
}

TEST(SamplerTest, AFaultNamesItsTokenEvenWhereItIsMasked) {
  for (const float bad : {kNaN, kInfinity}) {
    for (const std::uint32_t id : {0U, 3U, 5U}) {
      Request r = small_request();
      r.options.min_tokens = 1;
      r.logits[id] = bad;
      const auto sample = sampler_of(r).sample(r.logits, r.progress());
      ASSERT_FALSE(sample);
      EXPECT_EQ(sample.error().code, Errc::kDataLoss);
      EXPECT_THAT(sample.error().message, ::testing::HasSubstr("token " + std::to_string(id)));
    }
  }
  Request r = small_request();
  r.logits.push_back(kNaN);  // padding
  EXPECT_TRUE(sampler_of(r).sample(r.logits, r.progress()));
}

TEST(SamplerTest, AFaultOnOneRankIsTheErrorOfAll) {
  Request r = small_request();
  r.options.top_k = 2;
  r.logits[4] = kNaN;
  Sampler sampler = sampler_of(r);
  std::vector<Candidates> parts(2);
  sampler.collect(std::span(r.logits).first(3), 0, r.progress(), parts[0]);
  sampler.collect(std::span(r.logits).subspan(3), 3, r.progress(), parts[1]);
  const auto sample = sampler.choose(parts, r.progress());
  ASSERT_FALSE(sample);
  EXPECT_THAT(sample.error().message, ::testing::HasSubstr("token 4"));
}

TEST(SamplerTest, NothingLeftAndTooFewLogitsAreErrors) {
  for (const std::uint32_t top_k : {0U, 3U}) {
    Request r = small_request();
    r.options.top_k = top_k;
    std::fill(r.logits.begin(), r.logits.end(), -kInfinity);
    const auto none = sampler_of(r).sample(r.logits, r.progress());
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Errc::kFailedPrecondition);
    r.logits.pop_back();
    const auto few = sampler_of(r).sample(r.logits, r.progress());
    ASSERT_FALSE(few);
    EXPECT_EQ(few.error().code, Errc::kInvalidArgument);
  }
}

TEST(SamplerTest, AWideNucleusIsFoundBeyondTheFirstCandidates) {
  Request r;
  r.vocabulary = {.size = 20'000, .stop_tokens = {}};
  r.options.top_p = 0.9F;
  for (std::uint32_t i = 0; i != r.vocabulary.size; ++i) {
    r.logits.push_back(static_cast<float>(i * 7919 % 20'000) * 1e-5F);
  }
  for (r.position = 0; r.position != 20; ++r.position) {
    const Expected expected = naive_sample(r);
    EXPECT_TRUE(!expected.certain || token_of(r) == expected.token);
    EXPECT_GE(r.logits[token_of(r)], 0.018F);  // the least probable tenth is out
  }
}

}  // namespace
}  // namespace imex::inference
