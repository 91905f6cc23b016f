// One daemon at a time: its events go in, its effects are checked and carried out.
#include <algorithm>

#include <gtest/gtest.h>

#include "membership_sim_cluster.hpp"

namespace imex::domain::membership_sim {

using namespace std::chrono_literals;

void Cluster::step(std::size_t host, MembershipEvent event) {
  Daemon* d = hosts_[host].daemon.get();
  if (d == nullptr) return;
  const std::uint64_t run = d->run;
  if (d->frozen) return d->held.push_back(std::move(event));
  note_event(*d, event);
  if (chance(2)) repeat(host, *d, event);
  const bool tick = std::holds_alternative<Tick>(event);
  auto effects = d->membership->step(std::move(event), now_);
  if (tick) {
    EXPECT_GT(d->membership->next_deadline(), now_) << "a tick left its own deadline due";
  }
  for (auto& effect : effects) {
    if (!alive(host, run)) return;
    std::visit([&](auto& e) { apply(host, *d, e); }, effect);
  }
  if (!alive(host, run)) return;
  const Time next = d->membership->next_deadline();
  if (next == kNever || next >= d->wake) return;
  d->wake = next;
  at(std::max(Nanos(0), next - now_), [this, host, run, next] {
    if (!alive(host, run) || hosts_[host].daemon->wake != next) return;
    hosts_[host].daemon->wake = kNever;
    step(host, Tick{});
  });
}

void Cluster::repeat(std::size_t host, const Daemon& d, const MembershipEvent& event) {
  const bool promised =
      std::holds_alternative<DialFailed>(event) || std::holds_alternative<HelloAnswered>(event) ||
      std::holds_alternative<StreamLost>(event) || std::holds_alternative<InboundClosed>(event) ||
      std::holds_alternative<HeartbeatReceived>(event) ||
      std::holds_alternative<GoodbyeReceived>(event) || std::holds_alternative<GpusReady>(event) ||
      std::holds_alternative<Tick>(event);
  if (!promised) return;
  reached("event repeated");
  at(delay(), [this, host, run = d.run, event] {
    if (alive(host, run)) step(host, event);
  });
}

/// The GPUs are asked for only once the quorum that was configured is there.
void Cluster::check_ready_conditions(const Daemon& d) const {
  if (d.config.quorum == Quorum::kFull) {
    for (const PeerView& p : d.membership->peers()) {
      if (p.node == d.membership->self()) continue;
      EXPECT_EQ(p.state, PairState::kConnected) << "full quorum without node " << p.node;
    }
  }
  const bool gave_up =
      d.config.recovery_wait_max > 0s && now_ - d.started >= d.config.recovery_wait_max;
  if (d.config.quorum != Quorum::kRecovery || gave_up) return;
  const std::size_t slots = d.membership->peers().size();
  for (const NodeId importer : d.config.former_importers) {
    EXPECT_TRUE(importer >= slots || d.joined.contains(importer))
        << "recovered without former importer " << importer;
  }
}

/// Whoever need not wait for anybody is READY at once, whatever the network and the peers do.
void Cluster::check_ready_in_time(const Daemon& d) const {
  const bool waits = d.config.quorum == Quorum::kFull ||
                     (d.config.quorum == Quorum::kRecovery && !d.config.former_importers.empty());
  if (waits || now_ - d.started < kReadyMax || d.was_frozen) return;
  EXPECT_GE(d.membership->status(), DaemonStatus::kReady)
      << "node " << d.membership->self() << " is not READY "
      << (now_ - d.started) / std::chrono::milliseconds(1) << " ms after its start";
}

void Cluster::note_event(Daemon& d, const MembershipEvent& event) {
  const bool frees = std::holds_alternative<ReconnectRequested>(event) ||
                     std::holds_alternative<ListChanged>(event);
  if (!frees) return;
  reconnects_[d.run] = now_;
  for (auto& [node, seen] : d.seen) seen.early_dial_allowed = true;
}

void Cluster::apply(std::size_t host, Daemon& d, const Resolve& e) {
  EXPECT_TRUE(by_name_);
  at(delay(), [this, host, run = d.run, e] {
    if (alive(host, run)) step(host, SlotResolved{e.node, chance(3) ? "" : resolve(e.name)});
  });
}

void Cluster::apply(std::size_t host, Daemon& d, const Dial& e) {
  const auto peers = d.membership->peers();
  ASSERT_LT(e.node, peers.size());
  ASSERT_NE(e.node, d.membership->self());
  ASSERT_FALSE(e.address.empty()) << "an unassigned slot was dialled";
  ASSERT_NE(e.address, kUnassignedAddress);
  auto& seen = d.seen[e.node];
  // The coalesced end of a window comes up to 500 ms after its request.
  const bool free = seen.early_dial_allowed || now_ - reconnects_[d.run] < 700ms;
  EXPECT_TRUE(free || now_ - seen.dialled >= d.config.dial_backoff_min)
      << "node " << e.node << " dialled again after " << (now_ - seen.dialled).count() << " ns";
  seen.early_dial_allowed = by_name_;  // an address may change under it at any time
  seen.dialled = now_;
  connect(host, e);
}

void Cluster::apply(std::size_t host, Daemon&, const HangUp& e) {
  if (auto s = dialled(host, e.attempt)) close(s, true, true);
}

void Cluster::apply(std::size_t host, Daemon& d, const AnswerHello& e) {
  auto s = accepted(host, e.stream);
  if (!s) return;
  if (e.verdict == HelloVerdict::kDuplicateId) reached("duplicate refused");
  s->to_instance = d.config.instance;
  send(s, false, [this, s, e] {
    const bool refused = e.verdict != HelloVerdict::kAccepted;
    if (refused) {
      retire(s);
    }
    if (alive(s->from, s->from_run))
      step(s->from, HelloAnswered{s->target, s->attempt, e.verdict, e.hello});
  });
}

void Cluster::apply(std::size_t host, Daemon&, const DropInbound& e) {
  if (auto s = accepted(host, e.stream)) close(s, false, true);
}

void Cluster::apply(std::size_t host, Daemon& d, const SendHeartbeat& e) {
  EXPECT_NE(e.attempt == 0, e.stream == 0);
  EXPECT_LT(e.node, d.membership->peers().size());
  speak(host, d, e.attempt, e.stream, [status = e.status](NodeId node, const Uuid& instance) {
    return MembershipEvent(HeartbeatReceived{node, instance, status});
  });
}

void Cluster::apply(std::size_t host, Daemon& d, const SendGoodbye& e) {
  speak(host, d, e.attempt, e.stream, [](NodeId node, const Uuid& instance) {
    return MembershipEvent(GoodbyeReceived{node, instance});
  });
}

template <class Make>
void Cluster::speak(std::size_t host, Daemon& d, std::uint64_t attempt, std::uint64_t inbound,
                    Make make) {
  const auto s = attempt != 0 ? dialled(host, attempt) : accepted(host, inbound);
  if (!s) return;  // it broke, and the news is on its way to this daemon
  const bool to_acceptor = attempt != 0;
  const std::size_t hearer = to_acceptor ? s->to : s->from;
  const NodeId self = d.membership->self();
  send(s, to_acceptor, [this, hearer, make, self, instance = d.config.instance] {
    step(hearer, make(self, instance));
  });
}

void Cluster::apply(std::size_t, Daemon& d, const PeerJoined& e) {
  auto& seen = d.seen[e.node];
  reached("peer joined");
  if (e.returned) reached("peer returned");
  d.joined.insert(e.node);
  if (e.returned) {
    EXPECT_EQ(seen.live, e.instance) << "returned, but was not live";
  } else {
    EXPECT_FALSE(seen.live) << "joined while another instance was live";
  }
  seen.live = e.instance;
  seen.silent = false;
}

void Cluster::apply(std::size_t, Daemon& d, const PeerEnded& e) {
  auto& seen = d.seen[e.node];
  reached("peer ended");
  EXPECT_EQ(seen.live, e.instance) << "ended, but was not live";
  seen.live.reset();
  seen.silent = false;
}

void Cluster::apply(std::size_t, Daemon& d, const PeerWentSilent& e) {
  auto& seen = d.seen[e.node];
  reached("peer silent");
  EXPECT_EQ(seen.live, e.instance);
  EXPECT_FALSE(seen.silent) << "told silent twice in one outage";
  seen.silent = true;
}

void Cluster::apply(std::size_t host, Daemon& d, const StatusChanged& e) {
  reached("status " + std::string(status_word(e.status)));
  if (e.status == DaemonStatus::kInitGpu) {
    check_ready_conditions(d);
    at(5ms, [this, host, run = d.run] {
      if (alive(host, run)) step(host, GpusReady{});
    });
  }
}

void Cluster::apply(std::size_t host, Daemon& d, const IdentityLost& e) {
  EXPECT_TRUE(e.exit_code == 75 || (e.exit_code == 76 && d.config.quorum == Quorum::kFull))
      << e.exit_code << ": " << e.why;
  reached("identity lost");
  at(1ms, [this, host, run = d.run] {
    if (alive(host, run)) kill(host, true);
  });
}

}  // namespace imex::domain::membership_sim
