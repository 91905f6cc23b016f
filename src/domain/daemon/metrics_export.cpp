#include "metrics_export.hpp"

#include <fmt/format.h>
#include <imex/command/v1/command.pb.h>

#include "domain/membership.hpp"
#include "metrics/registry.hpp"

namespace imex::domain {

namespace {

namespace pb = imex::command::v1;
using metrics::Labels;
using metrics::Registry;

/// One gauge or counter per row, all of the same name.
template <class Rows, class LabelsOf, class ValueOf>
void add_rows(Registry& out, const char* name, const char* help, const Rows& rows,
              LabelsOf labels_of, ValueOf value_of) {
  for (const auto& row : rows) {
    out.gauge(name, help, labels_of(row)).set(static_cast<double>(value_of(row)));
  }
}

void add_peers(Registry& out, const pb::Status& status) {
  const auto labels = [](const pb::PeerStatus& peer) {
    return Labels{{"peer", std::to_string(peer.node())}, {"host", peer.host()}};
  };
  const auto& peers = status.peers();
  add_rows(out, "imex_node_peer_connected", "1: the pair from this node to the peer is CONNECTED.",
           peers, labels, [](const pb::PeerStatus& peer) {
             return peer.state() == static_cast<std::uint32_t>(PairState::kConnected) ? 1 : 0;
           });
  add_rows(out, "imex_node_peer_assigned", "1: the slot has an address.", peers, labels,
           [](const pb::PeerStatus& peer) { return peer.address().empty() ? 0 : 1; });
  add_rows(out, "imex_node_peer_state_age_seconds", "Time since the pair's last change of state.",
           peers, labels, [](const pb::PeerStatus& peer) {
             return static_cast<double>(peer.since_ms()) / 1000.0;
           });
  add_rows(out, "imex_node_peer_attempts", "Attempts to connect since the last success.", peers,
           labels, [](const pb::PeerStatus& peer) { return peer.attempts(); });
}

void add_channels(Registry& out, const pb::Health& health) {
  const auto labels = [](const pb::ChannelUsage& row) {
    return Labels{{"channel", std::to_string(row.channel())}, {"workload", row.workload()}};
  };
  const auto& rows = health.channels();
  add_rows(out, "imex_channel_sessions", "Open sessions.", rows, labels,
           [](const auto& row) { return row.sessions(); });
  add_rows(out, "imex_channel_exports", "Live exports.", rows, labels,
           [](const auto& row) { return row.exports(); });
  add_rows(out, "imex_channel_imports", "Live imports.", rows, labels,
           [](const auto& row) { return row.imports(); });
  add_rows(out, "imex_channel_export_bytes", "Bytes exported.", rows, labels,
           [](const auto& row) { return row.export_bytes(); });
  for (const auto& row : rows) {
    out.counter("imex_channel_refused_total", "Requests and connections refused.", labels(row))
        .add(static_cast<double>(row.refused()));
  }
}

}  // namespace

std::string metrics_text(const pb::Health& health) {
  const pb::Status& status = health.status();
  Registry out;  // a picture of now: built for each scrape, every few seconds
  out.gauge("imex_node_status", "0 INITIALIZING .. 5 READY, 6 SHUTTING_DOWN.",
            {{"version", status.version()}, {"node", std::to_string(status.node())}})
      .set(status.status());
  out.gauge("imex_node_problems_count", "Problems that `imex domain show` explains.")
      .set(health.problems_size());
  out.gauge("imex_node_list_epoch", "Node lists taken so far.")
      .set(static_cast<double>(status.list_epoch()));
  add_peers(out, status);
  add_channels(out, health);
  for (const auto& gpu : health.gpus()) {
    out.gauge("imex_gpu_attached", "1: the GPU is attached to the fabric.",
              {{"gpu", std::to_string(gpu.index())},
               {"partition", fmt::format("{}.{}", gpu.domain_uuid(), gpu.clique_id())}})
        .set(gpu.attached() ? 1 : 0);
  }
  for (const auto& [name, count] : health.counters()) {
    const auto value = static_cast<double>(count);
    if (name == "open_descriptors") {
      out.gauge("imex_node_open_descriptors", "Descriptors of clients, held now.").set(value);
    } else {
      out.counter("imex_node_" + name + "_total", "Since the start of the daemon.").add(value);
    }
  }
  if (health.certificate_expires_in_s() != 0) {
    out.gauge("imex_node_certificate_expires_in_seconds", "Until the first certificate expires.")
        .set(static_cast<double>(health.certificate_expires_in_s()));
    out.gauge("imex_node_credentials_age_seconds", "Since credentials were last loaded.")
        .set(static_cast<double>(health.credentials_loaded_ago_s()));
  }
  return out.text();
}

}  // namespace imex::domain
