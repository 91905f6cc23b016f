/// The next token of a sequence from its logits: bias, penalties and minimum length, temperature,
/// top-k, min-p, top-p, draw; in this order.
///
///     IMEX_TRY(auto sampler, Sampler::create(options, {.size = 49'152, .stop_tokens = {2}}));
///     IMEX_TRY(const Sample next, sampler.sample(logits, {.prompt = ids, .generated = text}));
///
/// Ranks that hold parts of the vocabulary exchange candidates instead of logits:
///
///     sampler.collect(part_logits, first_id, progress, mine);   // each rank
///     ... exchange ...                                          // all parts in rank order
///     IMEX_TRY(const Sample next, sampler.choose(parts, progress));
///
/// Everything is a pure function of options, logits and progress: equal inputs give equal tokens on
/// every rank, after any preemption and in any batch. Log-probabilities are those of the softmax at
/// temperature 1 of the logits after bias, penalties and mask; cuts do not change them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "inference/sampling/options.hpp"

namespace imex::inference {

struct Vocabulary {
  std::uint32_t size = 0;  ///< ids from here on are padding: never looked at
  std::vector<std::uint32_t> stop_tokens = {};
};

/// Where a sequence stands.
struct Progress {
  std::span<const std::uint32_t> prompt = {};
  std::span<const std::uint32_t> generated = {};
  std::uint64_t sequence = 0;  ///< tells sequences with one seed apart
  std::uint64_t position = 0;  ///< of the token to draw; a retry with the same one draws the same
};

struct TokenLogprob {
  std::uint32_t token = 0;
  float logprob = 0;
};

struct Sample {
  std::uint32_t token = 0;
  std::optional<float> logprob;  ///< if options.logprobs is set
  /// The most probable tokens in descending order, without masked ones. Lies in the sampler until
  /// its next call.
  std::span<const TokenLogprob> alternatives;
};

struct Candidate {
  float logit = 0;
  std::uint32_t id = 0;
};

/// Sum of e^logit as mantissa * 2^exponent: no maximum is needed that only all parts together know.
struct ExponentialSum {
  double mantissa = 0;
  std::int32_t exponent = 0;
};

/// What one rank knows of its part of the vocabulary.
struct Candidates {
  static constexpr std::uint32_t kNoFault = 0xffff'ffffU;

  std::vector<Candidate> best;     ///< by descending logit, then ascending id; no masked ones
  ExponentialSum sum;              ///< of the part; only if options.logprobs is set
  std::uint32_t fault = kNoFault;  ///< the first id whose logit is NaN or +infinity
};

struct Weighing;

/// Keeps scratch memory: one thread at a time. After the first calls it allocates nothing.
class Sampler {
 public:
  /// Errors: kInvalidArgument with all options that are out of range; ids beyond the vocabulary.
  [[nodiscard]] static Result<Sampler> create(SamplingOptions options, Vocabulary vocabulary);

  /// `logits` of the whole vocabulary, padding may follow; bias, penalties and mask are written
  /// into them. Errors: kDataLoss (NaN or +infinity, with its id), kInvalidArgument (fewer logits
  /// than the vocabulary), kFailedPrecondition (every token is masked).
  [[nodiscard]] Result<Sample> sample(std::span<float> logits, const Progress& progress);

  /// Whether candidates of the parts are enough: temperature 0, or top-k. Otherwise ranks gather
  /// all logits and sample() each for itself.
  [[nodiscard]] bool needs_only_candidates() const noexcept;
  /// Of each part at most so many are collected: for the size of messages.
  [[nodiscard]] std::uint32_t candidate_count() const noexcept;

  /// The candidates among `logits` of ids from `first_id` on, into which bias, penalties and mask
  /// are written. A fault is noted, not returned, so that every rank learns of it.
  void collect(std::span<float> logits, std::uint32_t first_id, const Progress& progress,
               Candidates& out);
  /// The token among the candidates of all parts: what sample() gives for the whole vocabulary.
  /// Sums are combined in the order of the parts: log-probabilities have the same bits on all
  /// ranks; another split changes them by some 1e-15 before rounding. Errors: as sample().
  [[nodiscard]] Result<Sample> choose(std::span<const Candidates> parts, const Progress& progress);

 private:
  Sampler(SamplingOptions options, Vocabulary vocabulary);

  [[nodiscard]] Sample sample_all(std::span<const float> logits, const Progress& progress);
  void cut_nucleus(std::span<const float> logits, const Weighing& weigh);
  [[nodiscard]] Sample sample_of(const Candidate& token, const ExponentialSum& sum);

  SamplingOptions options_;
  Vocabulary vocabulary_;
  // Scratch, empty or meaningless between calls.
  Candidates whole_;
  std::vector<Candidate> best_, drawn_;
  std::vector<float> weights_;
  std::vector<std::uint32_t> counts_;  // by id; all zero between calls
  std::vector<TokenLogprob> alternatives_;
};

}  // namespace imex::inference
