/// Tells what changed where nobody else does: looks again and again, and compares.
#pragma once

#include <functional>
#include <thread>

#include "base/mutex.hpp"
#include "fabric/manager.hpp"
#include "fabric/turn.hpp"

namespace imex::fabric::nmxm {

/// What differs, as events; in no particular order. Pure.
[[nodiscard]] std::vector<FabricEvent> compare(const Snapshot& before, const Snapshot& now);

class Lookout {
 public:
  using Look = std::function<Outcome<Snapshot>(const CallScope& scope)>;
  /// `look` is called on the thread, which begins with the first handler.
  Lookout(Look look, Nanos interval, Nanos timeout);
  ~Lookout();
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;

  /// On return the former handler does not run any more.
  void set_handler(EventHandler handler);

 private:
  void run();
  void emit(const FabricEvent& event);
  [[nodiscard]] bool take_greeting();

  const Look look_;
  const Nanos interval_, timeout_;
  std::stop_source stop_;

  Mutex mutex_;  ///< held while a handler runs
  EventHandler handler_ IMEX_GUARDED_BY(mutex_);
  bool greet_ IMEX_GUARDED_BY(mutex_) = false;  ///< the handler has not had its first event
  std::thread thread_ IMEX_GUARDED_BY(mutex_);

  Mutex wait_mutex_;
  CondVar wake_;
  bool poked_ IMEX_GUARDED_BY(wait_mutex_) = false;
};

}  // namespace imex::fabric::nmxm
