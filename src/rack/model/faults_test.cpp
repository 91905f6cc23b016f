// Every fault of a domain, by name: nmx-c.md, section 12. Those that only the transport shows are
// looked at here as states; what clients see of them is tests/integration/rack's.
#include <gmock/gmock.h>

#include "rack_fixture.hpp"

namespace imex::rack {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using enum ReturnCode;

class RackFaults : public RackTest {};

TEST_F(RackFaults, LinkDownIsScopedAndTimed) {
  make();
  fault(FaultKind::kLinkDown,
        {.tray = 1, .gpu = 1, .link = 18, .starts = now() + 5s, .ends = now() + 10s});
  EXPECT_EQ(health(1, 1), GpuHealth::kHealthy);
  EXPECT_EQ(domain().next_change(), now() + 5s);
  pass(5s);
  EXPECT_EQ(health(1, 1), GpuHealth::kNoNvlink);
  EXPECT_EQ(health(1, 2), GpuHealth::kHealthy);
  EXPECT_EQ(domain().physical().gpus[4].down, 1ULL << 17U);
  pass(5s);
  EXPECT_EQ(health(1, 1), GpuHealth::kHealthy);
  EXPECT_THAT(domain().faults().all(), IsEmpty());
}

TEST_F(RackFaults, LinkDownTellsWhatChanged) {
  make();
  static_cast<void>(domain().take_events());
  fault(FaultKind::kLinkDown, {.tray = 1, .gpu = 1, .link = 1});
  bool topology = false, of_health = false;
  for (const Event& event : domain().take_events()) {
    topology = topology || event.kind == Event::Kind::kTopology;
    of_health = of_health || event.kind == Event::Kind::kHealth;
  }
  EXPECT_TRUE(topology && of_health);
}

TEST_F(RackFaults, LinkFlapGoesUpAndDownAsOftenAsAsked) {
  make();
  fault(FaultKind::kLinkFlap, {.tray = 0, .gpu = 1, .link = 1, .count = 2, .delay = 2s});
  std::string seen;
  for (int second = 0; second < 6; ++second) {
    seen += health(0, 1) == GpuHealth::kHealthy ? 'u' : 'd';
    EXPECT_GT(domain().next_change(), now());
    pass(1s);
  }
  EXPECT_EQ(seen, "duduuu");
}

TEST_F(RackFaults, ContainedErrorMovesNoLinkButEndsSharing) {
  make();
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  fault(FaultKind::kContainedError, {.tray = 0});
  EXPECT_EQ(health(0, 1), GpuHealth::kHealthy) << "counters unmoved";
  EXPECT_NE(domain().physical().gpus[0].contained, 0U);
  EXPECT_FALSE(nvml(0, 1).attached);
}

TEST_F(RackFaults, GpuMissingStaysAMemberAndReturns) {
  make();
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  const std::uint64_t id = fault(FaultKind::kGpuMissing, {.tray = 0});
  EXPECT_EQ(domain().gpus().size(), 68U);
  EXPECT_EQ(domain().compute_trays().size(), 17U);
  EXPECT_EQ(domain().table().find(1)->members.size(), 4U);
  EXPECT_EQ(partition_health(1), PartitionHealth::kDegraded);
  EXPECT_THAT(domain().nvml(0), IsEmpty());
  EXPECT_EQ(create_code("b", tray(0)), kResourceBad);
  ASSERT_TRUE(domain().clear_fault(id, now()));
  EXPECT_EQ(domain().gpus().front().partition, 1U);
  EXPECT_EQ(partition_health(1), PartitionHealth::kHealthy);
}

TEST_F(RackFaults, GpuSwappedHasOtherUidsAndNoPartition) {
  make();
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  const std::uint64_t old = uid(0, 1);
  fault(FaultKind::kGpuSwapped, {.tray = 0});
  EXPECT_NE(uid(0, 1), old);
  EXPECT_FALSE(domain().find_uid(old));
  EXPECT_EQ(domain().gpus().front().partition, 0U);
  EXPECT_EQ(domain().table().find(1)->members.front().uid, old) << "the old uid is still named";
  EXPECT_EQ(create_code("b", tray(0)), kSuccess);
  EXPECT_FALSE(domain().inject({.kind = FaultKind::kGpuSwapped, .starts = now()}, now()))
      << "which tray?";
}

TEST_F(RackFaults, SwitchDegradedOnlyLosesBandwidth) {
  make();
  fault(FaultKind::kSwitchDegraded, {.chip = 0, .text = "degraded"});
  EXPECT_EQ(domain().physical().chip_health(domain().shape(), 0), SwitchHealth::kMissingNvlink);
  EXPECT_EQ(health(3, 1), GpuHealth::kDegradedBandwidth);
  EXPECT_EQ(nvml(3, 1).health_mask & 3U, 1U);
}

TEST_F(RackFaults, TrayPartitionLostDropsIt) {
  make();
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  ASSERT_EQ(create_code("b", tray(1)), kSuccess);
  fault(FaultKind::kTrayPartitionLost, {.tray = 0});
  EXPECT_THAT(listed(), ElementsAre(2U));
  EXPECT_EQ(domain().gpus().front().partition, 0U);
  EXPECT_FALSE(nvml(0, 1).attached);
}

TEST_F(RackFaults, ErrorButAppliedAndSuccessNotApplied) {
  make();
  fault(FaultKind::kErrorButApplied, {.method = "CreatePartition", .count = 1});
  EXPECT_EQ(create_code("a", tray(0)), kGenericError);
  EXPECT_THAT(listed(), ElementsAre(1U));
  fault(FaultKind::kSuccessNotApplied, {.count = 1});
  EXPECT_EQ(create_code("b", tray(1)), kSuccess);
  EXPECT_THAT(listed(), ElementsAre(1U));
  EXPECT_EQ(create_code("b", tray(1)), kSuccess) << "counted: only once";
  EXPECT_THAT(listed(), ElementsAre(1U, 2U));
}

TEST_F(RackFaults, LateApplyHappensAfterTheAnswer) {
  make();
  fault(FaultKind::kLateApply, {.count = 1, .delay = 3s});
  EXPECT_EQ(create_code("a", tray(0)), kTimeout);
  EXPECT_THAT(listed(), IsEmpty());
  EXPECT_EQ(domain().next_change(), now() + 3s);
  pass(3s);
  EXPECT_THAT(listed(), ElementsAre(1U));
}

TEST_F(RackFaults, AppliedButHiddenRefusesTheGpusMeanwhile) {
  make();
  fault(FaultKind::kAppliedButHidden, {.count = 1, .delay = 60s});
  EXPECT_EQ(create_code("a", tray(0)), kSuccess);
  EXPECT_THAT(listed(), IsEmpty());
  EXPECT_EQ(domain().gpus().front().partition, 0U);
  EXPECT_EQ(create_code("b", tray(0)), kResourceInUse);
  pass(60s);
  EXPECT_THAT(listed(), ElementsAre(1U));
}

TEST_F(RackFaults, PartialApplyTakesAPrefix) {
  make();
  fault(FaultKind::kPartialApply, {.count = 1});
  EXPECT_EQ(create_code("a", tray(0)), kGenericError);
  EXPECT_EQ(domain().table().find(1)->members.size(), 2U);
  fault(FaultKind::kPartialApply, {.count = 1, .text = "success"});
  EXPECT_EQ(create_code("b", tray(1)), kSuccess);
  EXPECT_EQ(domain().table().find(2)->members.size(), 2U);
}

TEST_F(RackFaults, EmptyAndForeignPartitionsAppear) {
  make();
  fault(FaultKind::kEmptyPartition);
  EXPECT_TRUE(domain().table().find(1)->members.empty());
  fault(FaultKind::kForeignPartition, {.tray = 3, .text = "theirs"});
  EXPECT_EQ(domain().table().find_name("theirs")->members.size(), 4U);
  make("nvl72", {});
  fault(FaultKind::kForeignPartition, {.tray = 3, .text = "theirs"});
  EXPECT_EQ(domain().table().find_name("theirs")->members.size(), 4U)
      << "taken out of the default partition";
}

TEST_F(RackFaults, IdReuseHandsFreedIdsOutAgain) {
  make();
  fault(FaultKind::kIdReuse);
  ASSERT_EQ(create("a", tray(0)).partition, 1U);
  ASSERT_EQ(drop(1), kSuccess);
  EXPECT_EQ(create("b", tray(1)).partition, 1U);
}

TEST_F(RackFaults, StillBoundAndStillListedTrailADelete) {
  make();
  fault(FaultKind::kStillBound, {.delay = 5s});
  fault(FaultKind::kStillListed, {.delay = 25s});
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  ASSERT_EQ(drop(1), kSuccess);
  EXPECT_EQ(create_code("b", tray(0)), kResourceInUse);
  EXPECT_THAT(listed(), ElementsAre(1U));
  pass(5s);
  EXPECT_EQ(create_code("b", tray(0)), kSuccess);
  EXPECT_THAT(listed(), ElementsAre(1U, 2U));
  pass(20s);
  EXPECT_THAT(listed(), ElementsAre(2U));
}

TEST_F(RackFaults, GroupsExhaustedLeavesOnlyPartitionsWithout) {
  make();
  fault(FaultKind::kGroupsExhausted);
  EXPECT_EQ(domain().groups_left(), 0U);
  EXPECT_EQ(create_code("a", tray(0), 4), kResourceExhausted);
  EXPECT_EQ(create_code("a", tray(0), 0), kSuccess);
}

TEST_F(RackFaults, BadLimitIsNotCheckedWhileItHolds) {
  make();
  EXPECT_EQ(create_code("a", tray(0), 18), kBadParam);
  fault(FaultKind::kBadLimit);
  EXPECT_EQ(create_code("a", tray(0), 18), kSuccess);
}

TEST_F(RackFaults, ControllerRestartAndBlipKeepPartitions) {
  make("nvl72", {});
  for (const FaultKind kind : {FaultKind::kControllerRestart, FaultKind::kControllerBlip}) {
    ASSERT_EQ(domain().hello("me", "c", 2), kSuccess);
    const Uuid before = domain().instance();
    static_cast<void>(domain().take_events());
    fault(kind, {.delay = 2s});
    EXPECT_EQ(domain().take_events().front().kind, Event::Kind::kRestarted) << "streams end";
    EXPECT_NE(domain().instance(), before);
    EXPECT_EQ(domain().admit("me", "c", Domain::Access::kRead), kConnectionNotValid);
    ASSERT_EQ(domain().hello("me", "c", 2), kSuccess);
    EXPECT_EQ(domain().admit("me", "c", Domain::Access::kRead), kNotReady);
    pass(2s);
    EXPECT_EQ(domain().admit("me", "c", Domain::Access::kRead), kSuccess);
    EXPECT_THAT(listed(), ElementsAre(kDefaultPartitionId));
    EXPECT_THAT(domain().faults().all(), IsEmpty()) << "an event is over when it happened";
  }
}

TEST_F(RackFaults, FailoverChangesTheInstanceNotTheDomain) {
  make();
  const Uuid before = domain().instance(), uuid = domain().uuid();
  const std::uint64_t id = fault(FaultKind::kFailover);
  EXPECT_NE(domain().instance(), before);
  EXPECT_EQ(domain().uuid(), uuid);
  const Uuid moved = domain().instance();
  ASSERT_TRUE(domain().clear_fault(id, now()));
  EXPECT_NE(domain().instance(), moved) << "and back";
}

TEST_F(RackFaults, StatesThatTheTransportShowsHold) {
  make();
  for (const FaultKind kind : {FaultKind::kUnreachable, FaultKind::kSplit, FaultKind::kCertRotated,
                               FaultKind::kCertExpired}) {
    fault(kind, {.ends = now() + 1s});
    EXPECT_NE(domain().faults().holds(kind), nullptr);
    pass(1s);
    EXPECT_EQ(domain().faults().holds(kind), nullptr);
  }
}

TEST_F(RackFaults, BlackHoleAndSlowBefallCallsByMethodAndCount) {
  make();
  fault(FaultKind::kBlackHole, {.method = "CreatePartition", .count = 2});
  EXPECT_FALSE(domain().befalls(FaultKind::kBlackHole, {"Hello", 0}, now()));
  EXPECT_TRUE(domain().befalls(FaultKind::kBlackHole, {"CreatePartition", 0}, now()));
  EXPECT_TRUE(domain().befalls(FaultKind::kBlackHole, {"CreatePartition", 0}, now()));
  EXPECT_FALSE(domain().befalls(FaultKind::kBlackHole, {"CreatePartition", 0}, now()));
  fault(FaultKind::kSlow, {.probability = 0.5});
  int slow = 0;
  for (int call = 0; call < 1000; ++call)
    slow += domain().befalls(FaultKind::kSlow, {"Hello", 0}, now()) ? 1 : 0;
  EXPECT_GT(slow, 400);
  EXPECT_LT(slow, 600);
}

TEST_F(RackFaults, WrongDomainTellsAnotherUuid) {
  make();
  const Uuid right = domain().uuid();
  fault(FaultKind::kWrongDomain, {.ends = now() + 1s});
  EXPECT_NE(domain().uuid(), right);
  pass(1s);
  EXPECT_EQ(domain().uuid(), right);
}

TEST_F(RackFaults, AmnesiaLeavesTheDefaultPartitionOrNothing) {
  make("nvl72", {});
  ASSERT_EQ(take(kDefaultPartitionId, tray(0)), kSuccess);
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  fault(FaultKind::kAmnesia);
  EXPECT_THAT(listed(), ElementsAre(kDefaultPartitionId));
  EXPECT_EQ(domain().table().find(kDefaultPartitionId)->members.size(), 72U);
  fault(FaultKind::kAmnesia, {.text = "nothing-left"});
  EXPECT_THAT(listed(), IsEmpty());
}

TEST_F(RackFaults, DatabaseFaultsRefuseChangesOnly) {
  make("nvl72", {"session=off"});
  using Access = Domain::Access;
  fault(FaultKind::kDbError, {.ends = now() + 1s});
  EXPECT_EQ(domain().admit("", "", Access::kChange), kDbError);
  EXPECT_EQ(domain().admit("", "", Access::kRead), kSuccess);
  pass(1s);
  fault(FaultKind::kDbCorrupt);
  EXPECT_EQ(domain().admit("", "", Access::kChange), kDbCorruption);
  EXPECT_EQ(domain().controller_health(), ControllerHealth::kCorruptDatabase);
}

TEST_F(RackFaults, StaleCliqueOutlivesResets) {
  make("nvl72", {"default-partition=absent", "clique-change=immediate"});
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  fault(FaultKind::kStaleClique, {.ends = now() + 1s});
  ASSERT_EQ(drop(1), kSuccess);
  ASSERT_EQ(create_code("b", tray(0)), kSuccess);
  domain().reset_gpu(0, 0);
  EXPECT_EQ(nvml(0, 1).clique, 1U);
  EXPECT_FALSE(nvml(0, 1).attached);
  pass(1s);
  domain().reset_gpu(0, 0);
  EXPECT_EQ(nvml(0, 1).clique, 2U);
}

TEST_F(RackFaults, NoPartitionTakesGpusOut) {
  make();
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  fault(FaultKind::kNoPartition, {.tray = 0, .gpu = 2});
  EXPECT_EQ(domain().table().find(1)->members.size(), 3U);
  domain().reset_gpu(0, 2);
  EXPECT_EQ(nvml(0, 2).state, NvmlGpu::State::kInProgress);
  EXPECT_EQ(nvml(0, 2).health_mask >> 8U, 4U) << "no partition";
}

TEST_F(RackFaults, SameCliqueElsewhereAndSeveralDomains) {
  make();
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  fault(FaultKind::kSameCliqueElsewhere, {.number = 32'766});
  EXPECT_EQ(nvml(0, 1).clique, 32'766U);
  const std::string own = domain().chassis_serial(0);
  fault(FaultKind::kSeveralDomains, {.number = 7});
  EXPECT_NE(domain().chassis_serial(0), own);
  EXPECT_EQ(domain().chassis_serial(0), Identities(1, 7, false).chassis_serial(0));
}

TEST_F(RackFaults, VersionRefusesTheOtherMajor) {
  make();
  fault(FaultKind::kVersion, {.number = 3});
  EXPECT_EQ(domain().hello("me", "c", 2), kVersionMismatch);
  EXPECT_EQ(domain().hello("me", "c", 3), kSuccess);
}

TEST_F(RackFaults, NameCollisionCutsNames) {
  make();
  fault(FaultKind::kNameCollision, {.number = 8});
  EXPECT_EQ(create_code("partition-1", tray(0)), kSuccess);
  EXPECT_EQ(create_code("partition-2", tray(1)), kPartitionNameInUse);
  EXPECT_EQ(domain().table().find(1)->name, "partitio");
}

TEST_F(RackFaults, IndexConfusionReordersNvml) {
  make();
  fault(FaultKind::kIndexConfusion);
  std::vector<std::uint32_t> modules;
  for (const NvmlGpu& gpu : domain().nvml(0)) modules.push_back(gpu.module);
  EXPECT_THAT(modules, ElementsAre(4, 3, 2, 1));
}

TEST_F(RackFaults, FaultsOutsideTheRackAreRefused) {
  make();
  const auto refused = [&](Fault wrong) {
    wrong.starts = now();
    return !domain().inject(wrong, now());
  };
  EXPECT_TRUE(refused({.kind = FaultKind::kLinkDown, .tray = 18}));
  EXPECT_TRUE(refused({.kind = FaultKind::kLinkDown, .gpu = 1})) << "on which tray?";
  EXPECT_TRUE(refused({.kind = FaultKind::kLinkDown, .tray = 0, .gpu = 5}));
  EXPECT_TRUE(refused({.kind = FaultKind::kLinkDown, .tray = 0, .gpu = 1, .link = 19}));
  EXPECT_TRUE(refused({.kind = FaultKind::kSwitchDegraded, .chip = 18}));
  EXPECT_TRUE(refused({.kind = FaultKind::kSwitchDegraded}));
  EXPECT_TRUE(refused({.kind = FaultKind::kSlow, .probability = 1.5}));
  EXPECT_TRUE(refused({.kind = FaultKind::kOpStuck})) << "the manager's";
  EXPECT_TRUE(refused({.kind = FaultKind::kSlow, .ends = now()}));
}

TEST_F(RackFaults, FaultsAreFoundByName) {
  std::set<std::string_view> names;
  for (const FaultFacts& facts : all_faults()) {
    EXPECT_TRUE(names.insert(facts.name).second);
    EXPECT_EQ(find_fault(facts.name), facts.kind);
  }
  EXPECT_EQ(names.size(), 52U) << "39 of the controller, 13 of the manager";
  EXPECT_FALSE(find_fault("link_down"));
}

TEST_F(RackFaults, ClearingByKindLeavesTheOthers) {
  make();
  fault(FaultKind::kLinkDown, {.tray = 0});
  fault(FaultKind::kLinkDown, {.tray = 1});
  fault(FaultKind::kIdReuse);
  EXPECT_EQ(domain().clear_faults(FaultKind::kLinkDown, now()), 2U);
  EXPECT_EQ(domain().faults().all().size(), 1U);
  EXPECT_EQ(health(0, 1), GpuHealth::kHealthy);
  EXPECT_EQ(domain().clear_faults({}, now()), 1U);
}

}  // namespace
}  // namespace imex::rack
