/// What the tests of this room share.
#pragma once

#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "fabric/nmxc.hpp"
#include "fake_controller.hpp"

namespace imex::fabric::nmxc::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Long enough for a loaded machine; only what is wrong waits so long.
inline constexpr seconds kPatience(20);

inline CallOptions patient() { return CallOptions::within(kPatience); }

inline Options options_for(std::vector<std::string> endpoints) {
  Options options;
  options.endpoints = std::move(endpoints);
  options.gateway_id = "test";
  options.heartbeat = milliseconds(50);
  options.backoff = {.first = milliseconds(5), .max = milliseconds(20)};
  return options;
}

inline std::unique_ptr<FabricManager> open_or_die(Options options) {
  auto manager = open(std::move(options));
  if (!manager) {
    ADD_FAILURE() << manager.error().to_string();
    return nullptr;
  }
  return *std::move(manager);
}

template <class Condition>
bool eventually(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

/// Keeps what a handler was told.
class EventLog {
 public:
  [[nodiscard]] EventHandler handler() {
    return [this](const FabricEvent& event) {
      const MutexLock lock(mutex_);
      events_.push_back(event);
    };
  }
  [[nodiscard]] std::vector<FabricEvent> events() const {
    const MutexLock lock(mutex_);
    return events_;
  }
  [[nodiscard]] std::size_t count(FabricEvent::Kind kind) const {
    std::size_t count = 0;
    for (const FabricEvent& event : events()) count += event.kind == kind ? 1 : 0;
    return count;
  }
  [[nodiscard]] bool comes(FabricEvent::Kind kind, std::size_t times = 1) const {
    return eventually([&] { return count(kind) >= times; });
  }

 private:
  mutable Mutex mutex_;
  std::vector<FabricEvent> events_ IMEX_GUARDED_BY(mutex_);
};

}  // namespace imex::fabric::nmxc::testing
