/// std::mutex and std::condition_variable with the annotations that let clang check who holds what.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/thread_annotations.hpp"

namespace imex {

/// Not recursive. Prefer one owner per state and messages between owners; where two threads must
/// share, guard every field with IMEX_GUARDED_BY.
class IMEX_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() IMEX_ACQUIRE() { mutex_.lock(); }
  void unlock() IMEX_RELEASE() { mutex_.unlock(); }
  [[nodiscard]] bool try_lock() IMEX_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

/// Holds a Mutex for a scope.
class IMEX_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) IMEX_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() IMEX_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Waits for a state that a Mutex guards. Wakes without a reason happen: wait in a loop. There is
/// no wait without a deadline on purpose.
class CondVar {
 public:
  /// Releases `mutex`, sleeps, takes it again. False: the deadline passed.
  [[nodiscard]] bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      IMEX_REQUIRES(mutex) {
    // The lock is lent for the call: adopt it, and give it back unreleased.
    std::unique_lock<std::mutex> borrowed(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = condition_.wait_until(borrowed, deadline);
    static_cast<void>(borrowed.release());
    return status == std::cv_status::no_timeout;
  }
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace imex
