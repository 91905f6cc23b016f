// Revocation: the fabric withdrew memory (or a channel was released), so an export ends for all its
// importers. Abort words first, then events, then the count of who has unmapped.

#include <algorithm>

#include <fmt/format.h>

#include "broker_state.hpp"

namespace imex::domain {

/// Whether every importer of the export may still share with it.
bool Broker::State::still_shared(const ExportEntry& entry) const {
  const std::uint64_t own = sessions.at(entry.session).who.gpu_uid;
  for (const ImportId each : entry.importers) {
    const fabric::Gpu* importer = gpu(sessions.at(imports.at(each).session).who.gpu_uid);
    if (importer == nullptr || !check_partitions(own, importer->partition, importer->attached))
      return false;
  }
  for (const RemoteKey& key : entry.remote_importers) {
    if (!check_partitions(own, remote_importers.at(key).partition, true)) return false;
  }
  return true;
}

void Broker::State::trip_revoked(const ExportEntry& entry) {
  if (entry.phase != ExportEntry::Phase::kLive) return;
  trip_importers(entry, Errc::kRevoked, entry.request.rank);
  trip(entry.session, entry.request.scope, Errc::kRevoked, kNoRank);
}

void Broker::State::start_revocation(ExportId id) {
  ExportEntry& entry = exports.at(id);
  if (entry.phase != ExportEntry::Phase::kLive) return;
  entry.phase = ExportEntry::Phase::kRevoking;
  std::fill(std::begin(entry.outcomes), std::end(entry.outcomes), 0U);
  ++stats.revocations;
  const std::set<ImportId> importers = entry.importers;
  for (const ImportId each : importers) revoke_import(each);
  for (const RemoteKey& key : entry.remote_importers) {
    expect_remote_ack(key);
    tell_importer(key.node, key.import_id,
                  LinkExportEnded{key.import_id, Errc::kRevoked, entry.request.rank});
  }
  Event event;
  event.kind = Event::Kind::kExportRevoked;
  event.id = id;
  event.scope = entry.request.scope;
  event.rank = kNoRank;
  event.reason = Errc::kRevoked;
  tell(entry.session, event);
  check_quiescent(id);
}

void Broker::State::expect_remote_ack(const RemoteKey& key) {
  RemoteImporter& importer = remote_importers.at(key);
  importer.deadline = now + config.link_timeout;
  arm(importer.deadline, Timer::Kind::kRemote, key.import_id, key.node);
}

/// Tells one importer of this node to unmap. The abort word first; where the export is ours it was
/// set already, and a second time does no harm.
void Broker::State::revoke_import(ImportId id) {
  ImportEntry& entry = imports.at(id);
  if (entry.phase == ImportEntry::Phase::kRevoking || entry.phase == ImportEntry::Phase::kOver)
    return;
  trip(entry.session, entry.scope, Errc::kRevoked, entry.exporter_rank);
  entry.phase = ImportEntry::Phase::kRevoking;
  entry.deadline = now + config.revoke_timeout;
  arm(entry.deadline, Timer::Kind::kImport, id);
  Event event;
  event.kind = Event::Kind::kRevokeImport;
  event.id = id;
  event.scope = entry.scope;
  event.rank = entry.exporter_rank;
  event.reason = Errc::kRevoked;
  tell(entry.session, event);
}

/// Imports from other nodes whose GPU here is not where it was: this side revokes at once and tells
/// the exporter, which ends the export for all.
void Broker::State::revoke_moved_imports() {
  std::vector<ImportId> moved;
  for (const auto& [id, entry] : imports) {
    if (entry.phase != ImportEntry::Phase::kLive || entry.handle.node == config.node) continue;
    const fabric::Gpu* own = gpu(sessions.at(entry.session).who.gpu_uid);
    if (own != nullptr && own->attached && own->partition == entry.exporter_partition) continue;
    moved.push_back(id);
    trip(entry.session, entry.scope, Errc::kRevoked, entry.exporter_rank);
  }
  for (const ImportId id : moved) {
    ImportEntry& entry = imports.at(id);
    const fabric::Gpu* own = gpu(sessions.at(entry.session).who.gpu_uid);
    const fabric::Partition at = own != nullptr ? own->partition : fabric::Partition{};
    revoke_import(id);
    tell_exporter(entry.handle.node, entry.handle.instance, id,
                  LinkImportMoved{id, at.domain_uuid, at.clique_id});
  }
}

bool Broker::State::kill(SessionId id) {
  Session& session = sessions.at(id);
  if (!config.kill_silent_importers || session.who.pidfd == 0) return false;
  if (!std::exchange(session.kill_sent, true)) {
    log(3, fmt::format("session {} keeps revoked memory mapped: its process is killed", id));
    emit(KillProcess{id});
  }
  return true;
}

/// The importer stayed silent: kill it where that is permitted, and give the kernel as long again.
void Broker::State::import_deadline(ImportId id) {
  ImportEntry& entry = imports.at(id);
  if (!entry.kill_sent && kill(entry.session)) {
    entry.kill_sent = true;
    entry.deadline = now + config.revoke_timeout;
    return arm(entry.deadline, Timer::Kind::kImport, id);
  }
  log(3, fmt::format("session {} did not give up revoked memory; it will not be written again",
                     entry.session));
  finish_revoked(id, RevokeOutcome::kSilent);
}

void Broker::State::finish_revoked(ImportId id, RevokeOutcome outcome) {
  ImportEntry& entry = imports.at(id);
  if (entry.phase != ImportEntry::Phase::kRevoking) return;
  entry.phase = ImportEntry::Phase::kOver;
  disarm(entry.deadline, Timer::Kind::kImport, id);
  closing_due.insert(sessions.at(entry.session).who.channel);
  if (outcome == RevokeOutcome::kKilled) ++stats.importers_killed;
  if (outcome == RevokeOutcome::kSilent) ++stats.importers_silent;
  if (entry.handle.node != config.node) {
    tell_exporter(entry.handle.node, entry.handle.instance, id,
                  LinkRevokeAck{id, static_cast<std::uint32_t>(outcome)});
    return;
  }
  const auto exporter = exports.find(entry.handle.export_id);
  if (exporter == exports.end() || exporter->second.importers.erase(id) == 0) return;
  count_outcome(entry.handle.export_id, outcome);
}

/// One importer less of a revoked export.
void Broker::State::count_outcome(ExportId id, RevokeOutcome outcome) {
  const auto found = exports.find(id);
  if (found == exports.end()) return;
  ++found->second.outcomes[static_cast<std::size_t>(outcome)];
  check_quiescent(id);
}

void Broker::State::check_quiescent(ExportId id) {
  ExportEntry& entry = exports.at(id);
  if (entry.phase != ExportEntry::Phase::kRevoking) return;
  if (!entry.importers.empty() || !entry.remote_importers.empty()) return;
  const std::uint32_t channel = sessions.at(entry.session).who.channel;
  const bool released = channels.at(channel).phase != Channel::Phase::kOpen;
  if (issued_before(id) && importers_unknown(entry) && !released) return;
  entry.phase = ExportEntry::Phase::kQuiescent;
  release(entry.data);
  release(entry.control);
  Event event;
  event.kind = Event::Kind::kExportQuiescent;
  event.id = id;
  event.scope = entry.request.scope;
  event.rank = kNoRank;
  event.reason = Errc::kRevoked;
  event.acknowledged = entry.outcomes[0];
  event.killed = entry.outcomes[1];
  event.silent = entry.outcomes[2];
  tell(entry.session, event);
  closing_due.insert(channel);
}

void Broker::State::check_all_quiescent() {
  std::vector<ExportId> revoking;
  for (const auto& [id, entry] : exports) {
    if (entry.phase == ExportEntry::Phase::kRevoking) revoking.push_back(id);
  }
  for (const ExportId id : revoking) check_quiescent(id);
}

}  // namespace imex::domain
