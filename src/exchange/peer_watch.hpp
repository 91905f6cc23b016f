/// Notices the death of peers: one thread per process, blocked on the pidfds of all of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "os/fd.hpp"
#include "os/poll.hpp"

namespace imex::exchange {

/// Thread-safe. Lives as long as somebody holds it.
class PeerWatch {
 public:
  /// The one of this process. A child of fork() gets its own. Errors: kResourceExhausted.
  [[nodiscard]] static Result<std::shared_ptr<PeerWatch>> instance();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  ~PeerWatch();

  /// Calls `on_death` once, on the watching thread, when the process ends; it must not block nor
  /// call back. Returns a number for forget(). Errors: kNotFound (gone already),
  /// kResourceExhausted.
  [[nodiscard]] Result<std::uint64_t> watch(std::int32_t pid, std::uint64_t start_ticks,
                                            std::function<void()> on_death);
  /// `on_death` is not running and will not run any more.
  void forget(std::uint64_t id);

 private:
  struct Entry {
    std::uint64_t id;
    os::UniqueFd pidfd;
    std::function<void()> on_death;
  };
  PeerWatch(std::int32_t pid, os::EventFd changed);
  void run();

  const std::int32_t pid_;
  os::EventFd changed_;  // self-synchronised: entries_ changed, or stop_ was set
  std::atomic<bool> stop_{false};
  Mutex mutex_;
  std::uint64_t next_id_ IMEX_GUARDED_BY(mutex_) = 1;
  std::vector<Entry> entries_ IMEX_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace imex::exchange
