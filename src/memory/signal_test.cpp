#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <barrier>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imex/signal.hpp>

#include "memory/abort_page.hpp"
#include "memory/atomics.hpp"
#include "memory/signal_protocol.hpp"
#include "os/memory.hpp"
#include "os/process.hpp"

namespace imex {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kRounds = 10'000;
constexpr std::uint64_t kRallies = 500;
#else
constexpr int kRounds = 100'000;
constexpr std::uint64_t kRallies = 5'000;
#endif

constexpr WaitPolicy kSleepAtOnce{.spin_ns = 0, .pause_ns = 0, .yield_rounds = 0, .sleep = true};

WaitOptions within(std::chrono::nanoseconds time, WaitPolicy policy = {}) {
  return {.deadline = Clock::now() + time, .policy = policy};
}

TEST(SignalTest, FreshCellCountsFromZero) {
  SignalCell cell{};
  Signal signal(cell);
  EXPECT_EQ(signal.count(), 0U);
  signal.notify();
  signal.notify(41);
  EXPECT_EQ(signal.count(), 42U);
  const WaitResult result = signal.wait_until(40, {});
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.seen, 42U);
}

TEST(SignalTest, AbandonKeepsTheCountAndMayBeRepeated) {
  SignalCell cell{};
  Signal signal(cell);
  signal.notify(2);
  signal.abandon();
  signal.abandon();
  EXPECT_EQ(signal.count(), 2U);
  EXPECT_TRUE(signal.wait_until(2, {}).ok());
  const WaitResult lost = signal.wait_until(3, {});
  EXPECT_EQ(lost.status, WaitStatus::kAbandoned);
  EXPECT_EQ(lost.seen, 2U);
  const auto result = lost.to_result();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::kPeerLost);
  EXPECT_THAT(result.error().message, testing::HasSubstr("abandoned"));
}

// Goal: abandon() reaches a waiter wherever it stands between its load and its sleep. Both threads
// leave a gate together, then a seeded delay slides abandon() across that window.
TEST(SignalTest, AbandonRacingWithWaitIsNotLost) {
  std::vector<SignalCell> cells(kRounds);
  std::barrier gate(2);
  std::jthread waiter([&] {
    for (SignalCell& cell : cells) {
      gate.arrive_and_wait();
      const WaitResult result = Signal(cell).wait_until(1, within(2s, kSleepAtOnce));
      EXPECT_EQ(result.status, WaitStatus::kAbandoned);
    }
  });
  std::minstd_rand random(42);
  for (SignalCell& cell : cells) {
    gate.arrive_and_wait();
    for (auto spins = random() % 2'000; spins != 0; --spins) asm volatile("");
    Signal(cell).abandon();
  }
}

/// Two sides hand a count to and fro; each writes plain payload before it notifies.
struct Court {
  SignalCell ping{};
  SignalCell pong{};
  alignas(64) std::uint64_t ball = 0;
};

void play(Court& court, bool serves, std::uint64_t rounds, WaitPolicy policy) {
  Signal mine(serves ? court.ping : court.pong);
  Signal theirs(serves ? court.pong : court.ping);
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    if (serves) {
      court.ball = 2 * round;
      mine.notify();
    }
    const WaitResult result = theirs.wait_until(round, within(10s, policy));
    ASSERT_TRUE(result.ok()) << result.to_result().error().to_string();
    ASSERT_EQ(court.ball, serves ? 2 * round + 1 : 2 * round);
    if (!serves) {
      court.ball = 2 * round + 1;
      mine.notify();
    }
  }
}

TEST(SignalTest, ThreadsPlayPingPongUnderEveryPolicy) {
  const std::vector<WaitPolicy> policies{
      WaitPolicy{}, kSleepAtOnce, WaitPolicy::for_ranks(1'000),
      WaitPolicy{.spin_ns = 0, .pause_ns = 0, .yield_rounds = 0, .sleep = false}};
  for (const WaitPolicy& policy : policies) {
    Court court;
    std::jthread other([&] { play(court, false, kRallies, policy); });
    play(court, true, kRallies, policy);
  }
}

TEST(SignalTest, ProcessesPlayPingPong) {
  auto fd = os::make_memfd("court", 4096);
  ASSERT_TRUE(fd);
  auto mapping = os::Mapping::map(fd->get(), 4096);
  ASSERT_TRUE(mapping);
  auto& court = *reinterpret_cast<Court*>(mapping->data());  // zero is a fresh court
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    play(court, false, kRallies, WaitPolicy::for_ranks(2));
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  play(court, true, kRallies, WaitPolicy::for_ranks(2));
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(SignalTest, DeadlinePassesNotBeforeItsTime) {
  for (const WaitPolicy& policy :
       {WaitPolicy{}, kSleepAtOnce,
        WaitPolicy{.spin_ns = 0, .pause_ns = 0, .yield_rounds = 0, .sleep = false}}) {
    SignalCell cell{};
    for (const auto time : {0ns, 1'000ns, 20'000'000ns}) {
      const WaitOptions options = within(time, policy);
      const WaitResult result = Signal(cell).wait_until(1, options);
      EXPECT_EQ(result.status, WaitStatus::kDeadline);
      EXPECT_GE(Clock::now(), options.deadline);
    }
    EXPECT_EQ(cell.waiters.load(), 0U);
  }
}

TEST(SignalTest, DeadlineErrorSaysHowFarItCame) {
  SignalCell cell{};
  Signal(cell).notify(3);
  const auto result = Signal(cell).wait_until(5, within(0ns)).to_result();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::kDeadlineExceeded);
  EXPECT_THAT(result.error().message, testing::HasSubstr("3"));
}

TEST(SignalTest, CountReachedBeatsDeadlineAbortAndAbandon) {
  SignalCell cell{};
  AbortCell abort{};
  Signal(cell).notify();
  Signal(cell).abandon();
  memory::trip_abort(abort, {Errc::kPeerLost, 4});
  const WaitResult result = Signal(cell).wait_until(
      1, {.deadline = Clock::now() - 1s, .abort = &abort, .policy = kSleepAtOnce});
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.abort, 0U);
}

TEST(SignalTest, AbortEndsAWaitInEveryStageAndNamesTheRank) {
  for (const WaitPolicy& policy :
       {kSleepAtOnce, WaitPolicy{.spin_ns = 2'000'000'000},
        WaitPolicy{.spin_ns = 0, .pause_ns = 2'000'000'000},
        WaitPolicy{.spin_ns = 0, .pause_ns = 0, .yield_rounds = 0, .sleep = false}}) {
    SignalCell cell{};
    AbortCell abort{};
    WaitOptions options = within(30s, policy);
    options.abort = &abort;
    WaitResult result;
    std::jthread waiter([&] { result = Signal(cell).wait_until(1, options); });
    EXPECT_TRUE(memory::trip_abort(abort, {Errc::kPeerLost, 7}));
    waiter.join();
    EXPECT_EQ(result.status, WaitStatus::kAborted);
    const auto error = result.to_result();
    ASSERT_FALSE(error);
    EXPECT_EQ(error.error().code, Errc::kPeerLost);
    EXPECT_EQ(error.error().rank, 7U);
  }
}

// Median over 21 aborts, so that one lost time slice does not count; the waiter sleeps for sure, as
// its count says, before the abort comes.
TEST(SignalTest, SleeperReactsToAnAbortWithinAMillisecond) {
  std::vector<Clock::duration> reactions;
  for (int i = 0; i != 21; ++i) {
    SignalCell cell{};
    AbortCell abort{};
    WaitOptions options = within(30s, kSleepAtOnce);
    options.abort = &abort;
    Clock::time_point woken;
    std::jthread waiter([&] {
      EXPECT_EQ(Signal(cell).wait_until(1, options).status, WaitStatus::kAborted);
      woken = Clock::now();
    });
    while (cell.waiters.load() == 0) std::this_thread::yield();
    const Clock::time_point tripped = Clock::now();
    memory::trip_abort(abort, {Errc::kAborted, 1});
    waiter.join();
    reactions.push_back(woken - tripped);
  }
  std::sort(reactions.begin(), reactions.end());
  EXPECT_LT(reactions[5], 1ms);
}

// What makes notify() cheap: only sleepers are counted.
TEST(SignalTest, SpinningWaiterIsNotCounted) {
  SignalCell cell{};
  std::atomic<bool> waiting{false};
  std::jthread waiter([&] {
    waiting = true;
    EXPECT_TRUE(
        Signal(cell)
            .wait_until(
                1, within(30s, {.spin_ns = 0, .pause_ns = 0, .yield_rounds = 0, .sleep = false}))
            .ok());
  });
  while (!waiting) std::this_thread::yield();
  for (int i = 0; i != 1'000; ++i) {
    ASSERT_EQ(cell.waiters.load(), 0U);
    std::this_thread::yield();
  }
  Signal(cell).notify();
}

TEST(SignalTest, SleepingWaiterUsesNoProcessor) {
  SignalCell cell{};
  timespec used{};
  std::jthread waiter([&] {
    EXPECT_EQ(Signal(cell).wait_until(1, within(200ms)).status, WaitStatus::kDeadline);
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  });
  waiter.join();
  EXPECT_EQ(used.tv_sec, 0);
  EXPECT_LT(used.tv_nsec, 50'000'000);
}

TEST(SignalTest, ManyWaitersAllWake) {
  SignalCell cell{};
  std::vector<std::jthread> waiters;
  for (std::uint64_t target = 1; target <= 16; ++target) {
    waiters.emplace_back([&cell, target] {
      EXPECT_TRUE(Signal(cell).wait_until(target, within(30s, kSleepAtOnce)).ok());
    });
  }
  for (int i = 0; i != 16; ++i) Signal(cell).notify();
  waiters.clear();
  EXPECT_EQ(cell.waiters.load(), 0U);
}

TEST(WaitPolicyTest, MoreRanksThanCoresSpinOneBatchOnly) {
  const unsigned cores = os::usable_cores();
  const WaitPolicy fits = WaitPolicy::for_ranks(cores);
  EXPECT_EQ(fits.spin_ns, WaitPolicy{}.spin_ns);
  EXPECT_EQ(fits.pause_ns, WaitPolicy{}.pause_ns);
  const WaitPolicy crowded = WaitPolicy::for_ranks(cores + 1);
  EXPECT_LE(crowded.spin_ns, 100U);
  EXPECT_EQ(crowded.pause_ns, 0U);
  EXPECT_TRUE(crowded.sleep);
}

/// Counts what a wait does before it sleeps; the clock stands still unless told.
struct CountingAtomics : memory::HostAtomics {
  int loads = 0, pauses = 0, yields = 0, sleeps = 0;
  Clock::time_point time{};

  template <class T>
  T load(const std::atomic<T>& word, std::memory_order order, memory::Site site) {
    if (site == memory::Site::kSignalPoll) ++loads;
    return word.load(order);
  }
  Clock::time_point now() {
    time += 100ns;
    return time;
  }
  void pause() { ++pauses; }
  void yield() { ++yields; }
  os::FutexResult sleep(const Word64&, std::uint64_t, const Word64*, Clock::time_point) {
    ++sleeps;
    return os::FutexResult::kTimedOut;
  }
};

TEST(WaitPolicyTest, StagesFollowEachOther) {
  SignalCell cell{};
  CountingAtomics atomics;
  const memory::SignalWords<CountingAtomics> words{cell.value, cell.waiters};
  const auto result = memory::signal_wait(atomics, words, 1, {.policy = {}});
  EXPECT_EQ(result.status, WaitStatus::kDeadline);
  // 2 us of loads at 100 ns a batch, then 20 us with pauses, then 50 yields, then sleep.
  EXPECT_EQ(atomics.pauses, 16 * 201);
  EXPECT_EQ(atomics.yields, 50);
  EXPECT_EQ(atomics.sleeps, 1);
  EXPECT_EQ(atomics.loads, 1 + 50 * 21 + 16 * 201 + 50);
}

TEST(WaitPolicyTest, CrowdedWaitLoadsAboutFiftyTimesThenYields) {
  SignalCell cell{};
  CountingAtomics atomics;
  const memory::SignalWords<CountingAtomics> words{cell.value, cell.waiters};
  const auto result =
      memory::signal_wait(atomics, words, 1, {.policy = WaitPolicy::for_ranks(100'000)});
  EXPECT_EQ(result.status, WaitStatus::kDeadline);
  EXPECT_EQ(atomics.pauses, 0);
  EXPECT_EQ(atomics.loads, 1 + 50 + 50);
}

}  // namespace
}  // namespace imex
