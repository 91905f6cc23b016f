/// Which machines new instances get: a pure function from inventory and request.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "partition/model/ids.hpp"

namespace imex::partition {

/// Whether all machines of a request must lie in one NVLink domain.
enum class DomainRule : std::uint8_t {
  kIgnore,   ///< any machines, domains only as tie-break
  kPrefer,   ///< one domain if one has room, else as few as possible
  kRequire,  ///< one domain or nothing
};

/// A machine that could be given now, and its domain.
struct FreeMachine {
  MachineId id{};
  std::optional<DomainId> domain{};  ///< none: not in any NVLink domain
  std::uint32_t tray_index = 0;
};

/// A domain as placement sees it.
struct PlacementDomain {
  DomainId id{};
  /// GPUs of the request's logical partitions that are there already.
  std::uint32_t members = 0;
  /// Free machines that are promised to others and may not be taken.
  std::uint32_t reserved_for_others = 0;
  /// Free machines kept for this request's logical partitions.
  std::uint32_t reserved_for_us = 0;
};

struct PlacementRequest {
  std::uint32_t count = 1;
  DomainRule rule = DomainRule::kPrefer;
  /// With kRequire: the partitions' present members also bind: only a domain that has some, if any
  /// domain has.
  bool join_members = false;
};

struct DomainRoom {
  DomainId id{};
  std::uint32_t free = 0;  ///< that this request could take
};

/// The chosen machines, in the order of the instances.
struct Placement {
  std::vector<MachineId> machines{};
};

/// Machines of one domain are taken in the order of their trays. Among domains that have room the
/// one with a reservation for us wins, then the one with most members, then the best fit (fewest
/// free machines left), then the lowest id; so equal inventories give equal placements. Errors:
/// kResourceExhausted, and the message says how many trays are free where.
[[nodiscard]] Result<Placement> place(const PlacementRequest& request,
                                      std::span<const FreeMachine> free,
                                      std::span<const PlacementDomain> domains);

/// What place() had to choose from, for answers: most room first.
[[nodiscard]] std::vector<DomainRoom> room_by_domain(std::span<const FreeMachine> free,
                                                     std::span<const PlacementDomain> domains);

}  // namespace imex::partition
