#include "os/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <thread>

#include <gtest/gtest.h>

#include "futex_slices.hpp"
#include "os/memory.hpp"
#include "os/process.hpp"

namespace imex::os {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Word = std::atomic<std::uint32_t>;

/// Wakes the word until somebody was asleep on it: the moment at which a sleeper is known to sleep.
/// Fails at a deadline.
bool wake_a_sleeper(const Word& word) {
  const auto deadline = Clock::now() + seconds(20);
  while (Clock::now() < deadline) {
    if (::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0) > 0) return true;
    std::this_thread::yield();
  }
  return false;
}

TEST(FutexTest, ChangedWordDoesNotSleep) {
  const Word word{1};
  EXPECT_EQ(futex_wait(&word, 0, Clock::time_point::max()), FutexResult::kChanged);
}

TEST(FutexTest, DeadlinesEndTheWaitAndNotBefore) {
  const Word word{0};
  EXPECT_EQ(futex_wait(&word, 0, Clock::time_point{}), FutexResult::kTimedOut);
  EXPECT_EQ(futex_wait(&word, 0, Clock::time_point::min()), FutexResult::kTimedOut);
  const auto deadline = Clock::now() + milliseconds(20);
  EXPECT_EQ(futex_wait(&word, 0, deadline), FutexResult::kTimedOut);
  EXPECT_GE(Clock::now(), deadline);
}

TEST(FutexTest, SleeperWithoutDeadlineIsWoken) {
  const Word word{0};
  FutexResult result = FutexResult::kTimedOut;
  std::thread sleeper([&] { result = futex_wait(&word, 0, Clock::time_point::max()); });
  EXPECT_TRUE(wake_a_sleeper(word));
  sleeper.join();
  EXPECT_EQ(result, FutexResult::kWoken);
}

TEST(FutexTest, WakeAllWakesEverySleeper) {
  constexpr int kSleepers = 4;
  Word word{0};
  std::atomic<int> back{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < kSleepers; ++i) {
    sleepers.emplace_back([&] {
      // Woken or too late for it: either way the word has changed.
      while (word.load() == 0) static_cast<void>(futex_wait(&word, 0, Clock::now() + seconds(20)));
      ++back;
    });
  }
  word = 1;
  futex_wake_all(&word);
  for (std::thread& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(back, kSleepers);
}

// Shared form: the two processes see the word at different addresses.
TEST(FutexTest, SleeperIsWokenThroughAnotherMapping) {
  const auto fd = make_memfd("word", page_bytes());
  ASSERT_TRUE(fd);
  const auto first = Mapping::map(fd->get(), page_bytes());
  const auto second = Mapping::map(fd->get(), page_bytes());
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  const auto* slept_on = reinterpret_cast<const Word*>(first->data());
  const auto* woken = reinterpret_cast<const Word*>(second->data());
  FutexResult result = FutexResult::kTimedOut;
  std::thread sleeper([&] { result = futex_wait(slept_on, 0, Clock::now() + seconds(20)); });
  EXPECT_TRUE(wake_a_sleeper(*woken));
  sleeper.join();
  EXPECT_EQ(result, FutexResult::kWoken);
}

using WaitEither = FutexResult (*)(const Word*, std::uint32_t, const Word*, std::uint32_t,
                                   Clock::time_point) noexcept;

/// The system call where there is one, and what stands in for it.
class FutexEitherTest : public ::testing::TestWithParam<WaitEither> {};

TEST_P(FutexEitherTest, DifferenceInEitherWordDoesNotSleep) {
  const Word a{1};
  const Word b{2};
  const auto never = Clock::time_point::max();
  EXPECT_EQ(GetParam()(&a, 0, &b, 2, never), FutexResult::kChanged);
  EXPECT_EQ(GetParam()(&a, 1, &b, 0, never), FutexResult::kChanged);
  EXPECT_EQ(GetParam()(&a, 1, &b, 2, Clock::time_point{}), FutexResult::kTimedOut);
}

TEST_P(FutexEitherTest, DeadlineEndsTheWaitAndNotBefore) {
  const Word a{0};
  const Word b{0};
  const auto deadline = Clock::now() + milliseconds(20);
  EXPECT_EQ(GetParam()(&a, 0, &b, 0, deadline), FutexResult::kTimedOut);
  EXPECT_GE(Clock::now(), deadline);
}

// Change and wake as a notifier does it; the sleeper must return well before its deadline,
// whichever word it was.
TEST_P(FutexEitherTest, EitherWordEndsTheWait) {
  for (int round = 0; round < 200; ++round) {
    Word words[2] = {Word{0}, Word{0}};
    FutexResult result = FutexResult::kTimedOut;
    std::thread sleeper([&] {
      while (words[0].load() == 0 && words[1].load() == 0) {
        result = GetParam()(&words[0], 0, &words[1], 0, Clock::now() + seconds(20));
        if (result == FutexResult::kTimedOut) break;
      }
      if (words[0].load() != 0 || words[1].load() != 0) result = FutexResult::kWoken;
    });
    Word& word = words[round % 2];
    word = 1;
    futex_wake_all(&word);
    sleeper.join();
    ASSERT_EQ(result, FutexResult::kWoken) << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, FutexEitherTest,
                         ::testing::Values(&futex_wait_either, &futex_wait_either_sliced),
                         [](const auto& way) { return way.index == 0 ? "Call" : "Slices"; });

TEST(FutexTest, EitherWordWakesAKnownSleeper) {
  const Word a{0};
  const Word b{0};
  if (futex_wait_either(&a, 0, &b, 1, Clock::now()) != FutexResult::kChanged) FAIL();
  const long rc = ::syscall(449, nullptr, 0, 0, nullptr, 0);
  if (rc == -1 && errno == ENOSYS) GTEST_SKIP() << "kernel before 5.16: no futex_waitv";
  for (const Word* word : {&a, &b}) {
    FutexResult result = FutexResult::kTimedOut;
    std::thread sleeper(
        [&] { result = futex_wait_either(&a, 0, &b, 0, Clock::time_point::max()); });
    EXPECT_TRUE(wake_a_sleeper(*word));
    sleeper.join();
    EXPECT_EQ(result, FutexResult::kWoken);
  }
}

TEST(FutexTest, LowHalfIsTheHalfThatCountsUp) {
  std::atomic<std::uint64_t> word{0x1'0000'0005};
  EXPECT_EQ(low_half(word)->load(), 5U);
}

}  // namespace
}  // namespace imex::os
