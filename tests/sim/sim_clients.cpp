// Clients of the simulated machine: the protocol as libimex speaks it, with bad habits on top.
#include "sim_world.hpp"

namespace imex::sim {

void World::client_send(int c, Message message, std::size_t fds, bool again) {
  ClientSim& s = clients_[static_cast<std::size_t>(c)];
  const std::uint32_t request = s.next_request++;
  s.asked[request] = {message, again};
  const ConnectionId id = s.connection;
  const int d = s.daemon;
  const std::uint64_t life = daemons_[static_cast<std::size_t>(d)].life;
  // A fixed delay keeps the frames of one socket in order.
  at(milliseconds(1),
     [this, c, d, id, life, request, fds, bytes = encode(Frame{request, message})] {
       DaemonSim& daemon = daemons_[static_cast<std::size_t>(d)];
       if (!daemon.alive || daemon.life != life || !daemon.clients.contains(id)) return;
       std::vector<FdToken> tokens;
       for (std::size_t i = 0; i < fds; ++i) {
         daemon.held.insert(daemon.next_fd);
         tokens.push_back(daemon.next_fd++);
       }
       if (fds == 2) daemon.pidfd_client[tokens[1]] = c;
       step(d, FrameArrived{id, *decode(bytes), tokens});
     });
}

void World::client_open(int c) {
  ClientSim& s = clients_[static_cast<std::size_t>(c)];
  DaemonSim& daemon = daemons_[static_cast<std::size_t>(s.daemon)];
  if (!s.alive || s.hung || s.connection != 0 || !daemon.alive) return;
  std::uint32_t channel = s.channel;
  if (s.session == 0) {
    const auto grant = daemon.grants.find(s.workload);
    if (grant == daemon.grants.end()) return;
    channel = grant->second;
    if (random_.chance(20))
      channel = 1 + static_cast<std::uint32_t>(random_.below(4));  // not his, perhaps
  }
  s.channel = channel;
  s.connection = daemon.next_connection++;
  s.opened = false;
  daemon.clients[s.connection] = c;
  step(s.daemon, ClientConnected{s.connection, channel, s.uid});
  if (s.connection == 0 || !daemon.alive) return;
  const Secret token = s.session != 0 ? s.token : Secret{};
  const std::uint32_t gpu = s.session != 0 ? 0U : static_cast<std::uint32_t>(random_.below(2));
  client_send(c, Open{s.session, token, gpu, 0}, 2);
}

/// In order, while the daemon is away: it is told once it is back.
void World::end_an_export_unheard(int c) {
  ClientSim& s = clients_[static_cast<std::size_t>(c)];
  if (s.connection != 0 || s.session == 0 || s.exports.empty() || !random_.chance(2)) return;
  note("export ended while its daemon was away");
  const auto ended = s.exports.begin() + static_cast<std::ptrdiff_t>(random_.pick(s.exports));
  truths_[truth_of_.at(ended->handle.bytes)].ended = now_;
  s.owed.push_back(ended->id);
  s.exports.erase(ended);
}

void World::act(int c) {
  ClientSim& s = clients_[static_cast<std::size_t>(c)];
  const std::uint64_t life = s.life;
  if (!winding_down_) {
    at(milliseconds(50 + static_cast<std::int64_t>(random_.below(400))), [this, c, life] {
      if (clients_[static_cast<std::size_t>(c)].life == life) act(c);
    });
  }
  if (!s.alive || s.hung) return;
  if (s.connection == 0) {
    client_open(c);
    return end_an_export_unheard(c);
  }
  if (!s.opened || winding_down_ || !s.asked.empty()) return;
  switch (random_.below(24)) {
    case 0:
      note("client dies");
      return die(c);
    case 1:
      if (!random_.chance(4)) return;
      note("client hangs");
      s.hung = true;
      return at(seconds(20), [this, c, life] {
        if (clients_[static_cast<std::size_t>(c)].life == life) die(c);
      });
    case 2:
      if (!random_.chance(3)) return;
      note("client closes");
      client_send(c, Close{}, 0);
      s.asked.clear();
      forget_session(c);
      return;
    case 3:
      if (s.exports.empty()) return;
      return client_send(c, UnexportRequest{s.exports[random_.pick(s.exports)].id}, 0);
    case 4:
    case 5:
      if (s.imports.empty()) return;
      return client_send(c, UnimportRequest{s.imports[random_.pick(s.imports)].id}, 0);
    case 6:
    case 7:
    case 8:
    case 9:
    case 10:
      if (s.exports.size() >= 6) return;
      return client_send(c, ExportRequest{0, 1, static_cast<std::uint32_t>(c), 1, 4096, 0}, 2);
    case 11:
      for (const ClientExport& each : s.exports) {
        if (each.phase != ClientExport::Phase::kQuiescent) continue;
        return client_send(
            c,
            ExportRequest{each.id, each.generation + 1, static_cast<std::uint32_t>(c), 1, 4096, 0},
            2);
      }
      return;
    default:
      if (pool_.empty() || s.imports.size() >= 12) return;
      Handle handle =
          pool_[pool_.size() - 1 - random_.below(std::min<std::size_t>(pool_.size(), 40))];
      if (random_.chance(10)) {
        note("handle forged");
        handle.bytes[random_.below(64)] ^= static_cast<std::byte>(1U << random_.below(8));
      }
      return client_send(c, ImportRequest{handle, 0, static_cast<std::uint32_t>(c), 0}, 0);
  }
}

void World::client_receives(int c, const SendFrame& sent) {
  ClientSim& s = clients_[static_cast<std::size_t>(c)];
  if (!s.alive || s.hung) return;
  const auto frame = decode(encode(sent.frame));
  if (!frame) return violate("a frame to a client does not decode");
  if (const auto* reply = std::get_if<Reply>(&frame->message)) {
    client_reply(c, frame->request_id, *reply, sent.fds.size() == 2);
  } else if (const auto* event = std::get_if<Event>(&frame->message)) {
    client_event(c, *event);
  }
}

void World::client_reply(int c, std::uint32_t request, const Reply& reply, bool with_fds) {
  ClientSim& s = clients_[static_cast<std::size_t>(c)];
  const auto node = s.asked.extract(request);
  if (!node) return;
  const auto& [message, again] = node.mapped();
  const DaemonSim& daemon = daemons_[static_cast<std::size_t>(s.daemon)];
  if (std::holds_alternative<Open>(message)) {
    if (reply.code != Errc::kOk) {
      if (reply.code != Errc::kUnavailable) forget_session(c);
      return;
    }
    const bool resumed = s.session != 0;
    s.session = reply.id;
    s.token = reply.token;
    s.gpu_uid = reply.gpu_uid;
    s.opened = true;
    note(resumed ? "session resumed" : "session opened");
    if (resumed) register_again(c);
  } else if (const auto* exported = std::get_if<ExportRequest>(&message)) {
    const auto known = std::ranges::find(s.exports, exported->export_id, &ClientExport::id);
    if (reply.code != Errc::kOk) {
      if (again && known != s.exports.end() && reply.code != Errc::kUnavailable) {
        truths_[truth_of_.at(known->handle.bytes)].ended = now_;
        s.exports.erase(known);
      }
      return;
    }
    if (again) {
      if (known != s.exports.end() && known->handle != reply.handle)
        violate("a resumed export has another handle");
      return;
    }
    note(exported->export_id == 0 ? "exported" : "exported anew");
    truth_of_[reply.handle.bytes] = truths_.size();
    truths_.push_back({c, s.life, daemon.domain, s.channel, s.gpu_uid, s.uid, std::nullopt});
    pool_.push_back(reply.handle);
    if (exported->export_id == 0) {
      s.exports.push_back({reply.id, reply.handle, 1, ClientExport::Phase::kLive});
    } else if (known != s.exports.end()) {
      truths_[truth_of_.at(known->handle.bytes)].ended = now_;
      *known = {reply.id, reply.handle, reply.generation, ClientExport::Phase::kLive};
    }
  } else if (const auto* imported = std::get_if<ImportRequest>(&message)) {
    if (again) {
      const auto known = std::ranges::find(s.imports, imported->import_id, &ClientImport::id);
      if (known != s.imports.end() && reply.code != Errc::kOk) known->over = true;
      return;
    }
    note(fmt::format("import answered with {}", errc_name(reply.code)));
    if (reply.code != Errc::kOk) return;
    if (!with_fds) violate("a granted import came without descriptors");
    ClientImport import{reply.id, imported->handle, 0, false};
    check_grant(c, imported->handle, &import.truth);
    s.imports.push_back(import);
  } else if (const auto* unexport = std::get_if<UnexportRequest>(&message)) {
    const auto known = std::ranges::find(s.exports, unexport->export_id, &ClientExport::id);
    if (known == s.exports.end()) return;
    truths_[truth_of_.at(known->handle.bytes)].ended = now_;
    s.exports.erase(known);
  } else if (const auto* unimport = std::get_if<UnimportRequest>(&message)) {
    std::erase_if(s.imports,
                  [&](const ClientImport& each) { return each.id == unimport->import_id; });
  }
}

void World::client_event(int c, const Event& event) {
  ClientSim& s = clients_[static_cast<std::size_t>(c)];
  const auto import = std::ranges::find(s.imports, event.id, &ClientImport::id);
  const auto exported = std::ranges::find(s.exports, event.id, &ClientExport::id);
  switch (event.kind) {
    case Event::Kind::kExporterLost:
      note(event.reason == Errc::kOk ? "importer told of an end in order" : "importer told");
      if (import != s.imports.end()) import->over = true;
      return;
    case Event::Kind::kRevokeImport:
      note("revocation acknowledged");
      if (import != s.imports.end()) import->revoking = true;
      // An operation may run: the pages go a little later, and then the daemon hears of it.
      return at(milliseconds(1 + static_cast<std::int64_t>(random_.below(40))),
                [this, c, id = s.connection, import_id = event.id] {
                  ClientSim& later = clients_[static_cast<std::size_t>(c)];
                  if (!later.alive || later.hung || later.connection != id) return;
                  for (ClientImport& each : later.imports) {
                    if (each.id == import_id) each.over = true;
                  }
                  client_send(c, RevokeAck{import_id}, 0);
                  later.asked.erase(later.next_request - 1);
                });
    case Event::Kind::kImporterLost:
      note("exporter told");
      return;
    case Event::Kind::kExportRevoked:
      if (exported != s.exports.end()) exported->phase = ClientExport::Phase::kRevoking;
      return;
    case Event::Kind::kExportQuiescent:
      note("export quiescent");
      if (exported != s.exports.end() && event.silent == 0) check_unmapped(c, exported->handle);
      if (exported != s.exports.end()) exported->phase = ClientExport::Phase::kQuiescent;
      return;
    case Event::Kind::kShuttingDown:
    case Event::Kind::kChannelReleased:
      return;
  }
}

/// Nobody whom the exporter's daemon serves may have mapped what it says is given up.
void World::check_unmapped(int exporter, const Handle& handle) {
  const int d = clients_[static_cast<std::size_t>(exporter)].daemon;
  const DaemonSim& daemon = daemons_[static_cast<std::size_t>(d)];
  for (const ClientSim& each : clients_) {
    const auto known = daemon.session_client.find(each.session);
    const bool served = known != daemon.session_client.end() && known->second == each.index;
    if (each.daemon != d || !each.alive || !served) continue;
    for (const ClientImport& import : each.imports) {
      if (!import.over && import.handle == handle)
        violate(fmt::format("export quiescent while client {} has it mapped", each.index));
    }
  }
}

void World::client_disconnected(int c) {
  ClientSim& s = clients_[static_cast<std::size_t>(c)];
  s.connection = 0;
  s.opened = false;
  s.asked.clear();
  if (!s.alive || s.hung) return;
  const std::uint64_t life = s.life;
  at(milliseconds(20 + static_cast<std::int64_t>(random_.below(300))), [this, c, life] {
    ClientSim& again = clients_[static_cast<std::size_t>(c)];
    if (again.life != life || again.connection != 0 || !again.alive) return;
    if (again.session != 0 || !winding_down_) client_open(c);
    if (again.connection == 0 && again.session != 0) client_disconnected(c);
  });
}

void World::register_again(int c) {
  ClientSim& s = clients_[static_cast<std::size_t>(c)];
  for (ClientImport& each : s.imports) each.over = each.over || each.revoking;
  for (const ClientImport& each : std::vector(s.imports)) {
    if (!each.over)
      client_send(c, ImportRequest{each.handle, each.id, static_cast<std::uint32_t>(c), 0}, 0,
                  true);
  }
  for (const ClientExport& each : std::vector(s.exports)) {
    const auto revoking = static_cast<std::uint8_t>(each.phase != ClientExport::Phase::kLive);
    client_send(
        c,
        ExportRequest{each.id, each.generation, static_cast<std::uint32_t>(c), 1, 4096, revoking},
        2, true);
  }
  client_send(c, RevokeAck{0}, 0);  // that was all
  s.asked.erase(s.next_request - 1);
  for (const ExportId id : std::exchange(s.owed, {})) client_send(c, UnexportRequest{id}, 0);
}

/// The session is over for the client: nothing of it is used any more.
void World::forget_session(int c) {
  ClientSim& s = clients_[static_cast<std::size_t>(c)];
  for (const ClientExport& each : s.exports) truths_[truth_of_.at(each.handle.bytes)].ended = now_;
  s.exports.clear();
  s.imports.clear();
  s.owed.clear();
  s.session = 0;
  s.opened = false;
}

void World::die(int c) {
  ClientSim& s = clients_[static_cast<std::size_t>(c)];
  if (!s.alive) return;
  trace(fmt::format("client {} dies", c));
  s.alive = false;
  const ConnectionId id = std::exchange(s.connection, 0);
  const SessionId session = s.session;
  s.asked.clear();
  forget_session(c);
  DaemonSim& daemon = daemons_[static_cast<std::size_t>(s.daemon)];
  const std::uint64_t life = daemon.life;
  const int d = s.daemon;
  at(milliseconds(1), [this, d, life, id, session, exit_first = random_.chance(2)] {
    DaemonSim& watcher = daemons_[static_cast<std::size_t>(d)];
    if (!watcher.alive || watcher.life != life) return;
    const bool watched = watcher.session_client.contains(session);
    if (exit_first && watched) step(d, ProcessExited{session});
    if (watcher.alive && watcher.life == life && watcher.clients.erase(id) != 0)
      step(d, ConnectionClosed{id});
    if (watcher.alive && watcher.life == life && watcher.session_client.contains(session)) {
      step(d, ProcessExited{session});
    }
  });
  if (!winding_down_) {
    at(milliseconds(500 + static_cast<std::int64_t>(random_.below(2000))),
       [this, c] { respawn(c); });
  }
}

void World::respawn(int c) {
  ClientSim& s = clients_[static_cast<std::size_t>(c)];
  if (s.alive || winding_down_) return;
  ++s.life;
  s.alive = true;
  s.hung = false;
  act(c);
}

}  // namespace imex::sim
