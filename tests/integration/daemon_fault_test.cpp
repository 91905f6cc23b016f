// What clients, strangers and a full machine may do to a daemon, and what it must go on doing.

#include <arpa/inet.h>
#include <dirent.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include <gmock/gmock.h>

#include "domain/frame.hpp"
#include "memory/abort_page.hpp"
#include "memory_kit.hpp"
#include "os/file.hpp"
#include "os/memory.hpp"
#include "os/socket.hpp"

namespace imex::test {
namespace {

using domain::Frame;
using domain::PairState;
using std::chrono::milliseconds;
using testing::Contains;
using testing::HasSubstr;

// ---- a machine that has run out of something ----

int descriptors_of(std::int32_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd";
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(path.c_str()), ::closedir);
  int count = 0;
  while (entries && ::readdir(entries.get()) != nullptr) ++count;
  return count - 2;  // . and ..
}

void limit(const TestDaemon& daemon, __rlimit_resource what, rlim_t soft) {
  rlimit bounds{};
  ASSERT_EQ(::prlimit(daemon.pid(), what, nullptr, &bounds), 0);
  bounds.rlim_cur = std::min(soft, bounds.rlim_max);
  ASSERT_EQ(::prlimit(daemon.pid(), what, &bounds, nullptr), 0);
}

Result<Session> try_open(const TestDaemon& daemon) {
  SessionOptions options;
  options.channel = daemon.channel_path(0);
  options.timeout = std::chrono::seconds(2);
  return Session::open(options);
}

TEST(DaemonFaults, OutOfDescriptorsItRefusesInWordsAndServesAgain) {
  Cluster cluster(1);
  cluster.start();
  Session first = open_session(cluster[0]);
  limit(cluster[0], RLIMIT_NOFILE, static_cast<rlim_t>(descriptors_of(cluster[0].pid())) + 40);
  std::vector<Session> taking;
  std::optional<Error> refusal;
  while (!refusal && taking.size() < 64) {
    auto session = try_open(cluster[0]);
    if (session) {
      taking.push_back(std::move(*session));
    } else {
      refusal = session.error();
    }
  }
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, Errc::kResourceExhausted) << refusal->to_string();
  EXPECT_THAT(refusal->message, HasSubstr("no descriptor left"));
  // Who is there already is told as well, and stays; and the daemon can be asked.
  auto memory = Allocation::create(kBytes);
  ASSERT_TRUE(memory);
  const auto exported = first.export_memory(*memory);
  ASSERT_FALSE(exported);
  EXPECT_EQ(exported.error().code, Errc::kResourceExhausted) << exported.error().to_string();
  EXPECT_TRUE(cluster[0].health());
  taking.clear();
  EXPECT_TRUE(eventually([&] { return try_open(cluster[0]).has_value(); }));
  EXPECT_TRUE(first.export_memory(*memory));
}

TEST(DaemonFaults, AFullDiskUnderJournalAndLogIsSaidAndSurvived) {
  Cluster cluster(1);
  cluster.start();
  Session first = open_session(cluster[0]), second = open_session(cluster[0]);
  auto shared = share(first, second);
  ASSERT_TRUE(shared) << shared.error().to_string();
  limit(cluster[0], RLIMIT_FSIZE, 1);
  std::optional<Error> refusal;
  EXPECT_TRUE(eventually([&] {
    const auto session = try_open(cluster[0]);
    if (!session) refusal = session.error();
    return refusal.has_value();
  }));
  EXPECT_EQ(refusal->code, Errc::kResourceExhausted) << refusal->to_string();
  const auto says = [&](const std::string& text) {
    const auto health = cluster[0].health();
    return health && std::ranges::any_of(health->problems, [&](const std::string& problem) {
             return problem.find(text) != std::string::npos;
           });
  };
  EXPECT_TRUE(eventually([&] { return says("the journal cannot be written"); }));
  EXPECT_TRUE(eventually([&] { return says("the log cannot be written"); }));
  expect_shared(*shared, 0x3c);  // what was there goes on
  limit(cluster[0], RLIMIT_FSIZE, RLIM_INFINITY);
  EXPECT_TRUE(eventually([&] { return try_open(cluster[0]).has_value(); }));
  EXPECT_TRUE(cluster[0].wait_log("the journal can be written again"));
  EXPECT_TRUE(cluster[0].wait_log("lines of the log could not be written"));
  EXPECT_FALSE(says("cannot be written"));
}

// ---- permissions ----

/// As a user that may write nowhere; root is bound by no permission.
void run_unprivileged(TestDaemon& daemon) {
  if (::geteuid() != 0) return;
  daemon.wrapper = {"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
}

TEST(DaemonFaults, AConfigurationThatMayNotBeReadIsExit65) {
  Cluster cluster(1);
  run_unprivileged(cluster[0]);
  cluster[0].write_config();
  ASSERT_EQ(::chmod(cluster.directory().path().c_str(), 0), 0);
  if (::geteuid() != 0) GTEST_SKIP() << "the directory would have to be closed to the test as well";
  cluster[0].spawn();
  EXPECT_EQ(cluster[0].wait_exit(), 65);
}

TEST(DaemonFaults, AStateDirectoryThatMayNotBeWrittenIsExit70) {
  Cluster cluster(1);
  run_unprivileged(cluster[0]);
  cluster[0].keys["LOG_FILE_NAME"] = "";
  ASSERT_EQ(::chmod(cluster.directory().path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(cluster[0].directory().c_str(), 0755), 0);
  ASSERT_TRUE(os::make_directories(cluster[0].directory() + "/state", 0755));
  ASSERT_EQ(::chmod((cluster[0].directory() + "/state").c_str(), 0555), 0);
  cluster[0].spawn();
  EXPECT_EQ(cluster[0].wait_exit(), 70);
}

TEST(DaemonFaults, AStateDirectoryThatIsAFileIsExit70) {
  Cluster cluster(1);
  cluster[0].keys["IMEX_X_STATE_DIR"] = cluster.directory().write("taken", "a file\n");
  cluster[0].spawn();
  EXPECT_EQ(cluster[0].wait_exit(), 70);
  EXPECT_THAT(cluster[0].log(), HasSubstr("run directory"));
}

TEST(DaemonFaults, ALogThatCannotBeOpenedGoesToStandardError) {
  Cluster cluster(1);
  cluster[0].keys["LOG_FILE_NAME"] = cluster.directory().path() + "/missing/imex.log";
  cluster.start();
  EXPECT_TRUE(cluster[0].status());
}

TEST(DaemonFaults, ASecondOwnerOfANodeIdIsRefusedAndExits75) {
  Cluster cluster(3);
  cluster.write_list({"node-a", "node-b"});
  cluster.set("IMEX_X_HEARTBEAT_INTERVAL", "50ms");
  cluster.set("IMEX_X_HEARTBEAT_TIMEOUT", "200ms");
  const std::string first = cluster.address(0) + " node-a\n";
  const auto hosts = [&](std::size_t b, const char* name) {
    return cluster.directory().write(name, first + cluster.address(b) + " node-b\n");
  };
  cluster.set("IMEX_X_HOSTS_FILE", hosts(1, "hosts"));
  cluster[2].keys["IMEX_X_HOSTS_FILE"] = hosts(2, "hosts-of-the-impostor");
  for (std::size_t i = 0; i < 2; ++i) cluster[i].spawn();
  ASSERT_TRUE(cluster[0].wait_pair(1, PairState::kConnected));
  ASSERT_TRUE(cluster[1].wait_pair(0, PairState::kConnected));
  const Uuid owner = cluster[1].status()->instance;
  cluster[2].spawn();
  EXPECT_EQ(cluster[2].wait_exit(), 75) << cluster[2].log();
  EXPECT_THAT(os::read_file(cluster[2].last_error_path()).value(), HasSubstr("node_id_changed"));
  ASSERT_TRUE(cluster[0].wait_pair(1, PairState::kConnected));
  EXPECT_EQ(cluster[0].status()->peers[1].instance, owner);
}

// ---- strangers ----

using Bytes = std::vector<std::byte>;

Bytes noise(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  return bytes;
}

std::vector<Bytes> bad_frames() {
  const auto good = domain::encode(Frame{1, domain::Open{}});
  std::vector<Bytes> frames;
  for (const std::size_t size : {1U, 255U, 257U, 4096U, 65'536U}) frames.push_back(noise(size, 1));
  for (unsigned seed = 2; seed < 10; ++seed) frames.push_back(noise(domain::kFrameBytes, seed));
  frames.emplace_back(good.begin(), good.end() - 1);  // cut short
  for (std::size_t at = 0; at < 16; ++at) {           // each byte of the head wrong
    frames.emplace_back(good.begin(), good.end());
    frames.back()[at] ^= std::byte{0xff};
  }
  frames.emplace_back(good.begin(), good.end());  // an Open without its descriptors
  const auto hello = domain::encode(Frame{0, domain::LinkHello{}});
  frames.emplace_back(hello.begin(), hello.end());
  return frames;
}

/// The connection ends, or the answer is a refusal.
void expect_refused(const std::string& path, const Bytes& bytes) {
  auto socket = os::connect_unix(path, milliseconds(2000));
  ASSERT_TRUE(socket) << path << ": " << socket.error().to_string();
  const auto sent = os::send_packet(socket->get(), bytes);
  ASSERT_TRUE(sent) << sent.error().to_string();
  ASSERT_TRUE(os::wait_readable(socket->get(), std::chrono::steady_clock::now() + kPatience));
  std::array<std::byte, domain::kFrameBytes> answer{};
  const auto packet = os::receive_packet(socket->get(), answer, false);
  if (!packet || packet->bytes == 0) return;  // reset or end
  const auto frame = domain::decode(answer);
  ASSERT_TRUE(frame);
  const auto* reply = std::get_if<domain::Reply>(&frame->message);
  ASSERT_NE(reply, nullptr);
  EXPECT_NE(reply->code, Errc::kOk);
}

/// The other side closes after bytes that it cannot read.
void expect_closed(int domain, const sockaddr* where, socklen_t size, const std::string& what) {
  const os::UniqueFd socket(::socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(socket.get(), where, size), 0) << what;
  const Bytes bytes = noise(1U << 16U, 7);
  ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);  // may be reset half-way
  std::array<char, 4096> answer{};
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    ASSERT_TRUE(os::wait_readable(socket.get(), deadline)) << what << " is still open";
    if (::recv(socket.get(), answer.data(), answer.size(), MSG_DONTWAIT) <= 0) return;
  }
}
void expect_closed(const std::string& path) {
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  path.copy(where.sun_path, sizeof where.sun_path - 1);
  expect_closed(AF_UNIX, reinterpret_cast<const sockaddr*>(&where), sizeof where, path);
}
void expect_closed(const std::string& address, const std::string& port) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(std::stoul(port)));
  ::inet_pton(AF_INET, address.c_str(), &where.sin_addr);
  expect_closed(AF_INET, reinterpret_cast<const sockaddr*>(&where), sizeof where,
                address + ":" + port);
}

/// As many connections as the other side's queue takes, which say nothing.
std::vector<os::UniqueFd> flood(int domain, const sockaddr* where, socklen_t size) {
  std::vector<os::UniqueFd> connections;
  for (int i = 0; i < 200; ++i) {
    os::UniqueFd socket(::socket(domain, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (::connect(socket.get(), where, size) != 0 && errno != EINPROGRESS) break;
    connections.push_back(std::move(socket));
  }
  return connections;
}
std::vector<os::UniqueFd> flood(const std::string& path) {
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  path.copy(where.sun_path, sizeof where.sun_path - 1);
  return flood(AF_UNIX, reinterpret_cast<const sockaddr*>(&where), sizeof where);
}
std::vector<os::UniqueFd> flood(const std::string& address, const std::string& port) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(std::stoul(port)));
  ::inet_pton(AF_INET, address.c_str(), &where.sin_addr);
  return flood(AF_INET, reinterpret_cast<const sockaddr*>(&where), sizeof where);
}

TEST(DaemonFaults, AFloodOfConnectionsSilencesNoPortForGood) {
  Cluster cluster(2);
  TestDaemon& daemon = cluster[0];
  daemon.spawn();
  ASSERT_TRUE(daemon.wait_ready()) << daemon.log();
  limit(daemon, RLIMIT_NOFILE, static_cast<rlim_t>(descriptors_of(daemon.pid())) + 40);
  const std::string command = daemon.keys["IMEX_CMD_PORT"], peer = daemon.keys["SERVER_PORT"];
  const auto said = [&](const std::string& who) {
    return daemon.wait_log(who + ": connections are turned away");
  };
  {
    const auto held = flood(daemon.run_directory() + "/command.sock");
    EXPECT_TRUE(said(daemon.run_directory() + "/command.sock"));
  }
  EXPECT_TRUE(eventually([&] { return daemon.status().has_value(); })) << "on its own socket";
  {
    const auto held = flood(daemon.address(), command);
    EXPECT_TRUE(said(daemon.address() + ":" + command));
  }
  EXPECT_TRUE(eventually([&] {
    return run_program({"nvidia-imex-ctl", "-i", daemon.address(), command, "-q"}).out == "READY\n";
  }));
  {
    const auto held = flood(daemon.address(), peer);
    EXPECT_TRUE(said(daemon.address() + ":" + peer));
  }
  cluster[1].spawn();
  ASSERT_TRUE(cluster[1].wait_ready()) << cluster[1].log();
  EXPECT_TRUE(cluster.wait_up()) << daemon.log();
}

TEST(DaemonFaults, GarbageOnAnySocketEndsItsSenderAndNothingElse) {
  TwoNodes nodes;
  auto& [cluster, a, b, shared] = nodes;
  const std::string run = cluster[0].run_directory();
  for (const Bytes& frame : bad_frames()) {
    expect_refused(cluster[0].channel_path(0), frame);
    expect_refused(run + "/link.sock", frame);
  }
  for (const char* name : {"/control.sock", "/command.sock", "/metrics.sock"}) {
    expect_closed(run + name);
  }
  expect_closed(cluster.address(0), cluster[0].keys["SERVER_PORT"]);
  expect_closed(cluster.address(0), cluster[0].keys["IMEX_CMD_PORT"]);
  ASSERT_TRUE(cluster.wait_up());
  expect_shared(shared, 0x66);
  Session another = open_session(cluster[0]);
  EXPECT_TRUE(another.import_memory(shared.exported.handle(), {.rank = 2}));
}

/// What a client shows when it opens a session: this page and this process.
domain::Reply open_with(const TestDaemon& daemon, int page, int pidfd) {
  auto socket = os::connect_unix(daemon.channel_path(0), milliseconds(2000));
  EXPECT_TRUE(socket);
  const std::array fds{page, pidfd};
  EXPECT_TRUE(os::send_packet(socket->get(), domain::encode(Frame{1, domain::Open{}}), fds));
  EXPECT_TRUE(os::wait_readable(socket->get(), std::chrono::steady_clock::now() + kPatience));
  std::array<std::byte, domain::kFrameBytes> answer{};
  EXPECT_TRUE(os::receive_packet(socket->get(), answer, false));
  const auto frame = domain::decode(answer);
  const auto* reply = frame ? std::get_if<domain::Reply>(&frame->message) : nullptr;
  EXPECT_NE(reply, nullptr);
  return reply == nullptr ? domain::Reply{} : *reply;
}

// The daemon may kill through the pidfd: it must be that of the process that sent it.
TEST(DaemonFaults, AProcessFileOfSomebodyElseIsRefused) {
  Cluster cluster(1);
  cluster.start();
  os::Child::Options options;
  options.arguments = {"/bin/sleep", "600"};
  auto victim = os::Child::start(options);
  ASSERT_TRUE(victim);
  const auto page = memory::AbortPage::create(1);
  ASSERT_TRUE(page);
  const auto of_victim = os::open_pidfd(victim->pid());
  const auto own = os::open_pidfd(::getpid());
  ASSERT_TRUE(of_victim && own);
  const domain::Reply refused = open_with(cluster[0], page->fd(), of_victim->get());
  EXPECT_EQ(refused.code, Errc::kPermissionDenied);
  EXPECT_THAT(std::string(domain::view_error_text(refused.text)),
              HasSubstr("the pidfd names process " + std::to_string(victim->pid())));
  EXPECT_EQ(open_with(cluster[0], page->fd(), page->fd()).code, Errc::kInvalidArgument);
  EXPECT_EQ(open_with(cluster[0], page->fd(), own->get()).code, Errc::kOk);
  EXPECT_EQ(victim->wait(milliseconds(0)), std::nullopt);
}

TEST(DaemonFaults, FailedImportsAreLoggedWithTheNode) {
  Cluster cluster(2);
  cluster.start();
  ASSERT_TRUE(cluster.wait_up());
  Session a = open_session(cluster[0]), b = open_session(cluster[1]);
  auto memory = Allocation::create(kBytes);
  ASSERT_TRUE(memory);
  auto exported = a.export_memory(*memory);
  ASSERT_TRUE(exported);
  const Handle handle = exported->handle();
  {
    const Export ending = std::move(*exported);
  }
  EXPECT_FALSE(b.import_memory(handle));
  EXPECT_TRUE(cluster[1].wait_log("Received import response from node id 0 with failure status "));
  EXPECT_TRUE(cluster[1].wait_log("Failed to allocate memory reference"));
  EXPECT_TRUE(cluster[0].wait_log("Failed to get new memory reference with rc: "));
}

}  // namespace
}  // namespace imex::test
