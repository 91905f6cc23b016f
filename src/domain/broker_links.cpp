// Other daemons: imports across nodes of one machine, and what follows when a node or a link goes
// away.
//
// A link may break and come back without harm: what one side owes the other meanwhile is kept and
// sent first, then every live import is registered again (`known`). Only membership says that a
// daemon instance has ended.

#include <algorithm>

#include <fmt/format.h>

#include "broker_state.hpp"

namespace imex::domain {

// ---- sending ----

bool Broker::State::link_up(NodeId node) const {
  const auto peer = peers.find(node);
  return peer != peers.end() && !peer->second.links.empty();
}

void Broker::State::send_to_peer(NodeId node, std::uint32_t request_id, Message message,
                                 std::vector<FdToken> fds) {
  if (link_up(node))
    send(peers.at(node).links.back(), request_id, std::move(message), std::move(fds));
}

/// Sends, or keeps until the link is back; the last notice about an import stands for all before
/// it.
void Broker::State::tell_exporter(NodeId node, const Uuid& instance, ImportId id, Message message) {
  const auto found = peers.find(node);
  if (found == peers.end() || found->second.instance != instance) return;  // nobody is left to tell
  Peer& peer = found->second;
  if (!peer.links.empty()) return send(peer.links.back(), 0, std::move(message));
  if (peer.owed_as_importer.size() < BrokerBounds::kOwedPerPeer) {
    peer.owed_as_importer.insert_or_assign(id, std::move(message));
  }
}

void Broker::State::tell_importer(NodeId node, ImportId id, Message message) {
  const auto found = peers.find(node);
  if (found == peers.end()) return;
  Peer& peer = found->second;
  if (!peer.links.empty()) return send(peer.links.back(), 0, std::move(message));
  if (peer.owed_as_exporter.size() < BrokerBounds::kOwedPerPeer) {
    peer.owed_as_exporter.insert_or_assign(id, std::move(message));
  }
}

void Broker::State::send_link_import(std::uint32_t key) {
  PendingImport& request = pending.at(key);
  const Session& session = sessions.at(request.session);
  const fabric::Gpu* own = gpu(session.who.gpu_uid);
  request.sent = true;
  LinkImport m;
  m.handle = request.request.handle;
  m.channel = session.who.channel;
  m.gpu_uid = session.who.gpu_uid;
  if (own != nullptr && own->attached) {
    m.partition_domain = own->partition.domain_uuid;
    m.partition_clique = own->partition.clique_id;
  }
  m.rank = request.request.rank;
  m.import_id = request.import_id;
  send_to_peer(request.node, key, m);
}

void Broker::State::register_over_link(ImportId id) {
  const ImportEntry& entry = imports.at(id);
  const Session& session = sessions.at(entry.session);
  const fabric::Gpu* own = gpu(session.who.gpu_uid);
  LinkImport m;
  m.handle = entry.bytes;
  m.channel = session.who.channel;
  m.gpu_uid = session.who.gpu_uid;
  if (own != nullptr && own->attached) {
    m.partition_domain = own->partition.domain_uuid;
    m.partition_clique = own->partition.clique_id;
  }
  m.rank = entry.rank;
  m.import_id = id;
  m.known = 1;
  send_to_peer(entry.handle.node, 0, m);
}

// ---- coming and going ----

void Broker::State::on(PeerKnown& e) {
  if (e.node == config.node || (!peers.contains(e.node) && peers.size() >= BrokerBounds::kPeers))
    return;
  Peer& peer = peers[e.node];
  if (!peer.instance.is_nil() && peer.instance != e.instance) {
    end_peer_instance(e.node, peer.instance, Errc::kPeerLost);
  }
  peer.instance = e.instance;
  peer.boot_id = e.boot_id;
  peer.address = e.address;
}

void Broker::State::on(LinkConnected& e) {
  const bool full = !peers.contains(e.node) && peers.size() >= BrokerBounds::kPeers;
  if (shut_down || full || e.node == config.node) return emit(CloseConnection{e.connection});
  Peer& peer = peers[e.node];
  if (!peer.instance.is_nil() && peer.instance != e.instance) {
    end_peer_instance(e.node, peer.instance, Errc::kPeerLost);
  }
  peer.instance = e.instance;
  peer.boot_id = config.boot_id;
  if (peer.links.size() >= BrokerBounds::kLinksPerPeer) close_connection(peer.links.front());
  Connection connection;
  connection.peer = e.node;
  connections.emplace(e.connection, connection);
  peer.links.push_back(e.connection);

  for (auto& [id, message] : std::exchange(peer.owed_as_exporter, {}))
    send(e.connection, 0, message);
  for (auto& [id, message] : std::exchange(peer.owed_as_importer, {}))
    send(e.connection, 0, message);
  register_imports_over_link(e.node, e.instance);
  for (const auto& [key, request] : pending) {
    if (!request.link && request.node == e.node) send_link_import(key);
  }
  // The other daemon may have restarted and lost clients meanwhile: what it does not name again in
  // the time that its own clients have for that is over.
  bool any = false;
  for (auto at = remote_importers.lower_bound({e.node, 0});
       at != remote_importers.end() && at->first.node == e.node; ++at) {
    at->second.confirmed = false;
    any = true;
  }
  disarm(peer.confirm_by, Timer::Kind::kConfirm, 0, e.node);
  peer.confirm_by = any ? now + config.lease + config.link_timeout : kNever;
  if (any) arm(peer.confirm_by, Timer::Kind::kConfirm, 0, e.node);
}

void Broker::State::end_unconfirmed(NodeId node) {
  peers.at(node).confirm_by = kNever;
  std::vector<RemoteKey> gone;
  for (const auto& [key, importer] : remote_importers) {
    if (key.node == node && !importer.confirmed) gone.push_back(key);
  }
  for (const RemoteKey& key : gone) lose_remote(key);
}

void Broker::State::on(PeerInstanceEnded& e) { end_peer_instance(e.node, e.instance, e.reason); }

/// Everything between this node and that life of the other daemon is over.
void Broker::State::end_peer_instance(NodeId node, const Uuid& instance, Errc reason) {
  std::vector<ImportId> lost;
  for (const auto& [id, entry] : imports) {
    if (entry.handle.node == node && entry.handle.instance == instance) lost.push_back(id);
  }
  for (const ImportId id : lost) {
    const ImportEntry& entry = imports.at(id);
    const bool aborts = reason != Errc::kOk && entry.phase != ImportEntry::Phase::kOver;
    if (aborts) trip(entry.session, entry.scope, Errc::kPeerLost, entry.exporter_rank);
  }
  std::vector<RemoteKey> gone;
  for (const auto& [key, importer] : remote_importers) {
    if (key.node == node && importer.instance == instance) gone.push_back(key);
  }
  for (const ImportId id : lost) lose_import(id, reason);
  for (const RemoteKey& key : gone) lose_remote(key);

  const auto found = peers.find(node);
  if (found == peers.end() || found->second.instance != instance) return;
  Peer& peer = found->second;
  const std::vector<ConnectionId> links = peer.links;
  for (const ConnectionId id : links) close_connection(id);
  peer.owed_as_exporter.clear();
  peer.owed_as_importer.clear();
  disarm(std::exchange(peer.confirm_by, kNever), Timer::Kind::kConfirm, 0, node);
  peer.instance = Uuid{};
  settle_node(node);
  std::vector<std::uint32_t> unanswered;
  for (const auto& [key, request] : pending) {
    if (request.node == node) unanswered.push_back(key);
  }
  for (const std::uint32_t key : unanswered) {
    fail_pending(key, {Errc::kStale,
                       "the exporter's daemon was replaced; its handles ended with it",
                       {},
                       kNoRank});
  }
}

void Broker::State::on(PeerSilent& e) {
  for (const auto& [id, entry] : imports) {
    if (entry.handle.node != e.node || entry.handle.instance != e.instance) continue;
    if (entry.phase != ImportEntry::Phase::kOver)
      trip(entry.session, entry.scope, Errc::kPeerLost, entry.exporter_rank);
  }
  for (const auto& [key, importer] : remote_importers) {
    const auto exporter = exports.find(importer.export_id);
    if (key.node != e.node || importer.instance != e.instance || exporter == exports.end())
      continue;
    trip(exporter->second.session, exporter->second.request.scope, Errc::kPeerLost, importer.rank);
  }
}

// ---- frames ----

void Broker::State::link_frame(ConnectionId id, NodeId node, FrameArrived& e, FdBag& fds) {
  const std::uint32_t request = e.frame.request_id;
  if (const auto* import = std::get_if<LinkImport>(&e.frame.message)) {
    link_import(id, request, node, *import);
  } else if (const auto* reply = std::get_if<LinkImportReply>(&e.frame.message)) {
    link_import_reply(request, node, *reply, fds);
  } else if (const auto* ended = std::get_if<LinkImportEnded>(&e.frame.message)) {
    link_import_ended(node, *ended);
  } else if (const auto* moved = std::get_if<LinkImportMoved>(&e.frame.message)) {
    link_import_moved(node, *moved);
  } else if (const auto* over = std::get_if<LinkExportEnded>(&e.frame.message)) {
    link_export_ended(node, *over);
  } else if (const auto* ack = std::get_if<LinkRevokeAck>(&e.frame.message)) {
    link_revoke_ack(node, *ack);
  } else {
    log(3, fmt::format("link to node {} ends: frame type {} does not belong there", node,
                       e.frame.message.index() + 1));
    close_connection(id);
  }
}

// ---- this node exports ----

void Broker::State::link_import(ConnectionId id, std::uint32_t request_id, NodeId node,
                                const LinkImport& m) {
  const auto done = try_link_import(id, request_id, node, m);
  if (done) return;
  ++stats.imports_failed[done.error().code];
  refuse_link(node, request_id, m.import_id, done.error());
}

void Broker::State::refuse_link(NodeId node, std::uint32_t request_id, ImportId import_id,
                                const Error& error) {
  LinkImportReply reply;
  reply.code = error.code;
  reply.import_id = import_id;
  reply.text = make_error_text(error.message);
  send_to_peer(node, request_id, reply);
}

Result<void> Broker::State::try_link_import(ConnectionId id, std::uint32_t request_id, NodeId node,
                                            const LinkImport& m) {
  const auto handle = read_handle(m.handle);
  if (!handle || handle->node != config.node) {
    return fail(Errc::kPermissionDenied, "the handle is not valid here");
  }
  IMEX_CHECK_OK(check_handle_of_own(m.handle, *handle, m.channel));
  const RemoteKey key{node, m.import_id};
  const auto former = remote_importers.find(key);
  if (former != remote_importers.end() && former->second.export_id != handle->export_id) {
    return fail(Errc::kAlreadyExists, "the import is known under another handle");
  }
  const auto found = find_export(*handle);
  const bool again = m.known != 0;
  if (!found && again && tell_of_former_end(key, handle->export_id)) return {};
  if (!found && !(again && found.error().code == Errc::kRevoked)) return fail(found.error());
  const fabric::Partition partition{m.partition_domain, m.partition_clique};
  const bool absent = found && *found == nullptr;
  if (absent && !again) {
    PendingImport request;
    request.connection = id;
    request.request_id = request_id;
    request.handle = *handle;
    request.link = m;
    request.node = node;
    IMEX_TRY([[maybe_unused]] const std::uint32_t parked, park(std::move(request)));
    return {};
  }
  if (!again) IMEX_CHECK_OK(check_partitions(handle->gpu_uid, partition, true));
  Channel& channel = channels.at(m.channel);
  if (former == remote_importers.end() && channel.remote_importers >= config.limits.imports_max) {
    return fail(Errc::kResourceExhausted,
                fmt::format("channel {} has {} imports by other nodes, its limit", m.channel,
                            channel.remote_importers));
  }
  add_remote(key, {peers.at(node).instance, handle->export_id, m.channel, handle->generation,
                   m.rank, partition, true, kNever});
  LinkImportReply reply;
  reply.import_id = m.import_id;
  reply.gpu_uid = handle->gpu_uid;
  reply.generation = handle->generation;
  reply.rank = kNoRank;
  const fabric::Gpu* own = gpu(handle->gpu_uid);
  if (own != nullptr && own->attached) {
    reply.partition_domain = own->partition.domain_uuid;
    reply.partition_clique = own->partition.clique_id;
  }
  if (absent) {
    waiting[handle->export_id].remote.insert(key);
    send_to_peer(node, request_id, reply);
    return {};
  }
  ExportEntry& entry = exports.at(handle->export_id);
  reply.size_bytes = entry.request.size_bytes;
  reply.rank = entry.request.rank;
  entry.remote_importers.insert(key);
  send_to_peer(node, request_id, reply,
               again ? std::vector<FdToken>{} : std::vector<FdToken>{entry.data, entry.control});
  if (!again) ++stats.imports_done;
  if (entry.phase == ExportEntry::Phase::kLive && !still_shared(entry)) {
    trip_revoked(entry);
    start_revocation(handle->export_id);
  } else if (entry.phase != ExportEntry::Phase::kLive) {
    if (remote_importers.at(key).deadline == kNever) expect_remote_ack(key);
    tell_importer(node, m.import_id,
                  LinkExportEnded{m.import_id, Errc::kRevoked, entry.request.rank});
  }
  return {};
}

void Broker::State::add_remote(const RemoteKey& key, RemoteImporter importer) {
  const auto former = remote_importers.find(key);
  if (former != remote_importers.end()) {
    importer.deadline = former->second.deadline;  // a revocation under way goes on
    former->second = std::move(importer);
    return;
  }
  ++channels.at(importer.channel).remote_importers;
  Peer& peer = peers.at(key.node);
  if (peer.importers++ == 0) emit(JournalImporter{key.node, true});
  remote_importers.emplace(key, std::move(importer));
}

void Broker::State::drop_remote(const RemoteKey& key) {
  const auto node = remote_importers.extract(key);
  if (!node) return;
  const RemoteImporter& importer = node.mapped();
  disarm(importer.deadline, Timer::Kind::kRemote, key.import_id, key.node);
  --channels.at(importer.channel).remote_importers;
  if (const auto entry = exports.find(importer.export_id); entry != exports.end()) {
    entry->second.remote_importers.erase(key);
  }
  if (const auto found = waiting.find(importer.export_id); found != waiting.end()) {
    found->second.remote.erase(key);
    if (found->second.imports.empty() && found->second.remote.empty()) waiting.erase(found);
  }
  const bool last = --peers.at(key.node).importers == 0;
  if (last && !unsettled_nodes.contains(key.node)) emit(JournalImporter{key.node, false});
}

/// An importer on another node is gone without unmapping in order.
void Broker::State::lose_remote(const RemoteKey& key) {
  const RemoteImporter importer = remote_importers.at(key);
  drop_remote(key);
  const auto entry = exports.find(importer.export_id);
  if (entry == exports.end()) return;
  if (entry->second.phase == ExportEntry::Phase::kLive) {
    importer_lost(importer.export_id, entry->second, importer.rank);
  } else {
    count_outcome(importer.export_id, RevokeOutcome::kAcknowledged);
  }
}

void Broker::State::link_import_ended(NodeId node, const LinkImportEnded& m) {
  const RemoteKey key{node, m.import_id};
  // A request of that import that still waits here is not wanted any more either.
  for (const auto& [pending_key, request] : pending) {
    if (request.link && request.node == node && request.link->import_id == m.import_id) {
      unpark(pending_key);
      break;
    }
  }
  const auto found = remote_importers.find(key);
  if (found == remote_importers.end()) return;
  if (m.lost != 0) return lose_remote(key);
  const ExportId export_id = found->second.export_id;
  drop_remote(key);
  const auto entry = exports.find(export_id);
  if (entry != exports.end() && entry->second.phase == ExportEntry::Phase::kRevoking) {
    count_outcome(export_id, RevokeOutcome::kAcknowledged);
  }
}

void Broker::State::link_import_moved(NodeId node, const LinkImportMoved& m) {
  const auto found = remote_importers.find({node, m.import_id});
  if (found == remote_importers.end()) return;
  found->second.partition = {m.partition_domain, m.partition_clique};
  const auto entry = exports.find(found->second.export_id);
  if (entry == exports.end()) return;
  trip_revoked(entry->second);
  start_revocation(entry->first);
}

void Broker::State::link_revoke_ack(NodeId node, const LinkRevokeAck& m) {
  if (m.import_id == 0) return settle_node(node);
  const RemoteKey key{node, m.import_id};
  const auto found = remote_importers.find(key);
  if (found == remote_importers.end()) return;
  const ExportId export_id = found->second.export_id;
  const auto entry = exports.find(export_id);
  const bool current =
      entry != exports.end() && entry->second.request.generation == found->second.generation;
  if (current && entry->second.phase == ExportEntry::Phase::kLive) {
    // It was told to revoke by a link or a life that this side has forgotten: then so must the
    // rest.
    trip_revoked(entry->second);
    start_revocation(export_id);
  }
  drop_remote(key);
  count_outcome(export_id, static_cast<RevokeOutcome>(m.outcome));
}

// ---- this node imports ----

void Broker::State::link_import_reply(std::uint32_t request_id, NodeId node,
                                      const LinkImportReply& m, FdBag& fds) {
  if (request_id == 0) {  // to a registration
    const auto found = imports.find(m.import_id);
    if (found != imports.end() && found->second.handle.node == node)
      link_registered(m.import_id, m);
    return;
  }
  const auto found = pending.find(request_id);
  const bool ours = found != pending.end() && !found->second.link && found->second.node == node &&
                    found->second.import_id == m.import_id;
  if (ours) return finish_link_import(request_id, m, fds);
  // Asked by somebody who is gone; what was granted must not stay. An import that lives is answered
  // twice when the request was sent anew over a second link.
  if (m.code == Errc::kOk && !imports.contains(m.import_id)) {
    send_to_peer(node, 0, LinkImportEnded{m.import_id, 0});
  }
}

void Broker::State::finish_link_import(std::uint32_t key, const LinkImportReply& m, FdBag& fds) {
  PendingImport& request = pending.at(key);
  if (m.code != Errc::kOk) {
    request.sent = false;  // nothing was granted, nothing to take back
    return fail_pending(key, {m.code, std::string(view_error_text(m.text)), {}, kNoRank});
  }
  Session& session = sessions.at(request.session);
  const fabric::Gpu* own = gpu(session.who.gpu_uid);
  const fabric::Partition there{m.partition_domain, m.partition_clique};
  if (!fds.is_pair()) {
    return fail_pending(
        key, {Errc::kInternal, "the exporter's daemon sent no descriptors", {}, kNoRank});
  }
  if (own == nullptr || !own->attached || own->partition != there) {
    return fail_pending(
        key, {Errc::kPermissionDenied, "a GPU changed its partition meanwhile", {}, kNoRank});
  }
  if (const auto limits = check_import_limits(session); !limits)
    return fail_pending(key, limits.error());
  const PendingImport granted = request;
  request.sent = false;
  unpark(key);
  ImportEntry& entry = add_import(granted.import_id, session, granted.request, granted.handle);
  entry.exporter_rank = m.rank;
  entry.exporter_partition = there;
  ++stats.imports_done;
  Reply reply;
  reply.id = granted.import_id;
  reply.size_bytes = m.size_bytes;
  reply.gpu_uid = m.gpu_uid;
  reply.generation = m.generation;
  reply.rank = m.rank;
  reply.node = granted.node;
  send(granted.connection, granted.request_id, reply, fds.peek());  // the bag releases them after
}

/// The exporter's daemon has answered to an import that lived before the link (or this daemon) did.
void Broker::State::link_registered(ImportId id, const LinkImportReply& m) {
  ImportEntry& entry = imports.at(id);
  const bool joined =
      entry.phase == ImportEntry::Phase::kLive || entry.phase == ImportEntry::Phase::kUnconfirmed;
  if (!joined) return;
  if (m.code == Errc::kUnavailable || m.code == Errc::kResourceExhausted) return;
  if (m.code == Errc::kRevoked || m.code == Errc::kStale) return revoke_import(id);
  if (m.code != Errc::kOk) return lose_import(id, Errc::kPeerLost);
  entry.phase = ImportEntry::Phase::kLive;
  if (m.rank != kNoRank) entry.exporter_rank = m.rank;
  entry.exporter_partition = {m.partition_domain, m.partition_clique};
  revoke_moved_imports();
}

void Broker::State::link_export_ended(NodeId node, const LinkExportEnded& m) {
  for (const auto& [key, request] : pending) {  // ended before its answer came
    if (request.link || request.node != node || request.import_id != m.import_id) continue;
    return fail_pending(key, {m.reason == Errc::kRevoked ? Errc::kRevoked : Errc::kNotFound,
                              "the export ended meanwhile",
                              {},
                              kNoRank});
  }
  const auto found = imports.find(m.import_id);
  const bool known = found != imports.end() && found->second.handle.node == node;
  if (known && m.rank != kNoRank) found->second.exporter_rank = m.rank;
  if (m.reason != Errc::kRevoked) {
    if (known) lose_import(m.import_id, m.reason);
    return;
  }
  if (known && found->second.phase != ImportEntry::Phase::kOver) return revoke_import(m.import_id);
  send_to_peer(node, 0, LinkRevokeAck{m.import_id, 0});  // not mapped here (any more)
}

}  // namespace imex::domain
