#include "domain/channel_registry.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "channel_registry_state.hpp"
#include "domain/journal.hpp"

// Why two workloads never get one number: a number counts once a majority of the assigned slots has
// taken it, a node takes a number for one workload only, and any two majorities share a node. A
// node forgets what it took only when the holder says so (kReleased, or its own table on joining)
// or when the holder's daemon instance has ended.

namespace imex::domain {

void ChannelRegistry::State::send(NodeId to, RegistryMessage message) {
  if (to != config.self) {
    out.emplace_back(SendRegistryMessage{to, std::move(message)});
  } else {
    arrived(config.self, message);
  }
}

void ChannelRegistry::State::broadcast(const RegistryMessage& message) {
  for (const NodeId node : ready) {
    if (node != config.self) send(node, message);
  }
}

const ChannelAssignment* ChannelRegistry::State::owner_of(std::uint32_t channel) const {
  for (const auto& [workload, assignment] : table) {
    if (assignment.channel == channel) return &assignment;
  }
  return nullptr;
}

void ChannelRegistry::State::journal(const std::string& workload) {
  const auto found = table.find(workload);
  if (found == table.end()) return;
  out.emplace_back(JournalAssignment{found->second});
  if (found->second.holders.empty()) table.erase(found);
}

bool ChannelRegistry::State::hold(const std::string& workload, std::uint32_t channel, NodeId node) {
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

void ChannelRegistry::State::drop(const std::string& workload, NodeId node) {
  const auto found = table.find(workload);
  if (found != table.end() && found->second.holders.erase(node) != 0) journal(workload);
}

void ChannelRegistry::State::count_conflict(const std::string& workload, std::uint32_t channel) {
  const ChannelAssignment* owner = owner_of(channel);
  const bool number = owner != nullptr && owner->workload != workload;
  const auto known = table.find(workload);
  const bool name = known != table.end() && known->second.channel != channel;
  if ((number && granted.contains(owner->workload)) || (name && granted.contains(workload)))
    ++conflict_count;
}

Error ChannelRegistry::State::minority() const {
  return {Errc::kUnavailable,
          fmt::format("only {} of {} nodes of the domain are ready and reachable; a channel needs "
                      "the consent of a majority",
                      ready.size(), assigned_count),
          {},
          kNoRank};
}

void ChannelRegistry::State::proposed(NodeId from, const RegistryMessage& m) {
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

void ChannelRegistry::State::released(NodeId from, const RegistryMessage& m) {
  // Only the holder itself, or the allocator about what it proposed, may say so; and nobody but
  // this node about this node once it was told that the grant is done.
  const auto found = table.find(m.workload);
  if (found == table.end()) return;
  if (m.node == config.self && granted.contains(m.workload)) return;
  const bool by_holder = from == m.node;
  if (by_holder || found->second.channel == m.channel) drop(m.workload, m.node);
}

void ChannelRegistry::State::merge(NodeId from, const RegistryMessage& m) {
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

void ChannelRegistry::State::forget_outdated(NodeId from,
                                             const std::vector<ChannelAssignment>& theirs) {
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

void ChannelRegistry::State::arrived(NodeId from, const RegistryMessage& m) {
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

void ChannelRegistry::State::peers(const RegistryPeers& e) {
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

void ChannelRegistry::State::node_ended(NodeId node) {
  std::vector<std::string> held;
  for (const auto& [workload, assignment] : table) {
    if (assignment.holders.contains(node)) held.push_back(workload);
  }
  for (const std::string& workload : held) drop(workload, node);
}

void ChannelRegistry::State::tick() {
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
