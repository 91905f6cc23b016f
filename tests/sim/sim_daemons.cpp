// Daemons of the simulated machine: what imexd does around the Broker, with death at any effect.
#include "sim_world.hpp"

namespace imex::sim {
namespace {

constexpr std::size_t kDaemonsOfDomain0 = 3;

Uuid uuid_of(std::uint64_t a, std::uint64_t b) {
  Uuid id;
  for (std::size_t i = 0; i < 8; ++i) {
    id.bytes[i] = static_cast<std::byte>(a >> (8 * i));
    id.bytes[8 + i] = static_cast<std::byte>(b >> (8 * i));
  }
  return id;
}

}  // namespace

World::World(const SimOptions& options) : options_(options), random_(options.seed) {
  result_.seed = options.seed;
  faults_ = options.seed % 3 != 0;
  // Three nodes of one domain, and one of another that has the same name and node id as node 0.
  for (int d = 0; d < 4; ++d) {
    DaemonSim daemon;
    daemon.index = d;
    daemon.domain = d < static_cast<int>(kDaemonsOfDomain0) ? 0 : 1;
    daemon.node = static_cast<NodeId>(daemon.domain == 0 ? d : 0);
    daemons_.push_back(std::move(daemon));
    for (std::uint32_t index = 0; index < 2; ++index) {
      const auto uid = static_cast<std::uint64_t>(100 * d) + index + 1;
      fabric_[uid] = {index, uid, {uuid_of(0xfab, 0), 1}, true};
    }
  }
  for (int c = 0; c < 12; ++c) {
    ClientSim client;
    client.index = c;
    client.daemon = c % 4;
    client.workload = c / 4 % 2 == 0 ? "left" : "right";
    client.uid = client.workload == "left" ? 1000 : 2000;
    clients_.push_back(std::move(client));
  }
}

void World::at(Nanos delay, std::function<void()> action) {
  queue_.emplace(std::pair{now_ + delay, sequence_++}, std::move(action));
}

void World::trace(std::string text) {
  if (options_.trace) result_.history += fmt::format("{:>12} {}\n", now_.ns / 1000, text);
}

void World::violate(std::string text) {
  if (result_.violation.empty())
    result_.violation = fmt::format("at {} us: {}", now_.ns / 1000, text);
  trace("VIOLATION " + text);
}

std::vector<fabric::Gpu> World::gpus_of(int d) const {
  std::vector<fabric::Gpu> own;
  for (const auto& [uid, gpu] : fabric_) {
    if (uid / 100 == static_cast<std::uint64_t>(d)) own.push_back(gpu);
  }
  return own;
}

// ---- life and death ----

void World::start(int d) {
  DaemonSim& s = daemons_[static_cast<std::size_t>(d)];
  ++s.life;
  s.alive = true;
  s.started = now_;
  s.random = std::make_unique<SimRandom>(random_.next());
  s.held.clear();
  s.pidfd_client.clear();
  s.session_client.clear();
  s.clients.clear();
  s.timer_armed.clear();
  s.grants.clear();
  s.asked_grants.clear();
  s.journal_broken = false;
  const bool expired = std::exchange(s.expired, false);

  std::optional<BrokerMemory> memory;
  std::size_t used = 0;
  auto journal = decode_journal(s.disk, &used);
  if (!s.disk.empty() && !journal)
    violate("journal of a killed daemon: " + journal.error().message);
  const bool resumes = journal && !journal->clean_stop && !expired && now_ - s.died < seconds(30);
  if (resumes) {
    note("daemon resumed");
    s.disk.resize(used);
    s.mirror = *journal;
    s.header = journal->header;
    memory.emplace();
    memory->next_id = journal->next_id;
    memory->importers.assign(journal->importers.begin(), journal->importers.end());
    for (const auto& [id, record] : journal->sessions) {
      const auto c = static_cast<std::size_t>(record.pid - 1);
      const bool lives = clients_[c].alive && clients_[c].life == record.pid_start_ticks;
      FdToken pidfd = 0;
      if (lives) {
        pidfd = s.next_fd++;
        s.held.insert(pidfd);
        s.pidfd_client[pidfd] = static_cast<int>(c);
        s.session_client[id] = static_cast<int>(c);
      }
      memory->sessions.push_back({id, record.channel, record.uid, record.gpu_uid, pidfd});
    }
  } else {
    if (s.life > 1) note("daemon replaced");
    s.header = {};
    s.header.boot_id = uuid_of(0xb007, 0);
    s.header.domain_id = uuid_of(0xd0, static_cast<std::uint64_t>(s.domain));
    s.header.instance = uuid_of(s.random->next(), s.random->next());
    s.random->fill(s.header.key);
    s.header.node = s.node;
    s.mirror = succeed_journal(journal ? std::move(*journal) : JournalState{}, s.header);
    s.disk = compact_journal(s.mirror);
  }

  std::vector<ChannelAssignment> assignments;
  for (const auto& [workload, each] : s.mirror.assignments) assignments.push_back(each);
  std::set<std::string> granted;
  for (const auto& [workload, grant] : s.mirror.grants) {
    s.grants[workload] = grant.channel;
    granted.insert(workload);
  }
  BrokerConfig config;
  config.domain_id = s.header.domain_id;
  config.instance = s.header.instance;
  config.boot_id = s.header.boot_id;
  config.key = s.header.key;
  config.node = s.node;
  s.broker.emplace(config, *s.random, now_, std::move(memory));
  s.registry.emplace(RegistryConfig{s.node, 64, seconds(2)}, assignments, granted);
  step(d, FabricChanged{gpus_of(d)});
  for (const auto& [workload, channel] : std::map(s.grants)) {
    if (s.alive) step(d, ChannelOpened{channel, {}, workload == "left" ? 1000U : 2000U});
  }
  for (int other = 0; other < 4; ++other) {
    if (other != d) at(milliseconds(5), [this, d, other] { connect(d, other); });
  }
}

void World::crash(int d, std::string_view point) {
  DaemonSim& s = daemons_[static_cast<std::size_t>(d)];
  note(point);
  trace(fmt::format("daemon {} dies: {}", d, point));
  if (random_.chance(2)) {  // the last append was torn
    auto torn = encode_journal_record(SessionRecord{7, 1, 2, 3, 4, 5});
    torn.resize(1 + random_.pick(torn) % (torn.size() - 1));
    s.disk.insert(s.disk.end(), torn.begin(), torn.end());
    note("torn journal tail");
  }
  const bool late = random_.chance(4);
  if (late) {  // membership gives up on the instance when the lease is over
    const Uuid instance = s.header.instance;
    at(seconds(30), [this, d, instance] {
      const DaemonSim& gone = daemons_[static_cast<std::size_t>(d)];
      if (!gone.alive || gone.header.instance != instance) {
        tell_instance_ended(d, instance, Errc::kPeerLost);
      }
    });
  }
  end_life(d, late ? Nanos(seconds(31)) : Nanos(milliseconds(random_.below(5000))));
}

/// SIGTERM: the successor is a new instance, and the others hear of it at once.
void World::stop_in_order(int d) {
  DaemonSim& s = daemons_[static_cast<std::size_t>(d)];
  trace(fmt::format("daemon {} stops in order", d));
  const std::uint64_t life = s.life;
  step(d, ShutdownRequested{});
  if (!s.alive || s.life != life) return;
  s.expired = true;  // in place, whether the record fits the disk or not
  append(d, CleanStopRecord{});
  note("daemon stopped in order");
  at(milliseconds(1 + static_cast<std::int64_t>(random_.below(10))),
     [this, d, instance = s.header.instance] { tell_instance_ended(d, instance, Errc::kOk); });
  end_life(d, Nanos(milliseconds(random_.below(5000))));
}

void World::end_life(int d, Nanos away) {
  DaemonSim& s = daemons_[static_cast<std::size_t>(d)];
  s.alive = false;
  s.died = now_;
  forgot_numbers_ = forgot_numbers_ || s.journal_broken;
  s.broker.reset();
  s.registry.reset();
  const std::map<ConnectionId, int> clients = std::exchange(s.clients, {});
  for (const auto& [id, c] : clients) {
    at(milliseconds(1), [this, c, id] {
      if (clients_[static_cast<std::size_t>(c)].connection == id) client_disconnected(c);
    });
  }
  for (int other = 0; other < 4; ++other) disconnect(d, other);
  at(milliseconds(1), [this] { ready_changed(); });
  at(away, [this, d] {
    if (!daemons_[static_cast<std::size_t>(d)].alive) start(d);
  });
}

void World::tell_instance_ended(int d, const Uuid& instance, Errc reason) {
  note("peer instance ended");
  DaemonSim& gone = daemons_[static_cast<std::size_t>(d)];
  if (!gone.alive) gone.grants.clear();  // no channel of a daemon that is gone can be opened
  for (int other = 0; other < 4; ++other) {
    if (other == d || daemons_[static_cast<std::size_t>(other)].domain != gone.domain) continue;
    step(other, PeerInstanceEnded{gone.node, instance, reason});
    registry_step(other, RegistryNodeEnded{gone.node});
  }
}

void World::maybe_crash(int d, std::string_view point) {
  if (!faults_ || winding_down_ || !daemons_[static_cast<std::size_t>(d)].alive) return;
  const bool journal = point.starts_with("killed after append");
  if (random_.chance(journal ? 150 : 6000)) crash(d, point);
}

// ---- steps ----

void World::step(int d, BrokerEvent event) {
  DaemonSim& s = daemons_[static_cast<std::size_t>(d)];
  if (!s.alive) return;
  const std::uint64_t life = s.life;
  const auto effects = s.broker->step(std::move(event), now_);
  for (const BrokerEffect& effect : effects) {
    run_effect(d, effect);
    if (!s.alive || s.life != life) return;
    maybe_crash(d, "killed between two effects");
    if (!s.alive) return;
  }
  check_daemon(d);
  arm_timer(d);
}

void World::arm_timer(int d) {
  DaemonSim& s = daemons_[static_cast<std::size_t>(d)];
  const Time due = std::min(s.broker->next_deadline(), s.registry->next_deadline());
  if (due == kNever) return;
  const std::uint64_t life = s.life;
  at(std::max(due - now_, Nanos(0)), [this, d, life] {
    DaemonSim& again = daemons_[static_cast<std::size_t>(d)];
    if (!again.alive || again.life != life) return;
    if (again.broker->next_deadline() <= now_) step(d, TimePassed{});
    if (again.alive && again.life == life && again.registry->next_deadline() <= now_) {
      registry_step(d, RegistryTick{});
    }
  });
}

bool World::append(int d, const JournalRecord& record) {
  DaemonSim& s = daemons_[static_cast<std::size_t>(d)];
  if (s.disk_full || s.journal_broken) {
    note("append on a full disk");
    s.journal_broken = true;
    s.broker->set_journal_broken(true);
  } else {
    const auto bytes = encode_journal_record(record);
    s.disk.insert(s.disk.end(), bytes.begin(), bytes.end());
  }
  // What the daemon knows goes into the next whole journal; an id block only counts once written.
  if (!std::holds_alternative<NextIdRecord>(record) || !s.journal_broken) {
    apply_journal_record(s.mirror, record);
  }
  return !s.journal_broken;
}

void World::run_effect(int d, const BrokerEffect& effect) {
  DaemonSim& s = daemons_[static_cast<std::size_t>(d)];
  if (const auto* sent = std::get_if<SendFrame>(&effect)) {
    for (const FdToken fd : sent->fds) {
      if (!s.held.contains(fd))
        violate(fmt::format("daemon {} sends descriptor {} it does not hold", d, fd));
    }
    if (const auto client = s.clients.find(sent->connection); client != s.clients.end()) {
      const int c = client->second;
      if (clients_[static_cast<std::size_t>(c)].connection == sent->connection)
        client_receives(c, *sent);
    } else {
      link_send(d, sent->connection, *sent);
    }
  } else if (const auto* released = std::get_if<ReleaseFd>(&effect)) {
    if (s.held.erase(released->fd) == 0)
      violate(fmt::format("daemon {} releases descriptor {} twice", d, released->fd));
  } else if (const auto* close = std::get_if<CloseConnection>(&effect)) {
    if (const auto client = s.clients.extract(close->connection)) {
      const int c = client.mapped();
      const ConnectionId id = close->connection;
      at(milliseconds(1), [this, c, id] {
        if (clients_[static_cast<std::size_t>(c)].connection == id) client_disconnected(c);
      });
    } else {
      for (const auto& [other, id] : std::map(s.links)) {
        if (id == close->connection) disconnect(d, other);
      }
    }
  } else if (const auto* adopt = std::get_if<AdoptSession>(&effect)) {
    if (const auto owner = s.pidfd_client.find(adopt->pidfd); owner != s.pidfd_client.end()) {
      s.session_client[adopt->session] = owner->second;
    }
  } else if (const auto* drop = std::get_if<DropSession>(&effect)) {
    s.session_client.erase(drop->session);
  } else if (const auto* abort = std::get_if<SetAbort>(&effect)) {
    const auto owner = s.session_client.find(abort->session);
    if (owner != s.session_client.end()) ++clients_[static_cast<std::size_t>(owner->second)].aborts;
    note("abort word set");
  } else if (const auto* kill = std::get_if<KillProcess>(&effect)) {
    note("silent importer killed");
    const auto owner = s.session_client.find(kill->session);
    if (owner != s.session_client.end()) {
      const int c = owner->second;
      at(milliseconds(2), [this, c] { die(c); });
    }
  } else if (const auto* session = std::get_if<JournalSession>(&effect)) {
    const auto owner = s.pidfd_client.find(session->session.pidfd);
    const int c = owner == s.pidfd_client.end() ? 0 : owner->second;
    const auto& who = session->session;
    append(d, SessionRecord{who.id, who.channel, who.uid, who.gpu_uid, c + 1,
                            clients_[static_cast<std::size_t>(c)].life});
    maybe_crash(d, "killed after append of a session");
  } else if (const auto* ended = std::get_if<JournalSessionEnded>(&effect)) {
    append(d, SessionEndedRecord{ended->session});
    maybe_crash(d, "killed after append of a session's end");
  } else if (const auto* next = std::get_if<JournalNextId>(&effect)) {
    append(d, NextIdRecord{next->next_id});
    maybe_crash(d, "killed after append of an id block");
  } else if (const auto* importer = std::get_if<JournalImporter>(&effect)) {
    append(d, ImporterRecord{importer->node, importer->present});
    maybe_crash(d, "killed after append of an importer");
  }
}

void World::registry_step(int d, RegistryEvent event) {
  DaemonSim& s = daemons_[static_cast<std::size_t>(d)];
  if (!s.alive) return;
  const std::uint64_t life = s.life;
  const auto effects = s.registry->step(std::move(event), now_);
  for (const RegistryEffect& effect : effects) {
    run_registry_effect(d, effect);
    if (!s.alive || s.life != life) return;
  }
  check_channels();
  arm_timer(d);
}

void World::run_registry_effect(int d, const RegistryEffect& effect) {
  DaemonSim& s = daemons_[static_cast<std::size_t>(d)];
  if (const auto* sent = std::get_if<SendRegistryMessage>(&effect)) {
    for (int other = 0; other < 4; ++other) {
      DaemonSim& to = daemons_[static_cast<std::size_t>(other)];
      if (to.domain != s.domain || to.node != sent->to || !s.links.contains(other)) continue;
      Time& clock = link_clock_[{d, other}];
      clock =
          std::max(clock, now_ + milliseconds(1 + static_cast<std::int64_t>(random_.below(10))));
      const std::uint64_t life = to.life;
      at(clock - now_, [this, d, other, life, node = s.node, message = sent->message] {
        DaemonSim& there = daemons_[static_cast<std::size_t>(other)];
        if (!there.alive || there.life != life || !there.links.contains(d)) return;
        registry_step(other, RegistryMessageArrived{node, message});
      });
    }
  } else if (const auto* done = std::get_if<GrantDone>(&effect)) {
    const auto asked = s.asked_grants.extract(done->request);
    if (!asked || done->code != Errc::kOk) return;
    const std::string workload = asked.mapped();
    const std::uint32_t uid = workload == "left" ? 1000 : 2000;
    append(d, GrantRecord{workload, done->channel, uid, {}});
    maybe_crash(d, "killed after append of a grant");
    if (!s.alive) return;
    s.grants[workload] = done->channel;
    note("channel granted");
    trace(fmt::format("daemon {} grants channel {} to {}", d, done->channel, workload));
    step(d, ChannelOpened{done->channel, {}, uid});
  } else if (const auto* journal = std::get_if<JournalAssignment>(&effect)) {
    trace(fmt::format("daemon {} notes channel {} of {}, held by {} nodes", d,
                      journal->assignment.channel, journal->assignment.workload,
                      journal->assignment.holders.size()));
    append(d, AssignmentRecord{journal->assignment});
    maybe_crash(d, "killed after append of an assignment");
  }
}

// ---- links ----

void World::connect(int a, int b) {
  DaemonSim& x = daemons_[static_cast<std::size_t>(a)];
  DaemonSim& y = daemons_[static_cast<std::size_t>(b)];
  if (!x.alive || !y.alive || x.domain != y.domain || x.links.contains(b)) return;
  if (cut_off_ == a || cut_off_ == b) return at(milliseconds(100), [this, a, b] { connect(a, b); });
  const ConnectionId at_x = x.next_connection++, at_y = y.next_connection++;
  x.links[b] = at_x;
  y.links[a] = at_y;
  note("link up");
  trace(fmt::format("link {} - {} up", a, b));
  for (const auto& [here, there, id] : {std::tuple{a, b, at_x}, std::tuple{b, a, at_y}}) {
    const DaemonSim& peer = daemons_[static_cast<std::size_t>(there)];
    if (!peer.alive || !daemons_[static_cast<std::size_t>(here)].links.contains(there)) continue;
    step(here, PeerKnown{peer.node, peer.header.instance, peer.header.boot_id, "127.88.0.1"});
    step(here, LinkConnected{id, peer.node, peer.header.instance});
  }
  ready_changed();
}

void World::disconnect(int a, int b) {
  for (const auto& [here, there] : {std::pair{a, b}, std::pair{b, a}}) {
    DaemonSim& s = daemons_[static_cast<std::size_t>(here)];
    const auto link = s.links.extract(there);
    if (!link) continue;
    const ConnectionId id = link.mapped();
    const std::uint64_t life = s.life;
    at(milliseconds(1), [this, h = here, id, life] {
      if (daemons_[static_cast<std::size_t>(h)].life == life) step(h, ConnectionClosed{id});
    });
  }
  at(milliseconds(2), [this] { ready_changed(); });
  if (a != b) {
    at(milliseconds(50 + static_cast<std::int64_t>(random_.below(2000))),
       [this, a, b] { connect(a, b); });
  }
}

void World::ready_changed() {
  for (int d = 0; d < 4; ++d) {
    DaemonSim& s = daemons_[static_cast<std::size_t>(d)];
    if (!s.alive) continue;
    RegistryPeers peers{{s.node}, s.domain == 0 ? kDaemonsOfDomain0 : 1};
    for (const auto& [other, id] : s.links) {
      peers.ready.insert(daemons_[static_cast<std::size_t>(other)].node);
    }
    registry_step(d, peers);
  }
}

void World::link_send(int from, ConnectionId via, const SendFrame& sent) {
  DaemonSim& s = daemons_[static_cast<std::size_t>(from)];
  for (const auto& [other, id] : s.links) {
    if (id != via) continue;
    DaemonSim& to = daemons_[static_cast<std::size_t>(other)];
    const ConnectionId there = to.links.at(from);
    Time& clock = link_clock_[{from, other}];
    clock = std::max(clock, now_ + milliseconds(1 + static_cast<std::int64_t>(random_.below(10))));
    const auto bytes = encode(sent.frame);
    at(clock - now_, [this, from, o = other, there, bytes, fds = sent.fds.size()] {
      DaemonSim& receiver = daemons_[static_cast<std::size_t>(o)];
      const auto link = receiver.links.find(from);
      if (!receiver.alive || link == receiver.links.end() || link->second != there) return;
      auto frame = decode(bytes);
      if (!frame) return violate("a daemon's frame does not decode: " + frame.error().message);
      std::vector<FdToken> tokens;
      for (std::size_t i = 0; i < fds; ++i) {
        receiver.held.insert(receiver.next_fd);
        tokens.push_back(receiver.next_fd++);
      }
      step(o, FrameArrived{there, *frame, tokens});
    });
  }
}

}  // namespace imex::sim
