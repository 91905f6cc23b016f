// What outlives the daemon's program: an upgrade by exec, in the background too, and the socket
// files that containers hold. And IPv6, which an upgrade must not lose either.

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include <gmock/gmock.h>

#include "memory_kit.hpp"
#include "os/poll.hpp"

namespace imex::test {
namespace {

using domain::DaemonStatus;
using domain::PairState;

/// A daemon that is no child of the test; ended with the object, if not before.
class Background {
 public:
  explicit Background(const TestDaemon& daemon) {
    std::ifstream lock(daemon.run_directory() + "/lock");
    lock >> pid_;
    if (auto pidfd = os::open_pidfd(pid_)) pidfd_ = std::move(*pidfd);
  }
  ~Background() { signal(SIGKILL); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  [[nodiscard]] std::int32_t pid() const noexcept { return pid_; }
  void signal(int number) const { static_cast<void>(os::signal_pidfd(pidfd_.get(), number)); }
  [[nodiscard]] bool ends() const {
    std::array items{os::PollItem{.fd = pidfd_.get()}};
    return os::poll_any(items, std::chrono::steady_clock::now() + kPatience).has_value();
  }

 private:
  std::int32_t pid_ = -1;
  os::UniqueFd pidfd_;
};

TEST(DaemonUpgrade, InTheBackgroundItStaysTheSameProcessAndInstance) {
  Cluster cluster(1);
  cluster[0].program = "nvidia-imex";
  cluster[0].keys["DAEMONIZE"] = "1";
  cluster[0].spawn();
  ASSERT_EQ(cluster[0].wait_exit(), 0) << cluster[0].log();
  const Background daemon(cluster[0]);
  const auto before = cluster[0].status();
  ASSERT_TRUE(before) << before.error().to_string();
  daemon.signal(SIGUSR2);
  ASSERT_TRUE(cluster[0].wait_log("resuming instance " + before->instance.to_string()));
  ASSERT_TRUE(cluster[0].wait_status(
      [](const StatusReport& report) { return report.status == DaemonStatus::kReady; }));
  EXPECT_EQ(cluster[0].status()->instance, before->instance);
  EXPECT_EQ(Background(cluster[0]).pid(), daemon.pid());
}

ino_t inode_of(const std::string& path) {
  struct stat facts{};
  EXPECT_EQ(::stat(path.c_str(), &facts), 0) << path;
  return facts.st_ino;
}

// A hard link holds the very file, as a bind mount in a container does.
TEST(DaemonUpgrade, AChannelFileThatAContainerHoldsServesOn) {
  Cluster cluster(1);
  cluster.start();
  const std::string held = cluster.directory().path() + "/held";
  ASSERT_EQ(::link(cluster[0].channel_path(0).c_str(), held.c_str()), 0);
  SessionOptions options;
  options.channel = held;
  options.timeout = std::chrono::seconds(2);
  auto inside = Session::open(options);
  ASSERT_TRUE(inside) << inside.error().to_string();
  Session outside = open_session(cluster[0]);
  auto shared = share(outside, *inside);
  ASSERT_TRUE(shared) << shared.error().to_string();
  for (int upgrades = 0; upgrades < 2; ++upgrades) {
    cluster[0].kill(SIGUSR2);
    ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
    ASSERT_TRUE(wait_event(*inside, SessionEvent::Kind::kDaemonResumed)) << cluster[0].log();
    ASSERT_TRUE(wait_event(outside, SessionEvent::Kind::kDaemonResumed));
  }
  EXPECT_EQ(inode_of(held), inode_of(cluster[0].channel_path(0)));
  expect_shared(*shared, 0x21);
  auto later = Session::open(options);
  ASSERT_TRUE(later) << later.error().to_string();
  EXPECT_TRUE(later->import_memory(shared->exported.handle(), {.rank = 3}));
}

// An open directory holds it as a bind mount does: the file in it may change.
TEST(DaemonUpgrade, AChannelDirectoryThatAContainerHoldsServesOnAfterACrash) {
  Cluster cluster(1);
  cluster.start();
  const std::string directory = cluster[0].channel_path(0) + ".d";
  const os::UniqueFd held(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(held);
  SessionOptions options;
  options.channel = "/proc/self/fd/" + std::to_string(held.get()) + "/channel0";
  options.timeout = std::chrono::seconds(2);
  auto inside = Session::open(options);
  ASSERT_TRUE(inside) << inside.error().to_string();
  cluster[0].kill(SIGKILL);
  ASSERT_EQ(cluster[0].wait_exit(), 128 + SIGKILL);
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
  EXPECT_TRUE(wait_event(*inside, SessionEvent::Kind::kDaemonResumed)) << cluster[0].log();
  EXPECT_EQ(inode_of(directory + "/channel0"), inode_of(cluster[0].channel_path(0)));
  EXPECT_EQ(cluster[0].stop(), 0);
  struct stat facts{};
  EXPECT_NE(::lstat((directory + "/channel0").c_str(), &facts), 0);
  EXPECT_EQ(::lstat(directory.c_str(), &facts), 0);  // for the next daemon
}

bool has_ipv6() {
  const os::UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 where{};
  where.sin6_family = AF_INET6;
  where.sin6_addr = in6addr_loopback;
  return socket &&
         ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0;
}

// ::1 is the only loopback address of IPv6, so the other node has one of IPv4: each dials the
// other.
TEST(DaemonIpv6, PeerPortAndCommandPortServeBothFamilies) {
  if (!has_ipv6()) GTEST_SKIP() << "this machine has no IPv6 loopback address";
  Cluster cluster(2);
  cluster.write_list({cluster.address(0), "::1"});
  cluster[1].keys["BIND_INTERFACE_IP"] = "::1";
  cluster[1].keys["IMEX_CMD_BIND_INTERFACE_IP"] = "::1";
  cluster.start();
  ASSERT_TRUE(cluster.wait_up()) << cluster[1].log();
  EXPECT_THAT(cluster[1].log(), testing::HasSubstr("as ID 1, using bind IP of '::1'"));
  const std::string port = cluster[1].keys["IMEX_CMD_PORT"];
  domain::CommandEndpoint endpoint;
  endpoint.address = "::1";
  endpoint.port = static_cast<std::uint16_t>(std::stoul(port));
  const auto status = domain::CommandClient::connect(endpoint)->status();
  ASSERT_TRUE(status) << status.error().to_string();
  EXPECT_EQ(status->node, 1);
  const Outcome asked = run_program({"nvidia-imex-ctl", "-i", "::1", port, "-q"});
  EXPECT_EQ(asked.out, "READY\n");
  EXPECT_EQ(asked.err, "");
  EXPECT_EQ(asked.status, 0);
  const Outcome domain = run_program({"nvidia-imex-ctl", "-c", cluster[0].config_path(), "-N"});
  EXPECT_THAT(domain.out, testing::HasSubstr("Domain State: UP")) << domain.err;
  cluster[1].kill(SIGUSR2);
  ASSERT_TRUE(cluster[1].wait_ready()) << cluster[1].log();
  EXPECT_TRUE(cluster.wait_up());
}

}  // namespace
}  // namespace imex::test
