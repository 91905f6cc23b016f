#include "os/socket.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "os/memory.hpp"
#include "test_support.hpp"

namespace imex::os {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

Clock::time_point soon() { return Clock::now() + seconds(20); }
std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
mode_t mode_of(const std::string& path) {
  struct stat facts{};
  EXPECT_EQ(::lstat(path.c_str(), &facts), 0) << path;
  return facts.st_mode & 07777U;
}
std::size_t entries_of(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

struct Pair {
  UniqueFd client, server;
};

class SocketTest : public OsTest {
 protected:
  /// A connection through a socket file, as the daemon and libimex have it.
  Pair connect_pair(const std::string& at) {
    auto listener = listen_unix(at, 0600);
    EXPECT_TRUE(listener) << listener.error().to_string();
    auto client = connect_unix(at, seconds(20));
    EXPECT_TRUE(client) << client.error().to_string();
    EXPECT_TRUE(wait_readable(listener->get(), soon()));
    auto server = accept_unix(listener->get());
    EXPECT_TRUE(server) << server.error().to_string();
    return {std::move(*client), std::move(*server)};
  }
  Pair connect_pair() { return connect_pair(path("s")); }

  /// 200 bytes and more.
  std::string deep_folder() {
    std::string folder = path(std::string(90, 'd') + "/" + std::string(90, 'e'));
    EXPECT_TRUE(make_directories(folder));
    return folder;
  }
};

TEST_F(SocketTest, PacketsKeepTheirBorders) {
  const Pair pair = connect_pair();
  ASSERT_TRUE(send_packet(pair.client.get(), bytes_of("one")));
  ASSERT_TRUE(send_packet(pair.client.get(), bytes_of("second")));
  std::array<std::byte, 64> buffer{};
  for (const std::string_view expected : {"one", "second"}) {
    const auto packet = receive_packet(pair.server.get(), buffer, true);
    ASSERT_TRUE(packet);
    EXPECT_EQ(text_of(std::span(buffer).first(packet->bytes)), expected);
    EXPECT_FALSE(packet->truncated);
    EXPECT_TRUE(packet->fds.empty());
  }
  EXPECT_EQ(receive_packet(pair.server.get(), buffer, false).error().code,
            Errc::kResourceExhausted);
}

TEST_F(SocketTest, DescriptorsArriveCloseOnExecAndNameTheSameFile) {
  const Pair pair = connect_pair();
  const auto memory = make_memfd("m", page_bytes());
  ASSERT_TRUE(memory);
  const std::array<int, 2> sent = {memory->get(), pair.client.get()};
  ASSERT_TRUE(send_packet(pair.client.get(), bytes_of("x"), sent));
  std::array<std::byte, 8> buffer{};
  const auto packet = receive_packet(pair.server.get(), buffer, true);
  ASSERT_TRUE(packet);
  ASSERT_EQ(packet->fds.size(), 2U);
  for (const UniqueFd& fd : packet->fds)
    EXPECT_EQ(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(file_facts(packet->fds[0].get())->inode, file_facts(memory->get())->inode);
}

// The fixture counts descriptors: each case must own all that the kernel installed.
TEST_F(SocketTest, TruncatedPacketsLeakNothing) {
  const Pair pair = connect_pair();
  std::array<std::byte, 4> small{};
  const std::array<int, 3> three = {0, 1, 2};
  ASSERT_TRUE(send_packet(pair.client.get(), bytes_of("longer than four"), three));
  auto packet = receive_packet(pair.server.get(), small, true);
  ASSERT_TRUE(packet);
  EXPECT_TRUE(packet->truncated);
  EXPECT_EQ(packet->bytes, small.size());
  EXPECT_EQ(packet->fds.size(), 3U);

  // More descriptors than send_packet() would ever send, by a peer with calls of its own.
  constexpr std::size_t kMany = 20;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMany * sizeof(int))> control{};
  std::byte payload{1};
  iovec part{&payload, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(kMany * sizeof(int));
  for (std::size_t i = 0; i < kMany; ++i) {
    const int fd = pair.client.get();
    std::memcpy(CMSG_DATA(header) + i * sizeof(int), &fd, sizeof fd);
  }
  ASSERT_EQ(::sendmsg(pair.client.get(), &message, 0), 1);
  packet = receive_packet(pair.server.get(), small, true);
  ASSERT_TRUE(packet);
  EXPECT_TRUE(packet->truncated);
  EXPECT_EQ(packet->fds.size(), kMaxPassedFds);
}

TEST_F(SocketTest, AllEightDescriptorsFitWithoutTruncation) {
  const Pair pair = connect_pair();
  const std::vector<int> eight(kMaxPassedFds, pair.client.get());
  ASSERT_TRUE(send_packet(pair.client.get(), bytes_of("x"), eight));
  std::array<std::byte, 8> buffer{};
  const auto packet = receive_packet(pair.server.get(), buffer, true);
  ASSERT_TRUE(packet);
  EXPECT_FALSE(packet->truncated);
  EXPECT_EQ(packet->fds.size(), kMaxPassedFds);
}

TEST_F(SocketTest, AStreamListenerGivesConnectionsThatDoNotBlock) {
  const auto listener = listen_unix(path("s"), 0600, 8, UnixSocket::kStream);
  ASSERT_TRUE(listener) << listener.error().to_string();
  EXPECT_EQ(accept_stream(listener->get()).error().code, Errc::kResourceExhausted)
      << "nobody waits";
  EXPECT_EQ(connect_unix(path("s"), seconds(1)).error().code, Errc::kFailedPrecondition);
  const UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  path("s").copy(where.sun_path, sizeof where.sun_path - 1);
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where), 0);
  const auto server = accept_stream(listener->get());
  ASSERT_TRUE(server) << server.error().to_string();
  EXPECT_EQ(::fcntl(server->get(), F_GETFL) & O_NONBLOCK, O_NONBLOCK);
  EXPECT_EQ(::fcntl(server->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST_F(SocketTest, WrongSendsAreRefused) {
  const Pair pair = connect_pair();
  const std::vector<int> nine(kMaxPassedFds + 1, pair.client.get());
  const std::array<int, 1> closed = {-1};
  const std::vector<std::byte> huge(64U << 20U);
  EXPECT_EQ(send_packet(pair.client.get(), {}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(send_packet(pair.client.get(), bytes_of("x"), nine).error().code,
            Errc::kInvalidArgument);
  EXPECT_EQ(send_packet(pair.client.get(), bytes_of("x"), closed).error().code,
            Errc::kInvalidArgument);
  EXPECT_EQ(send_packet(pair.client.get(), huge).error().code, Errc::kInvalidArgument);
}

TEST_F(SocketTest, PeerGoneIsEndOfFileAndUnavailableWithoutSigpipe) {
  Pair pair = connect_pair();
  ASSERT_TRUE(send_packet(pair.client.get(), bytes_of("last")));
  ASSERT_TRUE(send_packet(pair.server.get(), bytes_of("unread")));
  pair.client.reset();  // with a packet unread: the kernel reports a reset first
  std::array<std::byte, 8> buffer{};
  auto packet = receive_packet(pair.server.get(), buffer, true);
  ASSERT_TRUE(packet) << packet.error().to_string();
  EXPECT_EQ(packet->bytes, 4U) << "what was sent before the end still arrives";
  packet = receive_packet(pair.server.get(), buffer, true);
  ASSERT_TRUE(packet) << packet.error().to_string();
  EXPECT_EQ(packet->bytes, 0U);
  EXPECT_EQ(send_packet(pair.server.get(), bytes_of("x")).error().code, Errc::kUnavailable);
}

TEST_F(SocketTest, FullSocketSaysSoWhenNotWaitingAndWaitsOtherwise) {
  const Pair pair = connect_pair();
  std::size_t sent = 0;
  Result<void> last;
  while ((last = send_packet(pair.client.get(), bytes_of("x"), {}, false))) ++sent;
  EXPECT_EQ(last.error().code, Errc::kResourceExhausted);
  std::thread reader([&] {
    std::array<std::byte, 8> buffer{};
    for (std::size_t i = 0; i < sent + 1; ++i)
      ASSERT_TRUE(receive_packet(pair.server.get(), buffer, true));
  });
  // Also on a socket that is itself non-blocking.
  ASSERT_EQ(::fcntl(pair.client.get(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_TRUE(send_packet(pair.client.get(), bytes_of("y")));
  reader.join();
}

TEST_F(SocketTest, ReceiveWaitsOnANonBlockingSocketWhenAsked) {
  const Pair pair = connect_pair();
  ASSERT_EQ(::fcntl(pair.server.get(), F_SETFL, O_NONBLOCK), 0);
  std::array<std::byte, 8> buffer{};
  std::size_t bytes = 0;
  std::thread reader([&] { bytes = receive_packet(pair.server.get(), buffer, true)->bytes; });
  EXPECT_TRUE(send_packet(pair.client.get(), bytes_of("late")));
  reader.join();
  EXPECT_EQ(bytes, 4U);
}

TEST_F(SocketTest, WaitReadableKeepsItsDeadline) {
  const Pair pair = connect_pair();
  const auto deadline = Clock::now() + milliseconds(10);
  EXPECT_EQ(wait_readable(pair.server.get(), deadline).error().code, Errc::kDeadlineExceeded);
  EXPECT_GE(Clock::now(), deadline);
  ASSERT_TRUE(send_packet(pair.client.get(), bytes_of("x")));
  EXPECT_TRUE(wait_readable(pair.server.get(), Clock::time_point::max()));
  EXPECT_TRUE(wait_readable(pair.server.get(), Clock::time_point{}))
      << "readable wins over past deadlines";
  EXPECT_EQ(wait_readable(1'000'000, soon()).error().code, Errc::kInvalidArgument);
}

TEST_F(SocketTest, CredentialsAreThoseOfThePeer) {
  const Pair pair = connect_pair();
  const auto facts = peer_credentials(pair.server.get());
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->uid, ::getuid());
  EXPECT_EQ(facts->gid, ::getgid());
  EXPECT_EQ(facts->pid, ::getpid());
  EXPECT_FALSE(peer_credentials(-1));
}

TEST_F(SocketTest, PathsOverTheLimitOfTheAddressWork) {
  const std::string folder = deep_folder();
  for (const std::string& name : {std::string("s"), std::string(200, 'n')}) {
    const std::string at = folder + "/" + name;
    ASSERT_GT(at.size(), 200U);
    const Pair pair = connect_pair(at);
    ASSERT_TRUE(send_packet(pair.client.get(), bytes_of("far")));
    std::array<std::byte, 8> buffer{};
    EXPECT_EQ(receive_packet(pair.server.get(), buffer, true)->bytes, 3U);
    EXPECT_TRUE(listen_unix(at, 0600)) << "its listener is closed by now: replaced";
  }
  EXPECT_EQ(connect_unix(folder + "/none", seconds(1)).error().code, Errc::kNotFound);
  EXPECT_EQ(connect_unix(folder + "/" + std::string(300, 'n'), seconds(1)).error().code,
            Errc::kInvalidArgument);
}

// 107 bytes fit the address with its final zero, 108 do not.
TEST_F(SocketTest, PathsAroundTheLimitWork) {
  for (std::size_t size = 105; size <= 110; ++size) {
    const std::string start = path("");
    const Pair pair = connect_pair(start + std::string(size - start.size(), 'n'));
    EXPECT_TRUE(pair.client.valid());
  }
}

TEST_F(SocketTest, RelativePathsWork) {
  const auto former = std::filesystem::current_path();
  std::filesystem::current_path(path(""));
  EXPECT_TRUE(connect_pair("relative").client.valid());
  std::filesystem::current_path(former);
}

TEST_F(SocketTest, FileHasTheModeAskedForWhateverTheUmask) {
  for (const mode_t mask : {0U, 077U, 0777U}) {
    const mode_t former = ::umask(mask);
    const auto listener = listen_unix(path("m"), 0660);
    ::umask(former);
    ASSERT_TRUE(listener) << listener.error().to_string();
    EXPECT_EQ(mode_of(path("m")), 0660U);
  }
  EXPECT_EQ(entries_of(path("")), 1U) << "no temporary names stay";
}

TEST_F(SocketTest, LiveSocketIsNotReplacedAStaleOneIs) {
  auto first = listen_unix(path("s"), 0600);
  ASSERT_TRUE(first);
  const auto second = listen_unix(path("s"), 0600);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::kAlreadyExists);
  first->reset();
  EXPECT_EQ(connect_unix(path("s"), seconds(1)).error().code, Errc::kUnavailable);
  const auto third = listen_unix(path("s"), 0600);
  ASSERT_TRUE(third) << third.error().to_string();
  EXPECT_TRUE(connect_unix(path("s"), seconds(1)));
  EXPECT_EQ(entries_of(path("")), 1U);
}

TEST_F(SocketTest, SocketsOfAnotherTypeAreLive) {
  const UniqueFd stream(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path("s").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(stream.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(stream.get(), 1), 0);
  EXPECT_EQ(listen_unix(path("s"), 0600).error().code, Errc::kAlreadyExists);
  EXPECT_EQ(connect_unix(path("s"), seconds(1)).error().code, Errc::kFailedPrecondition);
}

TEST_F(SocketTest, OtherFilesAreNeverReplaced) {
  ASSERT_TRUE(replace_file(path("s"), bytes_of("precious")));
  EXPECT_EQ(listen_unix(path("s"), 0600).error().code, Errc::kAlreadyExists);
  EXPECT_EQ(*read_file(path("s")), "precious");
  ASSERT_EQ(::symlink(path("s").c_str(), path("link").c_str()), 0);
  EXPECT_EQ(listen_unix(path("link"), 0600).error().code, Errc::kAlreadyExists);
}

// Of several that find the same stale file exactly one wins, and the winner can be reached.
TEST_F(SocketTest, RaceForAStaleSocketHasOneWinner) {
  constexpr int kRounds = 50;
  constexpr std::size_t kRacers = 4;
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_TRUE(listen_unix(path("s"), 0600));  // closed at once: stale
    std::array<UniqueFd, kRacers> listeners;
    std::vector<std::thread> racers;
    for (UniqueFd& slot : listeners) {
      racers.emplace_back([&] {
        if (auto made = listen_unix(path("s"), 0600)) slot = std::move(*made);
      });
    }
    for (std::thread& racer : racers) racer.join();
    ASSERT_EQ(std::count_if(listeners.begin(), listeners.end(),
                            [](const UniqueFd& fd) { return fd.valid(); }),
              1);
    ASSERT_TRUE(connect_unix(path("s"), seconds(20)));
  }
}

TEST_F(SocketTest, FullBacklogEndsAtTheDeadline) {
  const auto listener = listen_unix(path("s"), 0600, 0);
  ASSERT_TRUE(listener);
  std::vector<UniqueFd> waiting;
  Error last;
  for (int i = 0; i < 100 && last.message.empty(); ++i) {
    auto client = connect_unix(path("s"), milliseconds(10));
    if (client)
      waiting.push_back(std::move(*client));
    else
      last = client.error();
  }
  EXPECT_EQ(last.code, Errc::kDeadlineExceeded) << last.message;
  EXPECT_EQ(connect_unix(path("s"), milliseconds(0)).error().code, Errc::kDeadlineExceeded);
  EXPECT_EQ(listen_unix(path("s"), 0600).error().code, Errc::kAlreadyExists) << "busy is not stale";
}

TEST_F(SocketTest, AcceptTellsNobodyWaitingFromNoDescriptors) {
  const auto listener = listen_unix(path("s"), 0600);
  ASSERT_TRUE(listener);
  EXPECT_EQ(accept_unix(listener->get()).error().code, Errc::kResourceExhausted);
  const auto client = connect_unix(path("s"), seconds(20));
  ASSERT_TRUE(client);
  std::vector<UniqueFd> hoard;
  rlimit former{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &former), 0);
  rlimit tight = former;
  tight.rlim_cur = static_cast<rlim_t>(*open_descriptors().rbegin()) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  for (auto copy = client->duplicate(); copy; copy = client->duplicate())
    hoard.push_back(std::move(*copy));
  const auto refused = accept_unix(listener->get());
  hoard.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &former), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUnavailable);
  EXPECT_TRUE(accept_unix(listener->get())) << "the connection waited";
}

TEST_F(SocketTest, MalformedPathsAreRefused) {
  for (const std::string& bad :
       {std::string(), std::string("/tmp/"), std::string("/tmp/a\0b", 8)}) {
    EXPECT_EQ(listen_unix(bad, 0600).error().code, Errc::kInvalidArgument);
    EXPECT_EQ(connect_unix(bad, seconds(1)).error().code, Errc::kInvalidArgument);
  }
  EXPECT_EQ(listen_unix(path("none/s"), 0600).error().code, Errc::kNotFound);
}

}  // namespace
}  // namespace imex::os
