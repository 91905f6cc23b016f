// What happens to hosts, daemons, cables and lists, and the end of it all.

#include "membership_sim_cluster.hpp"

namespace imex::domain::membership_sim {

using namespace std::chrono_literals;

void Cluster::fault() {
  const std::size_t a = any_host(), b = any_host();
  switch (below(13)) {
    case 0:
      return crash_and_restart(a, true);
    case 1:
      return crash_and_restart(a, false);
    case 2:
      return power_cut(a);
    case 3:
      return cut_for(a, b, true);
    case 4:
      return cut_for(a, b, false);
    case 5:
      return isolate(a);
    case 6:
      return stop_and_restart(a);
    case 7:
      return step(a, ReconnectRequested{});
    case 8:
      return move(a);
    case 9:
      return edit_list();
    case 10:
      return freeze(a, Nanos(below(40'000'000'000)));
    case 11:
      return freeze_all();
    default:
      return steal_id();
  }
}

void Cluster::crash_and_restart(std::size_t host, bool resume) {
  reached("daemon killed");
  kill(host, true);
  at(Nanos(below(20'000'000'000)), [this, host, resume] { start(host, resume); });
}

void Cluster::power_cut(std::size_t host) {
  reached("machine lost power");
  kill(host, false);
  hosts_[host].powered = false;
  at(Nanos(below(40'000'000'000)), [this, host] {
    hosts_[host].powered = true;
    start(host, false);
  });
}

void Cluster::cut_for(std::size_t a, std::size_t b, bool both) {
  if (a == b) return;
  reached(both ? "cable cut" : "cable cut one way");
  cuts_.insert({a, b});
  if (both) cuts_.insert({b, a});
  at(Nanos(below(45'000'000'000)), [this, a, b] {
    cuts_.erase({a, b});
    cuts_.erase({b, a});
  });
}

void Cluster::isolate(std::size_t a) {
  reached("machine isolated");
  for (std::size_t b = 0; b < hosts_.size(); ++b) cut_for(a, b, true);
}

void Cluster::stop_and_restart(std::size_t host) {
  if (!hosts_[host].daemon) return;
  step(host, StopRequested{});
  reached("daemon stopped in order");
  at(300ms, [this, host, run = hosts_[host].daemon->run] {
    if (alive(host, run)) kill(host, true);
  });
  at(1s + Nanos(below(10'000'000'000)), [this, host] { start(host, false); });
}

void Cluster::freeze(std::size_t host, Nanos time) {
  if (!hosts_[host].daemon || hosts_[host].daemon->frozen) return;
  reached("daemon stopped for a while");
  hosts_[host].daemon->frozen = hosts_[host].daemon->was_frozen = true;
  at(time, [this, host, run = hosts_[host].daemon->run] {
    if (alive(host, run)) thaw(host);
  });
}

void Cluster::freeze_all() {
  reached("all machines asleep");
  const Nanos time(below(100'000'000'000));
  for (std::size_t i = 0; i < hosts_.size(); ++i) freeze(i, time);
}

void Cluster::thaw(std::size_t host) {
  Daemon* d = hosts_[host].daemon.get();
  if (d == nullptr || !std::exchange(d->frozen, false)) return;
  const std::uint64_t run = d->run;
  for (MembershipEvent& event : std::exchange(d->held, {})) {
    if (alive(host, run)) step(host, std::move(event));
  }
}

void Cluster::move(std::size_t host) {
  if (!by_name_ || !hosts_[host].slot) return;
  std::size_t free = 0;
  while (free < hosts_.size() && (hosts_[free].slot || hosts_[free].daemon)) ++free;
  if (free == hosts_.size()) return;
  reached("address moved");
  kill(host, true);
  hosts_[free].slot = std::exchange(hosts_[host].slot, std::nullopt);
  start(free, false);
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (chance(50)) step(i, ReconnectRequested{});
  }
}

void Cluster::edit_list() {
  reached("list edited");
  if (chance(50) && node_count_ < 9) {
    const auto slot = static_cast<NodeId>(node_count_++);
    std::size_t host = host_of_slot(slot);
    if (host == hosts_.size()) {
      // Address lists tie slot and host together; the reserve hosts come first in line.
      host = by_name_ ? hosts_.size() : slot;
      if (host >= hosts_.size()) add_host();
      hosts_[host].slot = slot;
    }
    at(Nanos(below(3'000'000'000)), [this, host] { start(host, false); });
  } else if (node_count_ > 2) {
    --node_count_;
  }
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    at(Nanos(below(2'000'000'000)), [this, i] { tell_list(i); });
  }
}

void Cluster::tell_list(std::size_t host) {
  Daemon* d = hosts_[host].daemon.get();
  if (d == nullptr) return;
  const NodeId self = d->membership->self();
  const NodeId still = self < node_count_ ? self : kNoNode;
  for (auto it = d->seen.begin(); it != d->seen.end();) {
    it = it->first >= node_count_ && !it->second.live ? d->seen.erase(it) : std::next(it);
  }
  step(host, ListChanged{list(), still});
}

void Cluster::steal_id() {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].slot || hosts_[i].daemon) continue;
    reached("id stolen");
    thieves_.insert(i);
    start(i, false, static_cast<NodeId>(below(node_count_)));
    return;
  }
}

void Cluster::heal() {
  cuts_.clear();
  for (const std::size_t thief : thieves_) {
    if (!hosts_[thief].slot) kill(thief, true);
  }
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    hosts_[i].powered = true;
    thaw(i);
    tell_list(i);
    at(5ms, [this, i] { start(i, false); });
    // What was scheduled before may still stop or cut something: undo that as well.
  }
  if (since_start() < kChaos + 1s) at(50ms, [this] { settle(); });
}

void Cluster::settle() {
  cuts_.clear();
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].slot && !hosts_[i].daemon) start(i, false);
  }
  if (since_start() < kChaos + kConvergence) at(50ms, [this] { settle(); });
}

}  // namespace imex::domain::membership_sim
