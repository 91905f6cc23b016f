#include "lookout.hpp"

#include <algorithm>

#include "os/thread.hpp"

namespace imex::fabric::nmxm {
namespace {

bool same_partition(const ObservedPartition& a, const ObservedPartition& b) {
  return a.name == b.name && a.gpu_uids == b.gpu_uids && a.health == b.health;
}

}  // namespace

std::vector<FabricEvent> compare(const Snapshot& before, const Snapshot& now) {
  using Kind = FabricEvent::Kind;
  std::vector<FabricEvent> events;
  if (before.instance != now.instance)
    events.push_back({.kind = Kind::kGap, .detail = "the controller is another one"});
  if (before.control_plane != now.control_plane)
    events.push_back({.kind = Kind::kControlPlane, .control_plane = now.control_plane});
  for (const ObservedPartition& partition : now.partitions) {
    const ObservedPartition* former = before.find_partition(partition.id);
    if (former == nullptr || !same_partition(*former, partition))
      events.push_back({.kind = Kind::kPartition, .partition_id = partition.id});
  }
  for (const ObservedPartition& partition : before.partitions)
    if (now.find_partition(partition.id) == nullptr)
      events.push_back({.kind = Kind::kPartition, .partition_id = partition.id});

  bool topology = before.gpus.size() != now.gpus.size(), health = false;
  for (const ObservedGpu& gpu : now.gpus) {
    const ObservedGpu* former = before.find_gpu(gpu.uid);
    topology = topology || former == nullptr || former->place != gpu.place;
    health = health || (former != nullptr && former->health != gpu.health);
  }
  if (topology) events.push_back({.kind = Kind::kTopology});
  if (health) events.push_back({.kind = Kind::kHealth});
  return events;
}

Lookout::Lookout(Look look, Nanos interval, Nanos timeout)
    : look_(std::move(look)), interval_(interval), timeout_(timeout) {}

Lookout::~Lookout() {
  stop_.request_stop();
  {
    const MutexLock lock(wait_mutex_);
    wake_.notify_all();
  }
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    handler_ = nullptr;
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void Lookout::set_handler(EventHandler handler) {
  {
    const MutexLock lock(mutex_);
    handler_ = std::move(handler);
    greet_ = handler_ != nullptr;
    if (!handler_) return;
    if (!thread_.joinable()) {
      const os::SignalsBlocked blocked;
      thread_ = std::thread([this] {
        os::name_this_thread("nmxm-look");
        run();
      });
    }
  }
  const MutexLock lock(wait_mutex_);
  poked_ = true;
  wake_.notify_all();
}

void Lookout::emit(const FabricEvent& event) {
  const MutexLock lock(mutex_);
  if (!stop_.stop_requested() && handler_) handler_(event);
}

bool Lookout::take_greeting() {
  const MutexLock lock(mutex_);
  return std::exchange(greet_, false);
}

void Lookout::run() {
  std::optional<Snapshot> last;
  bool reachable = true;
  while (!stop_.stop_requested()) {
    auto now = look_(
        {.deadline = std::chrono::steady_clock::now() + timeout_, .shutdown = stop_.get_token()});
    if (stop_.stop_requested()) return;
    const bool greet = take_greeting();
    if (!now) {
      if (std::exchange(reachable, false) || greet)
        emit({.kind = FabricEvent::Kind::kUnreachable, .detail = now.error().error.to_string()});
    } else {
      if (!std::exchange(reachable, true) || !last || greet)
        emit({.kind = FabricEvent::Kind::kGap, .detail = "looking at " + now->endpoint});
      else
        for (const FabricEvent& event : compare(*last, *now)) emit(event);
      last = *std::move(now);
    }
    const auto until = std::chrono::steady_clock::now() + interval_;
    const MutexLock lock(wait_mutex_);
    while (!poked_ && !stop_.stop_requested()) {
      if (!wake_.wait_until(wait_mutex_, until)) break;
    }
    poked_ = false;
  }
}

}  // namespace imex::fabric::nmxm
