// Memberships of a whole domain over a simulated network: delays, one-way and full partitions,
// killed, stopped, resumed and rebooted daemons, moved addresses, list edits, a second daemon with
// a stolen id. Checkers watch every effect; after the faults stop the domain must be whole again
// within a bound.
//
// A failing seed is replayed alone with IMEX_SIM_SEED=<seed>.
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "domain/membership.hpp"
#include "membership_test_kit.hpp"

namespace imex::domain {
namespace {

using namespace std::chrono_literals;
using namespace testing_kit;

constexpr Nanos kChaos = 60s;
constexpr Nanos kConvergence =
    15s;                           // dial time-out 5 s + back-off 3 s + silence 3 s, and some slack
constexpr Nanos kOverlapMax = 4s;  // heartbeat time-out plus one interval
constexpr Nanos kConnectTimeout = 2s;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 60;  // each is some ten times slower there
#else
constexpr std::uint64_t kSeeds = 300;
#endif

struct Daemon {
  std::uint64_t run = 0;  // unique for each started daemon, resumed ones included
  MembershipConfig config;
  std::unique_ptr<SeededRandom> random;
  std::unique_ptr<Membership> membership;
  Time wake = kNever;
  // What the checkers know of it.
  struct Seen {
    std::optional<Uuid> live;  // joined and not ended
    bool silent = false;
    std::uint64_t dialling = 0;  // attempt in flight
    Time dialled{INT64_MIN / 2};
    bool early_dial_allowed = true;
  };
  std::map<NodeId, Seen> seen;
};

struct Host {
  std::string address;
  bool powered = true;
  std::optional<NodeId> slot;  // of the legitimate daemon
  std::unique_ptr<Daemon> daemon;
  Uuid last_instance;
};

/// One gRPC stream: ordered both ways, delayed while the network is cut, broken when an end dies.
struct Stream {
  std::size_t from = 0, to = 0;  // hosts
  std::uint64_t from_run = 0, to_run = 0, attempt = 0, inbound = 0;
  NodeId target = kNoNode;
  Uuid from_instance, to_instance;
  NodeId from_node = kNoNode;
  bool open = true;
  std::deque<std::function<void()>> ways[2];  // to the acceptor, to the dialler
};

class Cluster {
 public:
  explicit Cluster(std::uint64_t seed) : dice_(seed) {
    by_name_ = chance(50);
    domain_ = chance(80) ? id_of(0xd0) : Uuid{};
    node_count_ = 2 + below(5);
    for (std::size_t i = 0; i < node_count_ + 2; ++i) add_host();  // two in reserve
    for (std::size_t i = 0; i < node_count_; ++i) hosts_[i].slot = static_cast<NodeId>(i);
    for (std::size_t i = 0; i < node_count_; ++i) {
      at(Nanos(below(2'000'000'000)), [this, i] { start(i, false); });
    }
  }

  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  ~Cluster() {
    while (!streams_.empty()) retire(std::shared_ptr<Stream>(*streams_.begin()));
  }

  void run() {
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
  std::size_t connects = 0, ends = 0, silences = 0, duplicates = 0;

 private:
  // ---- time and chance ----
  std::uint64_t below(std::uint64_t bound) { return dice_.below(bound); }
  bool chance(std::uint64_t percent) { return below(100) < percent; }
  Nanos delay() { return Nanos(50'000 + below(chance(5) ? 200'000'000 : 5'000'000)); }
  void at(Nanos in, std::function<void()> what) { queue_.emplace(now_ + in, std::move(what)); }
  Nanos since_start() const { return now_ - kStart; }

  // ---- hosts ----
  void add_host() {
    const std::size_t i = hosts_.size();
    hosts_.emplace_back().address = fmt::format("10.0.{}.{}", i / 200, 10 + i % 200);
  }
  NodeList list() const {
    NodeList l;
    for (std::size_t i = 0; i < node_count_; ++i) {
      l.entries.push_back(by_name_ ? NodeEntry{fmt::format("node-{}", i), true}
                                   : NodeEntry{fmt::format("10.0.0.{}", 10 + i), false});
    }
    return l;
  }
  std::size_t host_of_slot(NodeId slot) const {
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i].slot == slot) return i;
    }
    return hosts_.size();
  }
  std::string resolve(const std::string& name) {
    const auto slot = static_cast<NodeId>(std::strtoul(name.c_str() + 5, nullptr, 10));
    if (slot >= node_count_) return std::string(kUnassignedAddress);
    const std::size_t host = host_of_slot(slot);
    return host < hosts_.size() ? hosts_[host].address : std::string();
  }

  void start(std::size_t host, bool resume, std::optional<NodeId> as = std::nullopt) {
    Host& h = hosts_[host];
    const std::optional<NodeId> self = as ? as : h.slot;
    if (!h.powered || h.daemon || !self || *self >= node_count_) return;
    auto d = std::make_unique<Daemon>();
    d->run = ++runs_;
    if (!resume || h.last_instance.is_nil()) h.last_instance = id_of(0x1000 + d->run);
    d->config.domain_id = domain_;
    d->config.instance = h.last_instance;
    d->config.boot_id = id_of(0xb000 + host);
    d->config.version = "sim";
    d->random = std::make_unique<SeededRandom>(dice_.next_u64());
    d->membership = std::make_unique<Membership>(d->config, *d->random, now_);
    h.daemon = std::move(d);
    step(host, ListChanged{list(), *self});
  }

  /// `notify`: the machine is there to reset connections; otherwise peers learn nothing.
  void kill(std::size_t host, bool notify) {
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

  // ---- network ----
  bool cut(std::size_t a, std::size_t b) const { return cuts_.contains({a, b}); }

  /// What was on its way is lost; it also holds the stream.
  void retire(const std::shared_ptr<Stream>& s) {
    s->open = false;
    for (auto& way : s->ways) way.clear();
    streams_.erase(s);
  }
  /// `by_dialler` ended it; the other side sees that, once the network lets the news through.
  void close(const std::shared_ptr<Stream>& s, bool by_dialler, bool notify) {
    retire(s);
    if (notify) at(delay(), [this, s, by_dialler] { tell_closed(s, by_dialler); });
  }
  void tell_closed(const std::shared_ptr<Stream>& s, bool by_dialler) {
    const std::size_t speaker = by_dialler ? s->from : s->to, hearer = by_dialler ? s->to : s->from;
    const std::uint64_t run = by_dialler ? s->to_run : s->from_run;
    if (!hosts_[hearer].daemon || hosts_[hearer].daemon->run != run) return;
    if (cut(speaker, hearer))
      return at(100ms, [this, s, by_dialler] { tell_closed(s, by_dialler); });
    if (by_dialler)
      step(hearer, InboundClosed{s->inbound});
    else
      step(hearer, StreamLost{s->target, s->attempt, true});
  }

  void send(const std::shared_ptr<Stream>& s, bool to_acceptor, std::function<void()> deliver) {
    auto& way = s->ways[to_acceptor ? 0 : 1];
    way.push_back(std::move(deliver));
    if (way.size() == 1) at(delay(), [this, s, to_acceptor] { pump(s, to_acceptor); });
  }
  void pump(const std::shared_ptr<Stream>& s, bool to_acceptor) {
    auto& way = s->ways[to_acceptor ? 0 : 1];
    if (!s->open || way.empty()) return;
    const std::size_t a = to_acceptor ? s->from : s->to, b = to_acceptor ? s->to : s->from;
    if (!cut(a, b)) {
      auto deliver = std::move(way.front());
      way.pop_front();
      deliver();
    }
    if (!way.empty())
      at(cut(a, b) ? 50ms : delay(), [this, s, to_acceptor] { pump(s, to_acceptor); });
  }

  void connect(std::size_t from, const Dial& d) {
    const std::uint64_t run = hosts_[from].daemon->run;
    std::size_t to = 0;
    while (to < hosts_.size() && hosts_[to].address != d.address) ++to;
    const auto failed = [this, from, run, d](bool refused) {
      if (alive(from, run))
        step(from, DialFailed{d.node, d.attempt, refused ? "refused" : "time-out", refused});
    };
    if (to == hosts_.size() || !hosts_[to].powered || cut(from, to) || cut(to, from)) {
      return at(kConnectTimeout, [failed] { failed(false); });
    }
    if (!hosts_[to].daemon) return at(delay(), [failed] { failed(true); });
    auto s = std::make_shared<Stream>();
    s->from = from;
    s->to = to;
    s->from_run = run;
    s->to_run = hosts_[to].daemon->run;
    s->attempt = d.attempt;
    s->inbound = ++inbounds_;
    s->target = d.node;
    s->from_node = d.hello.node;
    s->from_instance = d.hello.instance;
    streams_.insert(s);
    send(s, true, [this, s, hello = d.hello] { step(s->to, HelloReceived{s->inbound, hello}); });
  }
  bool alive(std::size_t host, std::uint64_t run) const {
    return hosts_[host].daemon && hosts_[host].daemon->run == run;
  }
  std::shared_ptr<Stream> dialled(std::size_t host, std::uint64_t attempt) {
    for (const auto& s : streams_) {
      if (s->from == host && s->attempt == attempt && alive(host, s->from_run)) return s;
    }
    return nullptr;
  }
  std::shared_ptr<Stream> accepted(std::size_t host, std::uint64_t inbound) {
    for (const auto& s : streams_) {
      if (s->to == host && s->inbound == inbound) return s;
    }
    return nullptr;
  }

  // ---- driving one daemon ----
  void step(std::size_t host, MembershipEvent event) {
    Daemon* d = hosts_[host].daemon.get();
    if (d == nullptr) return;
    const std::uint64_t run = d->run;
    note_event(*d, event);
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

  void note_event(Daemon& d, const MembershipEvent& event) {
    const bool frees = std::holds_alternative<ReconnectRequested>(event) ||
                       std::holds_alternative<ListChanged>(event);
    if (!frees) return;
    reconnects_[d.run] = now_;
    for (auto& [node, seen] : d.seen) seen.early_dial_allowed = true;
  }

  void apply(std::size_t host, Daemon& d, const Resolve& e) {
    EXPECT_TRUE(by_name_);
    at(delay(), [this, host, run = d.run, e] {
      if (alive(host, run)) step(host, SlotResolved{e.node, chance(3) ? "" : resolve(e.name)});
    });
  }
  void apply(std::size_t host, Daemon& d, const Dial& e) {
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
  void apply(std::size_t host, Daemon&, const HangUp& e) {
    if (auto s = dialled(host, e.attempt)) close(s, true, true);
  }
  void apply(std::size_t host, Daemon& d, const AnswerHello& e) {
    auto s = accepted(host, e.stream);
    if (!s) return;
    if (e.verdict == HelloVerdict::kDuplicateId) ++duplicates;
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
  void apply(std::size_t host, Daemon&, const DropInbound& e) {
    if (auto s = accepted(host, e.stream)) close(s, false, true);
  }
  void apply(std::size_t host, Daemon& d, const SendHeartbeat& e) {
    EXPECT_NE(e.attempt == 0, e.stream == 0);
    EXPECT_LT(e.node, d.membership->peers().size());
    speak(host, d, e.attempt, e.stream, [status = e.status](NodeId node, const Uuid& instance) {
      return MembershipEvent(HeartbeatReceived{node, instance, status});
    });
  }
  void apply(std::size_t host, Daemon& d, const SendGoodbye& e) {
    speak(host, d, e.attempt, e.stream, [](NodeId node, const Uuid& instance) {
      return MembershipEvent(GoodbyeReceived{node, instance});
    });
  }
  template <class Make>
  void speak(std::size_t host, Daemon& d, std::uint64_t attempt, std::uint64_t inbound, Make make) {
    const auto s = attempt != 0 ? dialled(host, attempt) : accepted(host, inbound);
    if (!s) return;  // it broke, and the news is on its way to this daemon
    const bool to_acceptor = attempt != 0;
    const std::size_t hearer = to_acceptor ? s->to : s->from;
    const NodeId self = d.membership->self();
    send(s, to_acceptor, [this, hearer, make, self, instance = d.config.instance] {
      step(hearer, make(self, instance));
    });
  }
  void apply(std::size_t, Daemon& d, const PeerJoined& e) {
    auto& seen = d.seen[e.node];
    ++connects;
    if (e.returned) {
      EXPECT_EQ(seen.live, e.instance) << "returned, but was not live";
    } else {
      EXPECT_FALSE(seen.live) << "joined while another instance was live";
    }
    seen.live = e.instance;
    seen.silent = false;
  }
  void apply(std::size_t, Daemon& d, const PeerEnded& e) {
    auto& seen = d.seen[e.node];
    ++ends;
    EXPECT_EQ(seen.live, e.instance) << "ended, but was not live";
    seen.live.reset();
    seen.silent = false;
  }
  void apply(std::size_t, Daemon& d, const PeerWentSilent& e) {
    auto& seen = d.seen[e.node];
    ++silences;
    EXPECT_EQ(seen.live, e.instance);
    EXPECT_FALSE(seen.silent) << "told silent twice in one outage";
    seen.silent = true;
  }
  void apply(std::size_t host, Daemon& d, const StatusChanged& e) {
    if (e.status == DaemonStatus::kInitGpu) {
      at(5ms, [this, host, run = d.run] {
        if (alive(host, run)) step(host, GpusReady{});
      });
    }
  }
  void apply(std::size_t host, Daemon& d, const IdentityLost& e) {
    EXPECT_EQ(e.exit_code, 75);
    at(1ms, [this, host, run = d.run] {
      if (alive(host, run)) kill(host, true);
    });
  }
  void apply(std::size_t, Daemon&, const MembershipLog&) {}

  // ---- faults ----
  std::size_t any_host() { return below(hosts_.size()); }

  void fault() {
    const std::size_t a = any_host(), b = any_host();
    switch (below(11)) {
      case 0:
        return crash_and_restart(a, true);
      case 1:
        return crash_and_restart(a, false);
      case 2:
        return power_cut(a);
      case 3:
        return cut_for(a, b, true);
      case 4:
        return cut_for(a, b, false);
      case 5:
        return isolate(a);
      case 6:
        return stop_and_restart(a);
      case 7:
        return step(a, ReconnectRequested{});
      case 8:
        return move(a);
      case 9:
        return edit_list();
      default:
        return steal_id();
    }
  }
  void crash_and_restart(std::size_t host, bool resume) {
    kill(host, true);
    at(Nanos(below(20'000'000'000)), [this, host, resume] { start(host, resume); });
  }
  void power_cut(std::size_t host) {
    kill(host, false);
    hosts_[host].powered = false;
    at(Nanos(below(40'000'000'000)), [this, host] {
      hosts_[host].powered = true;
      start(host, false);
    });
  }
  void cut_for(std::size_t a, std::size_t b, bool both) {
    if (a == b) return;
    cuts_.insert({a, b});
    if (both) cuts_.insert({b, a});
    at(Nanos(below(45'000'000'000)), [this, a, b] {
      cuts_.erase({a, b});
      cuts_.erase({b, a});
    });
  }
  void isolate(std::size_t a) {
    for (std::size_t b = 0; b < hosts_.size(); ++b) cut_for(a, b, true);
  }
  void stop_and_restart(std::size_t host) {
    if (!hosts_[host].daemon) return;
    step(host, StopRequested{});
    at(300ms, [this, host, run = hosts_[host].daemon->run] {
      if (alive(host, run)) kill(host, true);
    });
    at(1s + Nanos(below(10'000'000'000)), [this, host] { start(host, false); });
  }
  /// The slot's daemon moves to a reserve host under the same name (a pod that was rescheduled).
  void move(std::size_t host) {
    if (!by_name_ || !hosts_[host].slot) return;
    std::size_t free = 0;
    while (free < hosts_.size() && (hosts_[free].slot || hosts_[free].daemon)) ++free;
    if (free == hosts_.size()) return;
    kill(host, true);
    hosts_[free].slot = std::exchange(hosts_[host].slot, std::nullopt);
    start(free, false);
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (chance(50)) step(i, ReconnectRequested{});
    }
  }
  void edit_list() {
    if (chance(50) && node_count_ < 9) {
      const auto slot = static_cast<NodeId>(node_count_++);
      std::size_t host = host_of_slot(slot);
      if (host == hosts_.size()) {
        // Address lists tie slot and host together; the reserve hosts come first in line.
        host = by_name_ ? hosts_.size() : slot;
        if (host >= hosts_.size()) add_host();
        hosts_[host].slot = slot;
      }
      at(Nanos(below(3'000'000'000)), [this, host] { start(host, false); });
    } else if (node_count_ > 2) {
      --node_count_;
    }
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      at(Nanos(below(2'000'000'000)), [this, i] { tell_list(i); });
    }
  }
  void tell_list(std::size_t host) {
    Daemon* d = hosts_[host].daemon.get();
    if (d == nullptr) return;
    const NodeId self = d->membership->self();
    const NodeId still = self < node_count_ ? self : kNoNode;
    for (auto it = d->seen.begin(); it != d->seen.end();) {
      it = it->first >= node_count_ && !it->second.live ? d->seen.erase(it) : std::next(it);
    }
    step(host, ListChanged{list(), still});
  }
  void steal_id() {
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i].slot || hosts_[i].daemon) continue;
      thieves_.insert(i);
      start(i, false, static_cast<NodeId>(below(node_count_)));
      return;
    }
  }

  void heal() {
    cuts_.clear();
    for (const std::size_t thief : thieves_) {
      if (!hosts_[thief].slot) kill(thief, true);
    }
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      hosts_[i].powered = true;
      tell_list(i);
      at(5ms, [this, i] { start(i, false); });
      // What was scheduled before may still stop or cut something: undo that as well.
    }
    if (since_start() < kChaos + 1s) at(50ms, [this] { settle(); });
  }
  void settle() {
    cuts_.clear();
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i].slot && !hosts_[i].daemon) start(i, false);
    }
    if (since_start() < kChaos + kConvergence) at(50ms, [this] { settle(); });
  }

  // ---- checkers ----
  /// No two daemons of one id may both be connected to a third for longer than heartbeats take.
  void inspect() {
    std::map<std::pair<NodeId, Uuid>, std::vector<std::size_t>> holders;  // (id, third) -> hosts
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (!hosts_[i].daemon) continue;
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
    at(20ms, [this] { inspect(); });
  }

  void check_whole() {
    for (std::size_t slot = 0; slot < node_count_; ++slot) {
      const std::size_t host = host_of_slot(static_cast<NodeId>(slot));
      ASSERT_LT(host, hosts_.size());
      ASSERT_TRUE(hosts_[host].daemon) << "node " << slot << " does not run";
      const Membership& m = *hosts_[host].daemon->membership;
      EXPECT_EQ(m.status(), DaemonStatus::kReady) << "node " << slot;
      const auto peers = m.peers();
      EXPECT_EQ(peers.size(), node_count_);
      for (const PeerView& p : peers) {
        EXPECT_EQ(p.state, PairState::kConnected)
            << slot << " -> " << p.node << ": " << p.last_error;
        EXPECT_EQ(p.status, DaemonStatus::kReady) << slot << " -> " << p.node;
        EXPECT_EQ(p.instance, hosts_[host_of_slot(p.node)].daemon->config.instance)
            << slot << " -> " << p.node;
      }
    }
  }

  static constexpr Time kStart{1'000'000'000'000};
  SeededRandom dice_;
  Time now_ = kStart;
  std::multimap<Time, std::function<void()>> queue_;
  std::deque<Host> hosts_;
  std::set<std::shared_ptr<Stream>> streams_;
  std::set<std::pair<std::size_t, std::size_t>> cuts_;
  std::set<std::size_t> thieves_;
  std::map<std::pair<NodeId, Uuid>, Time> overlaps_;
  std::map<std::uint64_t, Time> reconnects_;  // by run
  bool by_name_ = false;
  Uuid domain_;
  std::size_t node_count_ = 0;
  std::uint64_t runs_ = 0, inbounds_ = 0;
};

TEST(MembershipSimTest, EveryHistoryOfFaultsEndsInAWholeDomain) {
  std::uint64_t first = 1, count = kSeeds;
  if (const char* seed = std::getenv("IMEX_SIM_SEED")) {
    first = std::strtoull(seed, nullptr, 10);
    count = 1;
  }
  std::size_t connects = 0, ends = 0, silences = 0, duplicates = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(fmt::format("replay with IMEX_SIM_SEED={}", seed));
    Cluster cluster(seed);
    cluster.run();
    connects += cluster.connects;
    ends += cluster.ends;
    silences += cluster.silences;
    duplicates += cluster.duplicates;
    if (HasFailure()) return;
  }
  if (count == 1) return;
  // The faults must have bitten, or the run proves nothing.
  EXPECT_GT(connects, 10 * count);
  EXPECT_GT(ends, count);
  EXPECT_GT(silences, count);
  EXPECT_GT(duplicates, count);
}

}  // namespace
}  // namespace imex::domain
