/// Tells threads of this process that the desired state changed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "base/mutex.hpp"

namespace imex::partition {

class ChangeSignal {
 public:
  void raise();
  void interrupt();
  [[nodiscard]] std::uint64_t value() const;
  [[nodiscard]] std::uint64_t wait(std::uint64_t seen,
                                   std::chrono::steady_clock::time_point deadline);
  void on_change(std::function<void()> callback);

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::uint64_t value_ IMEX_GUARDED_BY(mutex_) = 1;
  bool interrupted_ IMEX_GUARDED_BY(mutex_) = false;
  /// Held while the callback runs, so that taking it away waits for its end.
  Mutex callback_mutex_;
  std::function<void()> callback_ IMEX_GUARDED_BY(callback_mutex_);
};

}  // namespace imex::partition
