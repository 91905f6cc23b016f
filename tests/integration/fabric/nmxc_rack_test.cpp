// The client of fabric controllers against imex-rack: a partition's life, and faults as they happen
// in the field.
#include <algorithm>
#include <atomic>

#include "fabric/nmxc.hpp"
#include "rack_fixture.hpp"

namespace imex::fabric {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::RackProcess;

CallOptions soon() { return CallOptions::within(seconds(20)); }

std::string url_of(const nlohmann::json& rack, const char* port = "port") {
  return "http://" + rack["address"].get<std::string>() + ":" +
         std::to_string(rack[port].get<int>());
}

std::unique_ptr<FabricManager> manage(std::vector<std::string> endpoints) {
  nmxc::Options options;
  options.endpoints = std::move(endpoints);
  options.heartbeat = milliseconds(100);
  options.backoff = {.first = milliseconds(10), .max = milliseconds(50)};
  auto manager = nmxc::open(options);
  EXPECT_TRUE(manager) << manager.error().to_string();
  return *std::move(manager);
}

template <class Condition>
bool within_patience(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return true;
}

/// GPUs by their order in the rack, taken out of the default partition.
std::vector<std::uint64_t> free_gpus(FabricManager& manager, std::size_t count) {
  const auto snapshot = manager.observe(soon());
  EXPECT_TRUE(snapshot);
  std::vector<std::uint64_t> uids;
  for (std::size_t i = 0; i < count; ++i) uids.push_back(snapshot->gpus.at(i).uid);
  const auto freed =
      manager.update_partition({.id = kDefaultPartitionId}, {.remove = uids}, soon());
  EXPECT_TRUE(freed) << freed.error().error.to_string();
  return uids;
}

TEST(NmxcRackTest, TheLifeOfAPartition) {
  RackProcess rack;
  const auto manager = manage({url_of(rack.rack())});
  const auto description = manager->describe(soon());
  ASSERT_TRUE(description) << description.error().error.to_string();
  EXPECT_EQ(description->domain_uuid.to_string(), rack.rack()["domain_uuid"]);
  EXPECT_EQ(description->limits.gpus_per_node, 4U);
  auto snapshot = manager->observe(soon());
  ASSERT_TRUE(snapshot) << snapshot.error().error.to_string();
  ASSERT_EQ(snapshot->gpus.size(), 36U);
  EXPECT_EQ(snapshot->nodes.size(), 9U);
  EXPECT_EQ(snapshot->default_partition()->gpu_uids.size(), 36U);
  EXPECT_TRUE(snapshot->can_change());

  const auto uids = free_gpus(*manager, 4);
  const auto created =
      manager->create_partition({.name = "lp-1", .gpu_uids = {uids[0], uids[1]}}, soon());
  ASSERT_TRUE(created) << created.error().error.to_string();
  const PartitionTarget target{.id = created->id, .name = "lp-1"};
  ASSERT_TRUE(
      manager->update_partition(target, {.remove = {uids[0]}, .add = {uids[2], uids[3]}}, soon()));
  snapshot = manager->observe(soon());
  ASSERT_TRUE(snapshot);
  const ObservedPartition* partition = snapshot->find_partition(created->id);
  ASSERT_NE(partition, nullptr);
  std::vector<std::uint64_t> wanted{uids[1], uids[2], uids[3]};
  std::sort(wanted.begin(), wanted.end());
  EXPECT_EQ(partition->gpu_uids, wanted);
  EXPECT_EQ(snapshot->partition_of(uids[0]), nullptr);
  EXPECT_TRUE(snapshot->disputed.empty());

  const auto held = manager->create_partition({.name = "lp-2", .gpu_uids = {uids[1]}}, soon());
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code, NmxCode::kResourceInUse);
  EXPECT_EQ(held.error().effect, Effect::kNone);
  ASSERT_TRUE(manager->delete_partition(target, soon()));
  snapshot = manager->observe(soon());
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->find_partition(created->id), nullptr);
}

TEST(NmxcRackTest, TheDraftDialectIsSpokenToo) {
  RackProcess rack({"--personality", "draft"});
  nmxc::Options options;
  options.endpoints = {url_of(rack.rack())};
  options.dialect = nmxc::Dialect::kDraft;
  const auto manager = nmxc::open(options);
  ASSERT_TRUE(manager);
  const auto uids = free_gpus(**manager, 1);
  EXPECT_TRUE((*manager)->create_partition({.name = "lp-1", .gpu_uids = uids}, soon()));
}

TEST(NmxcRackTest, WhatWasAppliedDespiteAnErrorIsFoundByItsMembers) {
  RackProcess rack;
  const auto manager = manage({url_of(rack.rack())});
  const auto uids = free_gpus(*manager, 2);
  rack.fault({.kind = "error-but-applied", .count = 1});
  const auto created = manager->create_partition({.name = "lp-1", .gpu_uids = uids}, soon());
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().effect, Effect::kUnknown) << created.error().error.to_string();
  const auto snapshot = manager->observe(soon());
  ASSERT_TRUE(snapshot);
  ASSERT_NE(snapshot->partition_of(uids[0]), nullptr);
  EXPECT_EQ(snapshot->partition_of(uids[0])->gpu_uids.size(), 2U);
}

TEST(NmxcRackTest, ABlackHoleEndsAtTheDeadlineAndIsLeftBehind) {
  RackProcess rack;
  const auto manager = manage({url_of(rack.rack())});
  ASSERT_TRUE(manager->observe(soon()));
  rack.fault({.kind = "black-hole"});
  const auto silent = manager->observe(CallOptions::within(milliseconds(500)));
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().error.code, Errc::kDeadlineExceeded) << silent.error().error.to_string();
  rack.heal();
  EXPECT_TRUE(within_patience(
      [&] { return manager->observe(CallOptions::within(seconds(2))).has_value(); }));
}

TEST(NmxcRackTest, ARestartKeepsPartitionsAndIsAnotherInstance) {
  RackProcess rack;
  const auto manager = manage({url_of(rack.rack())});
  const auto uids = free_gpus(*manager, 1);
  ASSERT_TRUE(manager->create_partition({.name = "lp-1", .gpu_uids = uids}, soon()));
  const auto before = manager->observe(soon());
  rack.fault({.kind = "controller-restart"});
  EXPECT_TRUE(within_patience([&] {
    const auto snapshot = manager->observe(soon());
    return snapshot && snapshot->instance != before->instance &&
           snapshot->partition_of(uids[0]) != nullptr;
  }));
}

TEST(NmxcRackTest, TheOtherTrayTakesOver) {
  RackProcess rack;
  const auto first = rack.fault({.kind = "failover"});  // once, to learn the other tray's port
  ASSERT_TRUE(within_patience([&] { return rack.rack()["standby_port"] != 0; }));
  ASSERT_TRUE(rack.control().clear_fault("rack-0", first));
  const auto facts = rack.rack();
  const auto manager = manage({url_of(facts), url_of(facts, "standby_port")});
  ASSERT_TRUE(within_patience([&] { return manager->observe(soon()).has_value(); }));
  std::atomic<int> gaps{0};
  manager->watch(
      [&gaps](const FabricEvent& event) { gaps += event.kind == FabricEvent::Kind::kGap ? 1 : 0; });
  ASSERT_TRUE(within_patience([&] { return gaps > 0; }));
  const int told = gaps;
  rack.fault({.kind = "failover"});
  EXPECT_TRUE(within_patience([&] {
    const auto snapshot = manager->observe(soon());
    return snapshot && snapshot->endpoint == url_of(facts, "standby_port") &&
           snapshot->can_change();
  }));
  EXPECT_TRUE(within_patience([&] { return gaps > told; }));
  manager->watch(nullptr);
}

TEST(NmxcRackTest, AnotherRackBehindTheAddressIsRefused) {
  RackProcess rack;
  const auto manager = manage({url_of(rack.rack())});
  const auto uids = free_gpus(*manager, 1);
  rack.fault({.kind = "wrong-domain"});
  const auto created = manager->create_partition({.name = "lp-1", .gpu_uids = uids}, soon());
  EXPECT_FALSE(created);
  const auto snapshot = manager->observe(soon());
  ASSERT_FALSE(snapshot);
  EXPECT_EQ(snapshot.error().error.code, Errc::kFailedPrecondition)
      << snapshot.error().error.to_string();
}

}  // namespace
}  // namespace imex::fabric
