#include "membership_sim_cluster.hpp"

#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace imex::domain::membership_sim {

using namespace std::chrono_literals;

namespace {

constexpr Nanos kOverlapMax = 4s;  // heartbeat time-out plus one interval
constexpr Nanos kInspection = 50ms;

}  // namespace

Cluster::Cluster(std::uint64_t seed) : dice_(seed) {
  by_name_ = chance(50);
  domain_ = chance(80) ? id_of(0xd0) : Uuid{};
  const std::uint64_t mode = below(4);
  quorum_ = mode == 0 ? Quorum::kFull : mode == 1 ? Quorum::kNone : Quorum::kRecovery;
  grace_ = chance(50) ? Nanos(-1) : Nanos(below(2) * 5'000'000'000);
  recovery_wait_max_ = chance(50) ? Nanos(0) : Nanos(5s);
  lease_when_silent_ = chance(50);
  node_count_ = 2 + below(5);
  for (std::size_t i = 0; i < node_count_ + 2; ++i) add_host();  // two in reserve
  for (std::size_t i = 0; i < node_count_; ++i) hosts_[i].slot = static_cast<NodeId>(i);
  for (std::size_t i = 0; i < node_count_; ++i) {
    at(Nanos(below(2'000'000'000)), [this, i] { start(i, false); });
  }
}

Cluster::~Cluster() {
  while (!streams_.empty()) retire(std::shared_ptr<Stream>(*streams_.begin()));
}

void Cluster::run() {
  const std::size_t faults = 3 + below(25);
  for (std::size_t i = 0; i < faults; ++i) {
    at(2s + Nanos(below(static_cast<std::uint64_t>((kChaos - 2s).count()))), [this] { fault(); });
  }
  at(kChaos, [this] { heal(); });
  at(10ms, [this] { inspect(); });
  const Time end = now_ + kChaos + kConvergence;
  while (!queue_.empty() && queue_.begin()->first <= end && !::testing::Test::HasFailure()) {
    const auto first = queue_.begin();
    now_ = first->first;
    const auto action = std::move(first->second);
    queue_.erase(first);
    action();
  }
  if (!::testing::Test::HasFailure()) check_whole();
}

void Cluster::add_host() {
  const std::size_t i = hosts_.size();
  hosts_.emplace_back().address = fmt::format("10.0.{}.{}", i / 200, 10 + i % 200);
}

NodeList Cluster::list() const {
  NodeList l;
  for (std::size_t i = 0; i < node_count_; ++i) {
    l.entries.push_back(by_name_ ? NodeEntry{fmt::format("node-{}", i), true}
                                 : NodeEntry{fmt::format("10.0.0.{}", 10 + i), false});
  }
  return l;
}

std::size_t Cluster::host_of_slot(NodeId slot) const {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].slot == slot) return i;
  }
  return hosts_.size();
}

std::string Cluster::resolve(const std::string& name) {
  const auto slot = static_cast<NodeId>(std::strtoul(name.c_str() + 5, nullptr, 10));
  if (slot >= node_count_) return std::string(kUnassignedAddress);
  const std::size_t host = host_of_slot(slot);
  return host < hosts_.size() ? hosts_[host].address : std::string();
}

void Cluster::start(std::size_t host, bool resume, std::optional<NodeId> as) {
  Host& h = hosts_[host];
  const std::optional<NodeId> self = as ? as : h.slot;
  if (!h.powered || h.daemon || !self || *self >= node_count_) return;
  auto d = std::make_unique<Daemon>();
  d->run = ++runs_;
  d->started = now_;
  const bool unclean = !resume && !h.last_instance.is_nil() && !as;
  if (!resume || h.last_instance.is_nil()) h.last_instance = id_of(0x1000 + d->run);
  reached(resume ? "daemon resumed" : "daemon started");
  d->config.domain_id = domain_;
  d->config.instance = h.last_instance;
  d->config.boot_id = id_of(0xb000 + host);
  d->config.version = "sim";
  d->config.quorum = quorum_;
  d->config.grace = grace_;
  d->config.recovery_wait_max = recovery_wait_max_;
  d->config.lease_when_silent = lease_when_silent_;
  if (unclean) d->config.former_importers = some_importers(*self);
  d->random = std::make_unique<SeededRandom>(dice_.next_u64());
  d->membership = std::make_unique<Membership>(d->config, *d->random, now_);
  h.daemon = std::move(d);
  step(host, ListChanged{list(), *self});
}

/// What the journal of an unclean end names.
std::set<NodeId> Cluster::some_importers(NodeId self) {
  std::set<NodeId> nodes;
  for (std::size_t i = 0; i < node_count_; ++i) {
    if (chance(30) && i != self) nodes.insert(static_cast<NodeId>(i));
  }
  return nodes;
}

void Cluster::kill(std::size_t host, bool notify) {
  Host& h = hosts_[host];
  if (!h.daemon) return;
  const std::uint64_t run = h.daemon->run;
  h.daemon.reset();
  for (auto& s : std::vector<std::shared_ptr<Stream>>(streams_.begin(), streams_.end())) {
    if (!s->open) continue;
    if (s->from == host && s->from_run == run)
      close(s, true, notify);
    else if (s->to == host && s->to_run == run)
      close(s, false, notify);
  }
}

void Cluster::inspect() {
  std::map<std::pair<NodeId, Uuid>, std::vector<std::size_t>> holders;  // (id, third) -> hosts
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (!hosts_[i].daemon || hosts_[i].daemon->frozen) continue;
    check_ready_in_time(*hosts_[i].daemon);
    const Membership& m = *hosts_[i].daemon->membership;
    if (m.status() != DaemonStatus::kReady) continue;
    for (const PeerView& p : m.peers()) {
      if (p.node != m.self() && p.state == PairState::kConnected) {
        holders[{m.self(), p.instance}].push_back(i);
      }
    }
  }
  for (const auto& [key, who] : holders) {
    if (who.size() < 2) {
      overlaps_.erase(key);
      continue;
    }
    const auto [first, fresh] = overlaps_.try_emplace(key, now_);
    EXPECT_LE(now_ - first->second, kOverlapMax)
        << "two daemons of node " << key.first << " connected";
  }
  std::erase_if(overlaps_, [&](const auto& o) { return !holders.contains(o.first); });
  at(kInspection, [this] { inspect(); });
}

void Cluster::check_whole() {
  for (std::size_t slot = 0; slot < node_count_; ++slot) {
    const std::size_t host = host_of_slot(static_cast<NodeId>(slot));
    ASSERT_LT(host, hosts_.size());
    ASSERT_TRUE(hosts_[host].daemon) << "node " << slot << " does not run";
    const Membership& m = *hosts_[host].daemon->membership;
    EXPECT_EQ(m.status(), DaemonStatus::kReady) << "node " << slot;
    const auto peers = m.peers();
    EXPECT_EQ(peers.size(), node_count_);
    for (const PeerView& p : peers) {
      EXPECT_EQ(p.state, PairState::kConnected) << slot << " -> " << p.node << ": " << p.last_error;
      EXPECT_EQ(p.status, DaemonStatus::kReady) << slot << " -> " << p.node;
      EXPECT_EQ(p.instance, hosts_[host_of_slot(p.node)].daemon->config.instance)
          << slot << " -> " << p.node;
    }
  }
}

}  // namespace imex::domain::membership_sim
