// Who is near whom, and what all_reduce in two levels needs to make use of it.

#include <algorithm>
#include <utility>

#include "base/result.hpp"
#include "core.hpp"

namespace imex::exchange {

Locality Core::own_locality() const {
  // The default order of float sums leaves no room for partial sums.
  if (options_.determinism == Determinism::kOrderInvariant || who_.ranks < 3) return {};
  if (options_.locality) return {.cache = *options_.locality};
  return Topology::of_this_machine().locality_of(os::core_mask());
}

std::unique_ptr<Lane> Core::make_level(const Lane& above, std::span<const std::uint32_t> members,
                                       const Level& level) const {
  const auto self =
      static_cast<std::uint32_t>(std::ranges::find(members, who_.rank) - members.begin());
  // The waits are those of the communicator: what ends them, whom they name.
  auto lane = std::make_unique<Lane>(self, static_cast<std::uint32_t>(members.size()), above.waits,
                                     level.layout.ring_slot_bytes());
  lane->buffers = above.buffers;
  lane->may_fetch = above.may_fetch;
  for (std::uint32_t peer = 0; peer != lane->ranks; ++peer) {
    if (peer == self) continue;
    const std::uint32_t rank = members[peer];
    link_pair(lane->links[peer], level.layout,
              {.lane = level.lane,
               .self = self,
               .peer = peer,
               .own = two_levels_->memory->data() + level.offset,
               .other = two_levels_->peers[rank].data + level.offset});
    lane->links[peer].header = above.links[rank].header;
    lane->links[peer].pid = above.links[rank].pid;
  }
  return lane;
}

Result<void> Core::make_two_levels(std::span<const Locality> by_rank) {
  const Groups groups = group_ranks(by_rank);
  if (groups.empty()) return {};
  GroupShape shape{.groups = static_cast<std::uint32_t>(groups.size())};
  std::vector<std::uint32_t> leaders, near;
  for (const auto& group : groups) {
    shape.largest = std::max(shape.largest, static_cast<std::uint32_t>(group.size()));
    leaders.push_back(group.front());
    if (std::ranges::find(group, who_.rank) != group.end()) near = group;
  }
  const bool leads = near.front() == who_.rank;
  // In the memory of a leader both lie one after the other, in that of others the first alone.
  IMEX_TRY(const Layout inner, Layout::make({shape.largest, options_.lanes, options_.slot_bytes}));
  IMEX_TRY(const Layout outer, Layout::make({shape.groups, options_.lanes, options_.slot_bytes}));
  const std::size_t both = inner.window_bytes() + outer.window_bytes();

  two_levels_ = std::make_unique<TwoLevels>();
  two_levels_->shape = shape;
  two_levels_->chunk_bytes_max = inner.ring_slot_bytes();
  two_levels_->among_leaders = TuningTable(shape.groups, tuning_.costs());
  if (auto memory = Allocation::create(leads ? both : inner.window_bytes())) {
    two_levels_->memory = std::make_shared<Allocation>(std::move(*memory));
    if (auto published = connector_->publish(two_levels_->memory))
      two_levels_->published = std::move(*published);
  }
  IMEX_TRY(const auto names,
           swap_notices(digest_of({shape.groups, shape.largest, inner.window_bytes(), both}),
                        two_levels_->published.name, Ends::kLossOrAbort));
  if (std::ranges::find(names, MemoryName{}) != names.end()) {
    two_levels_ = nullptr;  // a rank has no room for it: it goes without
    return {};
  }
  two_levels_->peers.resize(who_.ranks);
  const auto open = [&](std::span<const std::uint32_t> ranks, std::size_t bytes) -> Result<void> {
    for (const std::uint32_t rank : ranks) {
      PeerMemory& peer = two_levels_->peers[rank];
      if (rank == who_.rank || peer.data != nullptr) continue;
      auto opened = connector_->open(names[rank], bytes);
      if (!opened) return fail(why_gone(rank, Ends::kLossOrAbort, std::move(opened).error()));
      peer = std::move(*opened);
    }
    return {};
  };
  if (leads) IMEX_CHECK_OK(open(leaders, both));
  IMEX_CHECK_OK(open(near, inner.window_bytes()));

  for (std::uint32_t number = 0; number != options_.lanes; ++number) {
    Lane& lane = *lanes_[number];
    auto& below = two_levels_->lanes.emplace_back();
    if (near.size() > 1)
      below.group = make_level(lane, near, {.layout = inner, .offset = 0, .lane = number});
    if (leads)
      below.leaders = make_level(lane, leaders,
                                 {.layout = outer, .offset = inner.window_bytes(), .lane = number});
    lane.group = below.group.get();
    lane.leaders = below.leaders.get();
  }
  return {};
}

std::size_t Core::window_bytes() const noexcept {
  return layout_.window_bytes() + (two_levels_ == nullptr ? 0 : two_levels_->memory->size());
}

}  // namespace imex::exchange
