// Grants: the registry agrees on a number, then the socket appears, then the answer goes out.

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "daemon.hpp"

namespace imex::domain {

namespace {

constexpr std::size_t kWaitingGrantsMax = 1024;

}  // namespace

Result<GrantRecord> Daemon::check_grant(const GrantAsked& asked) const {
  GrantRecord grant{asked.workload, 0, asked.uid.value_or(::geteuid()), asked.gpu_uids};
  const std::vector<fabric::Gpu> gpus = fabric_->gpus();
  for (const std::uint32_t index : asked.gpu_indexes) {
    const auto found = std::ranges::find(gpus, index, &fabric::Gpu::index);
    if (found == gpus.end()) {
      return fail(Errc::kNotFound, fmt::format("no GPU with index {} on this node", index));
    }
    grant.gpu_uids.push_back(found->uid);
  }
  for (const std::uint64_t uid : grant.gpu_uids) {
    if (std::ranges::find(gpus, uid, &fabric::Gpu::uid) == gpus.end()) {
      return fail(Errc::kNotFound, fmt::format("no GPU with uid {:#x} on this node", uid));
    }
  }
  std::ranges::sort(grant.gpu_uids);
  const auto twice = std::ranges::unique(grant.gpu_uids);
  grant.gpu_uids.erase(twice.begin(), twice.end());
  return grant;
}

void Daemon::grant(GrantAsked asked, std::function<void(Result<GrantGiven>)> done) {
  if (stopping_ || closed_) return done(fail(Errc::kUnavailable, "the daemon shuts down"));
  auto wanted = check_grant(asked);
  if (!wanted) return done(fail(wanted.error()));
  const auto& held = journal_->state().grants;
  if (const auto known = held.find(asked.workload); known != held.end()) {
    wanted->channel = known->second.channel;
    if (*wanted == known->second && channels_->is_open(wanted->channel)) {
      return done(GrantGiven{*wanted, channels_->path(wanted->channel)});
    }
    return done(fail(Errc::kAlreadyExists,
                     fmt::format("workload '{}' holds channel {} with other GPUs or another user",
                                 asked.workload, known->second.channel),
                     "release it first"));
  }
  const bool waits = std::ranges::any_of(waiting_grants_, [&](const auto& each) {
    return each.second.grant.workload == asked.workload;
  });
  if (waits || waiting_grants_.size() >= kWaitingGrantsMax) {
    return done(fail(Errc::kUnavailable, "the same grant, or too many, are under way; retry"));
  }
  const std::uint64_t request = ++last_grant_;
  waiting_grants_.emplace(request, WaitingGrant{std::move(*wanted), std::move(done)});
  enqueue(RegistryEvent(GrantWanted{request, asked.workload}), "Grant");
}

void Daemon::on(const GrantDone& e) {
  auto node = waiting_grants_.extract(e.request);
  if (!node) return;
  WaitingGrant& waiting = node.mapped();
  if (e.code != Errc::kOk) {
    return waiting.done(fail(e.code, e.text.empty() ? "no channel could be agreed on" : e.text));
  }
  waiting.grant.channel = e.channel;
  auto given = open_grant(waiting.grant);
  if (given) {
    journal(waiting.grant);
    log_.info(fmt::format(
        "channel {} granted to '{}' (user {}, {} GPUs)", e.channel, waiting.grant.workload,
        waiting.grant.uid,
        waiting.grant.gpu_uids.empty() ? fabric_->gpus().size() : waiting.grant.gpu_uids.size()));
  } else {
    enqueue(RegistryEvent(ReleaseWanted{waiting.grant.workload}), "Release");
  }
  waiting.done(std::move(given));
}

/// The socket and the broker's side of a grant.
Result<GrantGiven> Daemon::open_grant(GrantRecord grant) {
  IMEX_CHECK_OK(channels_->open(grant.channel, 0600, grant.uid));
  enqueue(BrokerEvent(ChannelOpened{grant.channel, grant.gpu_uids, grant.uid}), "ChannelOpened");
  std::string path = channels_->path(grant.channel);
  return GrantGiven{std::move(grant), std::move(path)};
}

Result<void> Daemon::release(const std::string& workload) {
  const auto& held = journal_->state().grants;
  const auto known = held.find(workload);
  if (known == held.end()) return {};
  const std::uint32_t channel = known->second.channel;
  journal(ReleaseRecord{workload});
  channels_->close(channel);
  enqueue(BrokerEvent(ChannelClosed{channel}), "ChannelClosed");
  enqueue(RegistryEvent(ReleaseWanted{workload}), "Release");
  log_.info(fmt::format("channel {} released by '{}'", channel, workload));
  return {};
}

std::vector<GrantGiven> Daemon::grants() const {
  std::vector<GrantGiven> all;
  for (const auto& [workload, grant] : journal_->state().grants) {
    all.push_back({grant, channels_->path(grant.channel)});
  }
  return all;
}

}  // namespace imex::domain
