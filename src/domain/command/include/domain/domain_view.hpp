/// What daemons report of themselves, what that makes of the domain, and how both are printed.
/// Pure functions; the bytes are those of imex-service section 11, which DCGM, jq and grep read.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/uuid.hpp"
#include "domain/membership.hpp"

namespace imex::domain {

/// One slot of the node list as the reporting daemon sees it.
struct PeerReport {
  NodeId node = kNoNode;
  std::string host;     ///< as in the node list
  std::string address;  ///< resolved; empty: the slot is unassigned
  PairState state = PairState::kNeverConnected;
  DaemonStatus status = DaemonStatus::kUnavailable;  ///< last heard from it
  std::string version;
  Uuid instance;
  std::chrono::milliseconds since{0};  ///< age of `state`
  std::uint64_t attempts = 0;
  std::string last_error;
};

struct StatusReport {
  DaemonStatus status = DaemonStatus::kUnavailable;
  std::string version, host_name, last_error;
  NodeId node = kNoNode;
  Uuid domain_id, instance;
  std::uint64_t list_epoch = 0;
  std::vector<PeerReport> peers;  ///< every slot of the list, own one included
  bool assigned_only = false;     ///< unassigned slots do not count for the state of the domain
};

struct ChannelReport {
  std::uint32_t channel = 0, uid = 0, sessions = 0, exports = 0, imports = 0;
  std::string workload, path;
  std::uint64_t export_bytes = 0, refused = 0;
  std::vector<std::uint64_t> gpu_uids;
};
struct GpuReport {
  std::uint32_t index = 0, clique_id = 0;
  std::uint64_t uid = 0;
  std::string domain_uuid;
  bool attached = false;
};
struct HealthReport {
  StatusReport status;
  std::vector<ChannelReport> channels;
  std::vector<GpuReport> gpus;
  std::map<std::string, std::uint64_t> counters;
  std::chrono::seconds certificate_expires_in{0};  ///< 0: no TLS
  std::chrono::seconds credentials_age{0};
  std::vector<std::string> problems;  ///< in words; empty: healthy
};

/// A slot and what its daemon said; no report: it could not be asked.
struct NodeView {
  NodeId node = kNoNode;
  std::string host;
  bool assigned = true;
  std::optional<StatusReport> report;
  [[nodiscard]] DaemonStatus status() const noexcept {
    return report ? report->status : DaemonStatus::kUnavailable;
  }
};

enum class DomainState : std::uint8_t { kUp, kDegraded, kDown };
[[nodiscard]] std::string_view domain_state_word(DomainState state) noexcept;  ///< "DEGRADED"

struct DomainView {
  std::vector<NodeView> nodes;  ///< by node id, gapless
  std::optional<NodeId> local;  ///< slot of the daemon that was asked first
  bool assigned_only = false;
};

/// The pair as node `from` reports it; kInvalid when `from` could not be asked.
[[nodiscard]] PairState pair_state(const DomainView& view, NodeId from, NodeId to) noexcept;

/// kUp: every slot that counts is READY and every ordered pair of them is connected. kDown: no
/// daemon is READY. Slots without address count unless view.assigned_only.
[[nodiscard]] DomainState domain_state(const DomainView& view) noexcept;

struct RenderOptions {
  bool host_names = false;               ///< -H
  bool legend = true;                    ///< text only
  const DomainView* previous = nullptr;  ///< what was printed before; marks what changed since
  std::chrono::system_clock::time_point time{};
};

/// "5/12/2025 06:08:10.580", local time.
[[nodiscard]] std::string format_timestamp(std::chrono::system_clock::time_point time);
/// -N, -n: legend, time, nodes, matrix, state (section 11.2). Ends with a newline.
[[nodiscard]] std::string render_text(const DomainView& view, const RenderOptions& options);
/// -N -j, -n -j: one line (section 11.3). Without `previous` everything counts as changed.
[[nodiscard]] std::string render_json(const DomainView& view, const RenderOptions& options);
/// Whether a reader of render_text() would see a difference, the time aside.
[[nodiscard]] bool differs(const DomainView& a, const DomainView& b);

}  // namespace imex::domain
