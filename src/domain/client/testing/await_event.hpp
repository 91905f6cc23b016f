/// Test help: waiting for what a session is told.
#pragma once

#include <array>
#include <chrono>
#include <optional>

#include <imex/session.hpp>

#include "os/poll.hpp"

namespace imex::domain::client {

/// The next event of that kind; others before it are dropped. Nothing after `patience`.
inline std::optional<SessionEvent> await_event(
    Session& session, SessionEvent::Kind kind,
    std::chrono::milliseconds patience = std::chrono::seconds(10)) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < until) {
    while (auto event = session.next_event()) {
      if (event->kind == kind) return event;
    }
    std::array items{os::PollItem{.fd = session.event_fd()}};
    if (!os::poll_any(items, until)) break;
  }
  return std::nullopt;
}

}  // namespace imex::domain::client
