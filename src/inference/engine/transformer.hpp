/// The forward pass of one rank, the same for every member of the Llama family.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "inference/matrix/activations.hpp"
#include "inference/matrix/product.hpp"
#include "inference/operators/attention.hpp"
#include "inference/operators/rope.hpp"
#include "inference/weights/rank_weights.hpp"
#include "os/memory.hpp"
#include "partial_exchange.hpp"
#include "step_plan.hpp"

namespace imex::inference {

/// Table of the blocks of each sequence.
using BlockTables = std::vector<std::vector<std::uint32_t>>;

/// Where the time of a rank went, in nanoseconds.
struct PhaseTimes {
  std::uint64_t attention = 0;     ///< norms, q k v, rotation, attention, o
  std::uint64_t feed_forward = 0;  ///< gate, up, down
  std::uint64_t head = 0;
  std::uint64_t exchange = 0;  ///< from the own arrival to the end, waiting included
  std::uint64_t draw = 0;
};

class Transformer {
 public:
  struct Limits {
    std::uint32_t rows = 256;     ///< tokens of one step
    std::uint32_t context = 0;    ///< positions of one sequence
    std::uint32_t kv_blocks = 0;  ///< of the cache
  };
  /// Collective. Borrows all it is given. All memory that steps need is taken here. Errors:
  /// kResourceExhausted, those of Communicator::allocate().
  [[nodiscard]] static Result<Transformer> create(const HyperParameters& parameters,
                                                  const SplitPlan& plan, const RankWeights& weights,
                                                  Rounds& rounds, const Limits& limits);

  /// Runs all layers over the tokens of a step, whose keys and values enter the cache. Collective.
  /// Errors: those of the communicator.
  [[nodiscard]] Result<void> run(std::span<const StepToken> tokens, const BlockTables& tables);

  /// Logits of the rank's part of the vocabulary for the rows of the last run() that `rows` names,
  /// `stride` floats apart.
  void head(std::span<const std::uint32_t> rows, float* out, std::size_t stride) noexcept;

  /// Runs the step again and returns the number of the first phase that gave a number that is none
  /// on this rank: 2 * layer of the attention, 2 * layer + 1 of the feed-forward part; kNoPhase:
  /// none did. Collective. The cache becomes what it was.
  static constexpr std::uint32_t kNoPhase = 0xffff'ffffU;
  [[nodiscard]] Result<std::uint32_t> find_nan(std::span<const StepToken> tokens,
                                               const BlockTables& tables);

  [[nodiscard]] const ExchangeTimes& exchange_times() const noexcept { return *exchange_times_; }
  [[nodiscard]] PhaseTimes& phase_times() noexcept { return phase_times_; }
  void reset_times() noexcept;

  /// Bytes of one rank besides its weights: cache, buffers, shared window.
  struct Memory {
    std::uint64_t cache = 0, buffers = 0, window = 0;
    [[nodiscard]] std::uint64_t sum() const noexcept { return cache + buffers + window; }
  };
  [[nodiscard]] static Memory memory_of(const HyperParameters& parameters, const SplitPlan& plan,
                                        std::uint32_t rank, const Limits& limits);

 private:
  /// Query heads of this rank that share one of its key-value heads.
  struct HeadGroup {
    std::uint32_t kv_head = 0;           // of this rank
    std::uint32_t begin = 0, heads = 0;  // query heads of this rank
  };
  /// Columns of one leaf, in the rank's part, of a phase's output matrix.
  struct Leaf {
    std::uint32_t begin = 0, end = 0;
  };
  /// How one phase's partial sums come about.
  struct Phase {
    SumOrder order;
    std::vector<Range> subtrees;  // of leaves, that this rank hands over; empty: one product
    std::vector<Leaf> leaves;     // of this rank, the first is number first_leaf
    std::uint32_t first_leaf = 0;
  };

  Transformer(const HyperParameters& parameters, const RankWeights& weights)
      : parameters_(&parameters), weights_(&weights) {}
  void plan_phases(const SplitPlan& plan, std::uint32_t rank);
  void attention(std::uint32_t layer, std::span<const StepToken> tokens, const BlockTables& tables);
  void project(std::uint32_t layer);
  void rotate_and_append(std::uint32_t layer, std::span<const StepToken> tokens,
                         const BlockTables& tables);
  void attend_all(std::uint32_t layer, std::span<const StepToken> tokens,
                  const BlockTables& tables);
  void feed_forward(std::uint32_t layer);
  void sum_partially(const MatrixView& matrix, const Phase& phase);
  void sum_subtree(const MatrixView& matrix, const Phase& phase, const Range& subtree, float* out,
                   std::size_t scratch_at);
  [[nodiscard]] Result<void> exchange(const Phase& phase, std::span<const float> bias,
                                      std::span<const float> norm);
  void look_for_nan(std::uint32_t phase) noexcept;
  [[nodiscard]] KvCache cache_of(std::uint32_t layer) const noexcept;

  const HyperParameters* parameters_;
  const RankWeights* weights_;
  Limits limits_;
  std::uint32_t query_width_ = 0, kv_width_ = 0, feed_forward_width_ = 0;
  std::vector<HeadGroup> groups_;
  Phase attention_phase_, feed_forward_phase_;
  std::unique_ptr<PartialExchange> partials_;
  std::unique_ptr<RopeTable> rope_;
  std::unique_ptr<Activations> inputs_;
  KvLayout kv_layout_;
  os::Mapping cache_;
  std::uint32_t rows_ = 0;  // of the step
  std::vector<float> stream_, normed_, query_, key_, value_, attended_, gate_, up_, head_in_;
  std::vector<float> leaf_sums_;  // vectors of the subtrees in work
  std::unique_ptr<ExchangeTimes> exchange_times_;
  PhaseTimes phase_times_;
  bool looks_for_nan_ = false;
  std::uint32_t nan_phase_ = kNoPhase;
};

}  // namespace imex::inference
