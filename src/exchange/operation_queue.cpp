#include "operation_queue.hpp"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "os/thread.hpp"

namespace imex::exchange {

namespace {

/// The queue whose operation this thread runs.
thread_local const OperationQueue* t_running = nullptr;

}  // namespace

OperationQueue::~OperationQueue() {
  std::thread worker;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    for (const auto& operation : queue_) {
      operation->result = fail(Errc::kAborted, "the communicator ended before the operation began");
    }
    queue_.clear();
    changed_.notify_all();
    while (running_) pause();
    worker = std::move(worker_);
  }
  if (worker.joinable()) worker.join();
}

Result<std::shared_ptr<StartedOperation>> OperationQueue::start(std::function<Result<void>()> run) {
  auto operation = std::make_shared<StartedOperation>();
  operation->run = std::move(run);
  const MutexLock lock(mutex_);
  if (queue_.size() >= kStartedMax) {
    return fail(Errc::kResourceExhausted,
                fmt::format("{} started operations of this lane wait", queue_.size()),
                "wait for some of them");
  }
  if (!worker_.joinable()) {
    const os::SignalsBlocked blocked;
    worker_ = std::thread([this] { work(); });
  }
  queue_.push_back(operation);
  started_.fetch_add(1, std::memory_order_relaxed);
  changed_.notify_all();
  return operation;
}

bool OperationQueue::done(const StartedOperation& operation) const {
  const MutexLock lock(mutex_);
  return operation.result.has_value();
}

Result<void> OperationQueue::wait(const StartedOperation& operation) {
  const MutexLock lock(mutex_);
  while (!operation.result) {
    if (running_) {
      pause();
    } else {
      run_front();
    }
  }
  return *operation.result;
}

bool OperationQueue::blocks_this_thread() const noexcept {
  // Relaxed: a thread that mixes both kinds on one lane has started them itself.
  return started_.load(std::memory_order_relaxed) != 0 && t_running != this;
}

void OperationQueue::pause() {
  // Every change notifies; the deadline is only there because no wait goes without one.
  static_cast<void>(
      changed_.wait_until(mutex_, std::chrono::steady_clock::now() + std::chrono::seconds(60)));
}

void OperationQueue::run_front() {
  const auto operation = std::move(queue_.front());
  queue_.pop_front();
  running_ = true;
  mutex_.unlock();
  t_running = this;
  auto result = operation->run();
  t_running = nullptr;
  mutex_.lock();
  operation->result = std::move(result);
  running_ = false;
  started_.fetch_sub(1, std::memory_order_relaxed);
  changed_.notify_all();
}

void OperationQueue::work() {
  os::name_this_thread("imex-lane");
  const MutexLock lock(mutex_);
  while (!stopping_) {
    if (running_ || queue_.empty()) {
      pause();
    } else {
      run_front();
    }
  }
}

}  // namespace imex::exchange
