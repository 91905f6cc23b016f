/// Which rank computes what: the cut of a model over T ranks, as a pure function of its sizes.
///
/// Every exchange is a barrier, so each phase between two of them is balanced by itself: attention
/// by query heads (cut also inside a group, whose key-value head two ranks then hold), feed-forward
/// by rows of gate and up, the head by rows of the vocabulary. See docs/guide/05-split-a-model.md.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "inference/model/model_file.hpp"
#include "inference/split/reduction_tree.hpp"

namespace imex::inference {

/// What the cut depends on.
struct SplitFacts {
  std::uint32_t query_heads = 0, kv_heads = 0, feed_forward = 0, vocabulary = 0;
  // Cuts fall on multiples of these: columns of quantised matrices only between their blocks.
  std::uint32_t head_unit = 1, feed_forward_unit = 1, vocabulary_unit = 1;
  // Bytes of one layer's weights that a rank reads for each that it has.
  std::uint64_t query_head_bytes = 0, kv_head_bytes = 0, feed_forward_bytes = 0;
  std::uint64_t vocabulary_bytes = 0;  ///< of one row of the head
  std::uint32_t layers = 0;
};
/// Errors: kUnsupported (a type of weights without kernels).
[[nodiscard]] Result<SplitFacts> split_facts_of(const ModelFile& model);

/// The part of one rank.
struct RankShare {
  Range query_heads, kv_heads, feed_forward, vocabulary;
  /// Weights that it reads per token.
  std::uint64_t weight_bytes = 0;

  friend bool operator==(const RankShare&, const RankShare&) = default;
};

/// Leaves of the reduction trees for bits that do not depend on T.
struct InvariantLeaves {
  std::uint32_t heads_per_leaf = 1;
  std::uint32_t feed_forward_per_leaf = 1;  ///< the last leaf may be smaller
};

struct SplitPlan {
  SplitFacts facts;
  bool invariant = false;
  InvariantLeaves leaves;
  std::vector<RankShare> shares;

  [[nodiscard]] std::uint32_t ranks() const noexcept {
    return static_cast<std::uint32_t>(shares.size());
  }
};

/// Ranks from 1 to this are possible.
[[nodiscard]] std::uint32_t ranks_max(const SplitFacts& facts, bool invariant);

/// Errors: kInvalidArgument (ranks beyond what the model can be cut into, with the possible sizes).
[[nodiscard]] Result<SplitPlan> plan_split(const SplitFacts& facts, std::uint32_t ranks,
                                           bool invariant = false);

}  // namespace imex::inference
