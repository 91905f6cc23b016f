#include "base/mutex.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace imex {
namespace {

using namespace std::chrono_literals;

struct Box {
  Mutex mutex;
  CondVar filled;
  int value IMEX_GUARDED_BY(mutex) = 0;
};

TEST(MutexTest, TwoThreadsLoseNoUpdate) {
  Box box;
  const auto add = [&] {
    for (int i = 0; i < 50'000; ++i) {
      const MutexLock lock(box.mutex);
      ++box.value;
    }
  };
  std::thread other(add);
  add();
  other.join();
  const MutexLock lock(box.mutex);
  EXPECT_EQ(box.value, 100'000);
}

TEST(MutexTest, LockIsHeldForTheScopeOnly) {
  Mutex mutex;
  {
    const MutexLock lock(mutex);
    bool taken = true;
    std::thread([&] {
      taken = mutex.try_lock();
      if (taken) mutex.unlock();
    }).join();
    EXPECT_FALSE(taken);
  }
  ASSERT_TRUE(mutex.try_lock());
  mutex.unlock();
}

TEST(CondVarTest, WaiterSeesWhatWasWrittenBeforeTheNotification) {
  Box box;
  std::thread writer([&] {
    const MutexLock lock(box.mutex);
    box.value = 7;
    box.filled.notify_one();
  });
  {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    const MutexLock lock(box.mutex);
    while (box.value == 0) ASSERT_TRUE(box.filled.wait_until(box.mutex, deadline));
    EXPECT_EQ(box.value, 7);
  }
  writer.join();
}

TEST(CondVarTest, WaitEndsAtTheDeadlineWithTheMutexHeld) {
  Box box;
  const auto deadline = std::chrono::steady_clock::now() + 20ms;
  const MutexLock lock(box.mutex);
  while (box.filled.wait_until(box.mutex, deadline)) {
  }
  EXPECT_GE(std::chrono::steady_clock::now(), deadline);
  bool taken = true;
  std::thread([&] {
    taken = box.mutex.try_lock();
    if (taken) box.mutex.unlock();
  }).join();
  EXPECT_FALSE(taken);
}

}  // namespace
}  // namespace imex
