#include <thread>

#include <gtest/gtest.h>

#include "fabric/backoff.hpp"
#include "fabric/check.hpp"
#include "fabric/turn.hpp"

namespace imex::fabric {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Gives one byte value for ever: the lowest or the highest draw.
class ConstantRandom final : public Random {
 public:
  explicit ConstantRandom(std::byte value) : value_(value) {}
  void fill(std::span<std::byte> out) override { std::fill(out.begin(), out.end(), value_); }

 private:
  std::byte value_;
};

class CountingRandom final : public Random {
 public:
  void fill(std::span<std::byte> out) override {
    for (std::byte& byte : out)
      byte = static_cast<std::byte>(state_ = state_ * 1'664'525U + 1'013'904'223U);
  }

 private:
  std::uint32_t state_ = 1;
};

TEST(BackoffTest, DoublesWithinHalfAndWholeUpToTheMaximum) {
  CountingRandom random;
  Backoff backoff({.first = seconds(1), .max = seconds(8)}, random);
  Time now{1'000};
  EXPECT_TRUE(backoff.may_try(now));
  for (const std::int64_t whole_s : {1, 2, 4, 8, 8, 8}) {
    backoff.failed(now);
    const Nanos delay = backoff.not_before() - now;
    EXPECT_GE(delay, seconds(whole_s) / 2);
    EXPECT_LE(delay, seconds(whole_s));
    EXPECT_FALSE(backoff.may_try(backoff.not_before() - Nanos(1)));
    now = backoff.not_before();
    EXPECT_TRUE(backoff.may_try(now));
  }
  backoff.succeeded();
  backoff.failed(now);
  EXPECT_LE(backoff.not_before() - now, seconds(1)) << "a success starts over";
}

TEST(BackoffTest, ThousandsOfFailuresDoNotOverflow) {
  ConstantRandom random(std::byte{0});
  Backoff backoff({.first = seconds(1), .max = seconds(30)}, random);
  for (int i = 0; i < 5'000; ++i) backoff.failed(Time{0});
  EXPECT_EQ(backoff.not_before(), Time{0} + seconds(15));
  EXPECT_EQ(backoff.failures(), 5'000U);
}

TEST(TurnTest, WaitsForTheOtherAndEndsAtDeadlineAndCancellation) {
  Turn turn;
  const CallScope scope{.deadline = std::chrono::steady_clock::now() + seconds(30)};
  {
    auto held = turn.take(scope, "change");
    ASSERT_TRUE(held);
    auto late = turn.take(scope.within(milliseconds(5)), "change");
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().error.code, Errc::kDeadlineExceeded);
    EXPECT_EQ(late.error().effect, Effect::kNone);

    std::stop_source stop;
    CallScope cancellable = scope;
    cancellable.cancel = stop.get_token();
    std::thread other([&] {
      auto never = turn.take(cancellable, "change");
      ASSERT_FALSE(never);
      EXPECT_EQ(never.error().error.code, Errc::kAborted);
    });
    stop.request_stop();
    other.join();
  }
  EXPECT_TRUE(turn.take(scope, "change"));
}

TEST(CheckTest, RequestsThatCannotBeMeantAreRefusedBeforeAnythingIsSent) {
  const ManagerProfile profile{.protocol = "nmx-m v1", .name_bytes_max = 10};
  const auto code = [&](const CreatePartition& wanted) {
    const auto checked = check_wanted(wanted, profile);
    return checked ? Errc::kOk : checked.error().error.code;
  };
  EXPECT_EQ(code({.name = "lp-7", .gpu_uids = {1}}), Errc::kOk);
  EXPECT_EQ(code({.name = "", .gpu_uids = {1}}), Errc::kInvalidArgument);
  EXPECT_EQ(code({.name = "12345678901", .gpu_uids = {1}}), Errc::kInvalidArgument);
  EXPECT_EQ(code({.name = "a\nb", .gpu_uids = {1}}), Errc::kInvalidArgument);
  EXPECT_EQ(code({.name = "a", .gpu_uids = {0}}), Errc::kInvalidArgument);
  EXPECT_EQ(code({.name = "a", .gpu_uids = {}}), Errc::kInvalidArgument);
  EXPECT_EQ(code({.name = "a", .gpu_uids = {1}, .id = 32'767}), Errc::kInvalidArgument);
  EXPECT_FALSE(check_target({}));
  EXPECT_TRUE(check_target({.id = 3}));
  EXPECT_FALSE(check_change({.remove = {1, 2}, .add = {2}}));
}

TEST(CheckTest, AChangeIsReducedToWhatIsMissing) {
  const MembershipChange rest = reduce({.remove = {9, 2, 2}, .add = {5, 1}}, {3, 2, 1});
  EXPECT_EQ(rest.remove, (std::vector<std::uint64_t>{2}));
  EXPECT_EQ(rest.add, (std::vector<std::uint64_t>{5}));
  EXPECT_EQ(apply({.remove = {9, 2}, .add = {5, 1}}, {3, 2, 1}),
            (std::vector<std::uint64_t>{1, 3, 5}));
}

Snapshot small_snapshot() {
  Snapshot snapshot;
  snapshot.gpus = {{.uid = 2, .partition_id = 7}, {.uid = 1, .partition_id = 7}, {.uid = 3}};
  snapshot.partitions = {{.id = 9, .name = "b"}, {.id = 7, .name = "a", .gpu_uids = {2, 1}}};
  return snapshot;
}

TEST(CheckTest, ASnapshotIsOrderedAndAgrees) {
  Snapshot snapshot = small_snapshot();
  ASSERT_TRUE(finish_snapshot(snapshot));
  EXPECT_EQ(snapshot.gpus[0].uid, 1U);
  EXPECT_EQ(snapshot.partitions[0].id, 7U);
  EXPECT_TRUE(snapshot.disputed.empty());
}

TEST(CheckTest, DisagreementsAreNamedPerGpu) {
  Snapshot snapshot = small_snapshot();
  snapshot.gpus[2].partition_id = 9;                  // says 9, which does not list it
  snapshot.partitions[0].gpu_uids = {2};              // 2 is in both partitions
  snapshot.partitions[1].gpu_uids.push_back(0xbeef);  // a member whose tray is off: no dispute
  ASSERT_TRUE(finish_snapshot(snapshot));
  EXPECT_EQ(snapshot.disputed, (std::vector<std::uint64_t>{2, 3}));
}

TEST(CheckTest, BrokenListsAreNoSnapshot) {
  const auto broken = [](auto spoil) {
    Snapshot snapshot = small_snapshot();
    spoil(snapshot);
    const auto finished = finish_snapshot(snapshot);
    return !finished && finished.error().code == Errc::kDataLoss;
  };
  EXPECT_TRUE(broken([](Snapshot& s) { s.gpus[0].uid = 1; }));
  EXPECT_TRUE(broken([](Snapshot& s) { s.gpus[0].uid = 0; }));
  EXPECT_TRUE(broken([](Snapshot& s) { s.partitions[0].id = 7; }));
  EXPECT_TRUE(broken([](Snapshot& s) { s.partitions[0].id = 0; }));
  EXPECT_TRUE(broken([](Snapshot& s) { s.partitions[1].gpu_uids = {5, 5}; }));
  EXPECT_TRUE(broken([](Snapshot& s) { s.partitions[1].gpu_uids = {0}; }));
  EXPECT_TRUE(broken([](Snapshot& s) { s.gpus.resize(kDomainGpusMax + 1); }));
}

}  // namespace
}  // namespace imex::fabric
