/// The thread that keeps a session alive and listens: Subscribe where there is one, and in any case
/// a look at the state of the domain with each heartbeat.
#pragma once

#include <memory>
#include <thread>

#include "base/mutex.hpp"
#include "connector.hpp"
#include "inbox.hpp"
#include "subscription.hpp"

namespace imex::fabric::nmxc {

class Watcher {
 public:
  /// Borrows `connector`, which must be shut down before this is destroyed.
  explicit Watcher(Connector& connector);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// Starts the thread with the first handler. On return the former handler does not run any more.
  void set_handler(EventHandler handler);

 private:
  using Clock = std::chrono::steady_clock;
  /// One stretch with one session.
  struct Stretch;

  void run();
  void follow(const std::shared_ptr<Session>& session);
  void subscribe(Stretch& stretch);
  /// What came from the stream.
  void hear(Stretch& stretch, Inbox::Batch batch);
  /// False: the session is of no use any more.
  [[nodiscard]] bool beat(Stretch& stretch);
  void look_for_rival(const Session& session);
  void emit(const FabricEvent& event);
  void greet_new_handler();
  [[nodiscard]] bool stopping() const noexcept { return stop_.stop_requested(); }
  [[nodiscard]] CallScope scope_for(std::chrono::nanoseconds duration) const;

  Connector& connector_;
  const std::chrono::nanoseconds heartbeat_;
  std::stop_source stop_;
  Inbox inbox_;

  Mutex mutex_;  ///< held while a handler runs
  EventHandler handler_ IMEX_GUARDED_BY(mutex_);
  bool greet_ IMEX_GUARDED_BY(mutex_) = false;  ///< the handler has not had its first event
  std::thread thread_ IMEX_GUARDED_BY(mutex_);

  // Of the thread.
  bool reachable_ = true;
  bool split_ = false;
  std::uint32_t beats_ = 0;
  std::uint64_t streams_ = 0;
};

}  // namespace imex::fabric::nmxc
