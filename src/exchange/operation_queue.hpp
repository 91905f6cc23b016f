/// Operations that were started on a lane and not waited for yet, in the order of their start.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include <imex/result.hpp>

#include "base/mutex.hpp"

namespace imex::exchange {

/// One started operation, shared by its Request and the queue.
struct StartedOperation {
  std::function<Result<void>()> run;
  std::optional<Result<void>> result;  ///< guarded by the queue's mutex
};

/// Thread-safe. A thread of its own, started with the first operation, runs them; whoever waits
/// for one runs what is left before it himself, so that waiting at once costs no hand-off.
class OperationQueue {
 public:
  static constexpr std::size_t kStartedMax = 64;

  OperationQueue() = default;
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;
  /// What has not begun ends with kAborted; waits for the one that runs.
  ~OperationQueue();

  /// Errors: kResourceExhausted when kStartedMax operations wait.
  [[nodiscard]] Result<std::shared_ptr<StartedOperation>> start(std::function<Result<void>()> run);
  [[nodiscard]] bool done(const StartedOperation& operation) const;
  /// Bounded by the deadlines of the operations before it, and its own.
  [[nodiscard]] Result<void> wait(const StartedOperation& operation);

  /// Operations are queued or run, and this thread is not the one that runs them.
  [[nodiscard]] bool blocks_this_thread() const noexcept;

 private:
  void work();
  /// Until something changes.
  void pause() IMEX_REQUIRES(mutex_);
  /// Runs the oldest operation with the mutex released.
  void run_front() IMEX_REQUIRES(mutex_);

  std::atomic<std::uint32_t> started_{0};  // not done yet; written under the mutex
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<StartedOperation>> queue_ IMEX_GUARDED_BY(mutex_);
  bool running_ IMEX_GUARDED_BY(mutex_) = false;
  bool stopping_ IMEX_GUARDED_BY(mutex_) = false;
  std::thread worker_ IMEX_GUARDED_BY(mutex_);
};

}  // namespace imex::exchange
