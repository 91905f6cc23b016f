// What only replicas on a shared database do: one leads, another takes over, nothing is doubled.
#include "postgres.hpp"

#include <thread>

#include <gtest/gtest.h>

#include "testing/store_kit.hpp"

namespace imex::partition::testing {
namespace {

class ReplicaTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) return;
    second_ = must(Store::open(database_->options()));
  }
  /// Asks the replica once every 100 ms whether it leads.
  static std::optional<Term> lead_within(Store& replica, std::chrono::seconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < deadline) {
      if (const auto term = replica.lead(); term && *term) return **term;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return std::nullopt;
  }
  void run_sql(const std::string& sql) {
    const auto database = sql::postgres_database(database_->options().url);
    must(must(database->connect(sql::Database::Use::kWrite))->script(sql));
  }
  static OperationRecord operation(const World& world, const std::string& key) {
    return {.idempotency_key = key,
            .domain = world.domain,
            .kind = OperationKind::kRemoveGpus,
            .gpu_uids = {1000}};
  }
  std::unique_ptr<Store> second_;
};

TEST_F(ReplicaTest, OneLeadsAndOnResigningTheOtherDoes) {
  const auto first = must(store().lead());
  ASSERT_TRUE(first);
  EXPECT_EQ(must(second_->lead()), std::nullopt);
  EXPECT_EQ(must(store().lead())->number, first->number) << "asking again keeps the term";
  store().resign();
  const auto next = lead_within(*second_, std::chrono::seconds(20));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->number, first->number + 1);
}

TEST_F(ReplicaTest, ALeaderThatDiesIsFollowed) {
  ASSERT_TRUE(must(store().lead()));
  store_.reset();
  EXPECT_TRUE(lead_within(*second_, std::chrono::seconds(20)));
}

TEST_F(ReplicaTest, ALeaderThatStopsIsFollowedWithinFiveSecondsAndWritesNothingMore) {
  const World world = make_world(store());
  const Term former = *must(store().lead());
  must(store().begin_operation(former, operation(world, "before")));
  // The first replica asks no more, as a stopped process would.
  const auto start = std::chrono::steady_clock::now();
  const auto next = lead_within(*second_, std::chrono::seconds(30));
  ASSERT_TRUE(next);
  std::printf("take-over from a stopped leader took %lld ms\n",
              static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                         std::chrono::steady_clock::now() - start)
                                         .count()));
  EXPECT_EQ(store().begin_operation(former, operation(world, "after")).error().code, Errc::kStale);
  EXPECT_EQ(must(store().lead()), std::nullopt) << "it notices when it goes on";
  // What the former leader began is known to the next, and not begun again.
  const auto found = must(second_->begin_operation(*next, operation(world, "before")));
  EXPECT_FALSE(found.fresh);
  EXPECT_TRUE(must(second_->begin_operation(*next, operation(world, "after"))).fresh);
}

TEST_F(ReplicaTest, ALeaderThatLosesItsConnectionLosesItsTerm) {
  const Term former = *must(store().lead());
  run_sql("SELECT pg_terminate_backend(CAST(backend_pid AS INTEGER)) FROM leader");
  const auto next = lead_within(*second_, std::chrono::seconds(20));
  ASSERT_TRUE(next);
  EXPECT_GT(next->number, former.number);
  EXPECT_EQ(store().write_back(former, {}).error().code, Errc::kStale);
}

TEST_F(ReplicaTest, AWriteOfOneWakesTheOther) {
  const World world = make_world(store());
  // The listener's connection counts as a change; wait until it is there.
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  for (int round = 0; round < 3; ++round) {
    const std::uint64_t seen = second_->change();
    must(store().write(kTester, [&](WriteTransaction& t) -> Result<void> {
      LogicalPartition partition = new_partition(world, "p" + std::to_string(round));
      IMEX_CHECK_OK(t.insert(partition));
      t.wake_reconciler();
      return {};
    }));
    EXPECT_NE(
        second_->wait_for_change(seen, std::chrono::steady_clock::now() + std::chrono::seconds(20)),
        seen);
  }
}

TEST_F(ReplicaTest, WritersOfBothReplicasTakeTurns) {
  const World world = make_world(store());
  std::vector<std::thread> threads;
  std::atomic<int> taken{0};
  for (Store* replica : {&store(), second_.get()})
    threads.emplace_back([&, replica] {
      for (int i = 0; i < 20; ++i) {
        LogicalPartition partition = new_partition(world, "shared" + std::to_string(i));
        const auto result =
            replica->write(kTester, [&](WriteTransaction& t) { return t.insert(partition); });
        if (!result && result.error().code == Errc::kAlreadyExists) ++taken;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(list<LogicalPartition>().size(), 20U);
  EXPECT_EQ(taken, 20);
}

TEST_F(ReplicaTest, AConnectionThatTheServerEndedIsMadeAnew) {
  const World world = make_world(store());
  run_sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
      "WHERE application_name IN ('imex reader', 'imex writer') AND pid <> pg_backend_pid()");
  const LogicalPartition partition = new_partition(world, "after");
  must(insert(partition));
  EXPECT_TRUE(find<LogicalPartition>(partition.id));
}

}  // namespace
}  // namespace imex::partition::testing
