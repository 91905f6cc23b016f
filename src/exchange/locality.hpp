/// Which ranks are near each other: what two-level algorithms need to know of the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "os/process.hpp"

namespace imex::exchange {

inline constexpr std::uint32_t kNowhere = 0xffff'ffffU;

/// Where all cores of a thread lie, in numbers that are the same for all processes of a machine,
/// whatever part of it they may use. kNowhere: the cores do not lie in one, or nobody knows.
struct Locality {
  std::uint32_t cache = kNowhere;  ///< first core of the L3 cache
  std::uint32_t node = kNowhere;   ///< NUMA node
};

/// The caches and NUMA nodes of a machine, as hwloc sees them. Thread-safe.
class Topology {
 public:
  /// Found out once per process, in some milliseconds. Knows nothing where the kernel tells
  /// nothing.
  [[nodiscard]] static const Topology& of_this_machine();
  /// From hwloc's description of a made-up machine, such as "pack:2 l3:2 core:2 pu:1".
  [[nodiscard]] static std::optional<Topology> synthetic(const char* description);

  [[nodiscard]] Locality locality_of(const os::CoreMask& cores) const;

 private:
  struct Area {
    os::CoreMask cores{};
    std::uint32_t number = 0;
  };
  static std::optional<Topology> load(const char* synthetic);

  std::vector<Area> caches_, nodes_;
};

/// Ranks, ascending; groups by their first rank, which leads.
using Groups = std::vector<std::vector<std::uint32_t>>;

/// By cache, else by node, whichever makes several groups, one of them of several ranks. Empty
/// where neither does. Pure.
[[nodiscard]] Groups group_ranks(std::span<const Locality> by_rank);

}  // namespace imex::exchange
