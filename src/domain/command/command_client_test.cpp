// Against real gRPC servers in this process, on Unix sockets of a temporary folder and on loopback.
#include "domain/command_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <imex/command/v1/command.grpc.pb.h>

#include "domain/domain_query.hpp"
#include "os/fd.hpp"
#include "os/file.hpp"

namespace imex::domain {
namespace {

namespace pb = imex::command::v1;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// A command service whose answer the test sets.
class FakeDaemon final : public pb::Command::Service {
 public:
  FakeDaemon(std::uint32_t node, std::vector<std::string> hosts, const std::string& endpoint,
             const std::vector<std::string>& addresses = {}) {
    answer.set_status(5);
    answer.set_version("0.1.0");
    answer.set_node(node);
    answer.set_host_name(fmt::format("tray-{}", node));
    answer.set_domain_id(std::string(16, 'd'));
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      auto* peer = answer.add_peers();
      peer->set_node(static_cast<std::uint32_t>(i));
      peer->set_host(hosts[i]);
      peer->set_address(i < addresses.size() ? addresses[i] : hosts[i]);
      peer->set_state(7);
      peer->set_status(5);
    }
    grpc::ServerBuilder builder;
    builder.AddListeningPort(endpoint, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server = builder.BuildAndStart();
  }
  ~FakeDaemon() override { stop(); }
  void stop() {
    if (server) server->Shutdown(std::chrono::system_clock::now());
    server.reset();
  }

  grpc::Status GetStatus(grpc::ServerContext*, const pb::GetStatusRequest*,
                         pb::Status* out) override {
    const std::lock_guard lock(mutex);
    *out = answer;
    return grpc::Status::OK;
  }
  grpc::Status GetHealth(grpc::ServerContext*, const pb::GetHealthRequest*,
                         pb::Health* out) override {
    const std::lock_guard lock(mutex);
    *out->mutable_status() = answer;
    out->add_problems("node 2 is silent");
    (*out->mutable_counters())["imports_done"] = 7;
    auto* channel = out->add_channels();
    channel->set_channel(3);
    channel->set_workload("job-7");
    return grpc::Status::OK;
  }
  grpc::Status WatchStatus(grpc::ServerContext*, const pb::GetStatusRequest*,
                           grpc::ServerWriter<pb::Status>* writer) override {
    for (const std::uint32_t status : {0U, 4U, 5U}) {
      answer.set_status(status);
      writer->Write(answer);
    }
    return grpc::Status::OK;
  }

  std::mutex mutex;
  pb::Status answer;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

/// A listener that accepts connections in the kernel and never says a word.
struct Mute {
  Mute() : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, "127.88.3.9", &address.sin_addr);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(fd.get(), 8), 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
  }
  os::UniqueFd fd;
  std::uint16_t port = 0;
};

class CommandClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = os::make_temporary_directory("command");
    ASSERT_TRUE(made);
    folder = *made;
  }
  void TearDown() override { EXPECT_TRUE(os::remove_tree(folder)); }
  std::string folder;
};

TEST_F(CommandClientTest, AStatusIsReadOverAUnixSocketAndOverTcp) {
  const FakeDaemon unix_daemon(1, {"10.0.0.1", "10.0.0.2"}, "unix:" + folder + "/c.sock");
  const FakeDaemon tcp_daemon(0, {"10.0.0.1"}, "127.88.3.1:0");
  auto over_unix = CommandClient::connect({folder + "/c.sock", {}, 0});
  ASSERT_TRUE(over_unix);
  const auto first = over_unix->status();
  ASSERT_TRUE(first) << first.error().to_string();
  EXPECT_EQ(first->status, DaemonStatus::kReady);
  EXPECT_EQ(first->node, 1);
  EXPECT_EQ(first->peers.at(1).host, "10.0.0.2");
  EXPECT_EQ(first->peers.at(0).state, PairState::kConnected);
  auto over_tcp =
      CommandClient::connect({{}, "127.88.3.1", static_cast<std::uint16_t>(tcp_daemon.port)});
  EXPECT_EQ(over_tcp->status()->host_name, "tray-0");
}

TEST_F(CommandClientTest, ASocketPathLongerThanTheKernelTakesWorks) {
  const std::string deep = folder + "/" + std::string(120, 'd');
  ASSERT_TRUE(os::make_directories(deep));
  // The server binds through a short name of the same folder.
  ASSERT_EQ(::symlink(deep.c_str(), (folder + "/s").c_str()), 0);
  const FakeDaemon daemon(0, {"a"}, "unix:" + folder + "/s/c.sock");
  auto client = CommandClient::connect({deep + "/c.sock", {}, 0});
  ASSERT_TRUE(client);
  const auto report = client->status();
  EXPECT_TRUE(report) << report.error().to_string();
}

TEST_F(CommandClientTest, HealthCarriesProblemsCountersAndChannels) {
  const FakeDaemon daemon(0, {"a"}, "unix:" + folder + "/c.sock");
  const auto health = CommandClient::connect({folder + "/c.sock", {}, 0})->health();
  ASSERT_TRUE(health);
  EXPECT_THAT(health->problems, ::testing::ElementsAre("node 2 is silent"));
  EXPECT_EQ(health->counters.at("imports_done"), 7U);
  EXPECT_EQ(health->channels.at(0).workload, "job-7");
}

TEST_F(CommandClientTest, AWatchFollowsChangesUntilItIsToldToStop) {
  const FakeDaemon daemon(0, {"a"}, "unix:" + folder + "/c.sock");
  std::vector<DaemonStatus> seen;
  const auto done = CommandClient::connect({folder + "/c.sock", {}, 0})
                        ->watch(
                            [&](const StatusReport& report) {
                              seen.push_back(report.status);
                              return report.status != DaemonStatus::kReady;
                            },
                            5s);
  EXPECT_TRUE(done);
  EXPECT_THAT(seen, ::testing::ElementsAre(DaemonStatus::kInitializing, DaemonStatus::kInitGpu,
                                           DaemonStatus::kReady));
}

TEST_F(CommandClientTest, NobodyThereIsUnavailableAtOnce) {
  const auto begin = Clock::now();
  EXPECT_EQ(CommandClient::connect({folder + "/none.sock", {}, 0}).error().code, Errc::kNotFound);
  auto client = CommandClient::connect({{}, "127.88.3.8", 9});
  EXPECT_EQ(client->status(4s).error().code, Errc::kUnavailable);
  EXPECT_LT(Clock::now() - begin, 3s);
}

TEST_F(CommandClientTest, SomebodyWhoNeverAnswersCostsTheTimeoutAndNoMore) {
  const Mute mute;
  const auto begin = Clock::now();
  EXPECT_FALSE(CommandClient::connect({{}, "127.88.3.9", mute.port})->status(300ms));
  EXPECT_LT(Clock::now() - begin, 2s);
}

TEST_F(CommandClientTest, AnswersThatMakeNoSenseAreRefusedOrTamed) {
  FakeDaemon daemon(0, {"a"}, "unix:" + folder + "/c.sock");
  daemon.answer.set_status(4'000'000);
  daemon.answer.set_node(70'000);
  daemon.answer.set_version("\x1b[2Jcleared\n");
  daemon.answer.mutable_peers(0)->set_state(99);
  auto client = CommandClient::connect({folder + "/c.sock", {}, 0});
  const auto report = client->status();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->status, DaemonStatus::kUnavailable);
  EXPECT_EQ(report->node, kNoNode);
  EXPECT_EQ(report->version, " [2Jcleared ");
  EXPECT_EQ(report->peers.at(0).state, PairState::kInvalid);
  {
    const std::lock_guard lock(daemon.mutex);
    daemon.answer.mutable_peers(0)->set_node(65'000);
  }
  EXPECT_EQ(client->status().error().code, Errc::kDataLoss);
}

TEST_F(CommandClientTest, ManyAreAskedAtOnceAndSilentOnesAreErrors) {
  const Mute mute;
  const FakeDaemon daemon(0, {"a"}, "127.88.3.1:0");
  const auto port = static_cast<std::uint16_t>(daemon.port);
  std::vector<CommandEndpoint> all(18, {{}, "127.88.3.9", mute.port});
  all[7] = {{}, "127.88.3.1", port};
  all[8] = {{}, "127.88.3.8", 9};
  const auto begin = Clock::now();
  const auto answers = ask_all(all, 500ms);
  EXPECT_LT(Clock::now() - begin, 3s);
  ASSERT_EQ(answers.size(), 18U);
  for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].has_value(), i == 7) << i;
}

class DomainQueryTest : public CommandClientTest {
 protected:
  static constexpr std::uint16_t kPort = 50'995;
  /// Addresses of this process alone: tests of several processes run side by side on one port.
  static std::string at(int i) {
    const int pid = ::getpid();
    return fmt::format("127.{}.{}.{}", 100 + (pid >> 8) % 100, pid & 0xff, i + 1);
  }
  static std::string endpoint(int i) { return fmt::format("{}:{}", at(i), kPort); }
  const std::vector<std::string> hosts{at(0), at(1), at(2)};
};

TEST_F(DomainQueryTest, AllNodesAreAskedAtTheAddressesThatTheLocalDaemonUses) {
  const std::vector<std::string> names{"node-a", "node-b", "node-c"};
  const FakeDaemon a(0, names, endpoint(0), {at(0), at(1), ""});
  const FakeDaemon b(1, names, endpoint(1));
  const auto local = ask_local({{{}, at(0), kPort}});
  ASSERT_TRUE(local) << local.error().to_string();
  const DomainView view = query_domain(local, {}, kPort, 2s);
  ASSERT_EQ(view.nodes.size(), 3U);
  EXPECT_EQ(view.local, NodeId{0});
  EXPECT_TRUE(view.nodes[1].report);
  EXPECT_FALSE(view.nodes[2].assigned);  // and so it is not asked: "node-c" has no address
  EXPECT_FALSE(view.nodes[2].report);
}

TEST_F(DomainQueryTest, ANodeWithAnotherOrderOfTheListIsShownInOurSlots) {
  const FakeDaemon a(0, hosts, endpoint(0));
  FakeDaemon b(0, {hosts[1], hosts[0], hosts[2]}, endpoint(1));  // takes itself for node 0
  b.answer.mutable_peers(1)->set_state(6);
  b.answer.set_domain_id(std::string(16, 'x'));  // made from its list
  const DomainView view = query_domain(ask_local({{{}, at(0), kPort}}), {}, kPort, 2s);
  ASSERT_TRUE(view.nodes[1].report);
  EXPECT_EQ(pair_state(view, 1, 0), PairState::kMapMismatch);
  EXPECT_EQ(pair_state(view, 1, 1), PairState::kConnected);
}

TEST_F(DomainQueryTest, AStrangerAtTheAddressDoesNotCount) {
  const FakeDaemon a(0, hosts, endpoint(0));
  FakeDaemon b(1, hosts, endpoint(1));
  b.answer.set_domain_id(std::string(16, 'x'));  // same names, another domain
  const FakeDaemon c(1, hosts, endpoint(2));     // says it is node 1, was asked as node 2
  const DomainView view = query_domain(ask_local({{{}, at(0), kPort}}), {}, kPort, 2s);
  EXPECT_FALSE(view.nodes[1].report);
  EXPECT_FALSE(view.nodes[2].report);
}

TEST_F(DomainQueryTest, WithoutALocalAnswerTheNodeListIsAsked) {
  const FakeDaemon b(1, hosts, endpoint(1));
  NodeList list;
  for (const auto& host : hosts) list.entries.push_back({host, false});
  const auto local = ask_local({{{}, at(0), kPort}}, 1s);
  ASSERT_FALSE(local);
  const DomainView view = query_domain(local, list, kPort, 2s);
  EXPECT_FALSE(view.local);
  EXPECT_EQ(view.nodes[1].status(), DaemonStatus::kReady);
  EXPECT_EQ(view.nodes[0].status(), DaemonStatus::kUnavailable);
}

TEST_F(DomainQueryTest, AHangingCandidateLeavesTimeForTheNext) {
  const Mute mute;
  const FakeDaemon a(0, hosts, endpoint(0));
  const auto local = ask_local({{{}, "127.88.3.9", mute.port}, {{}, at(0), kPort}}, 2s);
  ASSERT_TRUE(local);
  EXPECT_EQ(local->endpoint.address, at(0));
}

TEST_F(DomainQueryTest, TheConfigurationDecidesWhereTheLocalDaemonIs) {
  DaemonConfig config;
  config.command_port = kPort;
  EXPECT_EQ(local_endpoints(config).front().to_string(), fmt::format("127.0.0.1:{}", kPort));
  config.bind_ip = at(1);
  ASSERT_EQ(local_endpoints(config).size(), 1U);
  EXPECT_EQ(local_endpoints(config).front().to_string(), endpoint(1));
  const FakeDaemon daemon(0, hosts, "unix:" + folder + "/c.sock");
  config.command_socket = folder + "/c.sock";
  EXPECT_EQ(local_endpoints(config).front().to_string(), "unix:" + folder + "/c.sock");
}

TEST_F(DomainQueryTest, AListThatCannotBeReadIsNamedAsDcgmExpects) {
  DaemonConfig config;
  config.node_list_path = folder + "/nodes.cfg";
  EXPECT_THAT(read_node_list(config).error().message,
              ::testing::StartsWith("Failed to read node configuration file"));
}

}  // namespace
}  // namespace imex::domain
