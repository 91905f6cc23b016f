#include "partition/reconciler/operation.hpp"

#include <gtest/gtest.h>

#include "decide_fixture.hpp"

namespace imex::partition::reconciler {
namespace {

using testing::id_of;

Operation make_operation(OperationKind kind, std::uint32_t id, std::vector<GpuUid> gpus) {
  return {
      .kind = kind, .partition_id = id, .name = "p" + std::to_string(id), .gpus = std::move(gpus)};
}

Unit move_unit() {
  Unit unit;
  unit.steps.push_back({make_operation(OperationKind::kRemove, 3, {11, 12}),
                        make_operation(OperationKind::kAdd, 3, {11, 12}), false});
  unit.steps.push_back({make_operation(OperationKind::kRemove, 4, {13}), std::nullopt, false});
  unit.steps.push_back({make_operation(OperationKind::kAdd, 5, {11, 12, 13}), std::nullopt, false});
  return unit;
}

const Outcome kDone{.verdict = Verdict::kDone};

Outcome refused(Refusal refusal) { return {.verdict = Verdict::kRefused, .refusal = refusal}; }

TEST(UnitRunTest, StepsFollowOneAnother) {
  UnitRun run(move_unit());
  for (const std::uint32_t id : {3U, 4U, 5U}) {
    ASSERT_NE(run.next(), nullptr);
    EXPECT_EQ(run.next()->partition_id, id);
    run.done(kDone);
  }
  EXPECT_EQ(run.next(), nullptr);
  EXPECT_FALSE(run.failed());
}

TEST(UnitRunTest, RefusedJoinIsUndoneWhereAWayBackExists) {
  UnitRun run(move_unit());
  run.done(kDone);
  run.done(kDone);
  run.done(refused(Refusal::kOther));
  ASSERT_NE(run.next(), nullptr);
  EXPECT_EQ(run.next()->kind, OperationKind::kAdd);
  EXPECT_EQ(run.next()->partition_id, 3U);
  run.done(kDone);
  EXPECT_EQ(run.next(), nullptr);
  EXPECT_TRUE(run.failed());
}

TEST(UnitRunTest, GpusThatAreStillBoundAreNotPutBack) {
  UnitRun run(move_unit());
  run.done(kDone);
  run.done(kDone);
  run.done(refused(Refusal::kInUse));
  EXPECT_EQ(run.next(), nullptr);
}

TEST(UnitRunTest, GpusThatCannotLeaveDoNotJoin) {
  UnitRun run(move_unit());
  run.done(refused(Refusal::kOther));
  run.done(kDone);
  ASSERT_NE(run.next(), nullptr);
  EXPECT_EQ(run.next()->gpus, std::vector<GpuUid>{13});
  UnitRun none(move_unit());
  none.done(refused(Refusal::kOther));
  none.done(refused(Refusal::kOther));
  EXPECT_EQ(none.next(), nullptr);
}

TEST(UnitRunTest, DoubtEndsTheUnit) {
  UnitRun run(move_unit());
  run.done(kDone);
  run.done({.verdict = Verdict::kInDoubt});
  EXPECT_EQ(run.next(), nullptr);
  EXPECT_TRUE(run.failed());
}

TEST(UnitRunTest, NothingJoinsBehindARefusedGuard) {
  Unit unit = move_unit();
  unit.steps[0].guard = true;
  UnitRun run(unit);
  run.done(refused(Refusal::kOther));
  EXPECT_EQ(run.next(), nullptr);
}

TEST(UnitRunTest, CreateIsTriedOnceWithoutMulticastGroups) {
  Unit unit;
  unit.steps.push_back({make_operation(OperationKind::kCreate, 0, {11}), std::nullopt, false});
  unit.steps[0].operation.multicast_groups = 16;
  UnitRun run(unit);
  run.done(refused(Refusal::kExhausted));
  ASSERT_NE(run.next(), nullptr);
  EXPECT_EQ(run.next()->multicast_groups, 0U);
  run.done(refused(Refusal::kExhausted));
  EXPECT_EQ(run.next(), nullptr);
}

TEST(OperationTest, KeyNamesTheChangeAndNothingElse) {
  const Operation one = make_operation(OperationKind::kAdd, 3, {11, 12});
  Operation other = one;
  other.multicast_groups = 4;  // how, not what
  EXPECT_EQ(idempotency_key(id_of(1), one), idempotency_key(id_of(1), other));
  EXPECT_EQ(idempotency_key(id_of(1), one).size(), 32U);
  EXPECT_NE(idempotency_key(id_of(1), one), idempotency_key(id_of(2), one));
  other.gpus = {11, 13};
  EXPECT_NE(idempotency_key(id_of(1), one), idempotency_key(id_of(1), other));
  other = one;
  other.kind = OperationKind::kRemove;
  EXPECT_NE(idempotency_key(id_of(1), one), idempotency_key(id_of(1), other));
}

TEST(NameTest, OwnerIsReadBackOnlyUnderOurMark) {
  const std::string name = partition_name("imex-1", id_of(7));
  EXPECT_EQ(owner_of("imex-1", name), id_of(7));
  EXPECT_EQ(owner_of("imex-2", name), std::nullopt);
  EXPECT_EQ(owner_of("imex-", name), std::nullopt);
  EXPECT_EQ(owner_of("", name), std::nullopt);
  EXPECT_EQ(owner_of("imex-1", name + "x"), std::nullopt);
  EXPECT_EQ(owner_of("imex-1", "imex-1."), std::nullopt);
}

}  // namespace
}  // namespace imex::partition::reconciler
