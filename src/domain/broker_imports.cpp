// Imports by the sessions of this node: the checks in their order, requests that must wait, and
// what an import's end means for its exporter.

#include <fmt/format.h>

#include "base/assert.hpp"
#include "broker_state.hpp"

namespace imex::domain {
namespace {

/// One text for everything that only a forger would want to tell apart.
Error not_valid() {
  return {Errc::kPermissionDenied, "the handle is not valid here",
          "use the 64 bytes as they were exported, on the same channel of the same domain",
          kNoRank};
}

}  // namespace

// ---- checks ----

Result<void> Broker::State::check_handle_of_own(const Handle& bytes, const HandleFields& handle,
                                                std::uint32_t channel) const {
  if (handle.instance != config.instance) {
    return fail(Errc::kStale, "the exporter's daemon was replaced; its handles ended with it",
                "export the memory again");
  }
  if (!sealer.verify(bytes)) return fail(not_valid());
  if (handle.channel != channel) {
    return fail(Errc::kPermissionDenied, "the handle belongs to another channel");
  }
  return {};
}

/// Whether the export may still be registered again by a session of the life before.
bool Broker::State::may_come_back(ExportId id) const {
  if (!resume_open || !issued_before(id) || ended_in_order.contains(id)) return false;
  for (const auto& [session_id, session] : sessions) {
    if (session.resumed && sealer.owns_id(session_id, id)) return true;
  }
  return false;
}

Result<ExportEntry*> Broker::State::find_export(const HandleFields& handle) {
  const auto found = exports.find(handle.export_id);
  if (found == exports.end()) {
    if (may_come_back(handle.export_id)) return nullptr;
    return fail(Errc::kNotFound, "the export has ended");
  }
  ExportEntry& entry = found->second;
  if (entry.request.generation != handle.generation) {
    return fail(Errc::kStale, fmt::format("handle of generation {}, the export is at {}",
                                          handle.generation, entry.request.generation));
  }
  if (entry.phase != ExportEntry::Phase::kLive) {
    return fail(Errc::kRevoked,
                "the export is withdrawn: a GPU left the partition, or the channel "
                "was released");
  }
  return &entry;
}

Result<void> Broker::State::check_partitions(std::uint64_t exporter_gpu,
                                             const fabric::Partition& importer,
                                             bool importer_attached) const {
  const fabric::Gpu* exporter = gpu(exporter_gpu);
  if (exporter == nullptr || !exporter->attached) {
    return fail(Errc::kPermissionDenied, "the exporter's GPU is not attached to the fabric");
  }
  if (!importer_attached) {
    return fail(Errc::kPermissionDenied, "the importer's GPU is not attached to the fabric");
  }
  if (exporter->partition != importer) {
    return fail(Errc::kPermissionDenied,
                fmt::format("GPUs in different partitions: exporter's in {}, importer's in {}",
                            exporter->partition.to_string(), importer.to_string()));
  }
  return {};
}

Result<void> Broker::State::check_import_limits(const Session& session) const {
  const Channel& channel = channels.at(session.who.channel);
  if (channel.phase != Channel::Phase::kOpen) {
    return fail(Errc::kRevoked, fmt::format("channel {} is being released", session.who.channel));
  }
  if (channel.usage.imports >= config.limits.imports_max) {
    return fail(Errc::kResourceExhausted, fmt::format("channel {} has {} imports, its limit",
                                                      session.who.channel, channel.usage.imports));
  }
  return {};
}

// ---- requests ----

void Broker::State::import_memory(Session& session, ConnectionId id, std::uint32_t request_id,
                                  const ImportRequest& m) {
  const auto done = try_import(session, id, request_id, m);
  if (done) return;
  ++stats.imports_failed[done.error().code];
  refuse(id, request_id, done.error());
}

Result<void> Broker::State::try_import(Session& session, ConnectionId id, std::uint32_t request_id,
                                       const ImportRequest& m) {
  const auto handle = read_handle(m.handle);
  if (!handle) return fail(not_valid());
  if (m.scope != kNoScope && m.scope >= kAbortScopesMax) {
    return fail(Errc::kInvalidArgument,
                fmt::format("abort scope {} is not below {}", m.scope, kAbortScopesMax));
  }
  if (handle->node == config.node) {
    IMEX_CHECK_OK(check_handle_of_own(m.handle, *handle, session.who.channel));
  } else if (handle->channel != session.who.channel) {
    return fail(Errc::kPermissionDenied, "the handle belongs to another channel");
  }
  if (m.import_id != 0) return import_again(session, id, request_id, m, *handle);
  if (handle->node == config.node) return import_here(session, id, request_id, m, *handle);
  return import_there(session, id, request_id, m, *handle);
}

Result<void> Broker::State::import_here(Session& session, ConnectionId id, std::uint32_t request_id,
                                        const ImportRequest& m, const HandleFields& handle) {
  IMEX_TRY(ExportEntry * entry, find_export(handle));
  if (entry == nullptr) {
    PendingImport request;
    request.connection = id;
    request.request_id = request_id;
    request.session = session.who.id;
    request.request = m;
    request.handle = handle;
    request.node = config.node;
    IMEX_TRY([[maybe_unused]] auto key, park(std::move(request)));
    return {};
  }
  const fabric::Gpu* own = gpu(session.who.gpu_uid);
  IMEX_CHECK_OK(check_partitions(handle.gpu_uid,
                                 own != nullptr ? own->partition : fabric::Partition{},
                                 own != nullptr && own->attached));
  IMEX_CHECK_OK(check_import_limits(session));
  const auto number = next_number();
  if (!number) return fail(Errc::kResourceExhausted, "no id is left that the journal knows of");
  const ImportId import_id = sealer.make_id(session.who.id, *number);
  ImportEntry& import = add_import(import_id, session, m, handle);
  import.exporter_rank = entry->request.rank;
  entry->importers.insert(import_id);
  ++stats.imports_done;
  answer_import(id, request_id, import_id, *entry, true);
  return {};
}

/// The exporter is on another node: only its daemon can judge the handle.
Result<void> Broker::State::import_there(Session& session, ConnectionId id,
                                         std::uint32_t request_id, const ImportRequest& m,
                                         const HandleFields& handle) {
  const auto peer = peers.find(handle.node);
  if (peer == peers.end() || peer->second.instance.is_nil()) {
    return fail(Errc::kUnavailable,
                fmt::format("node {} of the exporter is not reachable", handle.node));
  }
  if (peer->second.instance != handle.instance) {
    return fail(Errc::kStale, "the exporter's daemon was replaced; its handles ended with it",
                "export the memory again");
  }
  if (peer->second.links.empty() && peer->second.boot_id != config.boot_id) {
    return fail(
        Errc::kUnsupported,
        fmt::format("exporter runs on another machine (node {}, {}); this build shares memory "
                    "only over NVLink or on one machine",
                    handle.node, peer->second.address));
  }
  const fabric::Gpu* own = gpu(session.who.gpu_uid);
  if (own == nullptr || !own->attached) {
    return fail(Errc::kPermissionDenied, "the importer's GPU is not attached to the fabric");
  }
  IMEX_CHECK_OK(check_import_limits(session));
  const auto number = next_number();
  if (!number) return fail(Errc::kResourceExhausted, "no id is left that the journal knows of");
  PendingImport request;
  request.connection = id;
  request.request_id = request_id;
  request.session = session.who.id;
  request.request = m;
  request.handle = handle;
  request.import_id = sealer.make_id(session.who.id, *number);
  request.node = handle.node;
  IMEX_TRY(const std::uint32_t key, park(std::move(request)));
  if (link_up(handle.node)) send_link_import(key);
  return {};
}

/// After a restart of the daemon: the client says what it has mapped. Taken on trust of the id's
/// tag and the handle's MAC until the exporter has registered its side again.
Result<void> Broker::State::import_again(Session& session, ConnectionId id,
                                         std::uint32_t request_id, const ImportRequest& m,
                                         const HandleFields& handle) {
  if (!sealer.owns_id(session.who.id, m.import_id)) {
    return fail(Errc::kPermissionDenied, "the import was never one of this session");
  }
  Reply reply;
  reply.id = m.import_id;
  reply.gpu_uid = handle.gpu_uid;
  reply.generation = handle.generation;
  reply.node = handle.node;
  reply.rank = kNoRank;
  if (const auto known = imports.find(m.import_id); known != imports.end()) {
    if (known->second.bytes != m.handle) {
      return fail(Errc::kInvalidArgument, "the import is known under another handle");
    }
    reply.rank = known->second.exporter_rank;
    send(id, request_id, reply);
    return {};
  }
  if (!session.resumed || !resume_open || !issued_before(m.import_id)) {
    return fail(Errc::kNotFound, "the import has ended");
  }
  IMEX_CHECK_OK(check_import_limits(session));
  const bool here = handle.node == config.node;
  const auto peer = peers.find(handle.node);
  if (!here && peer != peers.end() && !peer->second.instance.is_nil() &&
      peer->second.instance != handle.instance) {
    return fail(Errc::kStale, "the exporter's daemon was replaced; its handles ended with it");
  }
  const auto exporter = exports.find(handle.export_id);
  const bool left = here && exporter == exports.end() && has_ended_in_order(handle.export_id);
  if (here && exporter == exports.end() && !left && !may_come_back(handle.export_id)) {
    return fail(Errc::kNotFound, "the export has ended");
  }
  ImportEntry& import = add_import(m.import_id, session, m, handle);
  import.phase = ImportEntry::Phase::kUnconfirmed;
  if (here && exporter != exports.end()) reply.rank = exporter->second.request.rank;
  send(id, request_id, reply);
  if (!here) {
    if (link_up(handle.node)) register_over_link(m.import_id);
  } else if (left) {
    lose_import(m.import_id, Errc::kOk);
  } else if (exporter == exports.end()) {
    waiting[handle.export_id].imports.insert(m.import_id);
  } else {
    confirm_import(m.import_id, handle.export_id, exporter->second);
    if (exporter->second.phase == ExportEntry::Phase::kLive && !still_shared(exporter->second)) {
      trip_revoked(exporter->second);
      start_revocation(handle.export_id);
    }
  }
  return {};
}

/// An unconfirmed import and its export have found each other.
void Broker::State::confirm_import(ImportId id, ExportId, ExportEntry& exporter) {
  ImportEntry& entry = imports.at(id);
  entry.exporter_rank = exporter.request.rank;
  entry.phase = ImportEntry::Phase::kLive;
  const bool current = entry.handle.generation == exporter.request.generation;
  if (current) exporter.importers.insert(id);
  if (!current || exporter.phase != ExportEntry::Phase::kLive) revoke_import(id);
}

ImportEntry& Broker::State::add_import(ImportId id, Session& session, const ImportRequest& m,
                                       const HandleFields& handle) {
  ImportEntry& entry = imports[id];
  entry.session = session.who.id;
  entry.handle = handle;
  entry.bytes = m.handle;
  entry.rank = m.rank;
  entry.scope = m.scope;
  session.imports.insert(id);
  ++channels.at(session.who.channel).usage.imports;
  return entry;
}

void Broker::State::answer_import(ConnectionId id, std::uint32_t request_id, ImportId import_id,
                                  const ExportEntry& entry, bool with_fds) {
  Reply reply;
  reply.id = import_id;
  reply.size_bytes = entry.request.size_bytes;
  reply.gpu_uid = sessions.at(entry.session).who.gpu_uid;
  reply.generation = entry.request.generation;
  reply.rank = entry.request.rank;
  reply.node = config.node;
  send(id, request_id, reply,
       with_fds ? std::vector<FdToken>{entry.data, entry.control} : std::vector<FdToken>{});
}

// ---- requests that wait ----

Result<std::uint32_t> Broker::State::park(PendingImport request) {
  std::uint32_t* count = nullptr;
  if (request.session != 0) {
    count = &sessions.at(request.session).pending;
    if (*count >= BrokerBounds::kPendingPerSession) {
      return fail(Errc::kResourceExhausted,
                  fmt::format("{} imports of this session wait already", *count));
    }
  }
  if (pending.size() >= BrokerBounds::kPendingTotal) {
    return fail(Errc::kResourceExhausted, fmt::format("{} imports wait already", pending.size()));
  }
  if (count != nullptr) ++*count;
  do ++next_pending;
  while (next_pending == 0 || pending.contains(next_pending));
  request.deadline = now + config.link_timeout;
  arm(request.deadline, Timer::Kind::kPending, next_pending);
  pending.emplace(next_pending, std::move(request));
  return next_pending;
}

/// Forgets the request. Where another daemon may have granted it meanwhile, that is taken back.
void Broker::State::unpark(std::uint32_t key) {
  const auto node = pending.extract(key);
  if (!node) return;
  const PendingImport& request = node.mapped();
  disarm(request.deadline, Timer::Kind::kPending, key);
  const auto session = sessions.find(request.session);
  if (session != sessions.end()) --session->second.pending;
  if (request.sent) {
    tell_exporter(request.node, request.handle.instance, request.import_id,
                  LinkImportEnded{request.import_id, 0});
  }
}

void Broker::State::fail_pending(std::uint32_t key, const Error& error) {
  const auto found = pending.find(key);
  if (found == pending.end()) return;
  const PendingImport request = found->second;
  unpark(key);
  ++stats.imports_failed[error.code];
  if (request.link) {
    refuse_link(request.node, request.request_id, request.link->import_id, error);
  } else {
    refuse(request.connection, request.request_id, error);
  }
}

/// The export came back, or ended for good: requests that waited for it are judged anew.
void Broker::State::retry_pending_for(ExportId id) {
  std::vector<std::uint32_t> keys;
  for (const auto& [key, request] : pending) {
    if (request.handle.export_id == id && !request.sent && request.import_id == 0)
      keys.push_back(key);
  }
  for (const std::uint32_t key : keys) {
    const PendingImport request = pending.at(key);
    unpark(key);
    if (request.link) {
      link_import(request.connection, request.request_id, request.node, *request.link);
    } else if (const auto session = sessions.find(request.session); session != sessions.end()) {
      import_memory(session->second, request.connection, request.request_id, request.request);
    }
  }
}

// ---- the end of an import ----

/// The exporter is gone (`reason`) or ended the export in order (kOk: the mapping stays, no abort).
void Broker::State::lose_import(ImportId id, Errc reason) {
  ImportEntry& entry = imports.at(id);
  if (entry.phase == ImportEntry::Phase::kOver) return;
  if (entry.phase == ImportEntry::Phase::kRevoking)
    disarm(entry.deadline, Timer::Kind::kImport, id);
  entry.phase = ImportEntry::Phase::kOver;
  if (reason != Errc::kOk) trip(entry.session, entry.scope, Errc::kPeerLost, entry.exporter_rank);
  Event event;
  event.kind = Event::Kind::kExporterLost;
  event.id = id;
  event.scope = entry.scope;
  event.rank = entry.exporter_rank;
  event.reason = reason;
  tell(entry.session, event);
  closing_due.insert(sessions.at(entry.session).who.channel);
}

/// All imports that wait for an export which will not come back; `reason` as in lose_import().
void Broker::State::lose_waiting(ExportId id, Errc reason) {
  const auto node = waiting.extract(id);
  if (!node) return;
  for (const ImportId each : node.mapped().imports) lose_import(each, reason);
  for (const RemoteKey& key : node.mapped().remote) {
    tell_importer(key.node, key.import_id, LinkExportEnded{key.import_id, reason, kNoRank});
    drop_remote(key);
  }
  retry_pending_for(id);
}

/// The client unmapped (`lost` false), or its process is gone.
void Broker::State::unimport(ImportId id, bool lost) {
  ImportEntry& entry = imports.at(id);
  const SessionId session_id = entry.session;
  const HandleFields handle = entry.handle;
  const bool here = handle.node == config.node;
  const bool joined =
      entry.phase == ImportEntry::Phase::kLive || entry.phase == ImportEntry::Phase::kUnconfirmed;
  if (entry.phase == ImportEntry::Phase::kRevoking) {
    const bool killed = lost && entry.kill_sent;
    finish_revoked(id, killed ? RevokeOutcome::kKilled : RevokeOutcome::kAcknowledged);
  } else if (joined && !here) {
    tell_exporter(handle.node, handle.instance, id,
                  LinkImportEnded{id, static_cast<std::uint8_t>(lost)});
  } else if (joined) {
    if (const auto found = waiting.find(handle.export_id); found != waiting.end()) {
      found->second.imports.erase(id);
      if (found->second.imports.empty() && found->second.remote.empty()) waiting.erase(found);
    }
    const auto exporter = exports.find(handle.export_id);
    if (exporter != exports.end() && exporter->second.importers.erase(id) != 0 && lost) {
      importer_lost(handle.export_id, exporter->second, entry.rank);
    }
  }
  const auto owner = sessions.find(session_id);
  owner->second.imports.erase(id);
  --channels.at(owner->second.who.channel).usage.imports;
  imports.erase(id);
  closing_due.insert(owner->second.who.channel);
}

void Broker::State::importer_lost(ExportId id, const ExportEntry& entry, std::uint32_t rank) {
  trip(entry.session, entry.request.scope, Errc::kPeerLost, rank);
  Event event;
  event.kind = Event::Kind::kImporterLost;
  event.id = id;
  event.scope = entry.request.scope;
  event.rank = rank;
  event.reason = Errc::kPeerLost;
  tell(entry.session, event);
}

}  // namespace imex::domain
