#include "partition/reconciler/waker.hpp"

#include <algorithm>

namespace imex::partition::reconciler {

Time Waker::earliest() const noexcept { return std::max(begun_ + times_.spacing, not_before_); }

void Waker::wake(Time now) {
  woken_ = true;
  due_ = std::min(due_, std::max(now, earliest()));
}

void Waker::begin(Time now) {
  woken_ = false;
  begun_ = now;
  due_ = now + times_.interval;
}

void Waker::settled(Time now) {
  failures_ = 0;
  not_before_ = begun_;
  due_ = now + times_.interval;
  if (woken_) wake(now);
}

void Waker::again(Time now) {
  failures_ = 0;
  not_before_ = begun_;
  due_ = std::max(now, earliest());
}

void Waker::not_later_than(Time at) noexcept { due_ = std::min(due_, std::max(at, earliest())); }

void Waker::failed(Time now, bool reachable, Random& random) {
  Nanos wait = times_.backoff_first;
  for (std::uint32_t i = 0; i < failures_ && wait < times_.interval; ++i) wait *= 2;
  wait = std::min(wait, times_.interval);
  failures_ = std::min(failures_ + 1, 62U);
  const auto spread = static_cast<std::uint64_t>(wait.count() / 2) + 1;
  wait += Nanos(static_cast<std::int64_t>(random.below(spread)) - wait.count() / 4);
  not_before_ = reachable ? begun_ : now + std::min(wait, times_.backoff_first);
  due_ = now + wait;
  if (woken_) wake(now);
}

}  // namespace imex::partition::reconciler
