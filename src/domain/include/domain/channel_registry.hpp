/// Which channel number belongs to which workload, agreed over all nodes; a pure state machine.
///
/// The READY node with the lowest id (the allocator) chooses a number, proposes it to every node it
/// can reach and commits it once a majority of the assigned slots has taken it; a minority refuses.
/// Every node keeps the whole table, tells it on joining, and journals what it holds.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/time.hpp"
#include "base/uuid.hpp"
#include "domain/frame.hpp"

namespace imex::domain {

struct RegistryConfig {
  NodeId self = 0;
  std::uint32_t channels_max = 2048;  ///< numbers 1 .. channels_max - 1; 0 is never given out
  Nanos request_timeout = std::chrono::seconds(2);
};

/// A workload's hold on a channel. `holders`: nodes where it was granted and not yet released.
struct ChannelAssignment {
  std::string workload;
  std::uint32_t channel = 0;
  std::set<NodeId> holders;
  friend bool operator==(const ChannelAssignment&, const ChannelAssignment&) = default;
};

/// Between registries; the daemon carries them over the peers' gRPC streams (proto/imex/peer).
struct RegistryMessage {
  enum class Kind : std::uint8_t {
    kAllocate = 1,   ///< to the allocator: give `workload` a number for `node`
    kAllocated = 2,  ///< its answer (code, channel)
    kPropose = 3,    ///< allocator to all: `workload` has `channel`, held by `node`
    kAccept = 4,     ///< taken
    kReject = 5,     ///< `channel` belongs to another workload here: `other`
    kReleased = 6,   ///< to all: `node` does not hold `workload` any more
    kTable = 7,      ///< to a node that joined: everything known
  };
  Kind kind = Kind::kAllocate;
  std::uint64_t request = 0;
  std::string workload, other;
  std::uint32_t channel = 0;
  NodeId node = kNoNode;
  Errc code = Errc::kOk;
  std::string text;
  std::vector<ChannelAssignment> table;
};

// ---- events ----
struct GrantWanted {
  std::uint64_t request = 0;
  std::string workload;
};  ///< on this node
struct ReleaseWanted {
  std::string workload;
};
struct RegistryMessageArrived {
  NodeId from = kNoNode;
  RegistryMessage message;
};
/// Nodes that are connected and READY (self included when READY), and how many slots are assigned.
struct RegistryPeers {
  std::set<NodeId> ready;
  std::size_t assigned_count = 1;
};
struct RegistryNodeEnded {
  NodeId node = kNoNode;
};  ///< its holds are over
struct RegistryTick {};
using RegistryEvent = std::variant<GrantWanted, ReleaseWanted, RegistryMessageArrived,
                                   RegistryPeers, RegistryNodeEnded, RegistryTick>;

// ---- effects ----
struct SendRegistryMessage {
  NodeId to = kNoNode;
  RegistryMessage message;
};
struct GrantDone {
  std::uint64_t request = 0;
  Errc code = Errc::kOk;
  std::uint32_t channel = 0;
  std::string text;
};
/// The table entry changed; journal it (an empty holder set removes it).
struct JournalAssignment {
  ChannelAssignment assignment;
};
using RegistryEffect = std::variant<SendRegistryMessage, GrantDone, JournalAssignment>;

class ChannelRegistry {
 public:
  /// `journalled`: the table of the life before; `granted`: the workloads that were granted on this
  /// node. A hold of this node without a grant was still being agreed on, and is over.
  ChannelRegistry(RegistryConfig config, std::vector<ChannelAssignment> journalled,
                  std::set<std::string> granted);
  ~ChannelRegistry();
  ChannelRegistry(ChannelRegistry&&) noexcept;
  ChannelRegistry& operator=(ChannelRegistry&&) noexcept;
  [[nodiscard]] std::vector<RegistryEffect> step(RegistryEvent event, Time now);
  [[nodiscard]] Time next_deadline() const noexcept;
  [[nodiscard]] std::vector<ChannelAssignment> table() const;
  /// Times that another node claimed a number or a workload that is granted otherwise on this node;
  /// with journals and majorities this stays 0. What was here first is kept.
  [[nodiscard]] std::uint64_t conflicts() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace imex::domain
