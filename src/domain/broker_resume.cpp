// After a restart: what this life knows of the one before, and what it does not know yet.
//
// The journal names sessions and importing nodes, not what they import. Each of them registers that
// again and then says that this was all (an acknowledgement of import 0): it is settled. A revoked
// export waits for importers that are known and for those that are not settled; one whose process
// or daemon instance is gone counts as settled, and all do when the lease is over.

#include <algorithm>

#include "broker_state.hpp"

namespace imex::domain {

void Broker::State::remember(const BrokerMemory& memory) {
  id_next = ids_written = ids_asked = ids_of_memory = std::max<std::uint64_t>(memory.next_id, 1);
  for (const BrokerMemory::Session& who : memory.sessions) {
    Session session;
    session.who = who;
    session.awaited = session.resumed = session.unsettled = true;
    Channel& channel = channels[who.channel];
    channel.usage.channel = who.channel;
    ++channel.usage.sessions;
    ++channel.unsettled;
    channel.sessions.insert(who.id);
    sessions.emplace(who.id, std::move(session));
  }
  unsettled_sessions = memory.sessions.size();
  unsettled_nodes.insert(memory.importers.begin(), memory.importers.end());
  unsettled_nodes.erase(config.node);
  resume_open = true;
  resume_until = now + config.lease;
  arm(resume_until, Timer::Kind::kResume, 0);
}

/// Before the client's word on an export is carried out: that it ended in order, while the daemon
/// was away or just now. False: it is not one of the life before that may still be asked for.
bool Broker::State::end_former_export(const Session& session, ExportId id) {
  const bool former =
      resume_open && session.resumed && issued_before(id) && sealer.owns_id(session.who.id, id);
  if (!former) return false;
  const auto found = exports.find(id);
  if (found != exports.end() && found->second.phase != ExportEntry::Phase::kLive) return false;
  ended_in_order.insert(id);
  lose_waiting(id, Errc::kOk);
  return true;
}

void Broker::State::note_departure(const Session& session) {
  if (resume_open && session.resumed) left_in_order.insert(session.who.id);
}

/// So that an importer which registers it again is told of an end and not of a loss.
bool Broker::State::has_ended_in_order(ExportId id) const {
  return ended_in_order.contains(id) || std::ranges::any_of(left_in_order, [&](SessionId session) {
           return sealer.owns_id(session, id);
         });
}

/// To the daemon of an importer that registers such an export again. False: it did not end so.
bool Broker::State::tell_of_former_end(const RemoteKey& importer, ExportId id) {
  if (!has_ended_in_order(id)) return false;
  drop_remote(importer);
  tell_importer(importer.node, importer.import_id,
                LinkExportEnded{importer.import_id, Errc::kOk, kNoRank});
  return true;
}

void Broker::State::end_resume_window() {
  resume_open = false;
  ended_in_order.clear();
  left_in_order.clear();
  std::vector<SessionId> gone;
  for (const auto& [id, session] : sessions) {
    if (session.awaited) gone.push_back(id);
  }
  for (const SessionId id : gone) end_session(id, SessionEnd::kLost);
  while (!waiting.empty()) lose_waiting(waiting.begin()->first, Errc::kPeerLost);
  std::vector<ImportId> nowhere;
  for (const auto& [id, entry] : imports) {
    if (entry.phase != ImportEntry::Phase::kUnconfirmed) continue;
    const auto peer = peers.find(entry.handle.node);
    if (peer == peers.end() || peer->second.instance != entry.handle.instance)
      nowhere.push_back(id);
  }
  for (const ImportId id : nowhere) lose_import(id, Errc::kPeerLost);
  for (auto& [id, session] : sessions) settle(session);
  while (!unsettled_nodes.empty()) settle_node(*unsettled_nodes.begin());
  check_all_quiescent();
}

/// All that the session has mapped is known now.
void Broker::State::settle(Session& session) {
  if (!std::exchange(session.unsettled, false)) return;
  if (--channels.at(session.who.channel).unsettled == 0) check_all_quiescent();
  if (--unsettled_sessions != 0) return;
  for (const auto& [node, peer] : peers) say_settled(node);
}

/// All that processes of the node have mapped from here is known now.
void Broker::State::settle_node(NodeId node) {
  if (unsettled_nodes.erase(node) == 0) return;
  const auto peer = peers.find(node);
  if (peer == peers.end() || peer->second.importers == 0) emit(JournalImporter{node, false});
  if (unsettled_nodes.empty()) check_all_quiescent();
}

/// To a daemon that may have restarted: all imports from it were registered on this link.
void Broker::State::say_settled(NodeId node) { send_to_peer(node, 0, LinkRevokeAck{}); }

/// Whoever has something of that daemon mapped, also if it is about to give it up: the other side
/// may have forgotten that it waits for that.
void Broker::State::register_imports_over_link(NodeId node, const Uuid& instance) {
  for (const auto& [id, entry] : imports) {
    if (entry.phase == ImportEntry::Phase::kOver) continue;
    if (entry.handle.node == node && entry.handle.instance == instance) register_over_link(id);
  }
  if (unsettled_sessions == 0) say_settled(node);
}

/// Whether somebody may still come with the export mapped.
bool Broker::State::importers_unknown(const ExportEntry& entry) const {
  if (!resume_open) return false;
  const std::uint32_t channel = sessions.at(entry.session).who.channel;
  return channels.at(channel).unsettled != 0 || !unsettled_nodes.empty();
}

}  // namespace imex::domain
