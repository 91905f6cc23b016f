/// Counts and times of what the daemon handled, for the line that operators know (imex-service.md,
/// section 10).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/time.hpp"

namespace imex::domain {

class Statistics {
 public:
  struct Queue {
    std::size_t depth = 0;
    Nanos oldest{};
  };
  /// `name` must live for ever.
  void count(std::string_view name, Nanos queued, Nanos handled) {
    Message& message = messages_[name];
    ++message.count;
    message.queued += queued;
    message.handled += handled;
  }
  /// One line of JSON about the time since the last call.
  [[nodiscard]] std::string take_line(const Queue& processor, const Queue& pending_free);

 private:
  struct Message {
    std::uint64_t count = 0;
    Nanos queued{}, handled{};
  };
  std::map<std::string_view, Message> messages_;
};

}  // namespace imex::domain
