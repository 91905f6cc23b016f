#include "inference/engine/sampling_words.hpp"

#include <bit>

namespace imex::inference {
namespace {

constexpr std::size_t kFixedWords = 12;
constexpr std::uint32_t kNone = UINT32_MAX;

}  // namespace

std::vector<std::uint32_t> write_sampling_options(const SamplingOptions& options) {
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  std::vector<std::uint32_t> words{bits(options.repetition_penalty),
                                   bits(options.frequency_penalty),
                                   bits(options.presence_penalty),
                                   options.min_tokens,
                                   bits(options.temperature),
                                   options.top_k,
                                   bits(options.min_p),
                                   bits(options.top_p),
                                   static_cast<std::uint32_t>(options.seed),
                                   static_cast<std::uint32_t>(options.seed >> 32U),
                                   options.logprobs.value_or(kNone),
                                   static_cast<std::uint32_t>(options.logit_bias.size())};
  for (const auto& [id, bias] : options.logit_bias) words.insert(words.end(), {id, bits(bias)});
  return words;
}

Result<SamplingOptions> read_sampling_options(std::span<const std::uint32_t> words) {
  if (words.size() < kFixedWords || words.size() != kFixedWords + 2 * std::size_t{words[11]}) {
    return fail(Errc::kInternal, "words that are no sampling options");
  }
  const auto number = [&](std::size_t at) { return std::bit_cast<float>(words[at]); };
  SamplingOptions options;
  options.repetition_penalty = number(0);
  options.frequency_penalty = number(1);
  options.presence_penalty = number(2);
  options.min_tokens = words[3];
  options.temperature = number(4);
  options.top_k = words[5];
  options.min_p = number(6);
  options.top_p = number(7);
  options.seed = words[8] | std::uint64_t{words[9]} << 32U;
  if (words[10] != kNone) options.logprobs = words[10];
  for (std::size_t at = kFixedWords; at < words.size(); at += 2) {
    options.logit_bias.emplace_back(words[at], number(at + 1));
  }
  return options;
}

}  // namespace imex::inference
