#include "event_queue.hpp"

#include <utility>

namespace imex::domain::client {

void EventQueue::push(const SessionEvent& event) {
  {
    const MutexLock lock(callback_mutex_);
    if (callback_) callback_(event);
  }
  const MutexLock lock(mutex_);
  if (events_.size() == kEventsMax) {
    events_.pop_front();
    ++dropped_;
  }
  events_.push_back(event);
  ready_.raise();
}

std::optional<SessionEvent> EventQueue::pop() {
  const MutexLock lock(mutex_);
  if (events_.empty()) return std::nullopt;
  const SessionEvent event = events_.front();
  events_.pop_front();
  if (events_.empty()) ready_.lower();
  return event;
}

void EventQueue::set_callback(std::function<void(const SessionEvent&)> callback) {
  const MutexLock lock(callback_mutex_);
  callback_ = std::move(callback);
}

std::uint64_t EventQueue::dropped() const {
  const MutexLock lock(mutex_);
  return dropped_;
}

}  // namespace imex::domain::client
