#include "partition/model/placement.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

namespace imex::partition {
namespace {

/// The free machines of one domain, and how many of them this request may take.
struct Room {
  PlacementDomain domain;
  bool known = false;  ///< a domain of the request's list, or made up for machines outside any
  std::vector<const FreeMachine*> machines;
  std::uint32_t usable = 0;
};

/// Machines grouped by domain; those outside any domain form groups of one, since no two of them
/// can share memory.
std::vector<Room> rooms_of(std::span<const FreeMachine> free,
                           std::span<const PlacementDomain> domains) {
  std::map<DomainId, Room> by_domain;
  for (const PlacementDomain& domain : domains) by_domain[domain.id] = Room{domain, true, {}, 0};
  std::vector<Room> rooms;
  for (const FreeMachine& machine : free) {
    if (!machine.domain) {
      rooms.push_back(Room{{}, false, {&machine}, 1});
      continue;
    }
    Room& room = by_domain[*machine.domain];
    room.domain.id = *machine.domain;
    room.known = true;
    room.machines.push_back(&machine);
  }
  for (auto& [id, room] : by_domain) {
    const auto count = static_cast<std::uint32_t>(room.machines.size());
    room.usable = count - std::min(count, room.domain.reserved_for_others);
    std::sort(room.machines.begin(), room.machines.end(),
              [](const FreeMachine* a, const FreeMachine* b) {
                return std::tie(a->tray_index, a->id) < std::tie(b->tray_index, b->id);
              });
    rooms.push_back(std::move(room));
  }
  return rooms;
}

std::string describe(const std::vector<Room>& rooms) {
  std::string text;
  std::uint32_t outside = 0;
  for (const Room& room : rooms) {
    if (!room.known) {
      ++outside;
    } else {
      if (!text.empty()) text += ", ";
      text += fmt::format("{} in domain {}", room.usable, room.domain.id.to_string());
      if (room.domain.reserved_for_others > 0)
        text += fmt::format(" ({} more reserved)", room.machines.size() - std::size_t{room.usable});
    }
  }
  if (outside > 0)
    text += fmt::format("{}{} outside any domain", text.empty() ? "" : ", ", outside);
  return text.empty() ? "none" : text;
}

/// Whether `a` is the better home for `count` machines, both having room for them.
bool better_fit(const Room& a, const Room& b) {
  const auto rank = [](const Room& room) {
    return std::tuple(room.domain.reserved_for_us == 0, ~room.domain.members, room.usable,
                      room.domain.id);
  };
  return rank(a) < rank(b);
}

/// Takes up to `count` machines of a room.
void take(const Room& room, std::uint32_t count, std::vector<MachineId>& out) {
  for (std::uint32_t i = 0; i < std::min(count, room.usable); ++i)
    out.push_back(room.machines[i]->id);
}

/// The best room that has all of it, or null.
const Room* one_domain(const std::vector<Room>& rooms, std::uint32_t count, bool only_members) {
  const Room* best = nullptr;
  for (const Room& room : rooms)
    if (room.usable >= count && (!only_members || room.domain.members > 0) &&
        (best == nullptr || better_fit(room, *best)))
      best = &room;
  return best;
}

/// Fills the domains where we have something first, then the roomiest, so that few are used.
std::vector<MachineId> few_domains(std::vector<Room> rooms, std::uint32_t count) {
  std::sort(rooms.begin(), rooms.end(), [](const Room& a, const Room& b) {
    const auto rank = [](const Room& room) {
      return std::tuple(room.domain.reserved_for_us == 0, room.domain.members == 0, ~room.usable,
                        room.domain.id, room.machines.empty() ? MachineId{} : room.machines[0]->id);
    };
    return rank(a) < rank(b);
  });
  std::vector<MachineId> machines;
  for (const Room& room : rooms)
    take(room, count - static_cast<std::uint32_t>(machines.size()), machines);
  return machines;
}

}  // namespace

Result<Placement> place(const PlacementRequest& request, std::span<const FreeMachine> free,
                        std::span<const PlacementDomain> domains) {
  std::vector<Room> rooms = rooms_of(free, domains);
  const bool bound = request.rule == DomainRule::kRequire && request.join_members &&
                     std::any_of(rooms.begin(), rooms.end(),
                                 [](const Room& room) { return room.domain.members > 0; });
  Placement placement;
  // With kIgnore too: a batch that fits one domain costs others nothing by staying together.
  if (const Room* room = one_domain(rooms, request.count, bound)) {
    take(*room, request.count, placement.machines);
    return placement;
  }
  if (request.rule == DomainRule::kRequire)
    return fail(
        Errc::kResourceExhausted,
        fmt::format("{} free machines in one NVLink domain{} are needed; free: {}", request.count,
                    bound ? " that the logical partition is in already" : "", describe(rooms)),
        "ask for fewer, release instances, or let the request span domains");
  const std::string found = describe(rooms);
  placement.machines = few_domains(std::move(rooms), request.count);
  if (placement.machines.size() < request.count)
    return fail(Errc::kResourceExhausted,
                fmt::format("{} free machines are needed; free: {}", request.count, found),
                "ask for fewer, or release instances");
  return placement;
}

std::vector<DomainRoom> room_by_domain(std::span<const FreeMachine> free,
                                       std::span<const PlacementDomain> domains) {
  std::vector<DomainRoom> out;
  for (const Room& room : rooms_of(free, domains))
    if (room.known) out.push_back({room.domain.id, room.usable});
  std::sort(out.begin(), out.end(), [](const DomainRoom& a, const DomainRoom& b) {
    return std::tuple(~a.free, a.id) < std::tuple(~b.free, b.id);
  });
  return out;
}

}  // namespace imex::partition
