// What can be seen from outside, and the end.

#include <algorithm>

#include <fmt/format.h>
#include <imex/command/v1/command.pb.h>

#include "base/version.hpp"
#include "daemon.hpp"
#include "metrics/registry.hpp"
#include "metrics_export.hpp"
#include "os/process.hpp"

namespace imex::domain {

namespace {

namespace pb = imex::command::v1;

std::string bytes_of(const Uuid& id) {
  return std::string(reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size());
}

std::uint64_t whole(Nanos duration, Nanos unit) {
  return duration > Nanos(0) ? static_cast<std::uint64_t>(duration / unit) : 0;
}

}  // namespace

void Daemon::fill_status(pb::Status& status) const {
  const DaemonStatus now_status =
      membership_ && !closed_ ? membership_->status() : DaemonStatus::kInitializing;
  status.set_status(static_cast<std::uint32_t>(now_status));
  status.set_version(config_.no_gpu ? "NO_GPU" : std::string(build_info().version));
  status.set_node(own_.node);
  status.set_host_name(os::host_name());
  status.set_domain_id(bytes_of(domain_id_));
  status.set_instance(bytes_of(instance_));
  status.set_last_error(last_error_);
  status.set_assigned_only(config_.assigned_only);
  if (!membership_) return;
  status.set_list_epoch(membership_->list_epoch());
  const Time now = loop_.now();
  for (const PeerView& peer : membership_->peers()) {
    pb::PeerStatus& row = *status.add_peers();
    row.set_node(peer.node);
    row.set_host(peer.host);
    row.set_address(peer.address);
    row.set_state(static_cast<std::uint32_t>(peer.state));
    row.set_status(static_cast<std::uint32_t>(peer.status));
    row.set_version(peer.version);
    row.set_instance(bytes_of(peer.instance));
    row.set_since_ms(whole(now - peer.since, std::chrono::milliseconds(1)));
    row.set_attempts(peer.attempts);
    row.set_last_error(peer.last_error);
  }
}

std::vector<std::string> Daemon::problems() const {
  std::vector<std::string> found;
  if (!last_error_.empty()) found.push_back("last error: " + last_error_);
  if (journal_ && journal_->broken()) found.push_back("the journal cannot be written");
  if (log_broken_) {
    found.push_back(fmt::format("the log cannot be written: {} lines are lost", log_lines_lost_));
  }
  if (!membership_) return found;
  if (membership_->status() != DaemonStatus::kReady) {
    found.push_back(fmt::format("status is {}", status_word(membership_->status())));
  }
  for (const PeerView& peer : membership_->peers()) {
    const bool assigned = !peer.address.empty() || !config_.assigned_only;
    if (!assigned || peer.node == own_.node || peer.state == PairState::kConnected) continue;
    found.push_back(fmt::format("node {} ({}) is {}{}{}", peer.node, peer.host,
                                pair_word(peer.state), peer.last_error.empty() ? "" : ": ",
                                peer.last_error));
  }
  if (server_tls_) {
    constexpr auto kWarnBefore = std::chrono::hours(24 * 7);
    const auto expires = std::min(server_tls_->expires, client_tls_->expires);
    const auto left = expires - std::chrono::system_clock::now();
    if (left < kWarnBefore) {
      found.push_back(fmt::format("a certificate expires in {} hours",
                                  std::chrono::duration_cast<std::chrono::hours>(left).count()));
    }
  }
  return found;
}

void Daemon::fill_health(pb::Health& health) const {
  fill_status(*health.mutable_status());
  for (const std::string& problem : problems()) health.add_problems(problem);
  if (!broker_) return;
  const auto& grants = journal_->state().grants;
  for (const domain::ChannelUsage& usage : broker_->usage()) {
    // A channel that was released has no socket, and no owner either: it is none of the node now.
    if (!channels_->is_open(usage.channel) && usage.sessions == 0) continue;
    pb::ChannelUsage& row = *health.add_channels();
    row.set_channel(usage.channel);
    row.set_path(channels_->path(usage.channel));
    row.set_sessions(usage.sessions);
    row.set_exports(usage.exports);
    row.set_imports(usage.imports);
    row.set_export_bytes(usage.export_bytes);
    row.set_refused(usage.refused);
    row.set_uid(kAnyUser);
    for (const auto& [workload, grant] : grants) {
      if (grant.channel != usage.channel) continue;
      row.set_workload(workload);
      row.set_uid(grant.uid);
      for (const std::uint64_t uid : grant.gpu_uids) row.add_gpu_uids(uid);
    }
  }
  for (const fabric::Gpu& gpu : fabric_->gpus()) {
    pb::Gpu& row = *health.add_gpus();
    row.set_index(gpu.index);
    row.set_uid(gpu.uid);
    row.set_domain_uuid(gpu.partition.domain_uuid.to_string());
    row.set_clique_id(gpu.partition.clique_id);
    row.set_attached(gpu.attached);
  }
  const BrokerStats& stats = broker_->stats();
  auto& counters = *health.mutable_counters();
  counters["imports_done"] = stats.imports_done;
  counters["exports_done"] = stats.exports_done;
  counters["revocations"] = stats.revocations;
  counters["importers_killed"] = stats.importers_killed;
  counters["importers_silent"] = stats.importers_silent;
  counters["sessions_lost"] = stats.sessions_lost;
  counters["sessions_resumed"] = stats.sessions_resumed;
  counters["open_descriptors"] = fds_.size();
  counters["log_lines_lost"] = log_.lost_count();
  for (const auto& [code, count] : stats.imports_failed) {
    counters[fmt::format("imports_failed_{}", errc_name(code))] = count;
  }
  if (!server_tls_) return;
  const auto expires = std::min(server_tls_->expires, client_tls_->expires);
  health.set_certificate_expires_in_s(
      whole(expires - std::chrono::system_clock::now(), std::chrono::seconds(1)));
  health.set_credentials_loaded_ago_s(
      whole(loop_.now() - credentials_loaded_, std::chrono::seconds(1)));
}

net::HttpResponse Daemon::answer_http(std::string_view path) const {
  if (path == "/metrics") {
    pb::Health health;
    fill_health(health);
    return {200, std::string(metrics::kContentType), metrics_text(health)};
  }
  if (path == "/healthz") return {200, "text/plain; charset=utf-8", "ok\n"};
  if (path == "/readyz") {
    const bool ready = is_ready();
    return {ready ? 200U : 503U, "text/plain; charset=utf-8",
            fmt::format("{}\n", status_word(membership_->status()))};
  }
  return {404, "text/plain; charset=utf-8", "try /metrics, /healthz or /readyz\n"};
}

bool Daemon::is_ready() const {
  return membership_ && !closed_ && membership_->status() == DaemonStatus::kReady;
}

void Daemon::begin_stop() {
  if (stopping_ || closed_ || !membership_ || !sockets_) return;
  stopping_ = true;
  log_.info("shutting down");
  for (auto& [request, waiting] : std::exchange(waiting_grants_, {})) {
    waiting.done(fail(Errc::kUnavailable, "the daemon shuts down"));
  }
  enqueue(MembershipEvent(StopRequested{}), "StopRequested");
  enqueue(BrokerEvent(ShutdownRequested{}), "ShutdownRequested");
  journal(CleanStopRecord{});
  for (const auto& [attempt, node] : dials_) dialer_->hang_up(attempt);
  for (const auto& [stream, speaker] : hellos_) server_->drop(stream);
}

bool Daemon::flushed() const {
  return !dialer_ || (dialer_->open_streams() == 0 && hellos_.empty());
}

ListeningSockets Daemon::hand_over() {
  return channels_ ? channels_->hand_over() : ListeningSockets();
}

void Daemon::close() {
  if (closed_) return;
  closed_ = true;
  machines_timer_.cancel();
  second_timer_.cancel();
  list_watch_.reset();
  hosts_watch_.reset();
  if (journal_) journal_->touch(loop_.now());
  for (auto& [request, waiting] : std::exchange(waiting_grants_, {})) {
    waiting.done(fail(Errc::kUnavailable, "the daemon shuts down"));
  }
  commands_.reset();
  control_.reset();
  metrics_.reset();
  if (server_) server_->remove(*this);
  server_.reset();
  dialer_.reset();
  links_.reset();
  sessions_.reset();
  channels_.reset();
  sockets_.reset();
}

}  // namespace imex::domain
