// Exports: making one, registering it again after a restart or a revocation, ending it.

#include <fmt/format.h>

#include "base/assert.hpp"
#include "broker_state.hpp"

namespace imex::domain {

Handle Broker::State::handle_of(ExportId id, const ExportEntry& entry) const {
  const BrokerMemory::Session& who = sessions.at(entry.session).who;
  return sealer.seal(
      {id, config.node, who.channel, who.gpu_uid, entry.request.generation, config.instance});
}

/// What holds for every export; `former_bytes`: size of the registration that this one replaces.
Result<void> Broker::State::check_export(const Session& session, const ExportRequest& m,
                                         std::uint64_t former_bytes, bool anew) const {
  const Channel& channel = channels.at(session.who.channel);
  const ChannelLimits& limits = config.limits;
  if (channel.phase != Channel::Phase::kOpen) {
    return fail(Errc::kRevoked, fmt::format("channel {} is being released", session.who.channel));
  }
  if (m.size_bytes == 0) return fail(Errc::kInvalidArgument, "export of 0 bytes");
  if (m.scope != kNoScope && m.scope >= kAbortScopesMax) {
    return fail(Errc::kInvalidArgument,
                fmt::format("abort scope {} is not below {}", m.scope, kAbortScopesMax));
  }
  if (anew && channel.usage.exports >= limits.exports_max) {
    return fail(Errc::kResourceExhausted, fmt::format("channel {} has {} exports, its limit",
                                                      session.who.channel, channel.usage.exports));
  }
  const std::uint64_t others = channel.usage.export_bytes - former_bytes;
  if (others > limits.export_bytes_max || m.size_bytes > limits.export_bytes_max - others) {
    return fail(Errc::kResourceExhausted,
                fmt::format("export of {} bytes: channel {} has exported {} of {} bytes",
                            m.size_bytes, session.who.channel, others, limits.export_bytes_max));
  }
  return {};
}

/// Whether the session may register `m.export_id` again.
Result<void> Broker::State::check_again(const Session& session, const ExportRequest& m) const {
  if (!sealer.owns_id(session.who.id, m.export_id)) {
    return fail(Errc::kPermissionDenied, "the export was never one of this session");
  }
  if (m.generation == 0 || m.generation == UINT32_MAX) {
    return fail(Errc::kInvalidArgument, fmt::format("generation {} is out of range", m.generation));
  }
  const auto found = exports.find(m.export_id);
  if (found == exports.end()) {
    if (session.resumed && resume_open && issued_before(m.export_id)) return {};
    return fail(Errc::kNotFound, "the export has ended");
  }
  const ExportEntry& entry = found->second;
  const bool live = entry.phase == ExportEntry::Phase::kLive;
  const std::uint32_t known = entry.request.generation;
  if (m.generation == known && live) return {};
  if (m.generation == known + 1 && entry.phase == ExportEntry::Phase::kQuiescent) return {};
  if (m.generation != known && m.generation != known + 1) {
    return fail(Errc::kStale,
                fmt::format("generation {} of an export that is at {}", m.generation, known));
  }
  return fail(
      Errc::kFailedPrecondition,
      live ? "an export that was not revoked keeps its generation"
           : "the export is revoked; wait until it is quiescent, then take the next generation");
}

Result<void> Broker::State::export_memory(SessionId session_id, ConnectionId id,
                                          std::uint32_t request_id, const ExportRequest& m,
                                          FdBag& fds) {
  Session& session = sessions.at(session_id);
  if (!fds.is_pair()) {
    return fail(Errc::kInvalidArgument, "export: two descriptors belong to it");
  }
  ExportId export_id = m.export_id;
  const auto known = exports.find(export_id);
  const bool anew = known == exports.end();
  const std::uint64_t former_bytes = anew ? 0 : known->second.request.size_bytes;
  if (export_id != 0) IMEX_CHECK_OK(check_again(session, m));
  IMEX_CHECK_OK(check_export(session, m, former_bytes, anew));
  if (export_id == 0) {
    // Not always generation 1: the allocation may have moved for another export of it.
    if (m.generation == 0 || m.generation == UINT32_MAX || m.revoking != 0) {
      return fail(Errc::kInvalidArgument, fmt::format("a new export of generation {}, revoking {}",
                                                      m.generation, m.revoking));
    }
    const fabric::Gpu* own = gpu(session.who.gpu_uid);
    if (own == nullptr || !own->attached) {
      return fail(Errc::kFailedPrecondition, "the session's GPU is not attached to the fabric");
    }
    const auto number = next_number();
    if (!number) return fail(Errc::kResourceExhausted, "no id is left that the journal knows of");
    export_id = sealer.make_id(session_id, *number);
    ++stats.exports_done;
  }

  ExportEntry& entry = exports[export_id];
  ChannelUsage& usage = channels.at(session.who.channel).usage;
  usage.exports += anew ? 1 : 0;
  usage.export_bytes += m.size_bytes - former_bytes;
  entry.session = session_id;
  entry.request = m;
  const bool revoking = anew && m.revoking != 0;
  entry.phase = revoking ? ExportEntry::Phase::kRevoking : ExportEntry::Phase::kLive;
  std::fill(std::begin(entry.outcomes), std::end(entry.outcomes), 0U);
  FdToken former_data = std::exchange(entry.data, fds.take(0));
  FdToken former_control = std::exchange(entry.control, fds.take(1));
  release(former_data);
  release(former_control);
  session.exports.insert(export_id);

  Reply reply;
  reply.id = export_id;
  reply.handle = handle_of(export_id, entry);
  reply.generation = m.generation;
  send(id, request_id, reply);
  export_registered(export_id);
  return {};
}

/// Joins what waited for the export: imports of former lives first, then requests.
void Broker::State::export_registered(ExportId id) {
  ExportEntry& entry = exports.at(id);
  if (auto node = waiting.extract(id)) {
    for (const ImportId each : node.mapped().imports) confirm_import(each, id, entry);
    for (const RemoteKey& key : node.mapped().remote) {
      const bool current = remote_importers.at(key).generation == entry.request.generation;
      if (current) entry.remote_importers.insert(key);
      if (current && entry.phase == ExportEntry::Phase::kLive) continue;
      tell_importer(key.node, key.import_id,
                    LinkExportEnded{key.import_id, Errc::kRevoked, entry.request.rank});
      if (current) {
        expect_remote_ack(key);
      } else {
        drop_remote(key);  // pages of an earlier generation: nobody waits for the answer
      }
    }
  }
  if (entry.phase == ExportEntry::Phase::kLive && !still_shared(entry)) {
    trip_revoked(entry);
    start_revocation(id);
  }
  if (entry.phase == ExportEntry::Phase::kRevoking) check_quiescent(id);
  retry_pending_for(id);
}

void Broker::State::trip_importers(const ExportEntry& entry, Errc code, std::uint32_t rank) {
  for (const ImportId each : entry.importers) {
    const ImportEntry& import = imports.at(each);
    trip(import.session, import.scope, code, rank);
  }
}

/// `reason` kOk: in order, nothing is aborted and mappings stay; kPeerLost: the process is gone.
void Broker::State::end_export(ExportId id, Errc reason) {
  ExportEntry& entry = exports.at(id);
  const std::uint32_t rank = entry.request.rank;
  const std::set<ImportId> importers = std::exchange(entry.importers, {});
  if (reason != Errc::kOk) {
    for (const ImportId each : importers) {
      trip(imports.at(each).session, imports.at(each).scope, reason, rank);
    }
  }
  for (const ImportId each : importers) {
    imports.at(each).exporter_rank = rank;
    lose_import(each, reason);
  }
  const std::set<RemoteKey> remote = std::exchange(entry.remote_importers, {});
  for (const RemoteKey& key : remote) {
    tell_importer(key.node, key.import_id, LinkExportEnded{key.import_id, reason, rank});
    drop_remote(key);
  }
  release(entry.data);
  release(entry.control);
  Session& session = sessions.at(entry.session);
  ChannelUsage& usage = channels.at(session.who.channel).usage;
  --usage.exports;
  usage.export_bytes -= entry.request.size_bytes;
  session.exports.erase(id);
  closing_due.insert(session.who.channel);
  exports.erase(id);
  retry_pending_for(id);
}

}  // namespace imex::domain
