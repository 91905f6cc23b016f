#include "fabric/turn.hpp"

#include <fmt/format.h>

namespace imex::fabric {

CallScope CallScope::within(std::chrono::nanoseconds at_most) const {
  CallScope shorter = *this;
  const auto other = std::chrono::steady_clock::now() + at_most;
  if (other < shorter.deadline) shorter.deadline = other;
  return shorter;
}

Outcome<void> CallScope::check(std::string_view what) const {
  if (cancelled())
    return tl::unexpected(Failure{.error = {Errc::kAborted, fmt::format("{}: cancelled", what)}});
  if (expired()) {
    return tl::unexpected(
        Failure{.error = {Errc::kDeadlineExceeded, fmt::format("{}: deadline passed", what)},
                .retry = NmxRetry::kBackOff});
  }
  return {};
}

bool sleep_for(std::chrono::nanoseconds duration, const CallScope& scope) {
  const auto until = std::min(scope.deadline, std::chrono::steady_clock::now() + duration);
  Mutex mutex;
  CondVar changed;
  const OnCancel wake(scope, [&mutex, &changed] {
    const MutexLock lock(mutex);
    changed.notify_all();
  });
  const MutexLock lock(mutex);
  while (!scope.cancelled()) {
    if (!changed.wait_until(mutex, until)) break;
  }
  return !scope.cancelled();
}

Outcome<Turn::Held> Turn::take(const CallScope& scope, std::string_view what) {
  const OnCancel wake(scope, [this] {
    const MutexLock lock(mutex_);
    free_.notify_all();
  });
  const MutexLock lock(mutex_);
  while (taken_) {
    if (auto in_time = scope.check(what); !in_time)
      return tl::unexpected(std::move(in_time).error());
    static_cast<void>(free_.wait_until(mutex_, scope.deadline));
  }
  taken_ = true;
  return Held(*this);
}

void Turn::give_back() {
  const MutexLock lock(mutex_);
  taken_ = false;
  free_.notify_one();
}

}  // namespace imex::fabric
