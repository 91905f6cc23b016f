#include "partition/reconciler/decide.hpp"

#include <gtest/gtest.h>

#include "decide_fixture.hpp"

namespace imex::partition::reconciler {
namespace {

using testing::id_of;
using testing::kNow;
using testing::World;

// ---- The scenarios of NICo's own tests (partition-api.md 9.5)

TEST(DecideTest, InstanceWithAllGpusGetsOnePartition) {
  World world;
  world.tray(1, 1).want(7, 1, {11, 12, 13, 14});
  EXPECT_EQ(world.plan(), "create 0 11 12 13 14");
  EXPECT_EQ(world.gpu(11).state, State::kPending);
  world.seen_ours(3, 7, {11, 12, 13, 14});
  EXPECT_EQ(world.plan(), "");
  EXPECT_EQ(world.gpu(11).state, State::kReady);
  EXPECT_EQ(world.partition(7).state, State::kReady);
  EXPECT_EQ(world.partition(7).partition_id, 3U);
}

TEST(DecideTest, SecondInstanceGrowsThePartition) {
  World world;
  world.tray(1, 1).tray(2, 1).want(7, 1, {11, 12, 21, 22}).seen_ours(3, 7, {11, 12});
  EXPECT_EQ(world.plan(), "add 3 21 22");
  EXPECT_EQ(world.gpu(11).state, State::kReady);
  EXPECT_EQ(world.partition(7).state, State::kPending);
}

TEST(DecideTest, GpusOfOneMachineMayBeInTwoPartitions) {
  World world;
  world.tray(1, 1).want(7, 1, {11, 12}).want(8, 1, {13, 14});
  EXPECT_EQ(world.plan(), "create 0 11 12 | create 0 13 14");
}

TEST(DecideTest, ChangeOfPartitionIsOneUnitThatCanBeUndone) {
  World world;
  world.tray(1, 1).want(7, 1, {11, 12}).want(8, 1, {13, 14});
  world.seen_ours(3, 7, {11, 12, 13}).seen_ours(4, 8, {14});
  EXPECT_EQ(world.plan(), "remove 3 13; add 4 13");
  const Unit unit = world.decide().units.at(0);
  ASSERT_TRUE(unit.steps[0].undo.has_value());
  EXPECT_EQ(unit.steps[0].undo->kind, OperationKind::kAdd);
  EXPECT_EQ(unit.steps[0].undo->partition_id, 3U);
  EXPECT_EQ(world.gpu(13).reason, Reason::kInOtherPartition);
}

TEST(DecideTest, LastGpuThatMovesTakesItsPartitionAlong) {
  World world;
  world.tray(1, 1).want(7, 1, {}).want(8, 1, {11, 12}).seen_ours(3, 7, {11}).seen_ours(4, 8, {12});
  EXPECT_EQ(world.plan(), "delete 3 11; add 4 11");
  EXPECT_EQ(world.decide().units.at(0).steps.at(0).undo->kind, OperationKind::kCreate);
}

TEST(DecideTest, TwoPartitionsSwapTheirGpus) {
  World world;
  world.tray(1, 1).want(7, 1, {12}).want(8, 1, {11}).seen_ours(3, 7, {11}).seen_ours(4, 8, {12});
  EXPECT_EQ(world.plan(), "delete 4 12; add 3 12 | remove 3 11; create 0 11");
}

TEST(DecideTest, ClearedConfigurationEmptiesThePartition) {
  World world;
  world.tray(1, 1).want(7, 1, {}).seen_ours(3, 7, {11, 12});
  EXPECT_EQ(world.plan(), "delete 3 11 12");
  EXPECT_EQ(world.partition(7).state, State::kPending);
}

TEST(DecideTest, ShorterListLeavesTheOthersAlone) {
  World world;
  world.tray(1, 1).want(7, 1, {11, 12}).seen_ours(3, 7, {11, 12, 13, 14});
  EXPECT_EQ(world.plan(), "remove 3 13 14");
}

TEST(DecideTest, ReleasedInstanceLeavesAndItsMachineIsClearOnlyWhenSeenTwice) {
  World world;
  world.tray(1, 0).want(7, 1, {}).seen_ours(3, 7, {11, 12, 13, 14});
  EXPECT_EQ(world.plan(), "delete 3 11 12 13 14");
  EXPECT_FALSE(world.machine(1).clear);
  EXPECT_EQ(world.machine(1).reason, Reason::kLeaving);

  World after;
  after.tray(1, 0).want(7, 1, {});
  EXPECT_FALSE(after.machine(1).clear);
  EXPECT_EQ(after.machine(1).reason, Reason::kSeenOnce);
  after.memory.seen_clear = after.decide().seen_clear;
  EXPECT_TRUE(after.machine(1).clear);
  EXPECT_EQ(after.machine(1).epoch, 1U);
}

TEST(DecideTest, DefaultPartitionIsDissolvedAndItsGpusPutWhereTheyAreWanted) {
  World world;
  world.tray(1, 1).tray(2, 0).want(7, 1, {11, 12});
  world.seen(kDefaultPartitionId, "Default Partition", {11, 12, 13, 14, 21, 22, 23, 24});
  EXPECT_EQ(world.plan(), "delete-default 32766 11 12 13 14 21 22 23 24 | create 0 11 12");
  EXPECT_EQ(world.gpu(11).reason, Reason::kInDefaultPartition);
  world.memory.seen_clear = {21, 22, 23, 24};
  EXPECT_FALSE(world.machine(2).clear);
  EXPECT_TRUE(world.decide().drift.at(0).is_default);
}

TEST(DecideTest, DefaultPartitionWithUnknownGpusIsOnlyEmptiedOfOurs) {
  World world;
  world.tray(1, 0).seen(kDefaultPartitionId, "Default", {11, 99});
  EXPECT_EQ(world.plan(), "remove 32766 11");
}

TEST(DecideTest, DefaultPartitionLendsWhereThePolicySaysSo) {
  World world;
  world.desired.default_partition = DefaultPartitionPolicy::kLend;
  world.tray(1, 1)
      .tray(2, 0)
      .want(7, 1, {11})
      .seen(kDefaultPartitionId, "Default", {11, 12, 21, 22, 23, 24});
  EXPECT_EQ(world.plan(), "remove 32766 11; create 0 11");
  world.memory.seen_clear = {21, 22, 23, 24};
  EXPECT_TRUE(world.machine(2).clear);
}

TEST(DecideTest, UnknownPartitionIsReportedNeverDeleted) {
  World world;
  world.tray(1, 0).seen(9, "somebody's", {11, 12}).seen(10, "empty", {});
  EXPECT_EQ(world.plan(), "");
  EXPECT_EQ(world.decide().drift.size(), 2U);
  EXPECT_FALSE(world.machine(1).clear);
  EXPECT_EQ(world.machine(1).reason, Reason::kInForeignPartition);
}

TEST(DecideTest, OperatorsWordDeletesExactlyThatPartition) {
  World world;
  world.tray(1, 0).seen(9, "somebody's", {11, 12}).seen(10, "other", {13});
  world.desired.permits = {{9, "another name"}, {10, "other"}};
  EXPECT_EQ(world.plan(), "delete 10 13");
}

TEST(DecideTest, StolenGpuIsTakenBackAndTheForeignPartitionStays) {
  World world;
  world.tray(1, 1).want(7, 1, {11, 12}).seen_ours(3, 7, {11}).seen(9, "thief", {12});
  EXPECT_EQ(world.plan(), "remove 9 12; add 3 12");
  EXPECT_EQ(world.gpu(12).reason, Reason::kInForeignPartition);
  world.desired.stolen_gpus = StolenGpuPolicy::kReport;
  EXPECT_EQ(world.plan(), "");
}

TEST(DecideTest, GpuOfAMachineThatWasClearIsTakenBackThoughNobodyWantsIt) {
  World world;
  world.tray(1, 0).tray(2, 0).seen(9, "thief", {12, 21});
  world.desired.machines[0].was_clear = true;
  EXPECT_EQ(world.plan(), "remove 9 12");
}

TEST(DecideTest, ForgottenPartitionIsMadeAgain) {
  World world;
  world.tray(1, 1).want(7, 1, {11, 12});
  world.desired.owned = {{id_of(7), 3, partition_name("imex-test", id_of(7))}};
  EXPECT_EQ(world.plan(), "create 0 11 12");
}

TEST(DecideTest, DeletedPartitionGoes) {
  World world;
  world.tray(1, 0).retire(7, 1).seen_ours(3, 7, {11, 12});
  EXPECT_EQ(world.plan(), "delete 3 11 12");
  EXPECT_EQ(world.partition(7).state, State::kPending);
  World gone;
  gone.tray(1, 0).retire(7, 1);
  EXPECT_EQ(gone.partition(7).state, State::kIdle);
}

// ---- Isolation

TEST(DecideTest, AnotherTenantsGpuLeavesBeforeAnybodyJoins) {
  World world;
  world.tray(1, 1).tray(2, 2).want(7, 1, {11, 12}).want(8, 2, {21});
  world.seen_ours(3, 7, {11, 21});
  EXPECT_EQ(world.plan(), "remove 3 21; add 3 12 | create 0 21");
  const Unit unit = world.decide().units.at(0);
  EXPECT_TRUE(unit.steps[0].guard);
  EXPECT_FALSE(unit.steps[0].undo.has_value());
  EXPECT_EQ(world.gpu(11).reason, Reason::kIntruder);
  EXPECT_EQ(world.partition(7).state, State::kPending);
}

TEST(DecideTest, GpuIsNeverPutBackIntoAnotherTenantsPartition) {
  World world;
  world.tray(1, 1).tray(2, 2).want(7, 2, {21}).want(6, 1, {11}).seen_ours(3, 7, {21, 11});
  EXPECT_EQ(world.plan(), "remove 3 11 | create 0 11");
  for (const Unit& unit : world.decide().units) EXPECT_FALSE(unit.steps[0].undo.has_value());
}

TEST(DecideTest, OnlyTheHoldersGpusJoin) {
  World world;
  world.tray(1, 2).want(7, 1, {11});
  EXPECT_EQ(world.plan(), "");
  EXPECT_EQ(world.gpu(11).reason, Reason::kMachineNotTenants);
}

TEST(DecideTest, UnknownMembersAreSwept) {
  World world;
  world.tray(1, 1).want(7, 1, {11}).seen_ours(3, 7, {11, 99});
  EXPECT_EQ(world.plan(), "remove 3 99");
}

TEST(DecideTest, OperationInDoubtKeepsItsMachinesFromBeingGivenOn) {
  World world;
  world.tray(1, 0);
  world.memory.seen_clear = {11, 12, 13, 14};
  EXPECT_TRUE(world.machine(1).clear);
  Trace trace{.in_doubt = true, .until = kNow + std::chrono::seconds(1)};
  trace.operation.gpus = {12};
  world.memory.traces = {trace};
  EXPECT_EQ(world.machine(1).reason, Reason::kOperationInDoubt);
  world.memory.traces[0].until = kNow;
  EXPECT_TRUE(world.machine(1).clear);
  world.memory.traces[0].until = kNow + std::chrono::seconds(1);
  world.memory.traces[0].operation.kind = OperationKind::kRemove;
  EXPECT_TRUE(world.machine(1).clear);
}

// ---- What managers do wrong

TEST(DecideTest, ListsThatDisagreeLeadToNothing) {
  World world;
  world.tray(1, 1).tray(2, 0).want(7, 1, {11}).seen_ours(3, 7, {11});
  world.observed.gpus[0].partition_id = 0;
  EXPECT_EQ(world.gpu(11).state, State::kUnknown);
  EXPECT_EQ(world.gpu(11).reason, Reason::kAnswersDiffer);
  world.observed.partitions[0].members.clear();
  world.observed.gpus[0].partition_id = 3;
  EXPECT_EQ(world.plan(), "");
  world.observed.gpus[5].partition_id = 3;
  world.memory.seen_clear = {21, 22, 23, 24};
  EXPECT_FALSE(world.machine(2).clear);
}

TEST(DecideTest, MissingGpuKeepsItsPlaceAndIsNotFree) {
  World world;
  world.tray(1, 1).tray(2, 0).want(7, 1, {11, 12}).seen_ours(3, 7, {11, 12});
  std::erase_if(world.observed.gpus,
                [](const ObservedGpu& gpu) { return gpu.uid == 12 || gpu.uid == 21; });
  world.memory.seen_clear = {21, 22, 23, 24};
  EXPECT_EQ(world.plan(), "");
  EXPECT_EQ(world.gpu(12).reason, Reason::kGpuMissing);
  EXPECT_EQ(world.gpu(11).state, State::kReady);
  EXPECT_EQ(world.machine(2).reason, Reason::kGpuMissing);
}

TEST(DecideTest, ObservationOlderThanThreeIntervalsIsUnknown) {
  World world;
  world.tray(1, 1).want(7, 1, {11}).seen_ours(3, 7, {11});
  world.observed.begun = kNow - 3 * testing::kInterval;
  EXPECT_EQ(world.gpu(11).state, State::kReady);
  world.observed.begun = kNow - 3 * testing::kInterval - Nanos(1);
  EXPECT_EQ(world.gpu(11).state, State::kUnknown);
  EXPECT_EQ(world.gpu(11).reason, Reason::kObservationTooOld);
}

TEST(DecideTest, ManagerOfAnotherDomainIsNotTouched) {
  World world;
  world.tray(1, 1).want(7, 1, {11});
  world.observed.domain = id_of(201);
  EXPECT_EQ(world.plan(), "");
  EXPECT_EQ(world.gpu(11).reason, Reason::kWrongDomain);
}

TEST(DecideTest, ReusedIdIsNotTakenForOurs) {
  World world;
  world.tray(1, 1).want(7, 1, {11});
  world.desired.owned = {{id_of(7), 3, "renamed"}};
  world.seen(3, "somebody's", {12});
  EXPECT_EQ(world.plan(), "create 0 11");
}

TEST(DecideTest, CreateThatWasRenamedIsAdoptedByItsIdAndGpus) {
  World world;
  world.tray(1, 1).want(7, 1, {11, 12}).seen(3, "cut", {12, 11});
  EXPECT_EQ(world.plan(), "remove 3 11 12; create 0 11 12");
  Trace trace{.partition_id = 4, .until = kNow + std::chrono::seconds(1)};
  trace.operation.logical_partition = id_of(7);
  trace.operation.name = partition_name("imex-test", id_of(7));
  trace.operation.gpus = {11, 12};
  world.memory.traces = {trace};
  EXPECT_NE(world.plan(), "") << "the id was answered, and it is another";
  trace.partition_id = 0;
  world.memory.traces = {trace};
  EXPECT_NE(world.plan(), "") << "equal members are no evidence";
  trace.partition_id = 3;
  world.memory.traces = {trace};
  EXPECT_EQ(world.plan(), "");
  EXPECT_EQ(world.decide().adopted, (std::vector<OwnedPartition>{{id_of(7), 3, "cut"}}));
  EXPECT_EQ(world.gpu(11).state, State::kReady);
  // Recorded, it needs no evidence any more.
  world.memory.traces.clear();
  world.desired.owned = {{id_of(7), 3, "cut"}};
  EXPECT_EQ(world.plan(), "");
}

TEST(DecideTest, CreateWithoutAnAnswerIsAdoptedUnderACutName) {
  World world;
  const std::string name = partition_name("imex-test", id_of(7));
  world.tray(1, 1).want(7, 1, {11}).seen(3, name.substr(0, 40), {11});
  Trace trace{.in_doubt = true, .until = kNow + std::chrono::seconds(1)};
  trace.operation.logical_partition = id_of(7);
  trace.operation.name = name;
  trace.operation.gpus = {11};
  world.memory.traces = {trace};
  EXPECT_EQ(world.plan(), "");
}

TEST(DecideTest, SecondPartitionOfOneIsMergedIntoTheLarger) {
  World world;
  world.tray(1, 1).want(7, 1, {11, 12, 13}).seen_ours(3, 7, {11});
  world.desired.owned = {{id_of(7), 5, "renamed"}};
  world.seen(5, "renamed", {12, 13});
  EXPECT_EQ(world.plan(), "delete 3 11; add 5 11");
}

TEST(DecideTest, MulticastLimitIsRoundedToWhatManagersTake) {
  World world;
  world.tray(1, 1).want(7, 1, {11});
  world.desired.partitions[0].multicast_groups = 19;
  EXPECT_EQ(world.decide().units.at(0).steps.at(0).operation.multicast_groups, 16U);
}

TEST(DecideTest, MarkOfAnotherInstallationIsForeign) {
  World world;
  world.tray(1, 0).retire(7, 1).seen(3, partition_name("imex-else", id_of(7)), {11});
  world.seen_ours(4, 9, {12});  // our mark, but neither wanted nor retired: not ours to judge
  EXPECT_EQ(world.plan(), "");
  EXPECT_EQ(world.decide().drift.size(), 2U);
}

}  // namespace
}  // namespace imex::partition::reconciler
