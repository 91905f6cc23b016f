#include "os/poll.hpp"

#include <array>
#include <csignal>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "os/thread.hpp"

namespace imex::os {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST(EventFdTest, IsReadableFromRaiseToLower) {
  auto event = EventFd::make();
  ASSERT_TRUE(event);
  std::array items{PollItem{.fd = event->fd()}};
  ASSERT_TRUE(poll_any(items, Clock::now()));
  EXPECT_FALSE(items[0].readable);
  event->raise();
  event->raise();
  ASSERT_TRUE(poll_any(items, Clock::now() + 10s));
  EXPECT_TRUE(items[0].readable);
  event->lower();
  ASSERT_TRUE(poll_any(items, Clock::now()));
  EXPECT_FALSE(items[0].readable);
}

TEST(PollTest, WakesForTheItemThatHasSomething) {
  auto quiet = EventFd::make();
  auto loud = EventFd::make();
  ASSERT_TRUE(quiet && loud);
  std::jthread raiser([&] { loud->raise(); });
  std::array items{PollItem{.fd = quiet->fd()}, PollItem{.fd = -1}, PollItem{.fd = loud->fd()}};
  ASSERT_TRUE(poll_any(items, Clock::now() + 10s));
  EXPECT_FALSE(items[0].readable);
  EXPECT_FALSE(items[1].readable);
  EXPECT_TRUE(items[2].readable);
}

TEST(PollTest, LooksAtEveryItemHoweverManyThereAre) {
  auto loud = EventFd::make();
  ASSERT_TRUE(loud);
  loud->raise();
  std::vector<PollItem> items(129, PollItem{.fd = -1});  // a watch of 128 ranks
  items.back().fd = loud->fd();
  ASSERT_TRUE(poll_any(items, Clock::now() + 10s));
  EXPECT_TRUE(items.back().readable);
}

TEST(PollTest, ReturnsAtTheDeadlineAndNotBefore) {
  auto quiet = EventFd::make();
  ASSERT_TRUE(quiet);
  const auto deadline = Clock::now() + 20ms;
  std::array items{PollItem{.fd = quiet->fd()}};
  ASSERT_TRUE(poll_any(items, deadline));
  EXPECT_GE(Clock::now(), deadline);
  EXPECT_FALSE(items[0].readable || items[0].hung_up);
}

TEST(SignalsBlockedTest, AThreadStartedWithinBlocksThemAndTheStarterDoesNotAfterwards) {
  sigset_t before, inside, after;
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &before), 0);
  {
    const SignalsBlocked blocked;
    std::jthread([&] { ::pthread_sigmask(SIG_SETMASK, nullptr, &inside); }).join();
  }
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &after), 0);
  EXPECT_EQ(::sigismember(&inside, SIGUSR1), 1);
  EXPECT_EQ(::sigismember(&inside, SIGSEGV), 0);
  EXPECT_EQ(::sigismember(&after, SIGUSR1), ::sigismember(&before, SIGUSR1));
}

}  // namespace
}  // namespace imex::os
