// One history: the faults, the checkers, and the end at which everything must be gone.
#include "domain_sim.hpp"

#include "sim_world.hpp"

namespace imex::sim {
namespace {

/// The clients are of the first two; the others only compete for numbers.
constexpr std::array<std::string_view, 4> kWorkloads = {"left", "right", "third", "fourth"};

}  // namespace

// ---- checkers ----

void World::check_daemon(int d) {
  const DaemonSim& s = daemons_[static_cast<std::size_t>(d)];
  const BrokerSize size = s.broker->size();
  if (size.fds != s.held.size()) {
    violate(fmt::format("daemon {} holds {} descriptors, its broker knows {}", d, s.held.size(),
                        size.fds));
  }
  // 3 clients a daemon with 6 exports and 12 imports each, and a few lives of each in between.
  const bool bounded = size.sessions <= 64 && size.exports <= 512 && size.imports <= 1024 &&
                       size.remote_importers <= 1024 && size.pending_imports <= 256 &&
                       size.owed <= 2048 && size.connections <= 128;
  if (!bounded)
    violate(fmt::format("daemon {} grows without bound: {} sessions, {} exports, {} imports", d,
                        size.sessions, size.exports, size.imports));
}

void World::check_grant(int c, const Handle& handle, std::size_t* truth) {
  const ClientSim& s = clients_[static_cast<std::size_t>(c)];
  const auto found = truth_of_.find(handle.bytes);
  if (found == truth_of_.end()) return violate("a handle was granted that nobody was given");
  *truth = found->second;
  const ExportTruth& e = truths_[found->second];
  const DaemonSim& daemon = daemons_[static_cast<std::size_t>(s.daemon)];
  if (e.domain != daemon.domain) violate("an import crossed domains");
  if (e.channel != s.channel)
    violate(fmt::format("an import crossed channels {} and {}", e.channel, s.channel));
  if (e.uid != s.uid) violate("an import crossed users");
  const bool apart = fabric_.at(e.gpu_uid).partition != fabric_.at(s.gpu_uid).partition;
  if (apart && now_ - fabric_changed_ > milliseconds(100)) violate("an import crossed partitions");
  const Time known_from = std::max(
      e.ended.value_or(now_),
      daemons_[static_cast<std::size_t>(clients_[static_cast<std::size_t>(e.client)].daemon)]
          .started);
  if (e.ended && now_ - known_from > milliseconds(100))
    violate("a handle of an ended export was imported");
}

/// Every importer that lives and listens knows that its exporter is gone.
void World::check_told(bool final_check) {
  for (const ClientSim& s : clients_) {
    if (!s.alive || s.hung || !s.opened) continue;
    for (const ClientImport& each : s.imports) {
      const ExportTruth& e = truths_[each.truth];
      if (each.over || !e.ended) continue;
      if (final_check || now_ - *e.ended > milliseconds(200)) {
        violate(
            fmt::format("client {} was not told that its exporter, client {}, is gone since {} ms",
                        s.index, e.client, (now_ - *e.ended).count() / 1'000'000));
      }
    }
  }
}

/// A daemon that dies while its disk is full forgets numbers that it agreed to (docs/formats/
/// journal.md, Limits): such a history is not judged by this rule.
void World::check_channels() {
  if (forgot_numbers_) return;
  std::map<std::pair<int, std::uint32_t>, std::string> owner;
  for (const DaemonSim& s : daemons_) {
    for (const auto& [workload, channel] : s.grants) {
      const auto [known, fresh] = owner.try_emplace({s.domain, channel}, workload);
      if (!fresh && known->second != workload) {
        violate(
            fmt::format("channel {} belongs to {} and to {}", channel, known->second, workload));
      }
    }
    if (s.alive && s.registry->conflicts() != 0)
      violate(fmt::format("daemon {} was told otherwise than it granted", s.index));
  }
}

// ---- faults ----

void World::fault() {
  if (winding_down_) return;
  at(milliseconds(100 + static_cast<std::int64_t>(random_.below(900))), [this] { fault(); });
  const int d = static_cast<int>(random_.below(4));
  DaemonSim& s = daemons_[static_cast<std::size_t>(d)];
  switch (random_.below(10)) {
    case 0: {
      const std::uint64_t uid = 100 * random_.below(4) + 1 + random_.below(2);
      fabric_.at(uid).partition.clique_id = 1 + static_cast<std::uint32_t>(random_.chance(4));
      fabric_changed_ = now_;
      note("partition moved");
      for (int each = 0; each < 4; ++each) step(each, FabricChanged{gpus_of(each)});
      if (!faults_ || !random_.chance(3)) return;
      const auto owner = static_cast<int>(uid / 100);  // its importers have not all answered yet
      return at(milliseconds(1 + static_cast<std::int64_t>(random_.below(30))), [this, owner] {
        if (daemons_[static_cast<std::size_t>(owner)].alive && !winding_down_)
          crash(owner, "killed during a revocation");
      });
    }
    case 1:
      if (random_.chance(2)) job_ends(s.domain, kWorkloads[random_.below(kWorkloads.size())]);
      return;
    case 2:
      if (!faults_ || !s.alive || !random_.chance(3)) return;
      return random_.chance(3) ? stop_in_order(d) : crash(d, "killed at rest");
    case 3:
      if (!faults_) return;
      note("link lost");
      return disconnect(d, static_cast<int>(random_.below(3)));
    case 4:
      return faults_ ? cut_off(static_cast<int>(random_.below(3))) : void();
    case 5:
      if (!faults_) return;
      s.disk_full = !s.disk_full;
      if (s.disk_full || !s.alive || !s.journal_broken) return;
      note("journal written anew");
      s.disk = compact_journal(s.mirror);
      s.journal_broken = false;
      return s.broker->set_journal_broken(false);
    default:
      const std::string workload(kWorkloads[random_.below(kWorkloads.size())]);
      if (!s.alive || s.grants.contains(workload)) return;
      const std::uint64_t request = s.next_grant++;
      s.asked_grants[request] = workload;
      registry_step(d, GrantWanted{request, workload});
  }
}

/// The launcher releases the workload on every node that answers.
void World::job_ends(int domain, std::string_view workload) {
  for (int d = 0; d < 4; ++d) {
    DaemonSim& s = daemons_[static_cast<std::size_t>(d)];
    const auto grant = s.grants.find(std::string(workload));
    if (s.domain != domain || !s.alive || grant == s.grants.end()) continue;
    const std::uint32_t channel = grant->second;
    note("channel released");
    trace(fmt::format("daemon {} releases channel {} of {}", d, channel, workload));
    append(d, ReleaseRecord{grant->first});
    s.grants.erase(grant);
    step(d, ChannelClosed{channel});
    registry_step(d, ReleaseWanted{std::string(workload)});
  }
}

/// All links of one node of the domain are gone for a while; the former one's come back.
void World::cut_off(int d) {
  if (winding_down_ || cut_off_ == d) return;
  note("node cut off");
  trace(fmt::format("daemon {} is cut off", d));
  cut_off_ = d;
  for (int other = 0; other < 4; ++other) disconnect(d, other);
  at(seconds(2 + static_cast<std::int64_t>(random_.below(8))), [this, d] {
    if (cut_off_ == d) cut_off_ = -1;
  });
}

void World::run_until(Time end) {
  while (!queue_.empty() && queue_.begin()->first.first <= end && result_.violation.empty()) {
    const auto next = queue_.begin();
    now_ = next->first.first;
    const std::function<void()> action = std::move(next->second);
    queue_.erase(next);
    action();
    if (!faults_ && !winding_down_) check_told(false);
  }
  now_ = std::max(now_, end);
}

void World::wind_down() {
  winding_down_ = true;
  cut_off_ = -1;
  for (DaemonSim& s : daemons_) {
    s.disk_full = false;
    if (!s.alive || !s.journal_broken) continue;
    s.disk = compact_journal(s.mirror);
    s.journal_broken = false;
    s.broker->set_journal_broken(false);
  }
  run_until(now_ + seconds(120));
  check_told(true);
  for (ClientSim& s : clients_) {
    if (s.opened && !s.hung) {
      client_send(s.index, Close{}, 0);
    } else {
      die(s.index);
    }
  }
  run_until(now_ + seconds(60));
  for (const DaemonSim& s : daemons_) {
    if (!s.alive) {
      violate(fmt::format("daemon {} did not come back", s.index));
      continue;
    }
    const BrokerSize size = s.broker->size();
    if (size.sessions + size.exports + size.imports + size.remote_importers + size.pending_imports +
            size.owed + size.fds !=
        0) {
      violate(
          fmt::format("daemon {} still has {} sessions, {} exports, {} imports, {} remote "
                      "importers, {} pending, "
                      "{} owed, {} descriptors",
                      s.index, size.sessions, size.exports, size.imports, size.remote_importers,
                      size.pending_imports, size.owed, size.fds));
    }
    if (!s.broker->importer_nodes().empty()) violate("importer nodes are left");
  }
}

SimResult World::run() {
  for (int d = 0; d < 4; ++d) start(d);
  for (int c = 0; c < static_cast<int>(clients_.size()); ++c) act(c);
  at(milliseconds(50), [this] { fault(); });
  run_until(now_ + seconds(60));
  wind_down();
  return std::move(result_);
}

SimResult run_domain_sim(const SimOptions& options) { return World(options).run(); }

}  // namespace imex::sim
