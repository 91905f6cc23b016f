// Several daemons as one domain: who sees whom, what a restart means, how the list may change. What
// section 19 of the specification asks for is in acceptance_test.cpp.

#include <unistd.h>

#include <csignal>

#include <gmock/gmock.h>

#include "cluster.hpp"

namespace imex::test {
namespace {

using domain::DaemonStatus;
using domain::PairState;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

Uuid instance_of(const TestDaemon& daemon) {
  const auto status = daemon.status();
  EXPECT_TRUE(status) << status.error().to_string();
  return status ? status->instance : Uuid{};
}

TEST(DaemonDomain, TwoNodesSeeEachOther) {
  Cluster cluster(2);
  cluster.start();
  ASSERT_TRUE(cluster.wait_up());
  EXPECT_TRUE(cluster[0].wait_log("link to node 1 on this machine stands"));
  EXPECT_TRUE(cluster[1].wait_log("link to node 0 on this machine stands"));
}

TEST(DaemonDomain, ThreeNodesGiveAFullMatrixAndALeavingOneIsSeen) {
  Cluster cluster(3);
  cluster.start();
  ASSERT_TRUE(cluster.wait_up());
  EXPECT_EQ(cluster[2].stop(), 0);
  EXPECT_TRUE(cluster[0].wait_pair(2, PairState::kDisconnected));
  EXPECT_TRUE(cluster[1].wait_pair(2, PairState::kDisconnected));
  EXPECT_TRUE(cluster[0].wait_pair(1, PairState::kConnected));
  EXPECT_THAT(cluster[0].log(), HasSubstr("Received notification of shutdown from node 2"));
}

TEST(DaemonDomain, KilledAndBackAfterTheLeaseItIsANewInstance) {
  Cluster cluster(2);
  cluster.set("IMEX_X_LEASE", "1s");
  cluster.start();
  ASSERT_TRUE(cluster.wait_up());
  const Uuid before = instance_of(cluster[1]);
  cluster[1].kill(SIGKILL);
  EXPECT_EQ(cluster[1].wait_exit(), 128 + SIGKILL);
  ASSERT_TRUE(cluster[0].wait_log("its lease is over"));
  cluster[1].spawn();
  ASSERT_TRUE(cluster[1].wait_ready()) << cluster[1].log();
  ASSERT_TRUE(cluster.wait_up());
  EXPECT_NE(instance_of(cluster[1]), before);
}

TEST(DaemonDomain, AfterAnOrderlyStopItIsANewInstance) {
  Cluster cluster(1);
  cluster.start();
  const Uuid before = instance_of(cluster[0]);
  EXPECT_EQ(cluster[0].stop(), 0);
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
  EXPECT_NE(instance_of(cluster[0]), before);
}

TEST(DaemonDomain, AnUpgradeByExecKeepsProcessAndInstance) {
  Cluster cluster(2);
  cluster.start();
  ASSERT_TRUE(cluster.wait_up());
  const Uuid before = instance_of(cluster[1]);
  const std::int32_t pid = cluster[1].pid();
  cluster[1].kill(SIGUSR2);
  ASSERT_TRUE(cluster[1].wait_ready()) << cluster[1].log();  // the successor's own word
  ASSERT_TRUE(cluster.wait_up());
  EXPECT_EQ(instance_of(cluster[1]), before);
  EXPECT_EQ(cluster[1].pid(), pid);
  EXPECT_EQ(cluster[1].wait_exit(milliseconds(0)), std::nullopt);
  EXPECT_THAT(cluster[0].log(), Not(HasSubstr("Received notification of shutdown")));
}

TEST(DaemonDomain, Section18_04_CoalescedSignalsEndInTheFinalMapping) {
  Cluster cluster(2);
  const std::string first = cluster.address(0) + " node-a\n";
  const std::string hosts = cluster.directory().write("hosts", first + "127.0.0.2 node-b\n");
  cluster.set("IMEX_X_HOSTS_FILE", hosts);
  cluster.write_list({"node-a", "node-b"});
  // Node 1 knows itself from the start, node 0 only after the remap.
  cluster[1].keys["IMEX_X_HOSTS_FILE"] =
      cluster.directory().write("hosts1", first + cluster.address(1) + " node-b\n");
  cluster.start();
  ASSERT_TRUE(cluster[1].wait_pair(0, PairState::kConnected));
  EXPECT_EQ(cluster[0].status()->peers[1].state, PairState::kNeverConnected);
  for (int i = 0; i < 5; ++i) cluster[0].kill(SIGUSR1);
  cluster.directory().write("hosts", first + cluster.address(1) + " node-b\n");
  cluster[0].kill(SIGUSR1);
  EXPECT_TRUE(cluster[0].wait_pair(1, PairState::kConnected));
}

TEST(DaemonDomain, Section18_03_AnotherOwnPlaceInTheListIsExit75) {
  Cluster cluster(2);
  cluster.set("IMEX_X_DOMAIN_ID", "11111111-2222-3333-4444-555555555555");
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
  cluster.write_list({cluster.address(1), cluster.address(0)});
  EXPECT_EQ(cluster[0].wait_exit(), 75);
}

TEST(DaemonDomain, Section18_02_AGrowingListIsTakenWithoutARestart) {
  Cluster cluster(3);
  cluster.write_list({cluster.address(0), cluster.address(1)});
  cluster[0].spawn();
  cluster[1].spawn();
  ASSERT_TRUE(cluster[0].wait_ready());
  ASSERT_TRUE(cluster[1].wait_ready());
  ASSERT_TRUE(cluster[0].wait_pair(1, PairState::kConnected));
  const Uuid before = instance_of(cluster[0]);
  cluster.write_list({cluster.address(0), cluster.address(1), cluster.address(2)});
  cluster[2].spawn();
  ASSERT_TRUE(cluster[2].wait_ready());
  ASSERT_TRUE(cluster.wait_up());
  EXPECT_EQ(cluster[0].status()->peers.size(), 3U);
  EXPECT_EQ(instance_of(cluster[0]), before);
}

// imex-service.md 18.11: one process, one peer port, two domains whose lists are the same.
TEST(DaemonDomain, Section18_11_TwoDomainsOfTheSameNamesLiveInOneProcess) {
  Cluster cluster(2), second(2);
  const std::string ids[] = {"11111111-2222-3333-4444-555555555551",
                             "11111111-2222-3333-4444-555555555552"};
  cluster.set("IMEX_X_DOMAIN_ID", ids[0]);
  second.set("IMEX_X_DOMAIN_ID", ids[1]);
  second.set("IMEX_NODE_CONFIG_FILE", cluster.list_path());
  second.set("SERVER_PORT", std::to_string(cluster.port()));
  for (std::size_t i = 0; i < 2; ++i) {
    second[i].write_config();
    cluster[i].arguments = {"-c", second[i].config_path()};
  }
  cluster.start();
  ASSERT_TRUE(cluster.wait_up());
  ASSERT_TRUE(second.wait_up());
  EXPECT_NE(instance_of(cluster[0]), instance_of(second[0]));
  EXPECT_EQ(cluster[0].status()->domain_id.to_string(), ids[0]);
  EXPECT_EQ(second[0].status()->domain_id.to_string(), ids[1]);
}

TEST(DaemonDomain, Section18_05_EighteenNodesConverge) {
  Cluster cluster(18);
  cluster.start();
  EXPECT_TRUE(cluster.wait_up(seconds(60)));
}

}  // namespace
}  // namespace imex::test
