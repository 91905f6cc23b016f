/// What follows the tokens of a step: logits of all ranks become draws and scores.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inference/sampling/sampler.hpp"
#include "inference/split/split_plan.hpp"
#include "rounds.hpp"

namespace imex::inference {

/// Each rank computes the logits of its part of the vocabulary where its peers can read them. Where
/// the best candidates of each part are enough only these are read, else all.
class Answers {
 public:
  /// Collective; room for `rows` rows at once. Borrows `rounds`. Errors: as
  /// Communicator::allocate().
  [[nodiscard]] static Result<Answers> create(Rounds& rounds, const SplitPlan& plan,
                                              std::uint32_t rows);

  /// Where this rank writes its part of the logits of row i: logits() + i * stride(). Not to be
  /// written while a peer may still read the former ones, for which two meetings must have passed.
  [[nodiscard]] float* logits() noexcept { return logits_of(rounds_->rank()); }
  [[nodiscard]] std::size_t stride() const noexcept { return stride_; }
  [[nodiscard]] std::uint32_t rows() const noexcept { return rows_; }

  /// Before the meeting: what the peers need of a row to draw by `sampler`.
  void offer(std::uint32_t row, Sampler& sampler, const Progress& progress);
  [[nodiscard]] Result<void> meet() { return rounds_->meet(); }

  /// After it. The same on all ranks. Errors: as Sampler::sample().
  [[nodiscard]] Result<Sample> draw(std::uint32_t row, Sampler& sampler, const Progress& progress);
  /// Natural logarithm of the probability of a token. Errors: kDataLoss (a logit is no number).
  [[nodiscard]] Result<double> score(std::uint32_t row, std::uint32_t token);

  /// Shared memory of one rank.
  [[nodiscard]] static std::uint64_t window_bytes(const SplitPlan& plan,
                                                  std::uint32_t rows) noexcept;

 private:
  struct Offer;
  explicit Answers(Rounds& rounds) noexcept : rounds_(&rounds) {}
  [[nodiscard]] float* logits_of(std::uint32_t rank) const noexcept;
  [[nodiscard]] Offer& offer_of(std::uint32_t rank, std::uint32_t row) const noexcept;
  void gather(std::uint32_t row) noexcept;

  Rounds* rounds_;
  std::uint32_t rows_ = 0;
  std::size_t stride_ = 0;
  std::vector<Range> parts_;
  Rounds::Window window_;
  std::vector<float> all_;              // logits of one row
  std::vector<Candidates> candidates_;  // of all ranks
};

}  // namespace imex::inference
