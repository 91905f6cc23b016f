/// The state behind ChannelRegistry, private to channel_registry*.cpp: what every node does in
/// channel_registry.cpp, grants on this node in channel_registry_grants.cpp, agreement on a number
/// in channel_registry_allocator.cpp.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "domain/channel_registry.hpp"

namespace imex::domain {

/// A number on its way to a majority; at most one for a workload.
struct Proposal {
  struct Asker {
    NodeId node = kNoNode;
    std::uint64_t request = 0;
  };
  std::uint64_t id = 0;
  std::uint32_t channel = 0;
  std::deque<Asker> askers;  ///< the first one is being proposed
  std::set<NodeId> accepted;
  std::set<std::uint32_t> avoid;  ///< numbers that somebody knows as taken
  std::size_t rounds = 0;
  Time deadline = kNever;
};

/// A grant on this node that waits for the allocator.
struct WaitingGrant {
  std::string workload;
  Time deadline = kNever;
};

struct ChannelRegistry::State {
  using Kind = RegistryMessage::Kind;

  RegistryConfig config;
  std::map<std::string, ChannelAssignment> table;
  std::set<std::string>
      granted;  ///< held here for good; others with this node as holder are in agreement
  std::set<NodeId> ready;
  std::size_t assigned_count = 1;
  std::map<std::uint64_t, WaitingGrant> grants;  ///< by the request of GrantWanted
  std::map<std::string, Proposal> proposals;     ///< by workload; this node allocates
  std::uint64_t next_proposal = 1;
  std::uint64_t conflict_count = 0;
  Time now;
  std::vector<RegistryEffect> out;

  // ---- for all parts ----
  void send(NodeId to, RegistryMessage message);
  void broadcast(const RegistryMessage& message);
  [[nodiscard]] bool majority(std::size_t count) const { return 2 * count > assigned_count; }
  [[nodiscard]] const ChannelAssignment* owner_of(std::uint32_t channel) const;
  void journal(const std::string& workload);

  /// False if the number or the workload is assigned otherwise here.
  [[nodiscard]] bool hold(const std::string& workload, std::uint32_t channel, NodeId node);
  void drop(const std::string& workload, NodeId node);

  /// Counts a claim that contradicts what was granted on this node. Of the rest a node cannot be so
  /// sure: an allocator that died may have left it a proposal that nobody agreed to.
  void count_conflict(const std::string& workload, std::uint32_t channel);
  [[nodiscard]] Error minority() const;

  // ---- a grant on this node (channel_registry_grants.cpp) ----
  void wanted(const GrantWanted& e);
  [[nodiscard]] bool waits_for(const std::string& workload) const;

  /// Answers every grant of the workload that waits.
  void finish_grants(const std::string& workload, Errc code, std::uint32_t channel,
                     const std::string& text);
  void ask(std::uint64_t request, const std::string& workload);
  void allocated(const RegistryMessage& m);

  /// Tells everybody that this node does not hold the workload.
  void give_up(const std::string& workload);
  void release(const ReleaseWanted& e);

  // ---- the allocator (channel_registry_allocator.cpp) ----
  void allocate(const RegistryMessage& m);
  [[nodiscard]] std::optional<std::uint32_t> free_number(
      const std::set<std::uint32_t>& avoid) const;

  /// Starts (or starts over) agreement for the first asker.
  void propose(const std::string& workload);
  [[nodiscard]] std::map<std::string, Proposal>::iterator find_proposal(const RegistryMessage& m);
  void accepted(NodeId from, const RegistryMessage& m);
  void commit_if_agreed(const std::string& workload);

  /// Somebody knows better: take his number for the workload, or another one than the taken.
  void rejected(const RegistryMessage& m);

  /// Takes back what was proposed for the first asker.
  void withdraw(const std::string& workload, const Proposal& proposal);

  /// Answers the first asker and goes on with the next.
  void conclude(const std::string& workload, const Error& outcome);

  // ---- every node ----
  void proposed(NodeId from, const RegistryMessage& m);
  void released(NodeId from, const RegistryMessage& m);
  void merge(NodeId from, const RegistryMessage& m);

  /// Of its own holds the sender knows best: what it does not name is over.
  void forget_outdated(NodeId from, const std::vector<ChannelAssignment>& theirs);
  void arrived(NodeId from, const RegistryMessage& m);
  void peers(const RegistryPeers& e);
  void node_ended(NodeId node);
  void tick();
  void on(const GrantWanted& e) { wanted(e); }
  void on(const ReleaseWanted& e) { release(e); }
  void on(const RegistryMessageArrived& e) { arrived(e.from, e.message); }
  void on(const RegistryPeers& e) { peers(e); }
  void on(const RegistryNodeEnded& e) { node_ended(e.node); }
  void on(const RegistryTick&) { tick(); }
};

}  // namespace imex::domain
