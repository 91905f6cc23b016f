#include "domain/channel_registry.hpp"

#include <algorithm>
#include <deque>
#include <optional>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "domain/journal.hpp"

// Why two workloads never get one number: a number counts once a majority of the assigned slots has
// taken it, a node takes a number for one workload only, and any two majorities share a node. A
// node forgets what it took only when the holder says so (kReleased, or its own table on joining)
// or when the holder's daemon instance has ended.

namespace imex::domain {
namespace {

using Kind = RegistryMessage::Kind;

constexpr std::size_t kProposalsMax = 1024;  ///< workloads in agreement at once
constexpr std::size_t kWaitingMax = 1024;    ///< nodes that wait for one of them
constexpr std::size_t kGrantsMax = 1024;     ///< grants on this node that wait for an answer
constexpr std::size_t kRoundsMax = 64;       ///< numbers tried for one workload

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

}  // namespace

struct ChannelRegistry::State {
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

  // ---- tools ----

  void send(NodeId to, RegistryMessage message) {
    if (to != config.self) {
      out.emplace_back(SendRegistryMessage{to, std::move(message)});
    } else {
      arrived(config.self, message);
    }
  }
  void broadcast(const RegistryMessage& message) {
    for (const NodeId node : ready) {
      if (node != config.self) send(node, message);
    }
  }
  [[nodiscard]] bool majority(std::size_t count) const { return 2 * count > assigned_count; }

  [[nodiscard]] const ChannelAssignment* owner_of(std::uint32_t channel) const {
    for (const auto& [workload, assignment] : table) {
      if (assignment.channel == channel) return &assignment;
    }
    return nullptr;
  }

  void journal(const std::string& workload) {
    const auto found = table.find(workload);
    if (found == table.end()) return;
    out.emplace_back(JournalAssignment{found->second});
    if (found->second.holders.empty()) table.erase(found);
  }

  /// False if the number or the workload is assigned otherwise here.
  [[nodiscard]] bool hold(const std::string& workload, std::uint32_t channel, NodeId node) {
    if (channel == 0 || channel >= config.channels_max) return false;
    const auto found = table.find(workload);
    if (found == table.end()) {
      if (owner_of(channel) != nullptr) return false;
      table.emplace(workload, ChannelAssignment{workload, channel, {node}});
      journal(workload);
      return true;
    }
    if (found->second.channel != channel) return false;
    if (found->second.holders.insert(node).second) journal(workload);
    return true;
  }

  void drop(const std::string& workload, NodeId node) {
    const auto found = table.find(workload);
    if (found != table.end() && found->second.holders.erase(node) != 0) journal(workload);
  }

  /// Counts a claim that contradicts what was granted on this node. Of the rest a node cannot be so
  /// sure: an allocator that died may have left it a proposal that nobody agreed to.
  void count_conflict(const std::string& workload, std::uint32_t channel) {
    const ChannelAssignment* owner = owner_of(channel);
    const bool number = owner != nullptr && owner->workload != workload;
    const auto known = table.find(workload);
    const bool name = known != table.end() && known->second.channel != channel;
    if ((number && granted.contains(owner->workload)) || (name && granted.contains(workload)))
      ++conflict_count;
  }

  [[nodiscard]] Error minority() const {
    return {
        Errc::kUnavailable,
        fmt::format("only {} of {} nodes of the domain are ready and reachable; a channel needs "
                    "the consent of a majority",
                    ready.size(), assigned_count),
        {},
        kNoRank};
  }

  // ---- a grant on this node ----

  void wanted(const GrantWanted& e) {
    const auto done = [&](Errc code, std::uint32_t channel, std::string text) {
      out.emplace_back(GrantDone{e.request, code, channel, std::move(text)});
    };
    if (e.workload.empty() || e.workload.size() > kWorkloadBytesMax) {
      return done(Errc::kInvalidArgument, 0,
                  fmt::format("workload name of {} bytes; 1 to {} are allowed", e.workload.size(),
                              kWorkloadBytesMax));
    }
    const auto known = table.find(e.workload);
    if (known != table.end() && granted.contains(e.workload)) {
      return done(Errc::kOk, known->second.channel, {});
    }
    if (!ready.contains(config.self) || !majority(ready.size())) {
      return done(Errc::kUnavailable, 0, minority().message);
    }
    const bool asked = waits_for(e.workload);
    if (grants.size() >= kGrantsMax || grants.contains(e.request)) {
      return done(Errc::kResourceExhausted, 0,
                  fmt::format("{} grants wait already", grants.size()));
    }
    grants.emplace(e.request, WaitingGrant{e.workload, now + 2 * config.request_timeout});
    if (!asked) ask(e.request, e.workload);
  }

  [[nodiscard]] bool waits_for(const std::string& workload) const {
    return std::ranges::any_of(
        grants, [&](const auto& entry) { return entry.second.workload == workload; });
  }

  /// Answers every grant of the workload that waits.
  void finish_grants(const std::string& workload, Errc code, std::uint32_t channel,
                     const std::string& text) {
    std::erase_if(grants, [&](const auto& entry) {
      if (entry.second.workload != workload) return false;
      out.emplace_back(GrantDone{entry.first, code, channel, text});
      return true;
    });
  }

  void ask(std::uint64_t request, const std::string& workload) {
    RegistryMessage message;
    message.kind = Kind::kAllocate;
    message.request = request;
    message.workload = workload;
    message.node = config.self;
    send(*ready.begin(), std::move(message));
  }

  void allocated(const RegistryMessage& m) {
    if (!waits_for(m.workload)) {
      // Nobody waits any more: what was granted must not stay.
      if (m.code == Errc::kOk && !granted.contains(m.workload)) give_up(m.workload);
      return;
    }
    if (m.code == Errc::kOk && hold(m.workload, m.channel, config.self)) {
      granted.insert(m.workload);
      return finish_grants(m.workload, Errc::kOk, m.channel, {});
    }
    drop(m.workload, config.self);  // taken when it was proposed, and not agreed
    if (m.code != Errc::kOk) return finish_grants(m.workload, m.code, 0, m.text);
    count_conflict(m.workload, m.channel);
    give_up(m.workload);
    finish_grants(m.workload, Errc::kAlreadyExists, 0,
                  fmt::format("channel {} belongs to another workload on this node", m.channel));
  }

  /// Tells everybody that this node does not hold the workload.
  void give_up(const std::string& workload) {
    granted.erase(workload);
    drop(workload, config.self);
    RegistryMessage message;
    message.kind = Kind::kReleased;
    message.workload = workload;
    message.node = config.self;
    broadcast(message);
  }

  void release(const ReleaseWanted& e) {
    finish_grants(e.workload, Errc::kAborted, 0, "the workload was released meanwhile");
    give_up(e.workload);
  }

  // ---- allocator ----

  void allocate(const RegistryMessage& m) {
    const auto answer = [&](const Error& error) {
      RegistryMessage reply;
      reply.kind = Kind::kAllocated;
      reply.request = m.request;
      reply.workload = m.workload;
      reply.node = m.node;
      reply.code = error.code;
      reply.text = error.message;
      send(m.node, std::move(reply));
    };
    if (m.workload.empty() || m.workload.size() > kWorkloadBytesMax) {
      return answer({Errc::kInvalidArgument, "workload name out of range", {}, kNoRank});
    }
    if (ready.empty() || *ready.begin() != config.self) {
      return answer({Errc::kUnavailable,
                     fmt::format("node {} does not allocate channels", config.self),
                     {},
                     kNoRank});
    }
    if (!majority(ready.size())) return answer(minority());
    if (const auto running = proposals.find(m.workload); running != proposals.end()) {
      auto& askers = running->second.askers;
      const auto same = std::ranges::find(askers, m.node, &Proposal::Asker::node);
      if (same != askers.end()) {
        same->request = m.request;
      } else if (askers.size() < kWaitingMax) {
        askers.push_back({m.node, m.request});
      } else {
        answer({Errc::kResourceExhausted, "too many nodes wait for this workload", {}, kNoRank});
      }
      return;
    }
    if (proposals.size() >= kProposalsMax) {
      return answer(
          {Errc::kResourceExhausted, "too many workloads wait for a channel", {}, kNoRank});
    }
    Proposal& proposal = proposals[m.workload];
    proposal.askers.push_back({m.node, m.request});
    propose(m.workload);
  }

  [[nodiscard]] std::optional<std::uint32_t> free_number(
      const std::set<std::uint32_t>& avoid) const {
    std::set<std::uint32_t> taken = avoid;
    for (const auto& [workload, assignment] : table) taken.insert(assignment.channel);
    for (const auto& [workload, proposal] : proposals) taken.insert(proposal.channel);
    for (std::uint32_t number = 1; number < config.channels_max; ++number) {
      if (!taken.contains(number)) return number;
    }
    return std::nullopt;
  }

  /// Starts (or starts over) agreement for the first asker.
  void propose(const std::string& workload) {
    Proposal& proposal = proposals.at(workload);
    const auto known = table.find(workload);
    if (known != table.end()) {
      proposal.channel = known->second.channel;
    } else if (proposal.channel == 0) {
      const auto number = free_number(proposal.avoid);
      if (!number) {
        return conclude(workload,
                        {Errc::kResourceExhausted,
                         fmt::format("all {} channels are in use", config.channels_max - 1),
                         {},
                         kNoRank});
      }
      proposal.channel = *number;
    }
    if (++proposal.rounds > kRoundsMax) {
      return conclude(workload,
                      {Errc::kUnavailable, "the nodes do not agree on a number", {}, kNoRank});
    }
    proposal.id = next_proposal++;
    proposal.accepted.clear();
    proposal.deadline = now + config.request_timeout;
    if (!hold(workload, proposal.channel, proposal.askers.front().node)) {
      return conclude(workload,
                      {Errc::kUnavailable, "the number was taken meanwhile", {}, kNoRank});
    }
    proposal.accepted.insert(config.self);
    RegistryMessage message;
    message.kind = Kind::kPropose;
    message.request = proposal.id;
    message.workload = workload;
    message.channel = proposal.channel;
    message.node = proposal.askers.front().node;
    broadcast(message);
    commit_if_agreed(workload);
  }

  [[nodiscard]] std::map<std::string, Proposal>::iterator find_proposal(const RegistryMessage& m) {
    const auto found = proposals.find(m.workload);
    return found != proposals.end() && found->second.id == m.request ? found : proposals.end();
  }

  void accepted(NodeId from, const RegistryMessage& m) {
    const auto found = find_proposal(m);
    if (found == proposals.end()) return;
    found->second.accepted.insert(from);
    commit_if_agreed(found->first);
  }

  void commit_if_agreed(const std::string& workload) {
    if (majority(proposals.at(workload).accepted.size())) {
      conclude(workload, {Errc::kOk, {}, {}, kNoRank});
    }
  }

  /// Somebody knows better: take his number for the workload, or another one than the taken.
  void rejected(const RegistryMessage& m) {
    const auto found = find_proposal(m);
    if (found == proposals.end()) return;
    const std::string workload = found->first;
    Proposal& proposal = found->second;
    withdraw(workload, proposal);
    if (table.contains(workload)) {  // others hold it here under this number: two truths
      if (granted.contains(workload)) ++conflict_count;
      return conclude(workload, {Errc::kAlreadyExists,
                                 fmt::format("channel {} belongs to workload '{}' on another node",
                                             proposal.channel, m.other),
                                 {},
                                 kNoRank});
    }
    proposal.avoid.insert(proposal.channel);
    proposal.channel = 0;
    if (m.other.empty() && m.channel != 0 && owner_of(m.channel) == nullptr)
      proposal.channel = m.channel;
    propose(workload);
  }

  /// Takes back what was proposed for the first asker.
  void withdraw(const std::string& workload, const Proposal& proposal) {
    const NodeId node = proposal.askers.front().node;
    drop(workload, node);
    RegistryMessage message;
    message.kind = Kind::kReleased;
    message.workload = workload;
    message.channel = proposal.channel;
    message.node = node;
    broadcast(message);
  }

  /// Answers the first asker and goes on with the next.
  void conclude(const std::string& workload, const Error& outcome) {
    Proposal& proposal = proposals.at(workload);
    const Proposal::Asker asker = proposal.askers.front();
    RegistryMessage reply;
    reply.kind = Kind::kAllocated;
    reply.request = asker.request;
    reply.workload = workload;
    reply.node = asker.node;
    reply.code = outcome.code;
    reply.text = outcome.message;
    reply.channel = outcome.code == Errc::kOk ? proposal.channel : 0;
    proposal.askers.pop_front();
    if (proposal.askers.empty()) {
      proposals.erase(workload);
      return send(asker.node, std::move(reply));
    }
    proposal.rounds = 0;
    proposal.id = 0;  // answers to the concluded one come too late
    if (outcome.code != Errc::kOk) proposal.channel = 0;
    send(asker.node, std::move(reply));
    if (proposals.contains(workload)) propose(workload);
  }

  // ---- every node ----

  void proposed(NodeId from, const RegistryMessage& m) {
    RegistryMessage reply;
    reply.request = m.request;
    reply.workload = m.workload;
    reply.channel = m.channel;
    reply.node = m.node;
    const bool named = !m.workload.empty() && m.workload.size() <= kWorkloadBytesMax;
    if (named && hold(m.workload, m.channel, m.node)) {
      reply.kind = Kind::kAccept;
      return send(from, std::move(reply));
    }
    reply.kind = Kind::kReject;
    const auto known = table.find(m.workload);
    const ChannelAssignment* owner = owner_of(m.channel);
    if (known != table.end()) {
      reply.channel = known->second.channel;
    } else if (owner != nullptr) {
      reply.other = owner->workload;
    }
    send(from, std::move(reply));
  }

  void released(NodeId from, const RegistryMessage& m) {
    // Only the holder itself, or the allocator about what it proposed, may say so; and nobody but
    // this node about this node once it was told that the grant is done.
    const auto found = table.find(m.workload);
    if (found == table.end()) return;
    if (m.node == config.self && granted.contains(m.workload)) return;
    const bool by_holder = from == m.node;
    if (by_holder || found->second.channel == m.channel) drop(m.workload, m.node);
  }

  void merge(NodeId from, const RegistryMessage& m) {
    forget_outdated(from, m.table);
    for (const ChannelAssignment& theirs : m.table) {
      if (theirs.workload.empty() || theirs.workload.size() > kWorkloadBytesMax) continue;
      for (const NodeId holder : theirs.holders) {
        if (holder == config.self || hold(theirs.workload, theirs.channel, holder)) continue;
        // What it only heard of others may be outdated.
        if (holder == from) count_conflict(theirs.workload, theirs.channel);
      }
      const bool held = granted.contains(theirs.workload);
      const bool waits = waits_for(theirs.workload);
      if (theirs.holders.contains(config.self) && !held && !waits) {
        RegistryMessage correction;
        correction.kind = Kind::kReleased;
        correction.workload = theirs.workload;
        correction.node = config.self;
        send(from, std::move(correction));
      }
    }
  }

  /// Of its own holds the sender knows best: what it does not name is over.
  void forget_outdated(NodeId from, const std::vector<ChannelAssignment>& theirs) {
    std::map<std::string, std::uint32_t> held;
    for (const ChannelAssignment& each : theirs) {
      if (each.holders.contains(from)) held.emplace(each.workload, each.channel);
    }
    std::vector<std::string> outdated;
    for (const auto& [workload, assignment] : table) {
      if (!assignment.holders.contains(from) || proposals.contains(workload)) continue;
      const auto named = held.find(workload);
      if (named == held.end() || named->second != assignment.channel) outdated.push_back(workload);
    }
    for (const std::string& workload : outdated) drop(workload, from);
  }

  void arrived(NodeId from, const RegistryMessage& m) {
    switch (m.kind) {
      case Kind::kAllocate:
        return allocate(m);
      case Kind::kAllocated:
        return allocated(m);
      case Kind::kPropose:
        return proposed(from, m);
      case Kind::kAccept:
        return accepted(from, m);
      case Kind::kReject:
        return rejected(m);
      case Kind::kReleased:
        return released(from, m);
      case Kind::kTable:
        return merge(from, m);
    }
  }

  void peers(const RegistryPeers& e) {
    const std::set<NodeId> former = std::exchange(ready, e.ready);
    assigned_count = e.assigned_count;
    RegistryMessage message;
    message.kind = Kind::kTable;
    for (const auto& [workload, assignment] : table) message.table.push_back(assignment);
    for (const NodeId node : ready) {
      if (node != config.self && !former.contains(node)) send(node, message);
    }
    const bool other_allocator =
        !ready.empty() && (former.empty() || *former.begin() != *ready.begin());
    if (!other_allocator || !majority(ready.size())) return;
    const auto waiting = grants;
    for (const auto& [request, grant] : waiting) ask(request, grant.workload);
  }

  void node_ended(NodeId node) {
    std::vector<std::string> held;
    for (const auto& [workload, assignment] : table) {
      if (assignment.holders.contains(node)) held.push_back(workload);
    }
    for (const std::string& workload : held) drop(workload, node);
  }

  void tick() {
    std::vector<std::string> late;
    for (const auto& [workload, proposal] : proposals) {
      if (proposal.deadline <= now) late.push_back(workload);
    }
    for (const std::string& workload : late) {
      const auto found = proposals.find(workload);
      if (found == proposals.end() || found->second.deadline > now) continue;
      withdraw(workload, found->second);
      conclude(workload, {Errc::kUnavailable,
                          fmt::format("{} of {} nodes agreed in time; a channel needs a majority",
                                      found->second.accepted.size(), assigned_count),
                          {},
                          kNoRank});
    }
    std::vector<std::uint64_t> unanswered;
    for (const auto& [request, grant] : grants) {
      if (grant.deadline <= now) unanswered.push_back(request);
    }
    for (const std::uint64_t request : unanswered) {
      const auto found = grants.find(request);
      if (found == grants.end()) continue;
      const std::string workload = found->second.workload;
      give_up(workload);
      finish_grants(workload, Errc::kUnavailable, 0,
                    "the node that allocates channels did not answer in time");
    }
  }

  void on(const GrantWanted& e) { wanted(e); }
  void on(const ReleaseWanted& e) { release(e); }
  void on(const RegistryMessageArrived& e) { arrived(e.from, e.message); }
  void on(const RegistryPeers& e) { peers(e); }
  void on(const RegistryNodeEnded& e) { node_ended(e.node); }
  void on(const RegistryTick&) { tick(); }
};

ChannelRegistry::ChannelRegistry(RegistryConfig config, std::vector<ChannelAssignment> journalled,
                                 std::set<std::string> granted)
    : state_(std::make_unique<State>()) {
  state_->config = config;
  for (ChannelAssignment& each : journalled) {
    if (!granted.contains(each.workload)) each.holders.erase(config.self);
    if (each.holders.empty()) continue;
    std::string workload = each.workload;
    if (each.holders.contains(config.self)) state_->granted.insert(workload);
    state_->table.emplace(std::move(workload), std::move(each));
  }
}
ChannelRegistry::~ChannelRegistry() = default;
ChannelRegistry::ChannelRegistry(ChannelRegistry&&) noexcept = default;
ChannelRegistry& ChannelRegistry::operator=(ChannelRegistry&&) noexcept = default;

std::vector<RegistryEffect> ChannelRegistry::step(RegistryEvent event, Time now) {
  state_->now = std::max(state_->now, now);
  std::visit([this](const auto& e) { state_->on(e); }, event);
  return std::exchange(state_->out, {});
}

Time ChannelRegistry::next_deadline() const noexcept {
  Time next = kNever;
  for (const auto& [workload, proposal] : state_->proposals)
    next = std::min(next, proposal.deadline);
  for (const auto& [request, grant] : state_->grants) next = std::min(next, grant.deadline);
  return next;
}

std::vector<ChannelAssignment> ChannelRegistry::table() const {
  std::vector<ChannelAssignment> all;
  for (const auto& [workload, assignment] : state_->table) all.push_back(assignment);
  return all;
}

std::uint64_t ChannelRegistry::conflicts() const noexcept { return state_->conflict_count; }

}  // namespace imex::domain
