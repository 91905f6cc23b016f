// Properties of placement over random inventories, and the cases that the API documents.
#include "partition/model/placement.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace imex::partition {
namespace {

DomainId domain_id(int number) {
  DomainId id;
  id.uuid.bytes[15] = static_cast<std::byte>(number);
  return id;
}

struct Inventory {
  std::vector<FreeMachine> free;
  std::vector<PlacementDomain> domains;

  std::map<DomainId, std::uint32_t> usable() const {
    std::map<DomainId, std::uint32_t> out;
    for (const FreeMachine& machine : free)
      if (machine.domain) ++out[*machine.domain];
    for (const PlacementDomain& domain : domains)
      out[domain.id] -= std::min(out[domain.id], domain.reserved_for_others);
    return out;
  }
  std::uint32_t outside() const {
    return static_cast<std::uint32_t>(std::count_if(
        free.begin(), free.end(), [](const FreeMachine& machine) { return !machine.domain; }));
  }
  std::uint32_t usable_total() const {
    std::uint32_t total = outside();
    for (const auto& [id, count] : usable()) total += count;
    return total;
  }
  std::optional<DomainId> domain_of(const MachineId& id) const {
    for (const FreeMachine& machine : free)
      if (machine.id == id) return machine.domain;
    ADD_FAILURE() << "a machine that was not free: " << id.text;
    return std::nullopt;
  }
};

Inventory any_inventory() {
  Inventory inventory;
  const int domains = *rc::gen::inRange(0, 6);
  int next = 0;
  for (int d = 0; d < domains; ++d) {
    const int trays = *rc::gen::inRange(0, 19);
    for (int tray = 0; tray < trays; ++tray)
      inventory.free.push_back({{"m" + std::to_string(next++)},
                                domain_id(d),
                                static_cast<std::uint32_t>(*rc::gen::inRange(0, 18))});
    inventory.domains.push_back({domain_id(d), *rc::gen::inRange<std::uint32_t>(0, 5),
                                 *rc::gen::inRange<std::uint32_t>(0, 6),
                                 *rc::gen::inRange<std::uint32_t>(0, 2)});
  }
  const int outside = *rc::gen::inRange(0, 4);
  for (int i = 0; i < outside; ++i)
    inventory.free.push_back({{"m" + std::to_string(next++)}, std::nullopt, 0});
  return inventory;
}

std::set<DomainId> domains_of(const Inventory& inventory, const Placement& placement) {
  std::set<DomainId> out;
  for (const MachineId& id : placement.machines)
    if (const auto domain = inventory.domain_of(id)) out.insert(*domain);
  return out;
}

RC_GTEST_PROP(PlacementProperty, TakesFreeMachinesOnceAndLeavesReservationsAlone, ()) {
  const Inventory inventory = any_inventory();
  const PlacementRequest request{*rc::gen::inRange<std::uint32_t>(1, 24),
                                 *rc::gen::element(DomainRule::kIgnore, DomainRule::kPrefer),
                                 false};
  const auto placed = place(request, inventory.free, inventory.domains);
  RC_ASSERT(placed.has_value() == (inventory.usable_total() >= request.count));
  if (!placed) {
    RC_ASSERT(placed.error().code == Errc::kResourceExhausted);
    return;
  }
  RC_ASSERT(placed->machines.size() == request.count);
  RC_ASSERT(std::set<MachineId>(placed->machines.begin(), placed->machines.end()).size() ==
            request.count);
  std::map<DomainId, std::uint32_t> taken;
  for (const MachineId& id : placed->machines)
    if (const auto domain = inventory.domain_of(id)) ++taken[*domain];
  const auto usable = inventory.usable();
  for (const auto& [domain, count] : taken) RC_ASSERT(count <= usable.at(domain));
}

RC_GTEST_PROP(PlacementProperty, RequireMeansOneDomainAndFailsOnlyWhenNoneHasRoom, ()) {
  const Inventory inventory = any_inventory();
  const PlacementRequest request{*rc::gen::inRange<std::uint32_t>(2, 24), DomainRule::kRequire,
                                 *rc::gen::arbitrary<bool>()};
  const auto placed = place(request, inventory.free, inventory.domains);
  std::set<DomainId> with_members;
  for (const PlacementDomain& domain : inventory.domains)
    if (domain.members > 0) with_members.insert(domain.id);
  bool possible = false;
  for (const auto& [domain, count] : inventory.usable())
    possible |= count >= request.count &&
                (!request.join_members || with_members.empty() || with_members.contains(domain));
  RC_ASSERT(placed.has_value() == possible);
  if (placed) RC_ASSERT(domains_of(inventory, *placed).size() == 1U);
}

RC_GTEST_PROP(PlacementProperty, PreferTakesOneDomainWhereverRequireCould, ()) {
  const Inventory inventory = any_inventory();
  const auto count = *rc::gen::inRange<std::uint32_t>(2, 24);
  const auto required =
      place({count, DomainRule::kRequire, false}, inventory.free, inventory.domains);
  const auto preferred =
      place({count, DomainRule::kPrefer, false}, inventory.free, inventory.domains);
  if (required) {
    RC_ASSERT(preferred.has_value());
    RC_ASSERT(preferred->machines == required->machines);
  }
}

RC_GTEST_PROP(PlacementProperty, OrderOfTheInventoryDoesNotMatter, ()) {
  const Inventory inventory = any_inventory();
  const PlacementRequest request{
      *rc::gen::inRange<std::uint32_t>(1, 24),
      *rc::gen::element(DomainRule::kIgnore, DomainRule::kPrefer, DomainRule::kRequire), false};
  Inventory turned = inventory;
  std::reverse(turned.free.begin(), turned.free.end());
  std::reverse(turned.domains.begin(), turned.domains.end());
  const auto a = place(request, inventory.free, inventory.domains);
  const auto b = place(request, turned.free, turned.domains);
  RC_ASSERT(a.has_value() == b.has_value());
  if (a) RC_ASSERT(a->machines == b->machines);
}

Inventory racks(std::initializer_list<std::uint32_t> free_trays) {
  Inventory inventory;
  int domain = 1;
  for (const std::uint32_t trays : free_trays) {
    inventory.domains.push_back({domain_id(domain), 0, 0, 0});
    for (std::uint32_t tray = 0; tray < trays; ++tray)
      inventory.free.push_back(
          {{"r" + std::to_string(domain) + "t" + std::to_string(tray)}, domain_id(domain), tray});
    ++domain;
  }
  return inventory;
}

TEST(PlacementTest, BestFitKeepsTheLargeDomainWhole) {
  const Inventory inventory = racks({18, 5, 9});
  const auto placed = place({4, DomainRule::kRequire, false}, inventory.free, inventory.domains);
  ASSERT_TRUE(placed) << placed.error().to_string();
  EXPECT_EQ(domains_of(inventory, *placed), std::set{domain_id(2)});
  EXPECT_EQ(placed->machines.front().text, "r2t0");
}

TEST(PlacementTest, MembersOfThePartitionAttract) {
  Inventory inventory = racks({18, 5, 9});
  inventory.domains[2].members = 4;
  const auto placed = place({1, DomainRule::kPrefer, false}, inventory.free, inventory.domains);
  ASSERT_TRUE(placed) << placed.error().to_string();
  EXPECT_EQ(domains_of(inventory, *placed), std::set{domain_id(3)});
}

TEST(PlacementTest, AReservationForUsBeatsMembers) {
  Inventory inventory = racks({18, 5, 9});
  inventory.domains[2].members = 4;
  inventory.domains[0].reserved_for_us = 2;
  const auto placed = place({1, DomainRule::kPrefer, false}, inventory.free, inventory.domains);
  ASSERT_TRUE(placed) << placed.error().to_string();
  EXPECT_EQ(domains_of(inventory, *placed), std::set{domain_id(1)});
}

TEST(PlacementTest, RequireSaysHowManyAreFreeWhere) {
  Inventory inventory = racks({3, 2});
  inventory.domains[0].reserved_for_others = 1;
  const auto placed = place({4, DomainRule::kRequire, false}, inventory.free, inventory.domains);
  ASSERT_FALSE(placed);
  EXPECT_NE(
      placed.error().message.find("2 in domain " + domain_id(1).to_string() + " (1 more reserved)"),
      std::string::npos)
      << placed.error().message;
  EXPECT_NE(placed.error().message.find("2 in domain " + domain_id(2).to_string()),
            std::string::npos);
}

TEST(PlacementTest, SpillsIntoAsFewDomainsAsPossible) {
  const Inventory inventory = racks({3, 8, 4});
  const auto placed = place({11, DomainRule::kPrefer, false}, inventory.free, inventory.domains);
  ASSERT_TRUE(placed) << placed.error().to_string();
  EXPECT_EQ(domains_of(inventory, *placed), (std::set{domain_id(2), domain_id(3)}));
}

TEST(PlacementTest, MachinesOutsideAnyDomainAreNotTogether) {
  Inventory inventory;
  inventory.free = {{{"a"}, std::nullopt, 0}, {{"b"}, std::nullopt, 0}};
  EXPECT_FALSE(place({2, DomainRule::kRequire, false}, inventory.free, inventory.domains));
  EXPECT_TRUE(place({2, DomainRule::kPrefer, false}, inventory.free, inventory.domains));
}

}  // namespace
}  // namespace imex::partition
