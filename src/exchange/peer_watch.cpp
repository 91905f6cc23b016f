#include "peer_watch.hpp"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"

namespace imex::exchange {

namespace {

struct WatchHolder {
  Mutex mutex;
  std::weak_ptr<PeerWatch> current IMEX_GUARDED_BY(mutex);
  std::int32_t pid IMEX_GUARDED_BY(mutex) = 0;
};

}  // namespace

Result<std::shared_ptr<PeerWatch>> PeerWatch::instance() {
  // Never destroyed: a thread may still be on its way in when the process ends.
  static WatchHolder& holder = *new WatchHolder;
  const MutexLock lock(holder.mutex);
  // After fork() the parent's object is here, but its thread is not.
  if (holder.pid == os::process_id()) {
    if (auto watch = holder.current.lock()) return watch;
  }
  IMEX_TRY(auto changed, os::EventFd::make());
  std::shared_ptr<PeerWatch> watch(new PeerWatch(os::process_id(), std::move(changed)));
  holder.current = watch;
  holder.pid = os::process_id();
  return watch;
}

PeerWatch::PeerWatch(std::int32_t pid, os::EventFd changed)
    : pid_(pid), changed_(std::move(changed)) {
  const os::SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

PeerWatch::~PeerWatch() {
  if (pid_ != os::process_id()) {  // a child of fork(): the thread is the parent's
    thread_.detach();
    return;
  }
  stop_.store(true, std::memory_order_release);  // pairs with the load in run()
  changed_.raise();
  thread_.join();
}

Result<std::uint64_t> PeerWatch::watch(std::int32_t pid, std::uint64_t start_ticks,
                                       std::function<void()> on_death) {
  IMEX_TRY(auto pidfd, os::open_pidfd(pid));
  // The number may have been given to another process before the descriptor was opened.
  IMEX_TRY(const std::uint64_t ticks, os::process_start_ticks(pid));
  if (ticks != start_ticks) return fail(Errc::kNotFound, fmt::format("process {} has ended", pid));
  const MutexLock lock(mutex_);
  const std::uint64_t id = next_id_++;
  entries_.push_back({id, std::move(pidfd), std::move(on_death)});
  changed_.raise();
  return id;
}

void PeerWatch::forget(std::uint64_t id) {
  const MutexLock lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.id == id; });
  changed_.raise();
}

void PeerWatch::run() {
  os::name_this_thread("imex-watch");
  std::vector<os::PollItem> items;
  std::vector<std::uint64_t> ids;
  for (;;) {
    changed_.lower();  // first: whatever changes from here on raises it again
    if (stop_.load(std::memory_order_acquire)) return;
    items.assign(1, {.fd = changed_.fd()});
    ids.clear();
    {
      const MutexLock lock(mutex_);
      for (const Entry& entry : entries_) {
        // forget() may close it meanwhile, or another file take its number: then its id is gone as
        // well, and whatever is found on it concerns nobody.
        items.push_back({.fd = entry.pidfd.get()});
        ids.push_back(entry.id);
      }
    }
    if (!os::poll_any(items, std::chrono::steady_clock::time_point::max())) continue;
    const MutexLock lock(mutex_);
    for (std::size_t i = 1; i != items.size(); ++i) {
      if (!items[i].readable && !items[i].hung_up) continue;
      std::erase_if(entries_, [&](const Entry& entry) {
        if (entry.id != ids[i - 1]) return false;
        entry.on_death();
        return true;
      });
    }
  }
}

}  // namespace imex::exchange
