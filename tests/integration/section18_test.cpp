// The items of imex-service.md 18 that no other test of this folder proves (its name then begins
// with the item): each answers a public complaint about the original.

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <csignal>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <imex/signal.hpp>
#include <nlohmann/json.hpp>

#include "memory_kit.hpp"
#include "os/file.hpp"
#include "os/socket.hpp"

namespace imex::test {
namespace {

using domain::DaemonStatus;
using domain::PairState;
using testing::HasSubstr;
using SteadyClock = std::chrono::steady_clock;

// 18.6
std::string ask_metrics(const TestDaemon& daemon, const std::string& path) {
  const os::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  (daemon.run_directory() + "/metrics.sock").copy(where.sun_path, sizeof where.sun_path - 1);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0) {
    return "no connection";
  }
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: imexd\r\nConnection: close\r\n\r\n";
  ::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL);
  std::string answer;
  std::array<char, 4096> part{};
  for (;;) {
    if (!os::wait_readable(socket.get(), SteadyClock::now() + kPatience)) return answer;
    const auto size = ::recv(socket.get(), part.data(), part.size(), MSG_DONTWAIT);
    if (size <= 0) return answer;
    answer.append(part.data(), static_cast<std::size_t>(size));
  }
}

TEST(Section18, Section18_06_TruthfulReadiness) {
  Cluster cluster(2);
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
  const std::string config = cluster[0].config_path();
  const Outcome quick = run_program({"nvidia-imex-ctl", "-c", config, "-q"});
  EXPECT_EQ(quick.out, "READY\n");
  const Outcome deep = run_program({"nvidia-imex-ctl", "-c", config, "-q", "--deep"});
  EXPECT_NE(deep.status, 0);  // READY alone, but its peer is missing
  EXPECT_THAT(deep.out + deep.err, HasSubstr("node 1"));
  EXPECT_THAT(ask_metrics(cluster[0], "/readyz"), HasSubstr("200"));
  EXPECT_THAT(ask_metrics(cluster[0], "/metrics"), HasSubstr("imex_"));
  cluster[1].spawn();
  ASSERT_TRUE(cluster[1].wait_ready()) << cluster[1].log();
  ASSERT_TRUE(cluster.wait_up());
  EXPECT_EQ(run_program({"nvidia-imex-ctl", "-c", config, "-q", "--deep"}).status, 0);
}

// 18.7: the peer accepts connections and says nothing.
TEST(Section18, Section18_07_TheToolNeverHangs) {
  Cluster cluster(2);
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
  cluster[1].spawn();
  ASSERT_TRUE(cluster[1].wait_ready()) << cluster[1].log();
  ASSERT_TRUE(cluster.wait_up());
  cluster[1].kill(SIGSTOP);
  const auto start = SteadyClock::now();
  const Outcome asked =
      run_program({"nvidia-imex-ctl", "-c", cluster[0].config_path(), "-N", "-j"});
  EXPECT_LT(SteadyClock::now() - start, std::chrono::seconds(5));
  cluster[1].kill(SIGCONT);
  EXPECT_EQ(asked.status, 0);
  const auto json = nlohmann::json::parse(asked.out, nullptr, false);
  EXPECT_EQ(json["nodes"]["0"]["status"], "READY") << asked.out;
  EXPECT_EQ(json["nodes"]["1"]["status"], "UNAVAILABLE") << asked.out;
}

/// Two threads that pass a ball through shared memory, as two ranks would.
class Exchange {
 public:
  Exchange(std::byte* here, std::byte* there, const AbortCell* abort)
      : ping_(*reinterpret_cast<SignalCell*>(here)),
        pong_(*reinterpret_cast<SignalCell*>(there + 64)),
        abort_(abort),
        other_([this, here, there] { answer(there, here); }),
        own_([this] { serve(); }) {}
  ~Exchange() {
    stop_.store(true, std::memory_order_relaxed);
    own_.join();
    last_.store(true, std::memory_order_relaxed);  // seen after the notify() that follows
    ping_.notify();
    other_.join();
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  [[nodiscard]] std::uint64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool broken() const { return broken_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool goes_on() const {
    const std::uint64_t before = rounds();
    return eventually([&] { return broken() || rounds() >= before + 1000; }) && !broken();
  }

 private:
  [[nodiscard]] bool wait(Signal& signal, std::uint64_t count) {
    const auto waited =
        signal.wait_until(count, {.deadline = SteadyClock::now() + kPatience, .abort = abort_});
    if (!waited.to_result()) broken_.store(true, std::memory_order_relaxed);
    return !broken();
  }
  void serve() {
    for (std::uint64_t round = 1; !stop_.load(std::memory_order_relaxed); ++round) {
      ping_.notify();
      if (!wait(pong_, round)) return;
      rounds_.store(round, std::memory_order_relaxed);
    }
  }
  void answer(std::byte* here, std::byte* there) {
    Signal ping(*reinterpret_cast<SignalCell*>(here)),
        pong(*reinterpret_cast<SignalCell*>(there + 64));
    for (std::uint64_t round = 1; wait(ping, round); ++round) {
      pong.notify();
      if (last_.load(std::memory_order_relaxed)) return;
    }
  }

  Signal ping_, pong_;
  const AbortCell* abort_;
  std::atomic<std::uint64_t> rounds_{0};  ///< written by own_; only counts: relaxed
  std::atomic<bool> stop_{false}, last_{false}, broken_{false};
  std::thread other_, own_;
};

TEST(Section18, Section18_08_AnExchangeKeepsRunningOverAnUpgradeAndACrash) {
  TwoNodes nodes;
  auto& [cluster, a, b, shared] = nodes;
  const Exchange exchange(shared.memory.data(), shared.imported.data(), b.default_scope().cell());
  ASSERT_TRUE(exchange.goes_on());
  for (const std::size_t node : {0U, 1U}) {
    Session& session = node == 0 ? a : b;
    cluster[node].kill(SIGUSR2);
    ASSERT_TRUE(cluster[node].wait_ready()) << cluster[node].log();
    EXPECT_TRUE(wait_event(session, SessionEvent::Kind::kDaemonResumed));
    EXPECT_TRUE(exchange.goes_on());
    cluster[node].kill(SIGKILL);
    ASSERT_EQ(cluster[node].wait_exit(), 128 + SIGKILL);
    EXPECT_TRUE(exchange.goes_on());  // without any daemon on that node
    cluster[node].spawn();
    ASSERT_TRUE(cluster[node].wait_ready()) << cluster[node].log();
    EXPECT_TRUE(wait_event(session, SessionEvent::Kind::kDaemonResumed));
  }
  ASSERT_TRUE(cluster.wait_up());
  EXPECT_TRUE(exchange.goes_on());
}

// 18.9: a peer that stays away is lost after its lease, and its importers are told.
TEST(Section18, Section18_09_ALossIsBoundedAndTold) {
  TwoNodes nodes(TwoNodes::Keys{{"IMEX_X_LEASE", "1s"}});
  auto& [cluster, a, b, shared] = nodes;
  cluster[0].kill(SIGKILL);
  ASSERT_EQ(cluster[0].wait_exit(), 128 + SIGKILL);
  const auto lost = wait_event(b, SessionEvent::Kind::kExporterLost);
  ASSERT_TRUE(lost) << cluster[1].log();
  EXPECT_EQ(shared.imported.data()[0], shared.memory.data()[0]);  // the pages stay readable
}

// 18.11: one daemon process, two domains of the same names, the same channel number.
TEST(Section18, Section18_11_AHandleOfTheOtherDomainOfTheSameNamesIsRefused) {
  Cluster cluster(1), second(1);
  cluster.set("IMEX_X_DOMAIN_ID", "11111111-2222-3333-4444-555555555551");
  second.set("IMEX_X_DOMAIN_ID", "11111111-2222-3333-4444-555555555552");
  second.set("IMEX_NODE_CONFIG_FILE", cluster.list_path());
  second.set("SERVER_PORT", std::to_string(cluster.port()));
  second[0].write_config();
  cluster[0].arguments = {"-c", second[0].config_path()};
  cluster.start();
  Session a = open_session(cluster[0]), stranger = open_session(second[0]);
  auto shared = share(a, a);
  ASSERT_TRUE(shared) << shared.error().to_string();
  const auto refused = stranger.import_memory(shared->exported.handle());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().code, testing::AnyOf(Errc::kPermissionDenied, Errc::kStale));
}

// 18.14, the part without certificates: the privileged socket is closed to others, the command port
// is bound to one address, and what was asked to be protected never runs unprotected (exit 74).
TEST(Section18, Section18_14_TheCommandPortIsOnTheOwnAddressOnly) {
  Cluster cluster(2);
  cluster[0].keys["IMEX_CMD_BIND_INTERFACE_IP"] = "";
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
  domain::CommandEndpoint endpoint;
  endpoint.port = static_cast<std::uint16_t>(std::stoul(cluster[0].keys["IMEX_CMD_PORT"]));
  endpoint.address = cluster.address(0);
  EXPECT_TRUE(domain::CommandClient::connect(endpoint)->status());
  endpoint.address = cluster.address(1);
  EXPECT_FALSE(domain::CommandClient::connect(endpoint)->status(std::chrono::seconds(1)));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Section18, Section18_15_OneLinePerStateChangeAndJsonOnDemand) {
  Cluster cluster(2);
  cluster[1].arguments = {"--log-format", "json"};
  cluster.start();
  ASSERT_TRUE(cluster.wait_up());
  EXPECT_EQ(count_of(cluster[0].log(), "status is READY"), 1U);
  EXPECT_EQ(count_of(cluster[0].log(), "NEVER_CONNECTED -> CONNECTED"), 1U);
  EXPECT_EQ(cluster[0].stop(), 0);
  ASSERT_TRUE(cluster[1].wait_pair(0, PairState::kDisconnected));
  // Retries with a back-off of at most 3 s: the lines double their distance instead.
  const auto retried = [](const StatusReport& report) { return report.peers[0].attempts >= 5; };
  ASSERT_TRUE(cluster[1].wait_status(retried));
  const std::string log = cluster[1].log();
  EXPECT_LT(count_of(log, "attempt #"), 6U) << log;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
}

// 18.16: slots without a machine are no failure for imexd; nvidia-imex counts them as its original.
TEST(Section18, Section18_16_DegradedByDesignIsToldApart) {
  for (const bool nvidia : {false, true}) {
    Cluster cluster(1);
    const std::string hosts =
        cluster.directory().write("hosts", cluster.address(0) + "\tcompute-domain-daemon-0000\n");
    cluster.set("IMEX_X_HOSTS_FILE", hosts);
    cluster.write_list({"compute-domain-daemon-0000", "compute-domain-daemon-0001"});
    if (nvidia) cluster[0].program = "nvidia-imex";
    cluster.start();
    const Outcome asked =
        run_program({"nvidia-imex-ctl", "-c", cluster[0].config_path(), "-N", "-j"});
    const auto json = nlohmann::json::parse(asked.out, nullptr, false);
    EXPECT_EQ(json["status"], nvidia ? "DEGRADED" : "UP") << asked.out << asked.err;
    EXPECT_EQ(cluster[0].health()->problems.empty(), !nvidia);
  }
  // Not configured is told in the words that DCGM maps to its own state.
  const Outcome missing = run_program({"nvidia-imex-ctl", "-c", "/nonexistent/config.cfg", "-N"});
  EXPECT_NE(missing.status, 0);
}

}  // namespace
}  // namespace imex::test
