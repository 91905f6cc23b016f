// Connections, sessions and channels: who may open, resume, and what ends with a process.

#include <algorithm>

#include <fmt/format.h>

#include "broker_state.hpp"

namespace imex::domain {
namespace {

Error bad_descriptors(std::string_view what) {
  return {
      Errc::kInvalidArgument, fmt::format("{}: two descriptors belong to it", what), {}, kNoRank};
}

}  // namespace

void Broker::State::client_frame(ConnectionId id, FrameArrived& e, FdBag& fds) {
  const Connection connection = connections.at(id);
  const std::uint32_t request = e.frame.request_id;
  if (connection.session == 0) {
    Result<void> opened;
    if (const auto* m = std::get_if<Open>(&e.frame.message)) {
      opened = open(id, request, *m, fds);
    } else if (const auto* attach = std::get_if<AttachEvents>(&e.frame.message)) {
      opened = attach_events(id, request, *attach);
    } else {
      return protocol_error(id, request, "the first frame must open a session");
    }
    if (opened) return;
    refuse(id, request, opened.error());
    return close_connection(id);
  }
  Session& session = sessions.at(connection.session);
  if (const auto* ack = std::get_if<RevokeAck>(&e.frame.message)) {
    // Only where the registrations came, too: the other connection might overtake them.
    if (ack->import_id == 0 && !connection.events) return settle(session);
    const auto found = imports.find(ack->import_id);
    // An acknowledgement that crossed with the end of its import is no mistake of the client.
    if (found != imports.end() && found->second.session == session.who.id) {
      finish_revoked(ack->import_id, RevokeOutcome::kAcknowledged);
    }
    return;
  }
  if (connection.events) return protocol_error(id, request, "requests go to the first connection");
  session_frame(id, session, e, fds);
}

void Broker::State::session_frame(ConnectionId id, Session& session, FrameArrived& e, FdBag& fds) {
  const std::uint32_t request = e.frame.request_id;
  const SessionId session_id = session.who.id;
  if (const auto* m = std::get_if<ExportRequest>(&e.frame.message)) {
    const auto done = export_memory(session_id, id, request, *m, fds);
    if (!done) refuse(id, request, done.error());
  } else if (const auto* import = std::get_if<ImportRequest>(&e.frame.message)) {
    import_memory(session, id, request, *import);
  } else if (const auto* unexport = std::get_if<UnexportRequest>(&e.frame.message)) {
    const bool former = end_former_export(session, unexport->export_id);
    const bool registered = session.exports.contains(unexport->export_id);
    if (!registered && !former) {
      return refuse(id, request, {Errc::kNotFound, "no such export of this session", {}, kNoRank});
    }
    if (registered) end_export(unexport->export_id, Errc::kOk);
    Reply reply;
    reply.id = unexport->export_id;
    send(id, request, reply);
  } else if (const auto* gone = std::get_if<UnimportRequest>(&e.frame.message)) {
    if (!session.imports.contains(gone->import_id)) {
      return refuse(id, request, {Errc::kNotFound, "no such import of this session", {}, kNoRank});
    }
    unimport(gone->import_id, false);
    Reply reply;
    reply.id = gone->import_id;
    send(id, request, reply);
  } else if (std::holds_alternative<Close>(e.frame.message)) {
    note_departure(session);
    end_session(session_id, SessionEnd::kOrderly);
  } else {
    protocol_error(id, request, "this frame is not one that a client sends");
  }
}

void Broker::State::protocol_error(ConnectionId id, std::uint32_t request_id, std::string text) {
  const auto found = connections.find(id);
  if (found == connections.end()) return;
  log(3, fmt::format("channel {}: connection {} ends: {}", found->second.channel, id, text));
  refuse(id, request_id, {Errc::kInvalidArgument, std::move(text), {}, kNoRank});
  const bool ends_session = found->second.session != 0 && !found->second.events;
  const SessionId session = found->second.session;
  close_connection(id);
  if (ends_session) end_session(session, SessionEnd::kLost);
}

// ---- opening ----

Result<void> Broker::State::open(ConnectionId id, std::uint32_t request_id, const Open& m,
                                 FdBag& fds) {
  if (shut_down) return fail(Errc::kUnavailable, "the daemon is shutting down");
  const Connection& connection = connections.at(id);
  const Channel& channel = channels.at(connection.channel);
  if (channel.phase == Channel::Phase::kClosing) {
    return fail(Errc::kUnavailable,
                fmt::format("channel {} is being released", connection.channel));
  }
  if (channel.phase != Channel::Phase::kOpen) {
    return fail(Errc::kFailedPrecondition,
                fmt::format("channel {} is not granted on this node", connection.channel));
  }
  const Grant& grant = channel.grant;
  if (grant.uid != kAnyUser && connection.uid != 0 && connection.uid != grant.uid) {
    return fail(Errc::kPermissionDenied,
                fmt::format("channel {} is granted to user {}, not to {}", connection.channel,
                            grant.uid, connection.uid));
  }
  if (!fds.is_pair()) return fail(bad_descriptors("open a session"));
  return m.session_id == 0 ? open_new(id, request_id, m, fds) : resume(id, request_id, m, fds);
}

Result<const fabric::Gpu*> Broker::State::choose_gpu(const Channel& channel, const Open& m) const {
  const auto granted = [&channel](const fabric::Gpu& gpu) {
    return channel.grant.gpu_uids.empty() || channel.grant.gpu_uids.contains(gpu.uid);
  };
  const bool any = m.gpu_uid == 0 && m.gpu_index == UINT32_MAX;
  const fabric::Gpu* chosen = nullptr;
  for (const auto& [uid, each] : gpus) {
    const bool meant = any ? granted(each) && each.attached
                           : (m.gpu_uid != 0 ? uid == m.gpu_uid : each.index == m.gpu_index);
    if (meant && (chosen == nullptr || each.index < chosen->index)) chosen = &each;
  }
  if (chosen == nullptr) {
    if (any)
      return fail(Errc::kFailedPrecondition, "no GPU of the channel is attached to the fabric");
    return fail(Errc::kNotFound, m.gpu_uid != 0
                                     ? fmt::format("this node has no GPU with uid {:#x}", m.gpu_uid)
                                     : fmt::format("this node has no GPU {}", m.gpu_index));
  }
  if (!granted(*chosen)) {
    return fail(Errc::kPermissionDenied,
                fmt::format("GPU {} is not granted to this channel", chosen->index));
  }
  if (!chosen->attached) {
    return fail(Errc::kFailedPrecondition,
                fmt::format("GPU {} is not attached to the fabric", chosen->index));
  }
  return chosen;
}

Result<void> Broker::State::open_new(ConnectionId id, std::uint32_t request_id, const Open& m,
                                     FdBag& fds) {
  if (journal_broken) {
    return fail(Errc::kResourceExhausted, "the daemon cannot write its journal (disk full?)");
  }
  const Connection& connection = connections.at(id);
  Channel& channel = channels.at(connection.channel);
  if (channel.usage.sessions >= config.limits.sessions_max) {
    return fail(Errc::kResourceExhausted, fmt::format("channel {} has {} sessions, its limit",
                                                      connection.channel, channel.usage.sessions));
  }
  IMEX_TRY(const fabric::Gpu* gpu, choose_gpu(channel, m));
  const auto number = next_number();
  if (!number) return fail(Errc::kResourceExhausted, "no id is left that the journal knows of");

  Session session;
  session.who = {*number, connection.channel, connection.uid, gpu->uid, fds.take(1)};
  session.abort_page = fds.take(0);
  emit(JournalSession{session.who});
  emit(AdoptSession{*number, session.abort_page, session.who.pidfd});
  ++channel.usage.sessions;
  channel.sessions.insert(*number);
  sessions.emplace(*number, std::move(session));
  mark_opened(id, *number, false);
  answer_open(sessions.at(*number), request_id);
  return {};
}

/// Checks the token before anything else, so that an answer tells nothing about other sessions.
Result<SessionId> Broker::State::prove(const Connection& connection, SessionId session,
                                       const Secret& token) {
  if (!Seal::equal(token, sealer.session_token(session))) {
    return fail(Errc::kPermissionDenied, "the token does not belong to that session");
  }
  const auto found = sessions.find(session);
  if (found == sessions.end()) {
    return fail(Errc::kNotFound, fmt::format("session {} has ended", session),
                "open a new session; exports and imports of the former one are gone");
  }
  const BrokerMemory::Session& who = found->second.who;
  if (who.channel != connection.channel || who.uid != connection.uid) {
    return fail(Errc::kPermissionDenied, "the session belongs to another channel or user");
  }
  return session;
}

Result<void> Broker::State::resume(ConnectionId id, std::uint32_t request_id, const Open& m,
                                   FdBag& fds) {
  IMEX_TRY(const SessionId session_id, prove(connections.at(id), m.session_id, m.token));
  Session& session = sessions.at(session_id);
  for (const ConnectionId old : {session.main, session.events}) {
    if (old != 0) close_connection(old);
  }
  FdToken former_page = std::exchange(session.abort_page, fds.take(0));
  FdToken former_pidfd = std::exchange(session.who.pidfd, fds.take(1));
  emit(AdoptSession{session_id, session.abort_page, session.who.pidfd});
  release(former_page);
  release(former_pidfd);
  if (std::exchange(session.awaited, false)) ++stats.sessions_resumed;
  mark_opened(id, session_id, false);
  answer_open(session, request_id);
  return {};
}

Result<void> Broker::State::attach_events(ConnectionId id, std::uint32_t request_id,
                                          const AttachEvents& m) {
  IMEX_TRY(const SessionId session_id, prove(connections.at(id), m.session_id, m.token));
  Session& session = sessions.at(session_id);
  if (session.main == 0) {
    return fail(Errc::kFailedPrecondition, fmt::format("session {} is not open", session_id));
  }
  if (session.events != 0) close_connection(session.events);
  mark_opened(id, session_id, true);
  Reply reply;
  reply.id = session_id;
  send(id, request_id, reply);
  return {};
}

void Broker::State::answer_open(const Session& session, std::uint32_t request_id) {
  Reply reply;
  reply.id = session.who.id;
  reply.token = sealer.session_token(session.who.id);
  reply.gpu_uid = session.who.gpu_uid;
  const fabric::Gpu* own = gpu(session.who.gpu_uid);
  reply.gpu_index = own != nullptr ? own->index : UINT32_MAX;
  reply.channel = session.who.channel;
  reply.node = config.node;
  reply.lease_ms = static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(config.lease).count());
  send(session.main, request_id, reply);
}

void Broker::State::mark_opened(ConnectionId id, SessionId session, bool events) {
  Connection& connection = connections.at(id);
  --channels.at(connection.channel).idle_connections;
  disarm(std::exchange(connection.open_by, kNever), Timer::Kind::kOpening, id);
  connection.session = session;
  connection.events = events;
  (events ? sessions.at(session).events : sessions.at(session).main) = id;
}

// ---- ending ----

void Broker::State::close_connection(ConnectionId id) {
  if (!connections.contains(id)) return;
  emit(CloseConnection{id});
  forget_connection(id);
}

void Broker::State::forget_connection(ConnectionId id) {
  const auto node = connections.extract(id);
  if (!node) return;
  const Connection& connection = node.mapped();
  if (connection.peer != kNoNode) {
    std::erase(peers.at(connection.peer).links, id);
    return;
  }
  if (connection.session == 0) {
    --channels.at(connection.channel).idle_connections;
    return disarm(connection.open_by, Timer::Kind::kOpening, id);
  }
  const auto session = sessions.find(connection.session);
  if (session == sessions.end()) return;
  (connection.events ? session->second.events : session->second.main) = 0;
}

void Broker::State::on(ConnectionClosed& e) {
  const auto found = connections.find(e.connection);
  if (found == connections.end()) return;
  const Connection connection = found->second;
  forget_connection(e.connection);
  const bool was_process = connection.session != 0 && !connection.events;
  if (was_process) end_session(connection.session, SessionEnd::kLost);
}

void Broker::State::end_session(SessionId id, SessionEnd how) {
  Session& session = sessions.at(id);
  const bool lost = how == SessionEnd::kLost;
  if (lost) {
    ++stats.sessions_lost;
    // Abort words first: the survivors' 10 ms count from here.
    for (const ExportId each : session.exports) {
      const ExportEntry& entry = exports.at(each);
      trip_importers(entry, Errc::kPeerLost, entry.request.rank);
    }
    for (const ImportId each : session.imports) {
      const ImportEntry& entry = imports.at(each);
      const auto exporter = exports.find(entry.handle.export_id);
      if (entry.phase != ImportEntry::Phase::kLive || exporter == exports.end()) continue;
      trip(exporter->second.session, exporter->second.request.scope, Errc::kPeerLost, entry.rank);
    }
  }
  while (!session.exports.empty()) {
    end_export(*session.exports.begin(), lost ? Errc::kPeerLost : Errc::kOk);
  }
  while (!session.imports.empty()) unimport(*session.imports.begin(), lost);
  std::vector<std::uint32_t> unanswered;
  for (const auto& [key, request] : pending) {
    if (session.pending != 0 && request.session == id) unanswered.push_back(key);
  }
  for (const std::uint32_t key : unanswered) unpark(key);

  emit(JournalSessionEnded{id});
  for (const ConnectionId each : {session.main, session.events}) {
    if (each != 0) close_connection(each);
  }
  emit(DropSession{id});
  release(session.abort_page);
  release(session.who.pidfd);
  const std::uint32_t number = session.who.channel;
  Channel& channel = channels.at(number);
  --channel.usage.sessions;
  channel.sessions.erase(id);
  settle(session);
  sessions.erase(id);
  std::vector<ExportId> orphaned;
  for (const auto& [export_id, each] : waiting) {
    if (sealer.owns_id(id, export_id)) orphaned.push_back(export_id);
  }
  const Errc reason = left_in_order.contains(id) ? Errc::kOk : Errc::kPeerLost;
  for (const ExportId each : orphaned) lose_waiting(each, reason);
  closing_due.insert(number);
}

// ---- channels ----

void Broker::State::on(ChannelOpened& e) {
  Channel& channel = channels[e.channel];
  channel.usage.channel = e.channel;
  const Grant grant{e.uid, {e.gpu_uids.begin(), e.gpu_uids.end()}};
  const bool covers = std::ranges::all_of(channel.sessions, [&](SessionId id) {
    const BrokerMemory::Session& who = sessions.at(id).who;
    return (grant.uid == kAnyUser || who.uid == 0 || who.uid == grant.uid) &&
           (grant.gpu_uids.empty() || grant.gpu_uids.contains(who.gpu_uid));
  });
  if (channel.phase != Channel::Phase::kClosing && covers) {
    channel.phase = Channel::Phase::kOpen;
    channel.grant = grant;
    return;
  }
  // Sessions of the former grant may not stay beside those of the new one.
  channel.next = grant;
  if (channel.phase != Channel::Phase::kClosing) close_channel(e.channel);
}

void Broker::State::on(ChannelClosed& e) {
  const auto found = channels.find(e.channel);
  if (found == channels.end()) return;
  found->second.next.reset();
  if (found->second.phase != Channel::Phase::kClosing) close_channel(e.channel);
}

void Broker::State::close_channel(std::uint32_t number) {
  Channel& channel = channels.at(number);
  channel.phase = Channel::Phase::kClosing;
  const std::set<SessionId> members = channel.sessions;
  std::vector<ExportId> ended;
  std::vector<ImportId> cut;
  for (const SessionId id : members) {
    const Session& session = sessions.at(id);
    ended.insert(ended.end(), session.exports.begin(), session.exports.end());
    for (const ImportId each : session.imports) {
      if (!exports.contains(imports.at(each).handle.export_id)) cut.push_back(each);
    }
  }
  for (const ExportId id : ended) trip_revoked(exports.at(id));
  for (const ExportId id : ended) start_revocation(id);
  for (const ImportId id : cut) revoke_import(id);
  for (const SessionId id : members) {  // nobody is at the other end to unmap anything
    const auto session = sessions.find(id);
    if (session != sessions.end() && session->second.awaited) end_session(id, SessionEnd::kLost);
  }
  closing_due.insert(number);
}

/// Ends the sessions of a channel once nothing of them is mapped any more, as far as can be told.
void Broker::State::finish_closing(std::uint32_t number) {
  Channel& channel = channels.at(number);
  if (channel.phase != Channel::Phase::kClosing) return;
  for (const SessionId id : channel.sessions) {
    const Session& session = sessions.at(id);
    const bool exporting = std::ranges::any_of(session.exports, [this](ExportId each) {
      return exports.at(each).phase != ExportEntry::Phase::kQuiescent;
    });
    const bool importing = std::ranges::any_of(session.imports, [this](ImportId each) {
      return imports.at(each).phase != ImportEntry::Phase::kOver;
    });
    if (exporting || importing) return;
  }
  channel.phase = Channel::Phase::kClosed;
  const std::set<SessionId> members = channel.sessions;
  for (const SessionId id : members) {
    Event event;
    event.kind = Event::Kind::kChannelReleased;
    event.id = number;
    event.rank = kNoRank;
    event.reason = Errc::kRevoked;
    tell(id, event);
    end_session(id, SessionEnd::kOrderly);
  }
  if (channel.next) {
    channel.grant = *std::exchange(channel.next, std::nullopt);
    channel.phase = Channel::Phase::kOpen;
  }
}

}  // namespace imex::domain
