// What the simulator enforces: nmx-c.md, section 10 by number, and the tables of 8.2 to 8.4 and 11.
#include <set>

#include <gmock/gmock.h>

#include "rack_fixture.hpp"

namespace imex::rack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using enum ReturnCode;

class RackRules : public RackTest {};

// ---- 2: a GPU in at most one partition; ids 1 to 32766; ids and names unique

TEST_F(RackRules, GpuIsInOnePartitionOnly) {
  make();
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  EXPECT_EQ(create_code("b", {uid(0, 1)}), kResourceInUse);
  const auto other = create("b", tray(1));
  EXPECT_EQ(add(other.partition, {uid(0, 2)}), kResourceInUse);
  EXPECT_EQ(domain().table().owner(uid(0, 1)), 1U);
}

TEST_F(RackRules, GpusOfTheDefaultPartitionAreInUse) {
  make("nvl72", {});
  EXPECT_THAT(listed(), ElementsAre(kDefaultPartitionId));
  EXPECT_EQ(domain().partitions().front()->members.size(), 72U);
  EXPECT_EQ(create_code("a", tray(0)), kResourceInUse);
  ASSERT_EQ(take(kDefaultPartitionId, tray(0)), kSuccess);
  EXPECT_EQ(create_code("a", tray(0)), kSuccess);
}

TEST_F(RackRules, IdsRunFromOneToThe32766) {
  make();
  EXPECT_EQ(create_code("high", {}, 0, 32'767), kBadParam);
  EXPECT_EQ(create("last", {}, 0, 32'765).partition, 32'765U);
  EXPECT_EQ(create("first", {}).partition, 1U)
      << "upward from the last one handed out, around the end";
}

TEST_F(RackRules, IdsAndNamesAreUnique) {
  make();
  ASSERT_EQ(create_code("a", tray(0), 0, 7), kSuccess);
  EXPECT_EQ(create_code("b", tray(1), 0, 7), kPartitionIdInUse);
  EXPECT_EQ(create_code("a", tray(1)), kPartitionNameInUse);
  EXPECT_EQ(create_code("a", tray(0), 0, 7), kPartitionExists) << "nothing to do";
  EXPECT_EQ(create_code("a", tray(1), 0, 7), kPartitionNameInUse) << "same id and name, other GPUs";
}

TEST_F(RackRules, NamesAreBoundedAsciiAndTheDefaultOneIsReserved) {
  make();
  EXPECT_EQ(create_code(std::string(256, 'x'), {}), kBadParam);
  EXPECT_EQ(create_code(std::string(255, 'x'), {}), kSuccess);
  EXPECT_EQ(create_code("n\xc3\xa4me", {}), kBadParam);
  EXPECT_EQ(create_code("Default Partition", {}), kBadParam);
  EXPECT_EQ(create_code("Default Partition", {}, 0, kDefaultPartitionId), kSuccess);
}

TEST_F(RackRules, EmptyNameIsMadeUp) {
  make();
  const auto first = create("", {});
  ASSERT_EQ(first.code, kSuccess);
  EXPECT_FALSE(domain().table().find(first.partition)->name.empty());
  EXPECT_EQ(create_code("", {}), kSuccess);
}

TEST_F(RackRules, SameGpuTwiceInOneRequestCountsOnce) {
  make();
  const auto made = create("a", {uid(0, 1), uid(0, 1)});
  EXPECT_EQ(domain().table().find(made.partition)->members.size(), 1U);
}

TEST_F(RackRules, FreedIdsContinueUpwardUnlessReuseIsAsked) {
  make();
  ASSERT_EQ(create("a", {}).partition, 1U);
  ASSERT_EQ(drop(1), kSuccess);
  EXPECT_EQ(create("b", {}).partition, 2U);
  make("nvl72", {"default-partition=absent", "ids=reuse-lowest"});
  ASSERT_EQ(create("a", {}).partition, 1U);
  ASSERT_EQ(drop(1), kSuccess);
  EXPECT_EQ(create("b", {}).partition, 1U);
}

// ---- 3: the kind of members is fixed by the first GPU, except on 32766

TEST_F(RackRules, KindIsFixedByTheFirstGpu) {
  make();
  const GpuPlace place = domain().shape().place_of_gpu(8);
  EXPECT_EQ(create_code("mixed", {uid(0, 1), place}), kBadParam);
  const auto empty = create("a", {});
  EXPECT_EQ(domain().table().find(empty.partition)->kind, PartitionKind::kUndefined);
  ASSERT_EQ(add(empty.partition, {uid(0, 1)}), kSuccess);
  EXPECT_EQ(domain().table().find(empty.partition)->kind, PartitionKind::kByUid);
  EXPECT_EQ(add(empty.partition, {place}), kBadParam);
  EXPECT_EQ(take(empty.partition, {domain().shape().place_of_gpu(0)}), kBadParam);
}

TEST_F(RackRules, DefaultPartitionTakesBothKinds) {
  make("nvl72", {});
  EXPECT_EQ(take(kDefaultPartitionId, {domain().shape().place_of_gpu(0)}), kSuccess);
  EXPECT_EQ(take(kDefaultPartitionId, {uid(0, 2)}), kSuccess);
  EXPECT_EQ(domain().table().find(kDefaultPartitionId)->members.size(), 70U);
}

// ---- 4: multicast groups

TEST_F(RackRules, GroupsAreFoursWithinOneBudget) {
  make();
  EXPECT_EQ(create_code("a", {}, 3), kBadParam);
  EXPECT_EQ(create_code("a", {}, 1028), kBadParam);
  EXPECT_EQ(create_code("a", {}, 1000), kSuccess);
  EXPECT_EQ(domain().groups_left(), 24U);
  EXPECT_EQ(create_code("b", {}, 28), kResourceExhausted);
  EXPECT_EQ(create_code("b", {}, 24), kSuccess);
  EXPECT_EQ(create_code("c", {}, 0), kSuccess) << "works without groups";
  ASSERT_EQ(drop(0, "a"), kSuccess);
  EXPECT_EQ(domain().groups_left(), 1000U);
}

TEST_F(RackRules, DefaultPartitionHoldsAllGroupsWhileItStands) {
  make("nvl72", {});
  ASSERT_EQ(take(kDefaultPartitionId, tray(0)), kSuccess);
  EXPECT_EQ(create_code("a", tray(0), 4), kResourceExhausted) << "shrinking it frees none";
  ASSERT_EQ(drop(kDefaultPartitionId), kSuccess);
  EXPECT_EQ(create_code("a", tray(0), 16), kSuccess);
}

// ---- 5: a failed change changes nothing

TEST_F(RackRules, FailedChangeChangesNothing) {
  make();
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  const std::uint64_t before = domain().revision();
  EXPECT_EQ(create_code("b", {uid(1, 1), uid(0, 1)}), kResourceInUse);
  EXPECT_EQ(create_code("b", {uid(1, 1), std::uint64_t{99}}), kResourceBad);
  EXPECT_EQ(add(1, {uid(1, 1), std::uint64_t{99}}), kResourceBad);
  EXPECT_EQ(domain().table().owner(uid(1, 1)), 0U);
  EXPECT_EQ(domain().revision(), before);
  EXPECT_THAT(listed(), ElementsAre(1U));
}

// ---- order of the checks, targets, leniency (8.2)

TEST_F(RackRules, FirstConditionThatFailsDecides) {
  make();
  ASSERT_EQ(create_code("a", tray(0), 1024, 1), kSuccess);
  EXPECT_EQ(create_code("a", {std::uint64_t{99}}, 3, 1), kBadParam) << "limit before name";
  EXPECT_EQ(create_code("a", {std::uint64_t{99}}, 4, 1), kPartitionNameInUse) << "name before id";
  EXPECT_EQ(create_code("b", {std::uint64_t{99}}, 4, 1), kPartitionIdInUse) << "id before GPU";
  EXPECT_EQ(create_code("b", {std::uint64_t{99}}, 4), kResourceBad) << "GPU before groups";
  EXPECT_EQ(create_code("b", {uid(0, 1)}, 4), kResourceInUse);
  EXPECT_EQ(create_code("b", {uid(1, 1)}, 4), kResourceExhausted);
}

TEST_F(RackRules, TargetsAreFoundByIdOrName) {
  make();
  ASSERT_EQ(create_code("a", {}), kSuccess);
  ASSERT_EQ(create_code("b", {}), kSuccess);
  EXPECT_EQ(add(0, tray(0)), kBadParam);
  EXPECT_EQ(add(9, tray(0)), kPartitionIdNotInUse);
  EXPECT_EQ(add(0, tray(0), "c"), kPartitionNameNotInUse);
  EXPECT_EQ(add(1, tray(0), "b"), kPartitionIdNameMismatch);
  EXPECT_EQ(add(1, tray(0), "a"), kSuccess);
  EXPECT_EQ(add(0, tray(1), "b"), kSuccess);
}

TEST_F(RackRules, LenientControllersForgive) {
  make();
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  EXPECT_EQ(add(1, tray(0)), kSuccess) << "already there";
  EXPECT_EQ(take(1, tray(1)), kSuccess) << "not in it";
  EXPECT_EQ(drop(77), kSuccess) << "no such id";
  EXPECT_EQ(drop(0, "c"), kPartitionNameNotInUse);
}

TEST_F(RackRules, StrictControllersDoNot) {
  make("nvl72", {"default-partition=absent", "errors=strict"});
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  EXPECT_EQ(take(1, tray(1)), kResourceNotInUse);
  EXPECT_EQ(drop(77), kPartitionIdNotInUse);
}

TEST_F(RackRules, Personality13HasItsOwnCodes) {
  make("nvl72", {"default-partition=absent", "codes=1.3"});
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  EXPECT_EQ(create_code("b", tray(0)), kUsedInAnotherPartition);
  EXPECT_EQ(add(1, tray(0)), kUsedInThisPartition);
  fault(FaultKind::kSwitchDegraded, {.chip = 3});
  EXPECT_EQ(create_code("b", tray(1)), kMissingSwitches);
}

TEST_F(RackRules, UnknownGpuIsResourceBadOrBadParam) {
  make();
  EXPECT_EQ(create_code("a", {std::uint64_t{99}}), kResourceBad);
  EXPECT_EQ(create_code("a", {GpuPlace{{1, 9, 1}, 1}}), kResourceBad)
      << "slot 9 is a switch tray's";
  make("nvl72", {"default-partition=absent", "unknown-gpu=badparam"});
  EXPECT_EQ(create_code("a", {std::uint64_t{99}}), kBadParam);
}

TEST_F(RackRules, RegisteringAndLinklessGpusAreRefused) {
  make();
  fault(FaultKind::kGpuMissing, {.tray = 2, .text = "registering"});
  EXPECT_EQ(create_code("a", tray(2)), kResourceNotReady);
  fault(FaultKind::kLinkDown, {.tray = 3, .gpu = 1, .link = 5});
  EXPECT_EQ(create_code("a", tray(3)), kNvlinkError);
}

TEST_F(RackRules, EmptyPartitionIsHealthyAndOfNoKind) {
  make();
  const auto made = create("a", {});
  EXPECT_EQ(partition_health(made.partition), PartitionHealth::kHealthy);
  ASSERT_EQ(add(made.partition, tray(0)), kSuccess);
  ASSERT_EQ(take(made.partition, tray(0)), kSuccess);
  EXPECT_THAT(listed(), ElementsAre(1U)) << "taking the last GPU leaves it";
}

TEST_F(RackRules, DeletedPartitionsGpusFallIntoNone) {
  make("nvl72", {});
  ASSERT_EQ(take(kDefaultPartitionId, tray(0)), kSuccess);
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  ASSERT_EQ(drop(0, "a"), kSuccess);
  EXPECT_EQ(domain().table().owner(uid(0, 1)), 0U);
  ASSERT_EQ(drop(kDefaultPartitionId), kSuccess);
  EXPECT_EQ(drop(kDefaultPartitionId), kSuccess) << "a second delete is no error";
  EXPECT_THAT(listed(), IsEmpty());
}

// ---- 6: everything derives from one table

TEST_F(RackRules, ViewsAgreeOverRandomChanges) {
  make("nvl36", {"clique-change=immediate"});
  std::mt19937_64 random(7);
  for (int step = 0; step < 400; ++step) {
    const unsigned number = static_cast<unsigned>(random() % 9);
    const std::uint32_t id = static_cast<std::uint32_t>(random() % 6);
    switch (random() % 4) {
      case 0:
        static_cast<void>(create("", {uid(number, static_cast<std::uint32_t>(random() % 4 + 1))},
                                 static_cast<std::uint32_t>(random() % 3 * 4)));
        break;
      case 1:
        static_cast<void>(add(id, tray(number)));
        break;
      case 2:
        static_cast<void>(take(id == 0 ? kDefaultPartitionId : id, tray(number)));
        break;
      default:
        static_cast<void>(drop(id));
    }
    std::set<std::uint64_t> seen;
    std::uint32_t groups = 0;
    for (const Partition* partition : domain().partitions()) {
      groups += partition->groups;
      for (const Member& member : partition->members) {
        ASSERT_TRUE(seen.insert(member.uid).second) << "in two partitions at step " << step;
      }
    }
    ASSERT_EQ(groups + domain().groups_left(), kGroupsMax);
    unsigned allocated = 0;
    for (const GpuView& gpu : domain().gpus()) {
      ASSERT_EQ(gpu.partition, domain().table().owner(gpu.uid));
      ASSERT_EQ(gpu.partition != 0, seen.contains(gpu.uid));
      const NvmlGpu host = nvml(domain().shape().tray_of_gpu(gpu.index), gpu.place.module);
      ASSERT_EQ(host.attached, gpu.partition != 0);
      ASSERT_EQ(host.clique, gpu.partition);
      if (gpu.partition != 0) ++allocated;
    }
    unsigned in_trays = 0;
    for (const TrayView& view : domain().compute_trays()) in_trays += view.allocated;
    ASSERT_EQ(in_trays, allocated);
  }
}

// ---- 7: health from the links up (11.5)

TEST_F(RackRules, OneLostLinkMakesGpuLinklessAndItsTrayDegraded) {
  make();
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  const std::uint64_t id = fault(FaultKind::kLinkDown, {.tray = 0, .gpu = 2, .link = 1});
  EXPECT_EQ(health(0, 2), GpuHealth::kNoNvlink);
  EXPECT_EQ(domain().compute_trays().front().health, TrayHealth::kDegraded);
  EXPECT_EQ(domain().physical().chip_health(domain().shape(), 0), SwitchHealth::kMissingNvlink);
  EXPECT_EQ(domain().physical().switch_tray_health(domain().shape(), 0),
            SwitchHealth::kMissingNvlink);
  EXPECT_EQ(domain().physical().chip_health(domain().shape(), 1), SwitchHealth::kHealthy);
  EXPECT_EQ(partition_health(1), PartitionHealth::kHealthy) << "adaptive mode";
  EXPECT_EQ(domain().control_plane(), ControlPlane::kConfigured);
  ASSERT_TRUE(domain().clear_fault(id, now()));
  EXPECT_EQ(health(0, 2), GpuHealth::kHealthy);
}

TEST_F(RackRules, FullBandwidthModeDegradesWithALostLink) {
  make();
  ASSERT_EQ(
      domain()
          .change(CreatePartition{"full", tray(0), ResiliencyMode::kFullBandwidth, 0, 0}, now())
          .code,
      kSuccess);
  fault(FaultKind::kLinkDown, {.tray = 0, .gpu = 2, .link = 1});
  EXPECT_EQ(partition_health(1), PartitionHealth::kDegraded);
}

TEST_F(RackRules, LenientLinksOnlyDegradeTheGpu) {
  make("nvl72", {"default-partition=absent", "lost-link=degraded"});
  fault(FaultKind::kLinkDown, {.tray = 0, .gpu = 2, .link = 1});
  EXPECT_EQ(health(0, 2), GpuHealth::kDegraded);
  fault(FaultKind::kLinkDown, {.tray = 0, .gpu = 3});
  EXPECT_EQ(health(0, 3), GpuHealth::kNoNvlink) << "all links";
}

TEST_F(RackRules, TrayWithoutAnyLinkIsUnhealthy) {
  make();
  fault(FaultKind::kLinkDown, {.tray = 4});
  EXPECT_EQ(domain().compute_trays().at(4).health, TrayHealth::kUnhealthy);
}

TEST_F(RackRules, LostChipMakesPartitionsUnhealthyAndControlPlaneDegraded) {
  make();
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  fault(FaultKind::kSwitchDegraded, {.chip = 5});
  EXPECT_EQ(health(0, 1), GpuHealth::kDegradedBandwidth);
  EXPECT_EQ(domain().compute_trays().front().health, TrayHealth::kDegraded);
  EXPECT_EQ(domain().physical().chip_health(domain().shape(), 5), SwitchHealth::kUnhealthy);
  EXPECT_EQ(domain().physical().switch_tray_health(domain().shape(), 2),
            SwitchHealth::kMissingNvlink);
  EXPECT_EQ(partition_health(1), PartitionHealth::kUnhealthy);
  EXPECT_EQ(domain().control_plane(), ControlPlane::kDegraded);
  EXPECT_FALSE(nvml(0, 1).attached);
}

TEST_F(RackRules, LostSwitchTrayIsNotListed) {
  make();
  fault(FaultKind::kSwitchDegraded, {.switch_tray = 1});
  EXPECT_FALSE(domain().physical().switch_trays[1]);
  EXPECT_FALSE(domain().physical().chips[2].listed);
  EXPECT_EQ(health(9, 1), GpuHealth::kDegradedBandwidth);
  EXPECT_EQ(domain().control_plane(), ControlPlane::kDegraded);
}

TEST_F(RackRules, TrunksDegradeBandwidthOfPartitionsThatCrossThem) {
  make("nvl36x2");
  EXPECT_EQ(domain().shape().gpu_count(), 72U);
  EXPECT_EQ(domain().shape().trunk_count(), 648U);
  auto both = tray(0);
  for (const GpuRef& gpu : tray(9)) both.push_back(gpu);  // the second rack's first
  ASSERT_EQ(create_code("both", both), kSuccess);
  ASSERT_EQ(create_code("one", tray(1)), kSuccess);
  ASSERT_EQ(domain().set_cage(0, 1, AdminState::kDown), kSuccess);
  EXPECT_EQ(partition_health(1), PartitionHealth::kDegradedBandwidth);
  EXPECT_EQ(partition_health(2), PartitionHealth::kHealthy);
  EXPECT_EQ(domain().physical().chip_health(domain().shape(), 0), SwitchHealth::kMissingNvlink);
  EXPECT_EQ(domain().set_cage(0, 19, AdminState::kDown), kResourceBad) << "18 cages on a tray";
  ASSERT_EQ(domain().set_cage(0, 1, AdminState::kUp), kSuccess);
  EXPECT_EQ(partition_health(1), PartitionHealth::kHealthy);
}

// ---- 8: what simulated nodes may map

TEST_F(RackRules, LeavingAPartitionRevokes) {
  make();
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  EXPECT_TRUE(nvml(0, 1).attached);
  ASSERT_EQ(take(1, {uid(0, 1)}), kSuccess);
  EXPECT_FALSE(nvml(0, 1).attached);
  EXPECT_TRUE(nvml(0, 2).attached);
  EXPECT_EQ(nvml(0, 1).clique, 1U) << "NVML shows the old clique until a reset";
  domain().reset_gpu(0, 1);
  EXPECT_EQ(nvml(0, 1).state, NvmlGpu::State::kInProgress);
  EXPECT_FALSE(nvml(0, 1).cluster);
}

TEST_F(RackRules, LostLinksRevoke) {
  make();
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  fault(FaultKind::kLinkDown, {.tray = 0, .gpu = 4, .link = 9});
  EXPECT_FALSE(nvml(0, 4).attached);
  EXPECT_EQ(nvml(0, 4).health_summary, 2U);
}

TEST_F(RackRules, MovedGpuNeedsAResetUnlessImmediate) {
  make();
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  ASSERT_EQ(drop(1), kSuccess);
  ASSERT_EQ(create_code("b", tray(0)), kSuccess);
  EXPECT_EQ(nvml(0, 1).clique, 1U);
  EXPECT_FALSE(nvml(0, 1).attached);
  domain().reset_gpu(0, 0);
  EXPECT_EQ(nvml(0, 1).clique, 2U);
  EXPECT_TRUE(nvml(0, 1).attached);
  make("nvl72", {"default-partition=absent", "clique-change=immediate"});
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  ASSERT_EQ(drop(1), kSuccess);
  EXPECT_EQ(nvml(0, 1).state, NvmlGpu::State::kInProgress);
  ASSERT_EQ(create_code("b", tray(0)), kSuccess);
  EXPECT_EQ(nvml(0, 1).clique, 2U);
}

TEST_F(RackRules, NvmlSeesWhatDriversSee) {
  make("nvl72", {});
  const std::vector<NvmlGpu> gpus = domain().nvml(0);
  std::vector<std::uint32_t> modules;
  for (const NvmlGpu& gpu : gpus) modules.push_back(gpu.module);
  EXPECT_THAT(modules, ElementsAre(2, 1, 4, 3)) << "by NVML index";
  EXPECT_EQ(gpus[0].cluster, domain().uuid());
  EXPECT_EQ(gpus[0].clique, kDefaultPartitionId);
  EXPECT_EQ(gpus[0].health_mask, 0x1AAU);
  EXPECT_EQ(gpus[0].health_summary, 1U);
  make("nvl72", {"health-mask=0x0aa"});
  EXPECT_EQ(domain().nvml(0)[0].health_mask, 0x0AAU);
}

// ---- sessions (4), 9, 10

TEST_F(RackRules, HelloComesFirst) {
  make();
  using Access = Domain::Access;
  EXPECT_EQ(domain().admit("me", "c1", Access::kRead), kConnectionNotValid);
  EXPECT_EQ(domain().hello("", "c1", 2), kBadParam);
  EXPECT_EQ(domain().hello("me", "c1", 1), kVersionMismatch);
  EXPECT_EQ(domain().admit("me", "c1", Access::kRead), kConnectionNotValid);
  ASSERT_EQ(domain().hello("me", "c1", 2), kSuccess);
  EXPECT_EQ(domain().admit("me", "c2", Access::kRead), kSuccess) << "it covers the gateway id";
  make("nvl72", {"session=connection"});
  ASSERT_EQ(domain().hello("me", "c1", 2), kSuccess);
  EXPECT_EQ(domain().admit("me", "c2", Access::kRead), kConnectionNotValid);
  EXPECT_EQ(domain().admit("me", "c1", Access::kRead), kSuccess);
  make("nvl72", {"session=off"});
  EXPECT_EQ(domain().admit("", "c1", Access::kRead), kSuccess);
}

TEST_F(RackRules, ControllerIsNotReadyWhileItStarts) {
  make("nvl72", {"start-ms=1000", "session=off"});
  EXPECT_EQ(domain().admit("", "", Domain::Access::kRead), kNotReady);
  EXPECT_EQ(domain().admit("", "", Domain::Access::kState), kSuccess);
  EXPECT_EQ(domain().control_plane(), ControlPlane::kUnconfigured);
  EXPECT_EQ(partition_health(kDefaultPartitionId), PartitionHealth::kUnknown);
  EXPECT_EQ(domain().next_change(), now() + std::chrono::seconds(1));
  pass(std::chrono::seconds(1));
  EXPECT_EQ(domain().admit("", "", Domain::Access::kRead), kSuccess);
  EXPECT_EQ(domain().control_plane(), ControlPlane::kConfigured);
}

TEST_F(RackRules, EachChangeBumpsTheRevision) {
  make();
  std::uint64_t last = domain().revision();
  const auto bumped = [&] {
    return domain().revision() > std::exchange(last, domain().revision());
  };
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  EXPECT_TRUE(bumped());
  ASSERT_EQ(take(1, tray(0)), kSuccess);
  EXPECT_TRUE(bumped());
  ASSERT_EQ(drop(1), kSuccess);
  EXPECT_TRUE(bumped());
  EXPECT_FALSE(bumped());
}

TEST_F(RackRules, SameSeedSameRack) {
  make();
  const Uuid uuid = domain().uuid();
  const std::uint64_t first = uid(0, 1);
  const std::string serial = domain().chassis_serial(0);
  make();
  EXPECT_EQ(domain().uuid(), uuid);
  EXPECT_EQ(uid(0, 1), first);
  EXPECT_EQ(domain().chassis_serial(0), serial);
  EXPECT_EQ(serial.size(), 13U);
  EXPECT_GT(first, 1ULL << 53U) << "tests JSON numbers";
  EXPECT_NE(Identities(2, 0, false).domain_uuid(), uuid);
  EXPECT_NE(Identities(1, 1, false).domain_uuid(), uuid);
}

TEST_F(RackRules, UidsOfManyRacksAreDistinct) {
  std::set<std::uint64_t> uids;
  for (unsigned rack = 0; rack < 100; ++rack) {
    const Identities ids(1, rack, false);
    for (unsigned number = 0; number < 18; ++number) {
      for (std::uint32_t module = 1; module <= 4; ++module)
        ASSERT_TRUE(uids.insert(ids.gpu_uid(number, module, 0)).second);
    }
  }
}

TEST_F(RackRules, TraysStandWhereTheyWereSeen) {
  make();
  const Topology& shape = domain().shape();
  for (const auto& [index, slot] :
       {std::pair(11U, 21U), std::pair(14U, 24U), std::pair(15U, 25U), std::pair(16U, 26U)}) {
    EXPECT_EQ(shape.compute_tray(index).location.slot, slot);
  }
  EXPECT_EQ(shape.switch_tray(0).location.slot, 9U);
  make("nvl36");
  EXPECT_EQ(domain().shape().compute_tray(4).location.slot, 14U);
  EXPECT_EQ(domain().shape().compute_tray(5).location.slot, 15U);
  EXPECT_EQ(domain().shape().gpu_count(), 36U);
  EXPECT_EQ(domain().shape().links_per_gpu(), 18U);
}

TEST_F(RackRules, OtherSizesAreBuiltFromCounts) {
  make("custom:trays=3,gpus=2,switches=2,chips=1");
  EXPECT_EQ(domain().gpus().size(), 6U);
  EXPECT_EQ(domain().shape().links_per_gpu(), 2U);
  for (const char* wrong : {"custom:trays=0", "custom:trays=x", "custom:foo=1", "custom:gpus=9",
                            "nvl73", "custom:trays"}) {
    EXPECT_FALSE(find_topology(wrong)) << wrong;
  }
}

TEST_F(RackRules, FactoryResetBringsTheDefaultPartitionBackInModeZero) {
  make("nvl72", {});
  ASSERT_EQ(drop(kDefaultPartitionId), kSuccess);
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  ASSERT_EQ(domain().factory_reset(now()), kSuccess);
  EXPECT_THAT(listed(), ElementsAre(kDefaultPartitionId));
  ASSERT_EQ(domain().set_config({{"fm_config", {{"FABRIC_MODE_RESTART", "1"}}}}), kSuccess);
  ASSERT_EQ(domain().factory_reset(now()), kSuccess);
  EXPECT_THAT(listed(), IsEmpty());
}

TEST_F(RackRules, UnknownConfigurationIsRefusedWhole) {
  make();
  EXPECT_EQ(domain().set_config({{"fm_config", {{"FABRIC_MODE_RESTART", "1"}}}, {"nothing", {}}}),
            kBadParam);
  EXPECT_EQ(domain().set_config({{"fm_config", {{"NO_SUCH_KEY", "1"}}}}), kBadParam);
  EXPECT_EQ(domain().config().at("fm_config").at("FABRIC_MODE_RESTART"), "0");
}

TEST_F(RackRules, StateSurvivesSavingAndRestoring) {
  make("nvl72", {});
  ASSERT_EQ(take(kDefaultPartitionId, tray(2)), kSuccess);
  ASSERT_EQ(create_code("a", tray(2)), kSuccess);
  fault(FaultKind::kGpuSwapped, {.tray = 5});
  fault(FaultKind::kLinkDown, {.tray = 1, .gpu = 1, .link = 3});
  const DomainState saved = domain().save(now());
  const std::uint64_t swapped = uid(5, 1);
  make("nvl72", {});
  ASSERT_TRUE(domain().restore(saved, now()));
  EXPECT_THAT(listed(), ElementsAre(1U, kDefaultPartitionId));
  EXPECT_EQ(uid(5, 1), swapped);
  EXPECT_EQ(nvml(2, 1).clique, kDefaultPartitionId) << "the driver was not reset by the restart";
  EXPECT_EQ(health(1, 1), GpuHealth::kNoNvlink);
  EXPECT_EQ(create("b", {}).partition, 2U) << "allocation goes on";
}

TEST_F(RackRules, DamagedStateIsRefused) {
  make();
  ASSERT_EQ(create_code("a", tray(0)), kSuccess);
  const DomainState good = domain().save(now());
  DomainState bad = good;
  bad.partitions.push_back(bad.partitions[0]);
  EXPECT_FALSE(domain().restore(bad, now())) << "id twice";
  bad.partitions[1].id = 2;
  bad.partitions[1].name = "other";
  EXPECT_FALSE(domain().restore(bad, now())) << "GPU in two";
  bad = good;
  bad.partitions[0].groups = 2000;
  EXPECT_FALSE(domain().restore(bad, now())) << "more groups than there are";
  bad = good;
  bad.seed = 2;
  EXPECT_FALSE(domain().restore(bad, now())) << "another rack";
  EXPECT_THAT(listed(), ElementsAre(1U)) << "and nothing was changed";
}

TEST_F(RackRules, SwitchesSayWhatTheyTake) {
  Personality personality;
  EXPECT_FALSE(set_personality(personality, "session=sometimes"));
  EXPECT_FALSE(set_personality(personality, "nothing=1"));
  EXPECT_FALSE(set_personality(personality, "session"));
  EXPECT_FALSE(find_personality("3.0"));
  EXPECT_TRUE(find_personality("interop")->small_numbers);
  EXPECT_EQ(Identities(1, 0, true).gpu_uid(0, 1, 0), 1001U);
  EXPECT_EQ(Identities(1, 0, true).chassis_serial(0), "27XYX27000001");
}

}  // namespace
}  // namespace imex::rack
