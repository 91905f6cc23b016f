// What a transformer needs before its first step: memory, and the order of its sums.
#include <algorithm>

#include "base/assert.hpp"
#include "transformer.hpp"

namespace imex::inference {
namespace {

constexpr std::uint64_t kPage = 4096;

struct Widths {
  std::uint32_t query = 0, kv = 0, feed_forward = 0;
};

Widths widths_of(const HyperParameters& parameters, const RankShare& share) {
  return {share.query_heads.size() * parameters.head_size,
          share.kv_heads.size() * parameters.head_size, share.feed_forward.size()};
}

std::uint32_t leaf_count(std::uint32_t count, std::uint32_t per_leaf) {
  return (count + per_leaf - 1) / per_leaf;
}

std::vector<Range> leaves_of_all(const SplitPlan& plan, Range RankShare::* part,
                                 std::uint32_t per_leaf) {
  std::vector<Range> owned;
  for (const RankShare& share : plan.shares) {
    const Range& range = share.*part;
    owned.push_back({range.begin / per_leaf, leaf_count(range.end, per_leaf)});
  }
  return owned;
}

/// The sums of both phases, as far as every rank knows them.
struct Orders {
  SumOrder attention, feed_forward;

  explicit Orders(const SplitPlan& plan) {
    if (!plan.invariant) {
      attention = feed_forward = SumOrder::by_rank(plan.ranks());
      return;
    }
    const SplitFacts& facts = plan.facts;
    attention =
        SumOrder::by_tree(leaf_count(facts.query_heads, plan.leaves.heads_per_leaf),
                          leaves_of_all(plan, &RankShare::query_heads, plan.leaves.heads_per_leaf));
    feed_forward = SumOrder::by_tree(
        leaf_count(facts.feed_forward, plan.leaves.feed_forward_per_leaf),
        leaves_of_all(plan, &RankShare::feed_forward, plan.leaves.feed_forward_per_leaf));
  }
};

PartialExchange::Shape shape_of(const HyperParameters& parameters, const Orders& orders,
                                std::uint32_t rows) {
  return {rows, parameters.hidden,
          std::max(orders.attention.sums_max, orders.feed_forward.sums_max),
          std::max(orders.attention.depth, orders.feed_forward.depth)};
}

/// Vectors that the sum of a subtree keeps at once besides its result.
std::uint64_t scratch_vectors(const SplitPlan& plan) {
  if (!plan.invariant) return 0;
  std::uint64_t depth = 1;
  while ((std::uint64_t{1} << depth) < std::max(plan.facts.query_heads, plan.facts.feed_forward)) {
    ++depth;
  }
  return depth;
}

std::uint64_t cache_bytes(const HyperParameters& parameters, const KvLayout& layout,
                          std::uint32_t blocks) {
  const std::uint64_t bytes =
      2 * std::uint64_t{parameters.layer_count()} * blocks * layout.block_floats() * sizeof(float);
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

Transformer::Memory Transformer::memory_of(const HyperParameters& parameters, const SplitPlan& plan,
                                           std::uint32_t rank, const Limits& limits) {
  const RankShare& share = plan.shares[rank];
  const Widths widths = widths_of(parameters, share);
  const std::uint64_t rows = limits.rows;
  const std::uint64_t widest = std::max({parameters.hidden, widths.query, widths.feed_forward});
  const Orders orders(plan);
  Memory memory;
  memory.cache =
      cache_bytes(parameters, {share.kv_heads.size(), parameters.head_size}, limits.kv_blocks);
  memory.window = PartialExchange::window_bytes(shape_of(parameters, orders, limits.rows));
  const std::uint64_t floats = rows * (std::uint64_t{3} * parameters.hidden + 2 * widths.query +
                                       2 * widths.kv + 2 * widths.feed_forward) +
                               scratch_vectors(plan) * rows * parameters.hidden +
                               std::uint64_t{limits.context} * parameters.head_size;
  // Inputs of products in both forms: 4 and 3 bytes each.
  memory.buffers = floats * sizeof(float) + 7 * rows * widest;
  return memory;
}

Result<Transformer> Transformer::create(const HyperParameters& parameters, const SplitPlan& plan,
                                        const RankWeights& weights, Rounds& rounds,
                                        const Limits& limits) {
  const std::uint32_t rank = rounds.rank();
  const RankShare& share = plan.shares[rank];
  const Widths widths = widths_of(parameters, share);
  const Orders orders(plan);
  Transformer made(parameters, weights);
  made.limits_ = limits;
  made.query_width_ = widths.query;
  made.kv_width_ = widths.kv;
  made.feed_forward_width_ = widths.feed_forward;
  made.plan_phases(plan, rank);
  IMEX_TRY(auto partials,
           PartialExchange::create(rounds, shape_of(parameters, orders, limits.rows)));
  made.partials_ = std::make_unique<PartialExchange>(std::move(partials));
  made.rope_ = std::make_unique<RopeTable>(RopeTable::Shape{
      parameters.head_size, limits.context, parameters.rope_theta, parameters.rope_factors});
  made.kv_layout_ = {share.kv_heads.size(), parameters.head_size};
  const std::uint64_t bytes = cache_bytes(parameters, made.kv_layout_, limits.kv_blocks);
  IMEX_TRY(const os::UniqueFd memory, os::make_memfd("imex-kv-cache", bytes));
  IMEX_TRY(made.cache_, os::Mapping::map(memory.get(), bytes, {.populate = true}));

  const std::size_t rows = limits.rows, hidden = parameters.hidden;
  made.inputs_ = std::make_unique<Activations>(
      rows, std::max({parameters.hidden, widths.query, widths.feed_forward}));
  for (auto* const buffer : {&made.stream_, &made.normed_, &made.head_in_}) {
    buffer->resize(rows * hidden);
  }
  for (auto* const buffer : {&made.query_, &made.attended_}) buffer->resize(rows * widths.query);
  for (auto* const buffer : {&made.key_, &made.value_}) buffer->resize(rows * widths.kv);
  for (auto* const buffer : {&made.gate_, &made.up_}) buffer->resize(rows * widths.feed_forward);
  made.leaf_sums_.resize(scratch_vectors(plan) * rows * made.partials_->stride());
  made.exchange_times_ = std::make_unique<ExchangeTimes>();
  return made;
}

void Transformer::plan_phases(const SplitPlan& plan, std::uint32_t rank) {
  const RankShare& share = plan.shares[rank];
  const std::uint32_t group = plan.facts.query_heads / plan.facts.kv_heads;
  for (std::uint32_t kv = share.kv_heads.begin; kv < share.kv_heads.end; ++kv) {
    const std::uint32_t begin = std::max(kv * group, share.query_heads.begin);
    const std::uint32_t end = std::min((kv + 1) * group, share.query_heads.end);
    groups_.push_back({kv - share.kv_heads.begin, begin - share.query_heads.begin, end - begin});
  }
  const Orders orders(plan);
  attention_phase_.order = orders.attention;
  feed_forward_phase_.order = orders.feed_forward;
  if (!plan.invariant) return;

  const auto leaves = [&](Phase& phase, const Range& range, std::uint32_t count,
                          std::uint32_t per_leaf, std::uint32_t width) {
    const Range owned{range.begin / per_leaf, leaf_count(range.end, per_leaf)};
    phase.first_leaf = owned.begin;
    phase.subtrees = maximal_subtrees(leaf_count(count, per_leaf), owned);
    for (std::uint32_t leaf = owned.begin; leaf < owned.end; ++leaf) {
      const std::uint32_t end = std::min((leaf + 1) * per_leaf, range.end);
      phase.leaves.push_back(
          {(leaf * per_leaf - range.begin) * width, (end - range.begin) * width});
    }
  };
  leaves(attention_phase_, share.query_heads, plan.facts.query_heads, plan.leaves.heads_per_leaf,
         parameters_->head_size);
  leaves(feed_forward_phase_, share.feed_forward, plan.facts.feed_forward,
         plan.leaves.feed_forward_per_leaf, 1);
}

}  // namespace imex::inference
