#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "channel_registry_state.hpp"
#include "domain/journal.hpp"

// The allocator: proposes a number for a workload to all nodes until a majority has taken it.

namespace imex::domain {
namespace {

constexpr std::size_t kProposalsMax = 1024;  ///< workloads in agreement at once
constexpr std::size_t kWaitingMax = 1024;    ///< nodes that wait for one of them
constexpr std::size_t kRoundsMax = 64;       ///< numbers tried for one workload

}  // namespace

void ChannelRegistry::State::allocate(const RegistryMessage& m) {
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
    return answer({Errc::kResourceExhausted, "too many workloads wait for a channel", {}, kNoRank});
  }
  Proposal& proposal = proposals[m.workload];
  proposal.askers.push_back({m.node, m.request});
  propose(m.workload);
}

std::optional<std::uint32_t> ChannelRegistry::State::free_number(
    const std::set<std::uint32_t>& avoid) const {
  std::set<std::uint32_t> taken = avoid;
  for (const auto& [workload, assignment] : table) taken.insert(assignment.channel);
  for (const auto& [workload, proposal] : proposals) taken.insert(proposal.channel);
  for (std::uint32_t number = 1; number < config.channels_max; ++number) {
    if (!taken.contains(number)) return number;
  }
  return std::nullopt;
}

void ChannelRegistry::State::propose(const std::string& workload) {
  Proposal& proposal = proposals.at(workload);
  const auto known = table.find(workload);
  if (known != table.end()) {
    proposal.channel = known->second.channel;
  } else if (proposal.channel == 0) {
    const auto number = free_number(proposal.avoid);
    if (!number) {
      return conclude(workload, {Errc::kResourceExhausted,
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
    return conclude(workload, {Errc::kUnavailable, "the number was taken meanwhile", {}, kNoRank});
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

std::map<std::string, Proposal>::iterator ChannelRegistry::State::find_proposal(
    const RegistryMessage& m) {
  const auto found = proposals.find(m.workload);
  return found != proposals.end() && found->second.id == m.request ? found : proposals.end();
}

void ChannelRegistry::State::accepted(NodeId from, const RegistryMessage& m) {
  const auto found = find_proposal(m);
  if (found == proposals.end()) return;
  found->second.accepted.insert(from);
  commit_if_agreed(found->first);
}

void ChannelRegistry::State::commit_if_agreed(const std::string& workload) {
  if (majority(proposals.at(workload).accepted.size())) {
    conclude(workload, {Errc::kOk, {}, {}, kNoRank});
  }
}

void ChannelRegistry::State::rejected(const RegistryMessage& m) {
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

void ChannelRegistry::State::withdraw(const std::string& workload, const Proposal& proposal) {
  const NodeId node = proposal.askers.front().node;
  drop(workload, node);
  RegistryMessage message;
  message.kind = Kind::kReleased;
  message.workload = workload;
  message.channel = proposal.channel;
  message.node = node;
  broadcast(message);
}

void ChannelRegistry::State::conclude(const std::string& workload, const Error& outcome) {
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

}  // namespace imex::domain
