/// The one thread that owns a daemon's state: everything that happens is a callback on it.
///
///     net::EventLoop loop;
///     net::Timer beat(loop);
///     beat.arm(loop.now() + std::chrono::seconds(1), [&] { loop.stop(); });
///     loop.run();
///
/// Threads: post() and stop() from any thread, all else on the thread in run() (or before it).
/// Callbacks run one after the other and must not block. Timers count CLOCK_BOOTTIME, which goes on
/// while the machine sleeps and does not follow changes of the wall clock.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>

#include "base/result.hpp"
#include "base/time.hpp"

namespace imex::net {

class EventLoop {
 public:
  struct Options {
    /// How long the loop keeps polling after stay_awake() before it sleeps: a request on a channel
    /// comes right after another, and a wake-up costs 5 us. 0 with one usable core, where polling
    /// would keep the client from running.
    Nanos busy_poll = default_busy_poll();
  };
  [[nodiscard]] static Nanos default_busy_poll() noexcept;

  EventLoop() : EventLoop(Options{}) {}
  explicit EventLoop(Options options);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Handles events until stop(). May be called again.
  void run();
  /// Handles events until `done()` is true or `deadline` has passed; returns done().
  [[nodiscard]] bool run_until(const std::function<bool()>& done, Time deadline);
  void stop();

  /// Runs `work` on the loop, later; in order of the calls of one thread.
  void post(std::function<void()> work);
  /// Traffic that is likely to go on: polls for Options::busy_poll from now instead of sleeping.
  void stay_awake() noexcept;
  [[nodiscard]] Time now() const noexcept;

  struct Impl;
  [[nodiscard]] Impl& impl() noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// One callback at one time. Destroying it cancels it. Borrows the loop.
class Timer {
 public:
  explicit Timer(EventLoop& loop);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Replaces what was armed; kNever cancels. A time in the past fires in the next round.
  void arm(Time when, std::function<void()> callback);
  void cancel() noexcept;
  [[nodiscard]] bool armed() const noexcept;

  struct State;

 private:
  EventLoop& loop_;
  std::unique_ptr<State> state_;
};

/// Watches a descriptor that somebody else owns; destroy the watch before closing the descriptor.
/// Callbacks are level-triggered: they come again while the condition holds. A callback may destroy
/// its own watch.
class FdWatch {
 public:
  FdWatch(EventLoop& loop, int fd);
  ~FdWatch();
  FdWatch(FdWatch&&) noexcept;
  FdWatch& operator=(FdWatch&&) noexcept;

  /// End-of-file and errors count as readable. Empty: stop watching.
  void on_readable(std::function<void()> callback);
  void on_writable(std::function<void()> callback);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Delivers signals as callbacks with the signal's number. Destroying it restores the default.
class SignalWatch {
 public:
  SignalWatch(EventLoop& loop, std::initializer_list<int> signals,
              std::function<void(int)> callback);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace imex::net
