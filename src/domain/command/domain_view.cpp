#include "domain/domain_view.hpp"

#include <algorithm>

namespace imex::domain {

std::string_view domain_state_word(DomainState state) noexcept {
  switch (state) {
    case DomainState::kUp:
      return "UP";
    case DomainState::kDegraded:
      return "DEGRADED";
    case DomainState::kDown:
      return "DOWN";
  }
  return "DOWN";
}

PairState pair_state(const DomainView& view, NodeId from, NodeId to) noexcept {
  if (from >= view.nodes.size() || !view.nodes[from].report) return PairState::kInvalid;
  const auto& peers = view.nodes[from].report->peers;
  if (to < peers.size() && peers[to].node == to) return peers[to].state;  // as daemons report them
  for (const PeerReport& peer : peers) {
    if (peer.node == to) return peer.state;
  }
  return PairState::kNeverConnected;  // its list does not have that slot (yet)
}

DomainState domain_state(const DomainView& view) noexcept {
  const auto ready = [](const NodeView& n) { return n.status() == DaemonStatus::kReady; };
  if (std::ranges::none_of(view.nodes, ready)) return DomainState::kDown;
  const auto counts = [&](const NodeView& n) { return n.assigned || !view.assigned_only; };
  for (const NodeView& from : view.nodes) {
    if (!counts(from)) continue;
    if (!ready(from)) return DomainState::kDegraded;
    for (const NodeView& to : view.nodes) {
      if (counts(to) && pair_state(view, from.node, to.node) != PairState::kConnected) {
        return DomainState::kDegraded;
      }
    }
  }
  return DomainState::kUp;
}

}  // namespace imex::domain
