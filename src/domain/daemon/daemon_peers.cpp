// Other daemons: streams, hellos, and what membership wants done.

#include <algorithm>

#include <fmt/format.h>

#include "daemon.hpp"
#include "domain/daemon.hpp"
#include "last_error.hpp"

namespace imex::domain {

// ---- membership's effects ----

void Daemon::on(const Resolve& e) {
  resolver_.resolve(e.name, [this, node = e.node](std::string address) {
    enqueue(MembershipEvent(SlotResolved{node, std::move(address)}), "SlotResolved");
  });
}

void Daemon::on(const Dial& e) {
  std::optional<PeerDialer::Security> security;
  if (client_tls_) {
    security = PeerDialer::Security{*client_tls_, config_.target_override};
    if (security->expected_name.empty()) {
      security->expected_name = e.hello.list.entries.at(e.node).text;
    }
  }
  dials_[e.attempt] = e.node;
  dialer_->dial(e.attempt, e.address, config_.port, security, e.hello);
}

void Daemon::on(const HangUp& e) {
  forget_route(e.node, {e.attempt, 0});
  dials_.erase(e.attempt);
  dial_speakers_.erase(e.attempt);
  dialer_->hang_up(e.attempt);
}

void Daemon::on(const AnswerHello& e) {
  if (e.verdict == HelloVerdict::kAccepted) accepted_.insert(e.stream);
  server_->answer(e.stream, e.verdict, e.hello);
}

void Daemon::on(const DropInbound& e) {
  if (const auto speaker = hellos_.find(e.stream); speaker != hellos_.end()) {
    forget_route(speaker->second.node, {0, e.stream});
  }
  accepted_.erase(e.stream);
  server_->drop(e.stream);
}

void Daemon::on(const SendHeartbeat& e) {
  const Route route{e.attempt, e.stream};
  routes_[e.node] = route;  // membership beats only where a peer listens
  send_on(e.node, route, PeerHeartbeat{e.status});
}

void Daemon::on(const SendGoodbye& e) { send_on(e.node, {e.attempt, e.stream}, PeerGoodbye{}); }

void Daemon::on(const PeerJoined& e) {
  enqueue(BrokerEvent(PeerKnown{e.node, e.instance, e.boot_id, e.address}), "PeerKnown");
  if (e.boot_id == boot_id_ && !e.link_path.empty()) links_->join(e.node, e.instance, e.link_path);
}

void Daemon::on(const PeerEnded& e) {
  links_->leave(e.node);
  enqueue(BrokerEvent(PeerInstanceEnded{e.node, e.instance, e.reason}), "PeerInstanceEnded");
  enqueue(RegistryEvent(RegistryNodeEnded{e.node}), "RegistryNodeEnded");
}

void Daemon::on(const PeerWentSilent& e) {
  enqueue(BrokerEvent(PeerSilent{e.node, e.instance}), "PeerSilent");
}

void Daemon::on(const StatusChanged& e) {
  if (e.status == DaemonStatus::kInitGpu) {
    for (const fabric::Gpu& gpu : fabric_->gpus()) {
      log_.info(fmt::format("Attaching to GPU {} (uid {:#x}, partition {})", gpu.index, gpu.uid,
                            gpu.partition.to_string()));
    }
    log_.info("GPU event successfully subscribed");
    enqueue(MembershipEvent(GpusReady{}), "GpusReady");
  }
  if (e.status == DaemonStatus::kReady) {
    // Nobody who imported before is waited for any more.
    const std::set<NodeId> importers = journal_->state().importers;
    const auto live = broker_->importer_nodes();
    for (const NodeId node : importers) {
      if (std::ranges::find(live, node) == live.end()) journal(ImporterRecord{node, false});
    }
    clear_last_error(run_directory_);
    events_.ready();
  }
  if (commands_) commands_->changed();
}

void Daemon::on(const IdentityLost& e) {
  if (failed_) return;
  log_.error(fmt::format("{}: this daemon must not go on", e.why));
  Error error{Errc::kFailedPrecondition, e.why, {}, kNoRank};
  error.hint =
      e.exit_code == ExitCode::kListMismatch
          ? fmt::format("compare {} with the lists of the other nodes", config_.node_list_path)
          : "start the daemon again: it then takes the place that the node list has for it";
  give_up(e.exit_code, error);
}

void Daemon::on(const MembershipLog& e) {
  say(e.level, e.text);
  if (commands_) commands_->changed();
}

void Daemon::on(const SendRegistryMessage& e) {
  const auto route = routes_.find(e.to);
  if (route != routes_.end()) send_on(e.to, route->second, e.message);
}

void Daemon::send_on(NodeId node, const Route& route, const PeerPayload& payload) {
  static_cast<void>(node);
  if (route.attempt != 0) {
    dialer_->send(route.attempt, payload);
  } else {
    server_->send(route.stream, payload);
  }
}

void Daemon::forget_route(NodeId node, const Route& route) {
  const auto found = routes_.find(node);
  const bool same = found != routes_.end() && found->second.attempt == route.attempt &&
                    found->second.stream == route.stream;
  if (same) routes_.erase(found);
}

// ---- streams that others opened ----

int Daemon::affinity(const Hello& hello) const {
  if (config_.domain_id) return hello.domain_id == *config_.domain_id ? 2 : 0;
  return hello.domain_id.is_nil() && lists_agree(list_, hello.list, config_.list_rule) ? 1 : 0;
}

void Daemon::on_hello(std::uint64_t stream, Hello hello) {
  hellos_[stream] = {hello.node, hello.instance};
  enqueue(MembershipEvent(HelloReceived{stream, std::move(hello)}), "Hello");
}

void Daemon::on_message(std::uint64_t stream, PeerPayload payload) {
  if (accepted_.contains(stream)) take(hellos_.at(stream), std::move(payload));
}

void Daemon::on_closed(std::uint64_t stream) {
  const auto speaker = hellos_.find(stream);
  if (speaker != hellos_.end()) {
    forget_route(speaker->second.node, {0, stream});
    hellos_.erase(speaker);
  }
  accepted_.erase(stream);
  enqueue(MembershipEvent(InboundClosed{stream}), "InboundClosed");
}

// ---- streams that we opened ----

void Daemon::on_answer(std::uint64_t attempt, PeerHello answer) {
  const auto dialled = dials_.find(attempt);
  if (dialled == dials_.end()) return;
  dial_speakers_[attempt] = {answer.hello.node, answer.hello.instance};
  enqueue(MembershipEvent(
              HelloAnswered{dialled->second, attempt, answer.verdict, std::move(answer.hello)}),
          "HelloAnswer");
}

void Daemon::on_dial_message(std::uint64_t attempt, PeerPayload payload) {
  const auto speaker = dial_speakers_.find(attempt);
  if (speaker != dial_speakers_.end()) take(speaker->second, std::move(payload));
}

void Daemon::on_dial_closed(std::uint64_t attempt, const std::string& why, bool refused) {
  const auto dialled = dials_.find(attempt);
  if (dialled == dials_.end()) return;
  const NodeId node = dialled->second;
  const bool answered = dial_speakers_.erase(attempt) != 0;
  dials_.erase(dialled);
  forget_route(node, {attempt, 0});
  if (answered) {
    enqueue(MembershipEvent(StreamLost{node, attempt, refused}), "StreamLost");
  } else {
    enqueue(MembershipEvent(DialFailed{node, attempt, why, refused}), "DialFailed");
  }
}

/// Both directions meet here. Membership checks the instance against what it knows.
void Daemon::take(const Speaker& from, PeerPayload payload) {
  if (const auto* heartbeat = std::get_if<PeerHeartbeat>(&payload)) {
    enqueue(MembershipEvent(HeartbeatReceived{from.node, from.instance, heartbeat->status}),
            "Heartbeat");
  } else if (std::holds_alternative<PeerGoodbye>(payload)) {
    enqueue(MembershipEvent(GoodbyeReceived{from.node, from.instance}), "Goodbye");
  } else if (auto* message = std::get_if<RegistryMessage>(&payload)) {
    if (instance_of(from.node) != from.instance) return;
    enqueue(RegistryEvent(RegistryMessageArrived{from.node, std::move(*message)}), "Registry");
  }
}

}  // namespace imex::domain
