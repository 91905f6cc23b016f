#include "os/stream.hpp"

#include <sys/socket.h>

#include <array>
#include <chrono>

#include <gmock/gmock.h>

#include "os/poll.hpp"

namespace imex::os {
namespace {

struct StreamPair {
  UniqueFd near, far;
};

StreamPair make_stream_pair() {
  std::array<int, 2> fds{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

TEST(StreamTest, ReceivesWhatWasSentThenWaitsThenEnds) {
  StreamPair pair = make_stream_pair();
  ASSERT_EQ(*send_some(pair.near.get(), "hello"), 5U);
  std::array<char, 16> room{};
  EXPECT_EQ(**receive_some(pair.far.get(), room), 5U);
  const auto nothing = receive_some(pair.far.get(), room);
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(nothing->has_value());
  pair.near.reset();
  EXPECT_EQ(**receive_some(pair.far.get(), room), 0U);
}

TEST(StreamTest, AFullSocketTakesNothingAndABrokenOneIsUnavailable) {
  StreamPair pair = make_stream_pair();
  const std::string much(1U << 16U, 'x');
  std::size_t sent = 1;
  while (sent > 0) {
    const auto some = send_some(pair.near.get(), much);
    ASSERT_TRUE(some);
    sent = *some;
  }
  pair.far.reset();
  const auto broken = send_some(pair.near.get(), much);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Errc::kUnavailable);
}

TEST(StreamTest, ARefusedConnectionIsUnavailableAndABadAddressInvalid) {
  const auto bad = begin_connect("not an address", 80);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Errc::kInvalidArgument);
  auto socket = begin_connect("127.0.0.1", 1);  // nobody listens on port 1
  if (socket) {
    std::array<PollItem, 1> item{{{.fd = socket->get(), .want_read = false, .want_write = true}}};
    ASSERT_TRUE(poll_any(item, std::chrono::steady_clock::now() + std::chrono::seconds(10)));
    const auto done = finish_connect(socket->get());
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::kUnavailable);
  } else {
    EXPECT_EQ(socket.error().code, Errc::kUnavailable);
  }
}

}  // namespace
}  // namespace imex::os
