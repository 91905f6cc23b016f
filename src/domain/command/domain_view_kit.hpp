/// Domains for tests of the view.
#pragma once

#include <fmt/format.h>

#include "domain/domain_view.hpp"

namespace imex::domain::view_kit {

/// `count` nodes 10.0.0.11 and on, all READY and connected; asked at the last one.
inline DomainView whole(std::size_t count) {
  DomainView view;
  for (std::size_t i = 0; i < count; ++i) {
    NodeView& node = view.nodes.emplace_back();
    node.node = static_cast<NodeId>(i);
    node.host = fmt::format("10.0.0.{}", 11 + i);
    StatusReport report;
    report.status = DaemonStatus::kReady;
    report.version = "580.159";
    report.host_name = fmt::format("tray-{}", i);
    report.node = node.node;
    for (std::size_t j = 0; j < count; ++j) {
      PeerReport& peer = report.peers.emplace_back();
      peer.node = static_cast<NodeId>(j);
      peer.state = PairState::kConnected;
    }
    node.report = std::move(report);
  }
  view.local = static_cast<NodeId>(count - 1);
  return view;
}

/// Node `gone` cannot be asked and was never connected.
inline void leave(DomainView& view, NodeId gone) {
  view.nodes[gone].report.reset();
  for (NodeView& node : view.nodes) {
    if (node.report) node.report->peers[gone].state = PairState::kNeverConnected;
  }
}

}  // namespace imex::domain::view_kit
