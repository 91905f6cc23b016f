#include "partition/reconciler/waker.hpp"

#include <chrono>

#include <gtest/gtest.h>

namespace imex::partition::reconciler {
namespace {

using namespace std::chrono_literals;

/// Always the same bytes: jitter at its lower end, a quarter off.
class NoRandom final : public Random {
 public:
  void fill(std::span<std::byte> out) override {
    for (std::byte& b : out) b = std::byte{0};
  }
};

constexpr Time at(std::chrono::milliseconds ms) {
  return Time{std::chrono::nanoseconds(ms).count()};
}

TEST(WakerTest, FirstPassIsDueAtOnceThenOncePerInterval) {
  Waker waker({});
  EXPECT_LE(waker.due(), at(0ms));
  waker.begin(at(0ms));
  waker.settled(at(5ms));
  EXPECT_EQ(waker.due(), at(60'005ms));
}

TEST(WakerTest, LoneWakeIsServedAtOnceAndABurstTogether) {
  Waker waker({});
  waker.begin(at(0ms));
  waker.settled(at(5ms));
  waker.wake(at(1'000ms));
  EXPECT_EQ(waker.due(), at(1'000ms));
  waker.begin(at(1'000ms));
  for (int i = 0; i < 1'000; ++i) waker.wake(at(1'001ms));
  waker.settled(at(1'002ms));
  EXPECT_EQ(waker.due(), at(1'020ms));
  waker.begin(at(1'020ms));
  waker.settled(at(1'025ms));
  EXPECT_EQ(waker.due(), at(61'025ms));
}

TEST(WakerTest, FailuresWaitLongerEachTimeUpToTheInterval) {
  Waker waker({});
  NoRandom random;
  Time now = at(0ms);
  Nanos last{0};
  for (int i = 0; i < 12; ++i) {
    waker.begin(now);
    waker.failed(now, true, random);
    const Nanos wait = waker.due() - now;
    EXPECT_GE(wait, last);
    EXPECT_LE(wait, Nanos(60s));
    last = wait;
    now = waker.due();
  }
  EXPECT_EQ(last, Nanos(45s));
  waker.begin(now);
  waker.settled(now);
  EXPECT_EQ(waker.failures(), 0U);
}

TEST(WakerTest, WakeShortensABackOffButDoesNotHammerADeadManager) {
  Waker waker({});
  NoRandom random;
  for (int i = 0; i < 10; ++i) {
    waker.begin(at(0ms));
    waker.failed(at(0ms), false, random);
  }
  EXPECT_GT(waker.due(), at(30'000ms));
  waker.wake(at(10ms));
  EXPECT_EQ(waker.due(), at(100ms));
  waker.begin(at(100ms));
  waker.failed(at(100ms), true, random);
  waker.wake(at(110ms));
  EXPECT_EQ(waker.due(), at(120ms));
}

TEST(WakerTest, WakeDuringAPassIsNotLost) {
  Waker waker({});
  waker.begin(at(0ms));
  waker.wake(at(500ms));
  waker.settled(at(900ms));
  EXPECT_EQ(waker.due(), at(900ms));
}

}  // namespace
}  // namespace imex::partition::reconciler
