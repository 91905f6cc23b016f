#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "channel_registry_state.hpp"
#include "domain/journal.hpp"

// A grant on this node: it asks the allocator, and holds the number only once that has answered.

namespace imex::domain {
namespace {

constexpr std::size_t kGrantsMax = 1024;  ///< grants on this node that wait for an answer

}  // namespace

void ChannelRegistry::State::wanted(const GrantWanted& e) {
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
    return done(Errc::kResourceExhausted, 0, fmt::format("{} grants wait already", grants.size()));
  }
  grants.emplace(e.request, WaitingGrant{e.workload, now + 2 * config.request_timeout});
  if (!asked) ask(e.request, e.workload);
}

bool ChannelRegistry::State::waits_for(const std::string& workload) const {
  return std::ranges::any_of(grants,
                             [&](const auto& entry) { return entry.second.workload == workload; });
}

void ChannelRegistry::State::finish_grants(const std::string& workload, Errc code,
                                           std::uint32_t channel, const std::string& text) {
  std::erase_if(grants, [&](const auto& entry) {
    if (entry.second.workload != workload) return false;
    out.emplace_back(GrantDone{entry.first, code, channel, text});
    return true;
  });
}

void ChannelRegistry::State::ask(std::uint64_t request, const std::string& workload) {
  RegistryMessage message;
  message.kind = Kind::kAllocate;
  message.request = request;
  message.workload = workload;
  message.node = config.self;
  send(*ready.begin(), std::move(message));
}

void ChannelRegistry::State::allocated(const RegistryMessage& m) {
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

void ChannelRegistry::State::give_up(const std::string& workload) {
  granted.erase(workload);
  drop(workload, config.self);
  RegistryMessage message;
  message.kind = Kind::kReleased;
  message.workload = workload;
  message.node = config.self;
  broadcast(message);
}

void ChannelRegistry::State::release(const ReleaseWanted& e) {
  finish_grants(e.workload, Errc::kAborted, 0, "the workload was released meanwhile");
  give_up(e.workload);
}

}  // namespace imex::domain
