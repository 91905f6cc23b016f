// Lists, the life cycle of the own daemon, and what ends it.
#include <algorithm>

#include <fmt/format.h>

#include "membership_state.hpp"

namespace imex::domain {

void Membership::State::set_status(DaemonStatus next, Time now) {
  if (status == next) return;
  status = next;
  if (self < peers.size()) peers[self].since = now;
  emit(StatusChanged{next});
  log(4, fmt::format("status is {}", status_word(next)));
  // Peers refuse imports from a node that is not READY; they should not wait a beat to know.
  if (active()) heartbeat_all(now);
}

void Membership::State::adopt_list(const ListChanged& event, Time now) {
  if (status == DaemonStatus::kShuttingDown) return;
  if (event.self == kNoNode || event.self >= event.list.entries.size()) {
    lose_identity(self == kNoNode ? 71 : 75,
                  self == kNoNode
                      ? "no slot of the node list is this node"
                      : fmt::format("slot {} of the node list is no longer this node", self));
    return;
  }
  if (self != kNoNode && event.self != self) {
    lose_identity(75, fmt::format("own node id changed from {} to {}", self, event.self));
    return;
  }
  const bool first = self == kNoNode;
  self = event.self;
  if (first || event.list != list) {
    ++epoch;
    replace_slots(event.list, now);
  }
  if (first) begin_start(now);
}

/// Slots that stay as they are keep everything; changed or removed ones end, new ones are dialled.
void Membership::State::replace_slots(const NodeList& fresh, Time now) {
  for (std::size_t i = 0; i < peers.size(); ++i) {
    PeerSlot& p = peers[i];
    const bool stays = i < fresh.entries.size() && fresh.entries[i] == p.entry;
    if (stays || p.node == self) continue;
    cancel_dial(p);
    hang_up(p);
    drop_inbound(p);
    end_life(p, "its slot was taken from the node list", now);
    awaited.erase(p.node);
    p.node = kNoNode;  // filled anew below, or cut off
  }
  list = fresh;
  peers.resize(fresh.entries.size());
  for (std::size_t i = 0; i < peers.size(); ++i) {
    PeerSlot& p = peers[i];
    const bool is_new = p.node == kNoNode;
    if (is_new) {
      p = PeerSlot{};
      p.node = static_cast<NodeId>(i);
      p.since = now;
      if (!fresh.entries[i].is_name) p.address = fresh.entries[i].text;
    }
    p.entry = fresh.entries[i];
    if (p.node == self || p.stream_attempt != 0) continue;
    // A pair that was refused for its list may agree now; all others lose nothing by an early dial.
    p.failures = 0;
    if (p.phase != DialPhase::kResolving && p.phase != DialPhase::kDialling) begin_dial(p, now);
  }
  std::erase_if(awaited, [&](NodeId node) { return node == self || node >= peers.size(); });
}

void Membership::State::begin_start(Time now) {
  log(4, fmt::format("Creating gRPC channels to all peers (nPeers = {})", peers.size() - 1));
  set_next_heartbeat(now);
  if (config.recovery_wait_max > Nanos(0)) recovery_until = now + config.recovery_wait_max;
  if (config.quorum == Quorum::kFull) {
    set_status(DaemonStatus::kWaitingForPeers, now);
  } else if (config.quorum == Quorum::kRecovery && !awaited.empty()) {
    set_status(DaemonStatus::kWaitingForRecovery, now);
    log(3, fmt::format(
               "the last run ended unclean: waiting for {} node(s) that imported memory from it",
               awaited.size()));
  } else {
    set_status(DaemonStatus::kInitGpu, now);
  }
}

/// Leaves a waiting status once its condition holds.
void Membership::State::check_start(Time now) {
  if (status == DaemonStatus::kWaitingForPeers) {
    const bool all = std::ranges::all_of(peers, [&](const PeerSlot& p) {
      return p.node == self || p.state == PairState::kConnected;
    });
    if (all) set_status(DaemonStatus::kInitGpu, now);
  } else if (status == DaemonStatus::kWaitingForRecovery) {
    if (!awaited.empty() && now >= recovery_until) {
      log(3, fmt::format("{} former importer(s) did not come back in time; going on without",
                         awaited.size()));
      awaited.clear();
    }
    if (awaited.empty()) set_status(DaemonStatus::kInitGpu, now);
  }
}

void Membership::State::on(const GpusReady&, Time now) {
  if (status == DaemonStatus::kInitGpu) set_status(DaemonStatus::kReady, now);
}

void Membership::State::on(const ReconnectRequested&, Time now) {
  if (!active()) return;
  if (now < reconnect_allowed) {
    reconnect_pending = true;
  } else {
    reconnect_all(now);
  }
}

void Membership::State::reconnect_all(Time now) {
  reconnect_pending = false;
  reconnect_allowed = now + config.reconnect_window;
  log(4, "rebuilding all outgoing connections");
  for (PeerSlot& p : peers) {
    if (p.node == self) continue;
    cancel_dial(p);
    p.failures = 0;
    begin_dial(p, now);
  }
}

/// One peer's word is not enough to give up a slot: a stranger that got there first would then end
/// a node that all others know. So it needs time (the old owner may be a ghost that heartbeats will
/// expose) and at least as many that refuse as that accept.
void Membership::State::note_refusal_as_duplicate(PeerSlot& p, Time now) {
  if (p.refused_as_duplicate == kNever) p.refused_as_duplicate = now;
  if (now - p.refused_as_duplicate < 2 * config.heartbeat_timeout) return;
  const auto refusing = std::ranges::count_if(
      peers, [](const PeerSlot& q) { return q.refused_as_duplicate != kNever; });
  const auto accepting =
      std::ranges::count_if(peers, [](const PeerSlot& q) { return q.stream_attempt != 0; });
  if (refusing < accepting) return;
  lose_identity(75,
                fmt::format("another daemon serves as node {} of this domain; {} peer(s) refuse "
                            "this one as a duplicate",
                            self, refusing));
}

void Membership::State::note_refusal_for_list(PeerSlot& p, Time now) {
  if (p.refused_for_list == kNever) p.refused_for_list = now;
  if (status != DaemonStatus::kWaitingForPeers) return;
  const auto refusing = std::ranges::count_if(peers, [&](const PeerSlot& q) {
    return q.refused_for_list != kNever && now - q.refused_for_list >= 2 * config.heartbeat_timeout;
  });
  if (static_cast<std::size_t>(refusing) * 2 <= peers.size() - 1) return;
  lose_identity(76, fmt::format("Node configuration mismatch with {} of {} peers", refusing,
                                peers.size() - 1));
}

void Membership::State::lose_identity(int exit_code, std::string why) {
  identity_lost = true;
  log(2, why);
  emit(IdentityLost{exit_code, std::move(why)});
}

void Membership::State::stop(Time now) {
  if (status == DaemonStatus::kShuttingDown) return;
  for (PeerSlot& p : peers) {
    if (p.node == self) continue;
    cancel_dial(p);
    p.phase = DialPhase::kIdle;
    if (p.stream_attempt != 0) {
      emit(SendGoodbye{p.node, p.stream_attempt, 0});
    } else if (!p.inbound.empty()) {
      emit(SendGoodbye{p.node, 0, *p.inbound.rbegin()});
    }
  }
  set_status(DaemonStatus::kShuttingDown, now);
}

}  // namespace imex::domain
