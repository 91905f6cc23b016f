/// A fixed number of threads and a bounded queue before them.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.hpp"

namespace imex::net::http {

class WorkerPool {
 public:
  using Job = std::function<void()>;

  WorkerPool(std::size_t threads, std::size_t queue_max);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// False: the queue is full, or the pool stops; the job was not taken.
  [[nodiscard]] bool submit(Job job);
  /// Finishes what was taken and joins the threads. Again is fine; one thread calls it.
  void stop();
  [[nodiscard]] std::size_t queued() const;

 private:
  void work();

  const std::size_t queue_max_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Job> queue_ IMEX_GUARDED_BY(mutex_);
  std::size_t idle_ IMEX_GUARDED_BY(mutex_) = 0;
  bool stopping_ IMEX_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace imex::net::http
