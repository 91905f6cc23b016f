#include "inference/sampling/sampler.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "adjust.hpp"
#include "base/assert.hpp"
#include "inference/sampling/philox.hpp"
#include "selection.hpp"
#include "weights.hpp"

namespace imex::inference {
namespace {

Result<void> check_fault(std::uint32_t fault) {
  if (fault == Candidates::kNoFault) return {};
  return fail(Errc::kDataLoss, fmt::format("logit of token {} is NaN or +infinity", fault),
              "end this sequence; if others fail too, the weights or a rank's memory are damaged");
}

Result<void> check_any(bool any) {
  if (any) return {};
  return fail(Errc::kFailedPrecondition, "every token is masked: no logit is above -infinity",
              "check min_tokens against the stop tokens, and the masks of the model");
}

double draw_of(const SamplingOptions& options, const Progress& progress) {
  return uniform_of(
      {.seed = options.seed, .sequence = progress.sequence, .position = progress.position});
}

/// How many of the best candidates remain; `total` is the weight of all that min-p leaves.
std::size_t count_kept(std::span<const Candidate> best, const SamplingOptions& options,
                       const Weighing& weigh, double total) {
  const double wanted = double{options.top_p} * total;
  double sum = 0;
  std::size_t kept = 0;
  while (kept != best.size()) {
    const float weight = weigh.of(best[kept].logit);
    if (weight < options.min_p || weight == 0) break;
    sum += double{weight};
    ++kept;
    if (options.top_p < 1 && sum >= wanted) break;
  }
  return kept;
}

/// The first index at which the running sum of weights exceeds the share `uniform` of all.
template <class WeightOf>
std::size_t draw(std::size_t count, double uniform, WeightOf weight_of) {
  double sums[8] = {};  // one would wait for each addition
  for (std::size_t i = 0; i != count; ++i) sums[i % 8] += double{weight_of(i)};
  const double target = uniform * std::accumulate(std::begin(sums), std::end(sums), 0.0);
  double sum = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i != count; ++i) {
    const float weight = weight_of(i);
    if (weight == 0) continue;
    sum += double{weight};
    last = i;
    if (sum > target) break;
  }
  return last;
}

}  // namespace

Sampler::Sampler(SamplingOptions options, Vocabulary vocabulary)
    : options_(std::move(options)), vocabulary_(std::move(vocabulary)) {}

Result<Sampler> Sampler::create(SamplingOptions options, Vocabulary vocabulary) {
  IMEX_CHECK_OK(validate(options, vocabulary.size));
  for (const std::uint32_t id : vocabulary.stop_tokens) {
    if (id < vocabulary.size) continue;
    return fail(
        Errc::kInvalidArgument,
        fmt::format("stop token {} is not among the {} of the vocabulary", id, vocabulary.size),
        "compare the stop tokens of the request and of generation_config.json with the model");
  }
  return Sampler(std::move(options), std::move(vocabulary));
}

bool Sampler::needs_only_candidates() const noexcept {
  return options_.temperature == 0 || options_.top_k != 0;
}

std::uint32_t Sampler::candidate_count() const noexcept {
  const std::uint32_t drawn = options_.temperature == 0 ? 1 : options_.top_k;
  return std::min(std::max(drawn, options_.logprobs.value_or(0)), vocabulary_.size);
}

void Sampler::collect(std::span<float> logits, std::uint32_t first_id, const Progress& progress,
                      Candidates& out) {
  const std::size_t real = vocabulary_.size - std::min(first_id, vocabulary_.size);
  const LogitsPart part{logits.first(std::min(logits.size(), real)), first_id};
  counts_.resize(std::max(counts_.size(), part.logits.size()));
  add_bias(part, options_);
  apply_penalties(part, options_, progress, counts_);
  // Before the mask, which would hide the fault of a stop token.
  const auto fault = find_fault(part.logits);
  out.fault = fault ? first_id + static_cast<std::uint32_t>(*fault) : Candidates::kNoFault;
  if (progress.generated.size() < options_.min_tokens) mask(part, vocabulary_.stop_tokens);
  out.best.clear();
  out.sum = {};
  if (fault) return;
  const std::uint32_t count =
      needs_only_candidates() ? candidate_count() : std::max(1U, options_.logprobs.value_or(0));
  select_best(part.logits, first_id, count, out.best);
  if (options_.logprobs) out.sum = sum_of_exponentials(part.logits);
}

Result<Sample> Sampler::sample(std::span<float> logits, const Progress& progress) {
  if (logits.size() < vocabulary_.size) {
    return fail(Errc::kInvalidArgument,
                fmt::format("{} logits for a vocabulary of {}", logits.size(), vocabulary_.size),
                "pass those of all ranks, or collect() and choose() candidates");
  }
  collect(logits, 0, progress, whole_);
  if (needs_only_candidates()) return choose({&whole_, 1}, progress);
  IMEX_CHECK_OK(check_fault(whole_.fault));
  IMEX_CHECK_OK(check_any(!whole_.best.empty()));
  best_.assign(whole_.best.begin(), whole_.best.end());
  return sample_all(logits.first(vocabulary_.size), progress);
}

Result<Sample> Sampler::choose(std::span<const Candidates> parts, const Progress& progress) {
  IMEX_ASSERT(needs_only_candidates(), "without top-k a draw needs all logits");
  ExponentialSum sum;
  std::uint32_t fault = Candidates::kNoFault;
  best_.clear();
  for (const Candidates& part : parts) {
    fault = std::min(fault, part.fault);
    sum = sum + part.sum;
    best_.insert(best_.end(), part.best.begin(), part.best.end());
  }
  IMEX_CHECK_OK(check_fault(fault));
  IMEX_CHECK_OK(check_any(!best_.empty()));
  std::sort(best_.begin(), best_.end(), better);
  if (options_.temperature == 0) return sample_of(best_.front(), sum);

  const auto best = std::span(best_).first(std::min<std::size_t>(best_.size(), options_.top_k));
  const Weighing weigh{best.front().logit, options_.temperature};
  double total = 0;
  for (const Candidate& candidate : best) {
    const float weight = weigh.of(candidate.logit);
    if (weight >= options_.min_p) total += double{weight};
  }
  const auto kept = best.first(count_kept(best, options_, weigh, total));
  // By ascending id, as sample_all() draws. The alternatives are taken from a copy.
  drawn_.assign(kept.begin(), kept.end());
  std::sort(drawn_.begin(), drawn_.end(), [](auto& a, auto& b) { return a.id < b.id; });
  const std::size_t token = draw(drawn_.size(), draw_of(options_, progress),
                                 [&](std::size_t i) { return weigh.of(drawn_[i].logit); });
  return sample_of(drawn_[token], sum);
}

Sample Sampler::sample_all(std::span<const float> logits, const Progress& progress) {
  const Weighing weigh{best_.front().logit, options_.temperature};
  weights_.resize(logits.size());
  weigh.of(logits, weights_);
  for (float& weight : weights_) weight = weight < options_.min_p ? 0.0F : weight;
  if (options_.top_p < 1) cut_nucleus(logits, weigh);
  const std::size_t token = draw(weights_.size(), draw_of(options_, progress),
                                 [this](std::size_t i) { return weights_[i]; });
  return sample_of({logits[token], static_cast<std::uint32_t>(token)}, whole_.sum);
}

/// Sets the weights outside the nucleus to zero. A few hundred candidates nearly always hold it.
void Sampler::cut_nucleus(std::span<const float> logits, const Weighing& weigh) {
  const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  std::size_t kept = 0;
  for (std::size_t count = 256;; count *= 16) {
    select_best(logits, 0, count, best_);
    kept = count_kept(best_, options_, weigh, total);
    if (kept != best_.size() || best_.size() < count) break;  // the nucleus ends among these
  }
  const Candidate& last = best_[kept - 1];
  for (std::size_t i = 0; i != logits.size(); ++i) {
    if (better(last, {logits[i], static_cast<std::uint32_t>(i)})) weights_[i] = 0;
  }
}

Sample Sampler::sample_of(const Candidate& token, const ExponentialSum& sum) {
  Sample sample{.token = token.id, .logprob = std::nullopt, .alternatives = {}};
  if (!options_.logprobs) return sample;
  const double log_sum = log_of(sum);
  const auto logprob = [&](float logit) {
    return static_cast<float>(std::min(0.0, double{logit} - log_sum));  // rounding may exceed 0
  };
  sample.logprob = logprob(token.logit);
  alternatives_.clear();
  for (std::size_t i = 0; i != best_.size() && i != *options_.logprobs; ++i) {
    alternatives_.push_back({best_[i].id, logprob(best_[i].logit)});
  }
  sample.alternatives = alternatives_;
  return sample;
}

}  // namespace imex::inference
