#include "locality.hpp"

#include <algorithm>
#include <memory>
#include <type_traits>

#include <hwloc.h>

namespace imex::exchange {

namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const noexcept { hwloc_topology_destroy(topology); }
};
using TopologyPtr = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Destroy>;

os::CoreMask mask_of(hwloc_const_cpuset_t set) {
  os::CoreMask mask{};
  for (std::size_t word = 0; word != mask.size(); ++word) {
    mask[word] = hwloc_bitmap_to_ith_ulong(set, static_cast<unsigned>(word));
  }
  return mask;
}
static_assert(sizeof(unsigned long) == sizeof(os::CoreMask::value_type));

bool within(const os::CoreMask& part, const os::CoreMask& whole) {
  for (std::size_t word = 0; word != part.size(); ++word) {
    if ((part[word] & ~whole[word]) != 0) return false;
  }
  return true;
}

/// The groups by one of the two numbers; empty where that makes no two levels.
Groups group_by(std::span<const Locality> by_rank, std::uint32_t Locality::* place) {
  Groups groups;
  std::vector<std::uint32_t> places;
  for (std::uint32_t rank = 0; rank != by_rank.size(); ++rank) {
    const std::uint32_t at = by_rank[rank].*place;
    if (at == kNowhere) return {};
    const auto known = std::ranges::find(places, at);
    if (known == places.end()) {
      places.push_back(at);
      groups.push_back({rank});
    } else {
      groups[static_cast<std::size_t>(known - places.begin())].push_back(rank);
    }
  }
  if (groups.size() < 2 || groups.size() == by_rank.size()) return {};
  return groups;
}

}  // namespace

std::optional<Topology> Topology::load(const char* synthetic) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return std::nullopt;
  const TopologyPtr topology(made);
  if (synthetic != nullptr && hwloc_topology_set_synthetic(made, synthetic) != 0)
    return std::nullopt;
  // Ranks in other control groups see other cores allowed: numbers must not depend on that.
  if (hwloc_topology_set_flags(made, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0 ||
      hwloc_topology_load(made) != 0) {
    return std::nullopt;
  }
  Topology found;
  const auto each = [&](hwloc_obj_type_t type, auto&& use) {
    for (hwloc_obj_t at = nullptr; (at = hwloc_get_next_obj_by_type(made, type, at)) != nullptr;) {
      use(*at);
    }
  };
  each(HWLOC_OBJ_L3CACHE, [&](const hwloc_obj& cache) {
    const int first = hwloc_bitmap_first(cache.cpuset);
    if (first >= 0)
      found.caches_.push_back({mask_of(cache.cpuset), static_cast<std::uint32_t>(first)});
  });
  each(HWLOC_OBJ_NUMANODE, [&](const hwloc_obj& node) {
    found.nodes_.push_back({mask_of(node.cpuset), node.os_index});
  });
  return found;
}

const Topology& Topology::of_this_machine() {
  // Never destroyed: a thread may still be on its way in when the process ends.
  static const Topology& topology = *new Topology(load(nullptr).value_or(Topology{}));
  return topology;
}

std::optional<Topology> Topology::synthetic(const char* description) { return load(description); }

Locality Topology::locality_of(const os::CoreMask& cores) const {
  Locality found;
  if (cores == os::CoreMask{}) return found;
  for (const Area& cache : caches_) {
    if (within(cores, cache.cores)) found.cache = cache.number;
  }
  for (const Area& node : nodes_) {
    if (within(cores, node.cores)) found.node = node.number;
  }
  return found;
}

Groups group_ranks(std::span<const Locality> by_rank) {
  Groups groups = group_by(by_rank, &Locality::cache);
  return groups.empty() ? group_by(by_rank, &Locality::node) : groups;
}

}  // namespace imex::exchange
