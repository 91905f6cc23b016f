// Events into the machines, effects out of them.

#include <algorithm>

#include <fmt/format.h>

#include "daemon.hpp"
#include "domain/daemon.hpp"
#include "os/process.hpp"

namespace imex::domain {

namespace {

/// A step whose refusals are those of an import.
bool is_import(const BrokerEvent& event) {
  const auto* arrived = std::get_if<FrameArrived>(&event);
  return arrived != nullptr && (std::holds_alternative<ImportRequest>(arrived->frame.message) ||
                                std::holds_alternative<LinkImport>(arrived->frame.message) ||
                                std::holds_alternative<LinkImportReply>(arrived->frame.message));
}

constexpr Nanos kStatisticsInterval = std::chrono::seconds(30);

/// Names of the frames, for statistics; order is that of Message.
constexpr std::array<std::string_view, std::variant_size_v<Message>> kFrameNames = {
    "Open",
    "AttachEvents",
    "Export",
    "Import",
    "Unexport",
    "Unimport",
    "RevokeAck",
    "Close",
    "Reply",
    "Event",
    "LinkHello",
    "LinkImport",
    "LinkImportReply",
    "LinkImportEnded",
    "LinkImportMoved",
    "LinkExportEnded",
    "LinkRevokeAck"};

}  // namespace

// ---- the queue ----

void Daemon::enqueue(AnyEvent event, std::string_view name) {
  if (closed_ || failed_) return;
  queue_.push_back({std::move(event), name, loop_.now()});
  pump();
}

void Daemon::pump() {
  if (pumping_ || !membership_ || !sessions_ || !links_) return;
  pumping_ = true;
  while (!queue_.empty()) {
    Queued next = std::move(queue_.front());
    queue_.pop_front();
    handle(next);
  }
  pumping_ = false;
  rearm();
}

template <class Effects>
void Daemon::carry_out(Effects effects) {
  for (const auto& effect : effects) {
    std::visit([this](const auto& each) { on(each); }, effect);
  }
}

void Daemon::handle(Queued& queued) {
  const Time start = loop_.now();
  if (auto* broker = std::get_if<BrokerEvent>(&queued.event)) {
    importing_ = is_import(*broker);
    carry_out(broker_->step(std::move(*broker), start));
  } else if (auto* membership = std::get_if<MembershipEvent>(&queued.event)) {
    carry_out(membership_->step(std::move(*membership), start));
    note_peers();
  } else {
    carry_out(registry_->step(std::get<RegistryEvent>(std::move(queued.event)), start));
  }
  statistics_.count(queued.name, start - queued.since, loop_.now() - start);
}

/// What the registry knows of the nodes follows membership.
void Daemon::note_peers() {
  RegistryPeers peers;
  peers.assigned_count = 0;
  for (const PeerView& peer : membership_->peers()) {
    const bool self = peer.node == own_.node;
    if (self || !peer.address.empty()) ++peers.assigned_count;
    const bool connected = peer.state == PairState::kConnected && routes_.contains(peer.node);
    if (peer.status == DaemonStatus::kReady && (self || connected)) peers.ready.insert(peer.node);
  }
  if (peers.ready == registry_peers_.ready &&
      peers.assigned_count == registry_peers_.assigned_count) {
    return;
  }
  registry_peers_ = peers;
  queue_.push_back({RegistryEvent(std::move(peers)), "RegistryPeers", loop_.now()});
  if (commands_) commands_->changed();
}

void Daemon::rearm() {
  const Time due = std::min(
      {membership_->next_deadline(), broker_->next_deadline(), registry_->next_deadline()});
  if (due == machines_due_ && machines_timer_.armed()) return;
  machines_due_ = due;
  machines_timer_.arm(due, [this] { run_timers(); });
}

void Daemon::run_timers() {
  machines_due_ = kNever;
  const Time now = loop_.now();
  if (membership_->next_deadline() <= now) enqueue(MembershipEvent(Tick{}), "Tick");
  if (broker_->next_deadline() <= now) enqueue(BrokerEvent(TimePassed{}), "TimePassed");
  if (registry_->next_deadline() <= now) enqueue(RegistryEvent(RegistryTick{}), "RegistryTick");
  rearm();
}

void Daemon::every_second() {
  const Time now = loop_.now();
  journal_->touch(now);
  if (journal_->broken() && journal_->rewrite()) {
    log_.info("the journal can be written again");
    broker_->set_journal_broken(false);
  }
  watch_log();
  log_.report_suppressed();
  if (now >= statistics_due_) {
    statistics_due_ = now + kStatisticsInterval;
    const Nanos oldest = queue_.empty() ? Nanos(0) : now - queue_.front().since;
    statistics_log_.info(
        "Performance statistics for last 30 seconds : " +
        statistics_.take_line({queue_.size(), oldest}, {sockets_->queued_frames(), Nanos(0)}));
  }
  second_timer_.arm(now + std::chrono::seconds(1), [this] { every_second(); });
}

/// A log that cannot be written cannot say so: health does, and the log itself once it can again.
void Daemon::watch_log() {
  const std::uint64_t lost = log_.lost_count();
  const bool losing = lost != log_lines_lost_;
  if (!losing && log_broken_) {
    log_.warn(fmt::format("{} lines of the log could not be written", lost));
    log_broken_ = log_.lost_count() != lost;
  } else if (losing) {
    log_broken_ = true;
  }
  log_lines_lost_ = log_.lost_count();
}

// ---- journal ----

void Daemon::journal(const JournalRecord& record) {
  const bool was_broken = journal_->broken();
  if (auto written = journal_->append(record); !written && !was_broken) {
    journal_broke(written.error());
  }
}

void Daemon::journal_broke(const Error& error) {
  log_.error(
      fmt::format("{}: new sessions are refused until it can be written", error.to_string()));
  last_error_ = error.to_string();
  broker_->set_journal_broken(true);
}

void Daemon::on(const JournalSession& e) {
  SessionRecord record{e.session.id, e.session.channel, e.session.uid, e.session.gpu_uid, 0, 0};
  if (const auto pid = os::pid_of_pidfd(fds_.get(e.session.pidfd)); pid && *pid != 0) {
    if (const auto ticks = os::process_start_ticks(*pid)) {
      record.pid = *pid;
      record.pid_start_ticks = *ticks;
    }
  }
  journal(record);
}
void Daemon::on(const JournalSessionEnded& e) { journal(SessionEndedRecord{e.session}); }
void Daemon::on(const JournalNextId& e) { journal(NextIdRecord{e.next_id}); }
void Daemon::on(const JournalImporter& e) { journal(ImporterRecord{e.node, e.present}); }
void Daemon::on(const JournalAssignment& e) { journal(AssignmentRecord{e.assignment}); }

// ---- the broker's effects ----

void Daemon::on(const SendFrame& e) {
  // The words that operators of nvidia-imex look for, on the importer's and the exporter's node.
  // Limited: whoever has a channel can provoke them.
  const auto* reply = std::get_if<Reply>(&e.frame.message);
  const auto* link_reply = std::get_if<LinkImportReply>(&e.frame.message);
  if (importing_ && reply != nullptr && reply->code != Errc::kOk) {
    log_.limited(log::Level::kWarn, "Failed to allocate memory reference",
                 {{"status", errc_name(reply->code)}, {"text", view_error_text(reply->text)}});
  } else if (link_reply != nullptr && link_reply->code != Errc::kOk) {
    log_.limited(
        log::Level::kWarn,
        fmt::format("Failed to get new memory reference with rc: {}",
                    static_cast<unsigned>(link_reply->code)),
        {{"status", errc_name(link_reply->code)}, {"text", view_error_text(link_reply->text)}});
  }
  sockets_->send(e.connection, e.frame, e.fds);
}

void Daemon::on(const CloseConnection& e) {
  sockets_->close(e.connection);
  channels_->forget(e.connection);
  links_->closed(e.connection);
}

void Daemon::on(const ReleaseFd& e) { fds_.release(e.fd); }

void Daemon::on(const AdoptSession& e) {
  sessions_->adopt(e.session, fds_.get(e.abort_page), fds_.get(e.pidfd));
}
void Daemon::on(const DropSession& e) { sessions_->drop(e.session); }
void Daemon::on(const SetAbort& e) { sessions_->trip(e.session, e.scope, e.code, e.rank); }
void Daemon::on(const KillProcess& e) { sessions_->kill(e.session); }
void Daemon::on(const LogLine& e) { say(e.level, e.text); }

// ---- ways in: clients and links ----

void Daemon::on_client(ConnectionId connection, std::uint32_t channel, std::uint32_t uid) {
  enqueue(BrokerEvent(ClientConnected{connection, channel, uid}), "ClientConnected");
}

void Daemon::on_client_frame(ConnectionId connection, Frame frame, std::vector<os::UniqueFd> fds) {
  const std::string_view name = kFrameNames.at(frame.message.index());
  FrameArrived arrived{connection, std::move(frame), fds_.add_all(std::move(fds))};
  enqueue(BrokerEvent(std::move(arrived)), name);
}

void Daemon::on_client_closed(ConnectionId connection) {
  enqueue(BrokerEvent(ConnectionClosed{connection}), "ConnectionClosed");
}

void Daemon::on_link(ConnectionId connection, NodeId node, const Uuid& instance) {
  log_.info(fmt::format("link to node {} on this machine stands", node));
  enqueue(BrokerEvent(LinkConnected{connection, node, instance}), "LinkConnected");
}

void Daemon::on_link_frame(ConnectionId connection, NodeId node, Frame frame,
                           std::vector<os::UniqueFd> fds) {
  if (const auto* reply = std::get_if<LinkImportReply>(&frame.message);
      reply != nullptr && reply->code != Errc::kOk) {
    log_.limited(log::Level::kWarn,
                 fmt::format("Received import response from node id {} with failure status {}",
                             node, static_cast<unsigned>(reply->code)),
                 {{"status", errc_name(reply->code)}, {"text", view_error_text(reply->text)}});
  }
  on_client_frame(connection, std::move(frame), std::move(fds));
}

void Daemon::on_link_closed(ConnectionId connection) { on_client_closed(connection); }

Uuid Daemon::instance_of(NodeId node) const {
  for (const PeerView& peer : membership_->peers()) {
    if (peer.node == node) return peer.instance;
  }
  return {};
}

}  // namespace imex::domain
