/// Events on their way to the application.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include <imex/session.hpp>

#include "base/mutex.hpp"
#include "os/poll.hpp"

namespace imex::domain::client {

/// Bounded: when full, the oldest event is dropped and counted. Thread-safe.
class EventQueue {
 public:
  static constexpr std::size_t kEventsMax = 1024;

  explicit EventQueue(os::EventFd ready) noexcept : ready_(std::move(ready)) {}

  /// Calls the callback, then queues. From the control thread.
  void push(const SessionEvent& event);
  [[nodiscard]] std::optional<SessionEvent> pop();
  /// Returns once no former callback runs any more.
  void set_callback(std::function<void(const SessionEvent&)> callback);
  [[nodiscard]] int fd() const noexcept { return ready_.fd(); }
  [[nodiscard]] std::uint64_t dropped() const;

 private:
  os::EventFd ready_;  // raised exactly while events_ has something
  Mutex callback_mutex_;
  std::function<void(const SessionEvent&)> callback_ IMEX_GUARDED_BY(callback_mutex_);
  mutable Mutex mutex_;
  std::deque<SessionEvent> events_ IMEX_GUARDED_BY(mutex_);
  std::uint64_t dropped_ IMEX_GUARDED_BY(mutex_) = 0;
};

}  // namespace imex::domain::client
