#include "inference/model/hyper_parameters.hpp"

#include <cmath>
#include <numbers>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace imex::inference {

namespace {

// Far above any model, far below what could overflow: 2^24 x 2^20 elements still count in 64 bits.
constexpr std::uint32_t kLayersMax = 4096, kHiddenMax = 1U << 20U, kHeadsMax = 1U << 16U,
                        kHeadSizeMax = 4096, kVocabularyMax = 1U << 24U, kContextMax = 1U << 28U;

class Findings {
 public:
  void range(std::string_view name, std::uint64_t value, std::uint64_t max) {
    if (value < 1 || value > max) add("{} is {}, not from 1 to {}", name, value, max);
  }
  void positive(std::string_view name, float value) {
    if (!(std::isfinite(value) && value > 0)) add("{} is {}, not above 0", name, value);
  }
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    all_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  [[nodiscard]] Result<void> result() const {
    if (all_.empty()) return {};
    return fail(Errc::kDataLoss, fmt::format("hyper-parameters: {}", fmt::join(all_, "; ")));
  }

 private:
  std::vector<std::string> all_;
};

void add_sizes(const HyperParameters& p, Findings& wrong) {
  wrong.range("hidden size", p.hidden, kHiddenMax);
  wrong.range("feed-forward size", p.feed_forward, kHiddenMax);
  wrong.range("query heads", p.query_heads, kHeadsMax);
  wrong.range("key-value heads", p.kv_heads, kHeadsMax);
  wrong.range("head size", p.head_size, kHeadSizeMax);
  wrong.range("context", p.context, kContextMax);
}

}  // namespace

Result<void> check_sizes(const HyperParameters& p) {
  Findings wrong;
  add_sizes(p, wrong);
  return wrong.result();
}

Result<void> validate(const HyperParameters& p) {
  Findings wrong;
  add_sizes(p, wrong);
  wrong.range("layers", p.layers.size(), kLayersMax);
  wrong.range("vocabulary", p.vocabulary, kVocabularyMax);
  wrong.positive("norm epsilon", p.norm_epsilon);
  wrong.positive("RoPE base", p.rope_theta);
  if (p.kv_heads != 0 && p.query_heads % p.kv_heads != 0) {
    wrong.add("{} query heads do not share {} key-value heads evenly", p.query_heads, p.kv_heads);
  }
  if (p.head_size % 2 != 0) wrong.add("head size {} is odd", p.head_size);
  if (!p.rope_factors.empty() && p.rope_factors.size() != p.head_size / 2) {
    wrong.add("{} RoPE factors for heads of {}", p.rope_factors.size(), p.head_size);
  }
  for (const float factor : p.rope_factors) {
    if (!(std::isfinite(factor) && factor > 0)) {
      wrong.add("RoPE factor {} is not above 0", factor);
      break;
    }
  }
  for (const std::uint32_t token : p.stop_tokens) {
    if (token >= p.vocabulary) wrong.add("stop token {} of {} tokens", token, p.vocabulary);
  }
  if (p.begin_token.value_or(0) >= p.vocabulary) {
    wrong.add("begin token {} of {} tokens", *p.begin_token, p.vocabulary);
  }
  return wrong.result();
}

std::vector<float> llama3_rope_factors(const Llama3Scaling& scaling, double theta,
                                       std::uint32_t head_size) {
  std::vector<float> factors(head_size / 2);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / head_size);
    const double waves = scaling.original_context * frequency / (2 * std::numbers::pi);
    double kept = (waves - scaling.low) / (scaling.high - scaling.low);  // share left as it is
    if (waves < scaling.low) kept = 0;
    if (waves > scaling.high) kept = 1;
    factors[i] = static_cast<float>(1 / ((1 - kept) / scaling.factor + kept));
  }
  return factors;
}

}  // namespace imex::inference
