#include "answers.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "inference/operators/activation.hpp"

namespace imex::inference {
namespace {

// More than any usual top-k and its log-probabilities.
constexpr std::uint32_t kCandidatesMax = 256;

std::size_t stride_of(const SplitPlan& plan) noexcept {
  std::size_t widest = 0;
  for (const RankShare& share : plan.shares) {
    widest = std::max<std::size_t>(widest, share.vocabulary.size());
  }
  return (widest + 15) / 16 * 16;
}

/// Whether candidates of this sampler fit an offer and are enough.
bool offers(const Sampler& sampler) noexcept {
  return sampler.needs_only_candidates() && sampler.candidate_count() <= kCandidatesMax;
}

/// log(sum(exp(logits))), in double: a score is a difference of nearly equal numbers.
double log_sum_exp(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - most);
  return most + std::log(sum);
}

}  // namespace

/// Candidates in shared memory.
struct alignas(64) Answers::Offer {
  std::uint32_t count;
  std::uint32_t fault;
  ExponentialSum sum;
  std::array<Candidate, kCandidatesMax> best;
};

std::uint64_t Answers::window_bytes(const SplitPlan& plan, std::uint32_t rows) noexcept {
  return rows * (sizeof(Offer) + stride_of(plan) * sizeof(float));
}

Result<Answers> Answers::create(Rounds& rounds, const SplitPlan& plan, std::uint32_t rows) {
  Answers made(rounds);
  made.rows_ = rows;
  made.stride_ = stride_of(plan);
  for (const RankShare& share : plan.shares) made.parts_.push_back(share.vocabulary);
  IMEX_TRY(made.window_, rounds.allocate(window_bytes(plan, rows)));
  made.all_.resize(plan.facts.vocabulary);
  made.candidates_.resize(plan.ranks());
  for (Candidates& candidates : made.candidates_) candidates.best.reserve(kCandidatesMax);
  return made;
}

Answers::Offer& Answers::offer_of(std::uint32_t rank, std::uint32_t row) const noexcept {
  return reinterpret_cast<Offer*>(window_.of_rank[rank])[row];
}

float* Answers::logits_of(std::uint32_t rank) const noexcept {
  return reinterpret_cast<float*>(window_.of_rank[rank] + rows_ * sizeof(Offer));
}

void Answers::offer(std::uint32_t row, Sampler& sampler, const Progress& progress) {
  if (!offers(sampler)) return;
  const std::uint32_t rank = rounds_->rank();
  Candidates& own = candidates_[rank];
  sampler.collect({logits() + row * stride_, parts_[rank].size()}, parts_[rank].begin, progress,
                  own);
  IMEX_ASSERT(own.best.size() <= kCandidatesMax, "as many as the sampler announced");
  Offer& offer = offer_of(rank, row);
  offer.count = static_cast<std::uint32_t>(own.best.size());
  offer.fault = own.fault;
  offer.sum = own.sum;
  std::ranges::copy(own.best, offer.best.begin());
}

Result<Sample> Answers::draw(std::uint32_t row, Sampler& sampler, const Progress& progress) {
  if (!offers(sampler)) {
    gather(row);
    return sampler.sample(all_, progress);
  }
  for (std::uint32_t rank = 0; rank < parts_.size(); ++rank) {
    const Offer& offer = offer_of(rank, row);
    Candidates& candidates = candidates_[rank];
    candidates.best.assign(offer.best.begin(),
                           offer.best.begin() + std::min(offer.count, kCandidatesMax));
    candidates.sum = offer.sum;
    candidates.fault = offer.fault;
  }
  return sampler.choose(candidates_, progress);
}

Result<double> Answers::score(std::uint32_t row, std::uint32_t token) {
  gather(row);
  if (has_nan(all_)) return fail(Errc::kDataLoss, "a logit is no number");
  return double{all_[token]} - log_sum_exp(all_);
}

void Answers::gather(std::uint32_t row) noexcept {
  for (std::uint32_t rank = 0; rank < parts_.size(); ++rank) {
    std::copy_n(logits_of(rank) + row * stride_, parts_[rank].size(),
                all_.data() + parts_[rank].begin);
  }
}

}  // namespace imex::inference
