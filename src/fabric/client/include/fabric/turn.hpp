/// One after the other, with a deadline and a way out: a lock for sections that wait on a network.
#pragma once

#include <array>
#include <stop_token>
#include <string_view>

#include "base/mutex.hpp"
#include "fabric/manager.hpp"

namespace imex::fabric {

/// Who may cancel a call: whoever made it, and the manager's own end.
struct CallScope {
  std::chrono::steady_clock::time_point deadline;
  std::stop_token cancel{};    ///< of the caller
  std::stop_token shutdown{};  ///< of the manager

  [[nodiscard]] bool cancelled() const noexcept {
    return cancel.stop_requested() || shutdown.stop_requested();
  }
  [[nodiscard]] bool expired() const noexcept {
    return std::chrono::steady_clock::now() >= deadline;
  }
  /// The same with an earlier deadline.
  [[nodiscard]] CallScope within(std::chrono::nanoseconds at_most) const;
  /// kAborted or kDeadlineExceeded, where that is so: "`what`: cancelled". Effect kNone.
  [[nodiscard]] Outcome<void> check(std::string_view what) const;
};

/// Runs a function when the scope is cancelled, on the thread that cancels, for the life of this
/// object.
template <class Function>
class OnCancel {
 public:
  OnCancel(const CallScope& scope, Function function)
      : caller_(scope.cancel, function), shutdown_(scope.shutdown, function) {}

 private:
  std::stop_callback<Function> caller_, shutdown_;
};

/// Sleeps until the deadline of `scope`, or for `duration` if that is shorter. False: cancelled.
[[nodiscard]] bool sleep_for(std::chrono::nanoseconds duration, const CallScope& scope);

class Turn {
 public:
  class Held {
   public:
    explicit Held(Turn& turn) noexcept : turn_(&turn) {}
    Held(Held&& other) noexcept : turn_(std::exchange(other.turn_, nullptr)) {}
    Held& operator=(Held&&) = delete;
    ~Held() {
      if (turn_ != nullptr) turn_->give_back();
    }

   private:
    Turn* turn_;
  };
  /// Errors: as CallScope::check.
  [[nodiscard]] Outcome<Held> take(const CallScope& scope, std::string_view what);

 private:
  void give_back();
  Mutex mutex_;
  CondVar free_;
  bool taken_ IMEX_GUARDED_BY(mutex_) = false;
};

}  // namespace imex::fabric
