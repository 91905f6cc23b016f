#include "worker_pool.hpp"

#include <utility>

#include "os/thread.hpp"

namespace imex::net::http {

WorkerPool::WorkerPool(std::size_t threads, std::size_t queue_max) : queue_max_(queue_max) {
  const os::SignalsBlocked blocked;
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

WorkerPool::~WorkerPool() { stop(); }

bool WorkerPool::submit(Job job) {
  bool wake = false;
  {
    const MutexLock lock(mutex_);
    if (stopping_ || queue_.size() >= queue_max_) return false;
    queue_.push_back(std::move(job));
    wake = idle_ > 0;
  }
  if (wake) changed_.notify_one();
  return true;
}

void WorkerPool::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

std::size_t WorkerPool::queued() const {
  const MutexLock lock(mutex_);
  return queue_.size();
}

void WorkerPool::work() {
  os::name_this_thread("http-work");
  for (;;) {
    Job job;
    {
      const MutexLock lock(mutex_);
      while (queue_.empty()) {
        if (stopping_) return;
        ++idle_;
        // Woken by submit() and stop(); the deadline only keeps a lost wake-up from lasting.
        static_cast<void>(
            changed_.wait_until(mutex_, std::chrono::steady_clock::now() + std::chrono::hours(1)));
        --idle_;
      }
      job = std::move(queue_.front());
      queue_.pop_front();
    }
    job();
  }
}

}  // namespace imex::net::http
