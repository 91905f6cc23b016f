/// Small helpers around system calls; private to this room.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <utility>

namespace imex::os {

/// Repeats a call that returns -1 for as long as a signal interrupts it.
template <class Call>
auto retry(Call&& call) noexcept(noexcept(call())) {
  decltype(call()) result;
  do {
    result = call();
  } while (result == -1 && errno == EINTR);
  return result;
}

/// Runs an action when the scope ends, unless it was dismissed.
template <class Action>
class OnExit {
 public:
  explicit OnExit(Action action) : action_(std::move(action)) {}
  OnExit(const OnExit&) = delete;
  OnExit& operator=(const OnExit&) = delete;
  ~OnExit() {
    if (armed_) action_();
  }
  void dismiss() noexcept { armed_ = false; }

 private:
  Action action_;
  bool armed_ = true;
};

/// As the kernel wants it; durations below zero count as zero.
inline timespec to_timespec(std::chrono::nanoseconds duration) noexcept {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t ns = duration.count() < 0 ? 0 : duration.count();
  timespec result{};
  result.tv_sec = static_cast<time_t>(ns / kSecond);
  result.tv_nsec = static_cast<decltype(result.tv_nsec)>(ns % kSecond);
  return result;
}

/// Time left until `deadline`, at least zero. Call only for deadlines other than time_point::max().
inline std::chrono::nanoseconds time_left(std::chrono::steady_clock::time_point deadline) noexcept {
  const auto left = deadline - std::chrono::steady_clock::now();
  return left.count() < 0 ? std::chrono::nanoseconds(0) : left;
}

}  // namespace imex::os
