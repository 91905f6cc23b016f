// How the daemon starts and ends: READY, exit codes, what is left behind.

#include <sys/stat.h>

#include <csignal>
#include <fstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cluster.hpp"
#include "os/file.hpp"

namespace imex::test {
namespace {

using domain::DaemonStatus;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

TEST(DaemonStart, OneNodeIsReadyAndShowsItsSockets) {
  Cluster cluster(1);
  cluster.start();
  const auto status = cluster[0].status();
  ASSERT_TRUE(status) << status.error().to_string();
  EXPECT_EQ(status->status, DaemonStatus::kReady);
  EXPECT_EQ(status->node, 0);
  struct stat facts{};
  const std::string run = cluster[0].run_directory();
  ASSERT_EQ(::stat((run + "/control.sock").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat((run + "/link.sock").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat((run + "/persist.dat").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(cluster[0].channel_path(0).c_str(), &facts), 0);
  EXPECT_EQ(cluster[0].stop(), 0);
  EXPECT_NE(::stat((run + "/control.sock").c_str(), &facts), 0);
  EXPECT_NE(::stat(cluster[0].channel_path(0).c_str(), &facts), 0);
}

TEST(DaemonStart, LogsTheLinesThatOperatorsLookFor) {
  Cluster cluster(1);
  cluster.start();
  const std::string log = cluster[0].log();
  EXPECT_THAT(log, HasSubstr("IMEX Log initializing at: "));
  EXPECT_THAT(log, HasSubstr("is running with the following configuration options:"));
  EXPECT_THAT(log, HasSubstr("Logging level = 4"));
  EXPECT_THAT(log, HasSubstr("IMEX library communication bind port = "));
  EXPECT_THAT(log, HasSubstr("Identified this node as ID 0, using bind IP of '"));
  EXPECT_THAT(log, HasSubstr("Creating gRPC channels to all peers (nPeers = "));
  EXPECT_THAT(log, HasSubstr("GPU event successfully subscribed"));
  EXPECT_THAT(log, HasSubstr("Attaching to GPU "));
}

/// Starts what must not start and returns its exit status.
std::optional<int> exit_status(TestDaemon& daemon) {
  daemon.spawn();
  EXPECT_FALSE(daemon.wait_ready());
  return daemon.wait_exit();
}

/// The same, for an exit status that last-error.json must confirm.
std::optional<int> outcome(TestDaemon& daemon, const std::string& code) {
  const auto status = exit_status(daemon);
  const auto text = os::read_file(daemon.last_error_path());
  EXPECT_TRUE(text) << text.error().to_string();
  const auto told = nlohmann::json::parse(text.value_or("{}"), nullptr, false);
  EXPECT_EQ(told.value("code", ""), code) << told;
  EXPECT_EQ(told.value("exit_status", -1), status.value_or(-2)) << told;
  EXPECT_NE(told.value("message", ""), "") << told;
  return status;
}

TEST(DaemonStart, Section18_17_PortInUseIsExit69AndNamesTheHolder) {
  Cluster cluster(2);
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
  cluster[1].keys["BIND_INTERFACE_IP"] = cluster.address(0);
  cluster[1].keys["IMEX_CMD_PORT"] = std::to_string(free_port(cluster.address(1)));
  EXPECT_EQ(outcome(cluster[1], "port_in_use"), 69);
  const std::string holder = "process " + std::to_string(cluster[0].pid()) + " (imexd)";
  EXPECT_THAT(cluster[1].log(), HasSubstr(holder));
  EXPECT_THAT(os::read_file(cluster[1].last_error_path()).value(), HasSubstr(holder));
}

TEST(DaemonStart, TheCommandPortInUseIsExit69AndNamesTheHolder) {
  Cluster cluster(2);
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
  cluster[1].keys["IMEX_CMD_BIND_INTERFACE_IP"] = cluster.address(0);
  EXPECT_EQ(outcome(cluster[1], "port_in_use"), 69);
  EXPECT_THAT(cluster[1].log(), HasSubstr("process " + std::to_string(cluster[0].pid())));
}

TEST(DaemonStart, ACommandSocketThatCannotBeMadeIsExit65) {
  Cluster cluster(1);
  cluster[0].keys["IMEX_CMD_UNIX_DOMAIN_PATH"] = cluster[0].directory() + "/missing/command.sock";
  EXPECT_EQ(outcome(cluster[0], "bad_config"), 65);
}

TEST(DaemonStart, AGoodStartRemovesTheLastError) {
  Cluster cluster(1);
  cluster.directory().write("nodes.cfg", "# nobody\n");
  EXPECT_EQ(outcome(cluster[0], "bad_node_list"), 66);
  cluster.write_list({cluster.address(0)});
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
  EXPECT_FALSE(os::read_file(cluster[0].last_error_path()));
}

TEST(DaemonStart, ListMismatchWithAQuorumOfPeersIsExit76) {
  Cluster cluster(2);
  cluster.set("IMEX_X_DOMAIN_ID", "11111111-2222-3333-4444-555555555555");
  cluster.set("IMEX_X_HEARTBEAT_INTERVAL", "50ms");
  cluster.set("IMEX_X_HEARTBEAT_TIMEOUT", "150ms");
  cluster[0].keys["IMEX_WAIT_FOR_QUORUM"] = "NONE";
  cluster[1].keys["IMEX_WAIT_FOR_QUORUM"] = "FULL";
  cluster[1].keys["IMEX_NODE_CONFIG_FILE"] =
      cluster.directory().write("other.cfg", cluster.address(1) + "\n" + cluster.address(0) + "\n");
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
  EXPECT_EQ(outcome(cluster[1], "list_mismatch"), 76);
  EXPECT_THAT(cluster[1].log(), HasSubstr("Node configuration mismatch with 1 of 1 peers"));
}

TEST(DaemonStart, AnAddressTwiceInTheListIsExit66AndNamesTheLine) {
  Cluster cluster(1);
  cluster.write_list({cluster.address(0), "node-b", cluster.address(0)});
  EXPECT_EQ(outcome(cluster[0], "bad_node_list"), 66);
  EXPECT_THAT(cluster[0].log(), HasSubstr("line 3"));
}

TEST(DaemonStart, AnotherDaemonInTheRunDirectoryIsExit72AndIsNotSpokenOf) {
  Cluster cluster(2);
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
  cluster[1].keys["IMEX_X_STATE_DIR"] = cluster[0].keys["IMEX_X_STATE_DIR"];
  EXPECT_EQ(exit_status(cluster[1]), 72);
  const std::string holder = std::to_string(cluster[0].pid());
  EXPECT_THAT(cluster[1].log(), HasSubstr("another daemon runs here"));
  EXPECT_THAT(cluster[1].log(), HasSubstr(holder));
  // The directory is that of the daemon that runs, and nothing is wrong with it.
  EXPECT_FALSE(os::read_file(cluster[0].last_error_path()));
  EXPECT_TRUE(cluster[0].status());
}

TEST(DaemonStart, WhateverFailsBesideADaemonThatRunsIsNotSpokenOf) {
  Cluster cluster(2);
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
  cluster[1].keys = cluster[0].keys;
  EXPECT_EQ(exit_status(cluster[1]), 69);  // started twice
  cluster[1].keys["IMEX_NODE_CONFIG_FILE"] = cluster.directory().write("none.cfg", "# nobody\n");
  EXPECT_EQ(exit_status(cluster[1]), 66);
  cluster[1].keys["SERVER_PORT"] = "0";
  EXPECT_EQ(exit_status(cluster[1]), 65);
  EXPECT_FALSE(os::read_file(cluster[0].last_error_path()));
}

TEST(DaemonStart, BadConfigurationIsExit65) {
  Cluster cluster(1);
  cluster[0].keys["SERVER_PORT"] = "many";
  EXPECT_EQ(outcome(cluster[0], "bad_config"), 65);
}

TEST(DaemonStart, WrongUseIsExit64) {
  Cluster cluster(1);
  cluster[0].arguments = {"--no-such-option"};
  cluster[0].spawn();
  EXPECT_EQ(cluster[0].wait_exit(), 64);
}

TEST(DaemonStart, BadNodeListIsExit66) {
  Cluster cluster(1);
  cluster.directory().write("nodes.cfg", "not a host name!\n");
  EXPECT_EQ(outcome(cluster[0], "bad_node_list"), 66);
  cluster.directory().write("nodes.cfg", "# nobody\n");
  EXPECT_EQ(outcome(cluster[0], "bad_node_list"), 66);
}

TEST(DaemonStart, NoInterfaceOfTheListIsExit71) {
  Cluster cluster(1);
  cluster[0].keys["BIND_INTERFACE_IP"] = "";
  EXPECT_EQ(outcome(cluster[0], "no_matching_interface"),
            71);  // a loopback address can be bound, but no interface carries it
  EXPECT_THAT(cluster[0].log(), HasSubstr("No matching network interface found for any IP"));
}

TEST(DaemonStart, TheAddressOfUnassignedSlotsIsNeverTheOwnOne) {
  Cluster cluster(1);
  cluster[0].keys["BIND_INTERFACE_IP"] = "";
  cluster.write_list({"127.0.0.2"});
  EXPECT_EQ(outcome(cluster[0], "no_matching_interface"), 71);
}

TEST(DaemonStart, KerberosIsExit74NeverUnprotected) {
  Cluster cluster(1);
  cluster[0].keys["IMEX_ENABLE_AUTH_ENCRYPTION"] = "1";
  cluster[0].keys["IMEX_AUTH_ENCRYPTION_MODE"] = "GSS_AUTH_ENCRYPT";
  EXPECT_EQ(outcome(cluster[0], "security"), 74);
}

TEST(DaemonStart, NvidiaImexGoesIntoTheBackgroundOnceReady) {
  Cluster cluster(1);
  cluster[0].program = "nvidia-imex";
  cluster[0].keys["DAEMONIZE"] = "1";
  cluster[0].arguments = {"-nogpu"};
  cluster[0].spawn();
  EXPECT_EQ(cluster[0].wait_exit(), 0);  // the parent: only after READY
  const auto status = cluster[0].status();
  ASSERT_TRUE(status) << status.error().to_string();
  EXPECT_EQ(status->status, DaemonStatus::kReady);
  EXPECT_EQ(status->version, "NO_GPU");
  // The child's pid stands in its lock file.
  std::ifstream lock(cluster[0].run_directory() + "/lock");
  std::int32_t pid = 0;
  ASSERT_TRUE(lock >> pid);
  auto pidfd = os::open_pidfd(pid);
  ASSERT_TRUE(pidfd);
  ASSERT_TRUE(os::signal_pidfd(pidfd->get(), SIGTERM));
  EXPECT_TRUE(cluster[0].wait_log("stopped"));
}

TEST(DaemonStart, AFailedStartInTheBackgroundIsTheParentsExitStatus) {
  Cluster cluster(1);
  cluster[0].program = "nvidia-imex";
  cluster[0].keys["DAEMONIZE"] = "1";
  cluster.directory().write("nodes.cfg", "# nobody\n");
  cluster[0].spawn();
  EXPECT_EQ(cluster[0].wait_exit(), 66);
}

}  // namespace
}  // namespace imex::test
