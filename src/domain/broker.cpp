#include "domain/broker.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "broker_state.hpp"

namespace imex::domain {

Broker::State::State(BrokerConfig config_in, Random& random, Time start,
                     std::optional<BrokerMemory> memory)
    : config(std::move(config_in)),
      sealer(config.key, config.domain_id),
      now(start),
      // A late answer to the predecessor of a resumed daemon must not look like one to this one.
      next_pending(static_cast<std::uint32_t>(random.next_u64() | 1)) {
  if (memory) remember(*memory);
}

void Broker::State::begin_step(Time at) {
  now = std::max(now, at);
  if (!journal_broken) ids_written = ids_asked;  // the daemon has written what the last step asked
  if (!journal_broken && !shut_down && ids_written - id_next < BrokerBounds::kIdReserve) {
    ids_asked = ids_written + BrokerBounds::kIdBlock;
    emit(JournalNextId{ids_asked});
  }
  if (std::exchange(awaited_announced, true)) return;
  std::vector<SessionId> gone;
  for (const auto& [id, session] : sessions) {
    if (session.who.pidfd == 0) {
      gone.push_back(id);
    } else {
      emit(AdoptSession{id, 0, session.who.pidfd});
    }
  }
  for (const SessionId id : gone) end_session(id, SessionEnd::kLost);
}

void Broker::State::finish_step() {
  while (!closing_due.empty()) finish_closing(closing_due.extract(closing_due.begin()).value());
}

// ---- small tools ----

void Broker::State::arm(Time at, Timer::Kind kind, std::uint64_t id, NodeId node) {
  timers.insert(Timer{at, kind, id, node});
}

void Broker::State::disarm(Time at, Timer::Kind kind, std::uint64_t id, NodeId node) {
  timers.erase(Timer{at, kind, id, node});
}

/// The next number for an id; nothing when the numbers that the journal knows of are used up.
std::optional<std::uint32_t> Broker::State::next_number() {
  if (id_next >= ids_written || id_next > UINT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(id_next++);
}

bool Broker::State::issued_before(std::uint64_t id) const {
  return Seal::number_of(id) != 0 && Seal::number_of(id) < ids_of_memory;
}

void Broker::State::release(FdToken& fd) {
  if (fd != 0) emit(ReleaseFd{std::exchange(fd, 0)});
}

void Broker::State::send(ConnectionId connection, std::uint32_t request_id, Message message,
                         std::vector<FdToken> fds) {
  emit(SendFrame{connection, Frame{request_id, std::move(message)}, std::move(fds)});
}

void Broker::State::refuse(ConnectionId connection, std::uint32_t request_id, const Error& error) {
  Reply reply;
  reply.code = error.code;
  reply.text = make_error_text(error.message);
  const auto found = connections.find(connection);
  if (found != connections.end()) ++channels[found->second.channel].usage.refused;
  send(connection, request_id, reply);
}

void Broker::State::trip(SessionId session, std::uint32_t scope, Errc code, std::uint32_t rank) {
  const auto found = sessions.find(session);
  if (scope == kNoScope || found == sessions.end() || found->second.abort_page == 0) return;
  emit(SetAbort{session, scope, code, rank});
}

void Broker::State::tell(SessionId session, const Event& event) {
  const auto found = sessions.find(session);
  if (found == sessions.end()) return;
  const ConnectionId to = found->second.events != 0 ? found->second.events : found->second.main;
  if (to != 0) send(to, 0, event);
}

const fabric::Gpu* Broker::State::gpu(std::uint64_t uid) const {
  const auto found = gpus.find(uid);
  return found == gpus.end() ? nullptr : &found->second;
}

// ---- events ----

void Broker::State::on(ClientConnected& e) {
  Channel& channel = channels[e.channel];
  channel.usage.channel = e.channel;
  if (shut_down || channel.idle_connections >= BrokerBounds::kConnectionsIdle) {
    ++channel.usage.refused;
    return emit(CloseConnection{e.connection});
  }
  ++channel.idle_connections;
  Connection connection;
  connection.channel = e.channel;
  connection.uid = e.uid;
  connection.open_by = now + BrokerBounds::kOpenTimeout;
  arm(connection.open_by, Timer::Kind::kOpening, e.connection);
  connections.emplace(e.connection, connection);
}

void Broker::State::on(FrameArrived& e) {
  FdBag fds(out, std::move(e.fds));
  const auto found = connections.find(e.connection);
  if (found == connections.end()) return;
  if (found->second.peer != kNoNode) return link_frame(e.connection, found->second.peer, e, fds);
  client_frame(e.connection, e, fds);
}

void Broker::State::on(ProcessExited& e) {
  if (sessions.contains(e.session)) end_session(e.session, SessionEnd::kLost);
}

void Broker::State::on(FabricChanged& e) {
  gpus.clear();
  for (const fabric::Gpu& each : e.gpus) gpus.insert_or_assign(each.uid, each);
  std::vector<ExportId> ended;
  for (const auto& [id, entry] : exports) {
    if (entry.phase == ExportEntry::Phase::kLive && !still_shared(entry)) ended.push_back(id);
  }
  for (const ExportId id : ended) trip_revoked(exports.at(id));  // abort words before anything else
  for (const ExportId id : ended) start_revocation(id);
  revoke_moved_imports();
}

void Broker::State::on(ShutdownRequested&) {
  shut_down = true;
  for (const auto& [id, entry] : imports) {
    trip(entry.session, entry.scope, Errc::kUnavailable, entry.exporter_rank);
  }
  for (const auto& [id, entry] : exports) {
    trip(entry.session, entry.request.scope, Errc::kUnavailable, kNoRank);
  }
  Event event;
  event.kind = Event::Kind::kShuttingDown;
  event.rank = kNoRank;
  event.reason = Errc::kUnavailable;
  for (const auto& [id, session] : sessions) tell(id, event);
  while (!sessions.empty()) end_session(sessions.begin()->first, SessionEnd::kOrderly);
  while (!connections.empty()) close_connection(connections.begin()->first);
  pending.clear();
  timers.clear();
}

void Broker::State::on(TimePassed&) {
  while (!timers.empty() && timers.begin()->at <= now) {
    const Timer due = *timers.begin();
    timers.erase(timers.begin());
    on_timer(due);
  }
}

void Broker::State::on_timer(const Timer& due) {
  switch (due.kind) {
    case Timer::Kind::kOpening:
      return protocol_error(due.id, 0, "no session was opened in time");
    case Timer::Kind::kPending: {
      const auto key = static_cast<std::uint32_t>(due.id);
      return fail_pending(key, {Errc::kUnavailable, "the exporter did not answer in time",
                                "retry; its daemon or process may be restarting", kNoRank});
    }
    case Timer::Kind::kImport:
      return import_deadline(due.id);
    case Timer::Kind::kRemote: {
      const RemoteKey key{due.node, due.id};
      const ExportId export_id = remote_importers.at(key).export_id;
      drop_remote(key);
      return count_outcome(export_id, RevokeOutcome::kSilent);
    }
    case Timer::Kind::kConfirm:
      return end_unconfirmed(due.node);
    case Timer::Kind::kResume:
      return end_resume_window();
  }
}

// ---- the public face ----

Broker::Broker(BrokerConfig config, Random& random, Time now, std::optional<BrokerMemory> memory)
    : state_(std::make_unique<State>(std::move(config), random, now, std::move(memory))) {}
Broker::~Broker() = default;
Broker::Broker(Broker&&) noexcept = default;

std::vector<BrokerEffect> Broker::step(BrokerEvent event, Time now) {
  state_->begin_step(now);
  std::visit([this](auto& e) { state_->on(e); }, event);
  state_->finish_step();
  return std::exchange(state_->out, {});
}

Time Broker::next_deadline() const noexcept {
  return state_->timers.empty() ? kNever : state_->timers.begin()->at;
}

void Broker::set_journal_broken(bool broken) noexcept {
  state_->journal_broken = broken;
  if (broken) state_->ids_asked = state_->ids_written;
}

std::vector<ChannelUsage> Broker::usage() const {
  std::vector<ChannelUsage> all;
  all.reserve(state_->channels.size());
  for (const auto& [number, channel] : state_->channels) {
    all.push_back(channel.usage);
    all.back().channel = number;
  }
  return all;
}

const BrokerStats& Broker::stats() const noexcept { return state_->stats; }

BrokerSize Broker::size() const noexcept {
  const State& s = *state_;
  BrokerSize size;
  size.channels = s.channels.size();
  size.connections = s.connections.size();
  size.sessions = s.sessions.size();
  size.exports = s.exports.size();
  size.imports = s.imports.size();
  size.remote_importers = s.remote_importers.size();
  size.pending_imports = s.pending.size();
  size.peers = s.peers.size();
  for (const auto& [node, peer] : s.peers) {
    size.owed += peer.owed_as_exporter.size() + peer.owed_as_importer.size();
  }
  for (const auto& [id, session] : s.sessions) {
    size.fds += (session.abort_page != 0 ? 1U : 0U) + (session.who.pidfd != 0 ? 1U : 0U);
  }
  for (const auto& [id, entry] : s.exports) {
    size.fds += (entry.data != 0 ? 1U : 0U) + (entry.control != 0 ? 1U : 0U);
  }
  return size;
}

std::vector<NodeId> Broker::importer_nodes() const {
  std::vector<NodeId> nodes(state_->unsettled_nodes.begin(), state_->unsettled_nodes.end());
  for (const auto& [node, peer] : state_->peers) {
    if (peer.importers != 0 && !state_->unsettled_nodes.contains(node)) nodes.push_back(node);
  }
  return nodes;
}

}  // namespace imex::domain
