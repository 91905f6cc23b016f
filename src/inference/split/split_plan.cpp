#include "inference/split/split_plan.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "base/assert.hpp"

namespace imex::inference {
namespace {

std::uint32_t units_of(std::uint32_t count, std::uint32_t unit) {
  return (count + unit - 1) / unit;
}

InvariantLeaves leaves_of(const SplitFacts& facts) {
  // As many leaves of the feed-forward part as of the attention, so that neither limits T more.
  const std::uint32_t wanted = std::max(16U, units_of(facts.query_heads, facts.head_unit));
  const std::uint32_t units = units_of(facts.feed_forward, facts.feed_forward_unit);
  return {facts.head_unit, std::max(1U, units / wanted) * facts.feed_forward_unit};
}

/// Key-value heads that serve these query heads.
Range kv_of(const SplitFacts& facts, const Range& query_heads) {
  const std::uint32_t group = facts.query_heads / facts.kv_heads;
  return {query_heads.begin / group, units_of(query_heads.end, group)};
}

std::uint64_t attention_cost(const SplitFacts& facts, const Range& heads) {
  return heads.size() * facts.query_head_bytes + kv_of(facts, heads).size() * facts.kv_head_bytes;
}

using Cost = std::function<std::uint64_t(const Range&)>;

/// Cuts `count` units for `ranks` so that nobody's cost exceeds `limit`: each rank takes as many as
/// it may, but leaves one for each that follows. Nothing if that does not reach the end.
std::vector<Range> cut_below(std::uint32_t count, std::uint32_t ranks, const Cost& cost,
                             std::uint64_t limit) {
  std::vector<Range> ranges;
  std::uint32_t begin = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::uint32_t most = count - (ranks - rank - 1);
    std::uint32_t end = begin + 1;
    while (end < most && cost({begin, end + 1}) <= limit) ++end;
    if (cost({begin, end}) > limit) return {};
    ranges.push_back({begin, end});
    begin = end;
  }
  return begin == count ? ranges : std::vector<Range>{};
}

/// The cut whose dearest part costs least. Costs grow with the range.
std::vector<Range> cut_fairly(std::uint32_t count, std::uint32_t ranks, const Cost& cost) {
  IMEX_ASSERT(ranks != 0 && ranks <= count, "every rank gets a unit");
  std::uint64_t low = 0, high = cost({0, count});
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (cut_below(count, ranks, cost, middle).empty()) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return cut_below(count, ranks, cost, low);
}

/// The same in elements: `unit` elements per unit, the last unit possibly smaller.
std::vector<Range> cut_elements(std::uint32_t count, std::uint32_t unit, std::uint32_t ranks,
                                const Cost& cost) {
  const auto elements = [&](const Range& units) {
    return Range{units.begin * unit, std::min(units.end * unit, count)};
  };
  auto ranges = cut_fairly(units_of(count, unit), ranks,
                           [&](const Range& units) { return cost(elements(units)); });
  for (Range& range : ranges) range = elements(range);
  return ranges;
}

}  // namespace

std::uint32_t ranks_max(const SplitFacts& facts, bool invariant) {
  const InvariantLeaves leaves = leaves_of(facts);
  return std::min({units_of(facts.query_heads, facts.head_unit),
                   units_of(facts.feed_forward,
                            invariant ? leaves.feed_forward_per_leaf : facts.feed_forward_unit),
                   units_of(facts.vocabulary, facts.vocabulary_unit)});
}

Result<SplitPlan> plan_split(const SplitFacts& facts, std::uint32_t ranks, bool invariant) {
  const std::uint32_t most = ranks_max(facts, invariant);
  if (ranks == 0 || ranks > most) {
    return fail(Errc::kInvalidArgument,
                fmt::format("this model cannot be split over {} ranks: it has {} query heads, {} "
                            "key-value heads and a feed-forward size of {}",
                            ranks, facts.query_heads, facts.kv_heads, facts.feed_forward),
                most == 1 ? "only 1 rank is possible"
                          : fmt::format("possible are all numbers from 1 to {}", most));
  }
  SplitPlan plan{facts, invariant, leaves_of(facts), std::vector<RankShare>(ranks)};
  const auto heads = cut_elements(facts.query_heads, facts.head_unit, ranks,
                                  [&](const Range& range) { return attention_cost(facts, range); });
  const std::uint32_t unit =
      invariant ? plan.leaves.feed_forward_per_leaf : facts.feed_forward_unit;
  const auto size = [](const Range& range) { return std::uint64_t{range.size()}; };
  const auto feed_forward = cut_elements(facts.feed_forward, unit, ranks, size);
  const auto vocabulary = cut_elements(facts.vocabulary, facts.vocabulary_unit, ranks, size);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    RankShare& share = plan.shares[rank];
    share = {heads[rank], kv_of(facts, heads[rank]), feed_forward[rank], vocabulary[rank], 0};
    share.weight_bytes = facts.layers * (attention_cost(facts, share.query_heads) +
                                         share.feed_forward.size() * facts.feed_forward_bytes) +
                         share.vocabulary.size() * facts.vocabulary_bytes;
  }
  return plan;
}

}  // namespace imex::inference
