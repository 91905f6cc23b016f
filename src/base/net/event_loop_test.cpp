#include "net/event_loop.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "os/fd.hpp"

namespace imex::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::pair<os::UniqueFd, os::UniqueFd> socket_pair() {
  std::array<int, 2> fds{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()), 0);
  return {os::UniqueFd(fds[0]), os::UniqueFd(fds[1])};
}

Nanos cpu_time() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  const auto nanos = [](timeval t) {
    return seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
  };
  return nanos(usage.ru_utime) + nanos(usage.ru_stime);
}

TEST(EventLoop, TimersFireInOrderOfTimeAndThenOfArming) {
  EventLoop loop;
  std::vector<int> fired;
  Timer late(loop), early(loop), same(loop);
  const Time start = loop.now();
  late.arm(start + milliseconds(3), [&] { fired.push_back(3); });
  early.arm(start + milliseconds(1), [&] { fired.push_back(1); });
  same.arm(start + milliseconds(1), [&] { fired.push_back(2); });
  EXPECT_TRUE(loop.run_until([&] { return fired.size() == 3; }, start + seconds(10)));
  EXPECT_EQ(fired, (std::vector{1, 2, 3}));
  EXPECT_GE(loop.now() - start, milliseconds(3));
}

TEST(EventLoop, ATimerInThePastFiresAndACancelledOneDoesNot) {
  EventLoop loop;
  bool fired = false, cancelled = false;
  Timer past(loop), other(loop);
  past.arm(Time{1}, [&] { fired = true; });
  other.arm(Time{1}, [&] { cancelled = true; });
  other.cancel();
  EXPECT_TRUE(loop.run_until([&] { return fired; }, loop.now() + seconds(10)));
  EXPECT_FALSE(cancelled);
  EXPECT_FALSE(past.armed());
}

TEST(EventLoop, ATimerMayDestroyItselfAndOthersInItsCallback) {
  EventLoop loop;
  auto own = std::make_unique<Timer>(loop), other = std::make_unique<Timer>(loop);
  bool fired = false, wrong = false;
  own->arm(Time{1}, [&] {
    own.reset();
    other.reset();
    fired = true;
  });
  other->arm(Time{2}, [&] { wrong = true; });
  EXPECT_TRUE(loop.run_until([&] { return fired; }, loop.now() + seconds(10)));
  EXPECT_FALSE(loop.run_until([&] { return wrong; }, loop.now() + milliseconds(5)));
}

TEST(EventLoop, WorkOfAnotherThreadComesInOrderAndWakesTheLoop) {
  EventLoop loop;
  std::vector<int> seen;
  std::jthread other([&] {
    for (int i = 0; i < 1000; ++i) loop.post([&seen, i] { seen.push_back(i); });
  });
  ASSERT_TRUE(loop.run_until([&] { return seen.size() == 1000; }, loop.now() + seconds(10)));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
}

TEST(EventLoop, StopFromAnotherThreadEndsRun) {
  EventLoop loop;
  std::jthread other([&] { loop.stop(); });
  loop.run();
}

TEST(FdWatch, IsLevelTriggered) {
  EventLoop loop;
  auto [ours, theirs] = socket_pair();
  ASSERT_EQ(::send(theirs.get(), "ab", 2, 0), 2);
  ASSERT_EQ(::send(theirs.get(), "cd", 2, 0), 2);
  int packets = 0;
  FdWatch watch(loop, ours.get());
  watch.on_readable([&, fd = ours.get()] {  // one packet per call, though two are there
    std::array<char, 8> buffer{};
    if (::recv(fd, buffer.data(), buffer.size(), 0) == 2) ++packets;
  });
  EXPECT_TRUE(loop.run_until([&] { return packets == 2; }, loop.now() + seconds(10)));
}

TEST(FdWatch, EndOfFileIsReadableAndTheWatchMayEndInItsCallback) {
  EventLoop loop;
  auto [ours, theirs] = socket_pair();
  auto watch = std::make_unique<FdWatch>(loop, ours.get());
  bool ended = false;
  watch->on_readable([&] {
    watch.reset();
    ended = true;
  });
  theirs.reset();
  EXPECT_TRUE(loop.run_until([&] { return ended; }, loop.now() + seconds(10)));
  EXPECT_NE(::fcntl(ours.get(), F_GETFD), -1);  // still its owner's
}

TEST(FdWatch, WritableComesWhenThereIsRoomAgain) {
  EventLoop loop;
  auto [ours, theirs] = socket_pair();
  const std::array<char, 4096> packet{};
  while (::send(ours.get(), packet.data(), packet.size(), 0) > 0) {
  }
  bool writable = false;
  FdWatch watch(loop, ours.get());
  watch.on_writable([&] {
    writable = true;
    watch.on_writable({});
  });
  EXPECT_FALSE(loop.run_until([&] { return writable; }, loop.now() + milliseconds(5)));
  std::array<char, 4096> buffer{};
  while (::recv(theirs.get(), buffer.data(), buffer.size(), 0) > 0) {
  }
  EXPECT_TRUE(loop.run_until([&] { return writable; }, loop.now() + seconds(10)));
}

TEST(SignalWatch, DeliversSignalsOnTheLoop) {
  EventLoop loop;
  std::vector<int> seen;
  SignalWatch watch(loop, {SIGUSR1, SIGUSR2}, [&](int number) { seen.push_back(number); });
  ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
  EXPECT_TRUE(loop.run_until([&] { return seen.size() == 1; }, loop.now() + seconds(10)));
  EXPECT_EQ(seen.front(), SIGUSR1);
}

// Busy polling is for traffic: an idle loop must sleep, or each daemon would cost a core.
TEST(EventLoop, SleepsWhenNothingHappensAlsoAfterTraffic) {
  EventLoop loop({.busy_poll = std::chrono::microseconds(30)});
  loop.stay_awake();
  const Nanos before = cpu_time();
  EXPECT_FALSE(loop.run_until([] { return false; }, loop.now() + milliseconds(300)));
  EXPECT_LT(cpu_time() - before, milliseconds(30));
}

}  // namespace
}  // namespace imex::net
