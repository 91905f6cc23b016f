// imex-service.md section 19, one test for each bullet: what a drop-in for nvidia-imex must pass.
// The programs are called by NVIDIA's names and with their documented options only; extension keys
// appear where a test needs its own directories and addresses.

#include <csignal>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cluster.hpp"
#include "os/file.hpp"

namespace imex::test {
namespace {

using domain::PairState;
using testing::HasSubstr;
using testing::Not;

/// The configuration as the Kubernetes driver renders it (section 4): every key, KEY= where it
/// leaves a value out.
const std::map<std::string, std::string>& rendered_by_kubernetes() {
  static const std::map<std::string, std::string> keys = {
      {"LOG_LEVEL", "4"},
      {"LOG_FILE_NAME", ""},
      {"STATS_FILE_NAME", ""},
      {"LOG_APPEND_TO_LOG", "0"},
      {"LOG_FILE_MAX_SIZE", "1024"},
      {"LOG_MAX_ROTATE_COUNT", "10"},
      {"LOG_USE_SYSLOG", "0"},
      {"DAEMONIZE", "0"},
      {"BIND_INTERFACE_IP", ""},
      {"SERVER_PORT", "50000"},
      {"IMEX_NODE_CONFIG_FILE", "/imexd/nodes.cfg"},
      {"NETWORK_INTERFACE", ""},
      {"IMEX_WAIT_FOR_QUORUM", "RECOVERY"},
      {"IMEX_ENABLE_AUTH_ENCRYPTION", "0"},
      {"IMEX_AUTH_ENCRYPTION_MODE", "SSL_TLS"},
      {"IMEX_AUTH_SOURCE", ""},
      {"IMEX_SERVER_KEY", ""},
      {"IMEX_SERVER_CERT", ""},
      {"IMEX_SERVER_CERT_AUTH", ""},
      {"IMEX_CLIENT_KEY", ""},
      {"IMEX_CLIENT_CERT", ""},
      {"IMEX_CLIENT_CERT_AUTH", ""},
      {"IMEX_SECURITY_TARGET_OVERRIDE", ""},
      {"IMEX_GSS_SERVICE_NAME", "host"},
      {"IMEX_GSS_TIMEOUT_SEC", "30"},
      {"IMEX_GSS_RETRY_INTERVAL_SEC", "5"},
      {"IMEX_GSS_SEC_CONTEXT_LIFETIME_SEC", "-1"},
      {"IMEX_GSS_SHUTDOWN_ON_FAILURE", "0"},
      {"IMEX_CMD_ENABLED", "1"},
      {"IMEX_CMD_BIND_INTERFACE_IP", ""},
      {"IMEX_CMD_PORT", "50005"},
      {"IMEX_CMD_UNIX_DOMAIN_PATH", ""},
      {"IMEX_NODE_DISCONNECTED_GRACE_TIME", "-1"},
  };
  return keys;
}

std::vector<std::string> eighteen_names() {
  std::vector<std::string> names;
  for (int i = 0; i < 18; ++i) names.push_back(fmt::format("compute-domain-daemon-{:04}", i));
  return names;
}

/// As nvidia-imex with the rendered file; addresses, ports and directories are the test's.
void render(Cluster& cluster, std::size_t index, const std::string& hosts) {
  TestDaemon& daemon = cluster[index];
  const auto own = daemon.keys;
  daemon.program = "nvidia-imex";
  daemon.keys = rendered_by_kubernetes();
  for (const char* key : {"BIND_INTERFACE_IP", "SERVER_PORT", "IMEX_NODE_CONFIG_FILE",
                          "IMEX_CMD_BIND_INTERFACE_IP", "IMEX_CMD_PORT", "IMEX_X_STATE_DIR",
                          "IMEX_CMD_UNIX_DOMAIN_PATH", "LOG_FILE_NAME", "STATS_FILE_NAME"}) {
    daemon.keys[key] = own.at(key);
  }
  daemon.keys["IMEX_X_HOSTS_FILE"] = hosts;
}

std::string hosts_line(const Cluster& cluster, std::size_t address, int name) {
  return fmt::format("{}\tcompute-domain-daemon-{:04}\n", cluster.address(address), name);
}

Outcome ctl(const TestDaemon& daemon, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"nvidia-imex-ctl", "-c", daemon.config_path()});
  return run_program(std::move(arguments));
}

nlohmann::json domain_of(const TestDaemon& daemon) {
  return nlohmann::json::parse(ctl(daemon, {"-N", "-j"}).out, nullptr, false);
}

// "nvidia-imex -c F with the exact file: -q prints READY within 1 s; stderr empty." That nothing
// but the machine lies between start and READY: NamesThatNobodyAnswersForDoNotDelayReadiness and
// OwnSlotFinder.WaitsForNobody; the time itself: bench/memory/daemon.cpp.
TEST(Acceptance, TheRenderedFileInNameModeWithOneNameThatResolves) {
  Cluster cluster(1);
  cluster.write_list(eighteen_names());
  render(cluster, 0, cluster.directory().write("hosts", hosts_line(cluster, 0, 0)));
  cluster[0].environment["COMPUTE_DOMAIN_UUID"] = "6d4d2d2c-2a54-4b0e-8f0f-3f6f0a8f7a10";
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
  const Outcome asked = ctl(cluster[0], {"-q"});
  EXPECT_EQ(asked.out, "READY\n");
  EXPECT_EQ(asked.err, "");
  EXPECT_EQ(asked.status, 0);
  const auto domain = domain_of(cluster[0]);
  ASSERT_EQ(domain["nodes"].size(), 18U) << domain;
  EXPECT_EQ(domain["status"], "DEGRADED");
  EXPECT_EQ(domain["nodes"]["17"]["status"], "UNAVAILABLE");
  EXPECT_EQ(domain["nodes"]["17"]["version"], "");
  EXPECT_EQ(domain["nodes"]["0"]["connections"]["17"]["status"], "NEVER_CONNECTED");
  EXPECT_EQ(domain["nodes"]["0"]["connections"]["0"]["status"], "CONNECTED");
}

/// DCGM's algorithm: the quoted word after the last occurrence of these bytes.
std::string as_dcgm_reads(const std::string& json) {
  const std::string key = "\"status\":";
  const auto at = json.rfind(key);
  if (at == std::string::npos) return "none";
  const auto open = json.find('"', at + key.size());
  const auto close = json.find('"', open + 1);
  return json.substr(open + 1, close - open - 1);
}

// "Two, then three daemons: matrix full, UP with a 3-line list; -N -j parsed by DCGM's algorithm."
TEST(Acceptance, TwoThenThreeDaemonsFillTheMatrix) {
  Cluster cluster(3);
  for (std::size_t i = 0; i < 3; ++i) cluster[i].program = "nvidia-imex";
  for (std::size_t i = 0; i < 2; ++i) cluster[i].spawn();
  ASSERT_TRUE(cluster[0].wait_pair(1, PairState::kConnected));
  ASSERT_TRUE(cluster[1].wait_pair(0, PairState::kConnected));
  EXPECT_THAT(ctl(cluster[0], {"-N"}).out, HasSubstr("Domain State: DEGRADED"));
  cluster[2].spawn();
  ASSERT_TRUE(cluster.wait_up());
  const std::string text = ctl(cluster[0], {"-N"}).out;
  EXPECT_THAT(text, HasSubstr("Domain State: UP\n"));
  EXPECT_THAT(text, HasSubstr("       0        C   C   C"));
  EXPECT_THAT(text, HasSubstr("       2        C   C   C"));
  const std::string json = ctl(cluster[0], {"-N", "-j"}).out;
  EXPECT_EQ(as_dcgm_reads(json), "UP") << json;
}

// "Kill -9 one: peers keep READY, its column goes R then C. Back within the lease: same instance.
//  After the lease: new instance. SIGSTOP/SIGCONT: no clean-up."
TEST(Acceptance, AKilledDaemonIsRecoveringAndComesBack) {
  Cluster cluster(2);
  cluster.start();
  ASSERT_TRUE(cluster.wait_up());
  const Uuid before = cluster[1].status()->instance;
  cluster[1].kill(SIGKILL);
  ASSERT_EQ(cluster[1].wait_exit(), 128 + SIGKILL);
  ASSERT_TRUE(cluster[0].wait_pair(1, PairState::kRecovering));
  EXPECT_EQ(ctl(cluster[0], {"-q"}).out, "READY\n");
  EXPECT_EQ(domain_of(cluster[0])["nodes"]["0"]["connections"]["1"]["status"], "RECOVERING");
  cluster[1].spawn();
  ASSERT_TRUE(cluster[1].wait_ready()) << cluster[1].log();
  ASSERT_TRUE(cluster.wait_up());
  EXPECT_EQ(cluster[1].status()->instance, before);
  EXPECT_THAT(cluster[0].log(), Not(HasSubstr("ended:")));
  // Without its journal it is a new instance, and at once.
  cluster[1].kill(SIGKILL);
  ASSERT_EQ(cluster[1].wait_exit(), 128 + SIGKILL);
  ASSERT_TRUE(os::rename_file(cluster[1].run_directory() + "/persist.dat",
                              cluster[1].run_directory() + "/persist.lost"));
  cluster[1].spawn();
  ASSERT_TRUE(cluster[1].wait_ready()) << cluster[1].log();
  ASSERT_TRUE(cluster.wait_up());
  EXPECT_NE(cluster[1].status()->instance, before);
  EXPECT_TRUE(cluster[0].wait_log("ended: a new daemon instance answers"));
}

TEST(Acceptance, AStoppedDaemonIsNotCleanedUp) {
  Cluster cluster(2);
  cluster.set("IMEX_X_HEARTBEAT_INTERVAL", "100ms");
  cluster.set("IMEX_X_HEARTBEAT_TIMEOUT", "400ms");
  for (std::size_t i = 0; i < 2; ++i) cluster[i].program = "nvidia-imex";
  cluster.start();
  ASSERT_TRUE(cluster.wait_up());
  const Uuid before = cluster[1].status()->instance;
  cluster[1].kill(SIGSTOP);
  EXPECT_TRUE(cluster[0].wait_pair(1, PairState::kRecovering));
  EXPECT_THAT(cluster[0].log(), HasSubstr("silent for"));
  cluster[1].kill(SIGCONT);
  ASSERT_TRUE(cluster.wait_up());
  EXPECT_EQ(cluster[1].status()->instance, before);
  EXPECT_THAT(cluster[0].log(), Not(HasSubstr("ended:")));
}

// "Different order of the list on one node: !M! on its row and column."
TEST(Acceptance, AnotherOrderOfTheListIsAMapMismatch) {
  Cluster cluster(3);
  const std::string id = "11111111-2222-3333-4444-555555555555";
  cluster.set("IMEX_X_DOMAIN_ID", id);
  cluster[2].keys["IMEX_NODE_CONFIG_FILE"] =
      cluster.directory().write("other.cfg", cluster.address(1) + "\n" + cluster.address(0) + "\n" +
                                                 cluster.address(2) + "\n");
  cluster.start();
  for (const std::size_t node : {0U, 1U}) {
    ASSERT_TRUE(cluster[node].wait_pair(2, PairState::kMapMismatch)) << cluster[node].log();
    ASSERT_TRUE(cluster[2].wait_pair(node, PairState::kMapMismatch)) << cluster[2].log();
  }
  ASSERT_TRUE(cluster[0].wait_pair(1, PairState::kConnected));
  const std::string text = ctl(cluster[0], {"-N"}).out;
  EXPECT_THAT(text, HasSubstr("       0        C   C  !M!\n"));
  EXPECT_THAT(text, HasSubstr("       2       !M! !M!  C\n"));
  EXPECT_THAT(cluster[0].log(), HasSubstr("Node configuration mismatch"));
}

// "hosts-file remap + SIGUSR1: reconnect; six signals in a row still end in the final mapping."
TEST(Acceptance, ARemapAndSixSignalsEndInTheFinalMapping) {
  Cluster cluster(2);
  cluster.write_list({"compute-domain-daemon-0000", "compute-domain-daemon-0001"});
  const std::string own = hosts_line(cluster, 0, 0);
  const std::string unused = "127.0.0.2\tcompute-domain-daemon-0001\n";
  const std::string final_map = own + hosts_line(cluster, 1, 1);
  const std::string hosts = cluster.directory().write("hosts", own + unused);
  render(cluster, 0, hosts);
  render(cluster, 1, cluster.directory().write("hosts-1", final_map));
  cluster.start();
  EXPECT_EQ(cluster[0].status()->peers[1].state, PairState::kNeverConnected);
  for (int i = 0; i < 6; ++i) {
    cluster.directory().write("hosts", i % 2 == 0 ? own + unused : final_map);
    cluster[0].kill(SIGUSR1);
  }
  ASSERT_TRUE(cluster[0].wait_pair(1, PairState::kConnected)) << cluster[0].log();
  EXPECT_EQ(cluster[0].status()->peers[1].address, cluster.address(1));
}

// "Unused slots at 127.0.0.2: not the own ID, not connected."
TEST(Acceptance, UnusedSlotsAreNeitherOwnNorConnected) {
  Cluster cluster(1);
  cluster.write_list(eighteen_names());
  std::string hosts = hosts_line(cluster, 0, 5);
  for (int i = 0; i < 18; ++i) {
    if (i != 5) hosts += fmt::format("127.0.0.2\tcompute-domain-daemon-{:04}\n", i);
  }
  render(cluster, 0, cluster.directory().write("hosts", hosts));
  cluster.start();
  EXPECT_THAT(cluster[0].log(), HasSubstr("Identified this node as ID 5, using bind IP of '"));
  const auto status = cluster[0].status();
  ASSERT_TRUE(status);
  for (const PeerReport& peer : status->peers) {
    const bool own = peer.node == 5;
    EXPECT_EQ(peer.state, own ? PairState::kConnected : PairState::kNeverConnected) << peer.node;
  }
}

/// The keys of all objects in the order of the text.
std::vector<std::string> keys_of(const nlohmann::ordered_json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

// "DCGM's parser rules on every JSON produced": whatever state the domain is in.
TEST(Acceptance, EveryJsonFollowsDcgmsRules) {
  Cluster cluster(2);
  std::set<std::string> seen;
  const auto check = [&] {
    for (const std::vector<std::string>& form :
         {std::vector<std::string>{"-N", "-j"}, {"-N", "-j", "-H"}}) {
      const Outcome asked = ctl(cluster[0], form);
      ASSERT_EQ(asked.status, 0) << asked.err;
      EXPECT_EQ(asked.err, "");
      EXPECT_THAT(asked.out, Not(HasSubstr("\"status\" :")));
      const auto json = nlohmann::ordered_json::parse(asked.out);
      EXPECT_EQ(keys_of(json), (std::vector<std::string>{"nodes", "timestamp", "status"}));
      EXPECT_EQ(keys_of(json["nodes"]["0"]),
                (std::vector<std::string>{"status", "host", "connections", "changed", "version",
                                          "hostName"}));
      EXPECT_EQ(keys_of(json["nodes"]["0"]["connections"]["1"]),
                (std::vector<std::string>{"host", "status", "changed"}));
      EXPECT_EQ(as_dcgm_reads(asked.out), json["status"]);
      seen.insert(as_dcgm_reads(asked.out));
    }
  };
  for (std::size_t i = 0; i < 2; ++i) cluster[i].write_config();
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready());
  check();
  cluster[1].spawn();
  ASSERT_TRUE(cluster[1].wait_ready());
  ASSERT_TRUE(cluster.wait_up());
  check();
  EXPECT_EQ(cluster[1].stop(), 0);
  ASSERT_TRUE(cluster[0].wait_pair(1, PairState::kDisconnected));
  check();
  EXPECT_EQ(seen, (std::set<std::string>{"DEGRADED", "UP"}));
}

}  // namespace
}  // namespace imex::test
