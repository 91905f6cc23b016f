/// A whole domain of Memberships over a simulated network; each effect is watched by checkers.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "domain/membership.hpp"
#include "membership_test_kit.hpp"
#include "seeded_random.hpp"

namespace imex::domain::membership_sim {

using namespace testing_kit;

inline constexpr Nanos kChaos = std::chrono::seconds(60);  ///< faults come until then
/// From the end of the faults to a whole domain: dial time-out 5 s + back-off 3 s + silence 3 s,
/// and some slack.
inline constexpr Nanos kConvergence = std::chrono::seconds(15);
/// From the start of a daemon that waits for nobody to READY, in virtual time.
inline constexpr Nanos kReadyMax = std::chrono::seconds(1);

struct Daemon {
  std::uint64_t run = 0;  // unique for each started daemon, resumed ones included
  MembershipConfig config;
  std::unique_ptr<SeededRandom> random;
  std::unique_ptr<Membership> membership;
  Time wake = kNever;
  Time started{};
  bool frozen = false;  ///< SIGSTOP, or the machine sleeps: events wait
  bool was_frozen = false;
  std::deque<MembershipEvent> held;  ///< while frozen
  std::set<NodeId> joined;           ///< connected at least once in this run
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
  explicit Cluster(std::uint64_t seed);

  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  ~Cluster();

  void run();
  /// What was reached, and how often.
  std::map<std::string, std::uint64_t> marks;

 private:
  // ---- time and chance ----
  std::uint64_t below(std::uint64_t bound) { return dice_.below(bound); }
  bool chance(std::uint64_t percent) { return below(100) < percent; }
  void reached(const std::string& what) { ++marks[what]; }
  Nanos delay() { return Nanos(50'000 + below(chance(5) ? 200'000'000 : 5'000'000)); }
  void at(Nanos in, std::function<void()> what) { queue_.emplace(now_ + in, std::move(what)); }
  Nanos since_start() const { return now_ - kStart; }

  // ---- hosts ----
  void add_host();
  NodeList list() const;
  std::size_t host_of_slot(NodeId slot) const;
  std::string resolve(const std::string& name);

  void start(std::size_t host, bool resume, std::optional<NodeId> as = std::nullopt);
  std::set<NodeId> some_importers(NodeId self);

  /// `notify`: the machine is there to reset connections; otherwise peers learn nothing.
  void kill(std::size_t host, bool notify);

  // ---- network (membership_sim_network.cpp) ----
  bool cut(std::size_t a, std::size_t b) const { return cuts_.contains({a, b}); }

  /// What was on its way is lost; it also holds the stream.
  void retire(const std::shared_ptr<Stream>& s);
  /// `by_dialler` ended it; the other side sees that, once the network lets the news through.
  void close(const std::shared_ptr<Stream>& s, bool by_dialler, bool notify);
  void tell_closed(const std::shared_ptr<Stream>& s, bool by_dialler);

  void send(const std::shared_ptr<Stream>& s, bool to_acceptor, std::function<void()> deliver);
  void pump(const std::shared_ptr<Stream>& s, bool to_acceptor);

  void connect(std::size_t from, const Dial& d);
  bool alive(std::size_t host, std::uint64_t run) const;
  std::shared_ptr<Stream> dialled(std::size_t host, std::uint64_t attempt);
  std::shared_ptr<Stream> accepted(std::size_t host, std::uint64_t inbound);

  // ---- driving one daemon (membership_sim_daemons.cpp) ----
  void step(std::size_t host, MembershipEvent event);

  void note_event(Daemon& d, const MembershipEvent& event);
  /// The same event once more, later: the machine promises that this is harmless.
  void repeat(std::size_t host, const Daemon& d, const MembershipEvent& event);
  void check_ready_conditions(const Daemon& d) const;
  void check_ready_in_time(const Daemon& d) const;

  void apply(std::size_t host, Daemon& d, const Resolve& e);
  void apply(std::size_t host, Daemon& d, const Dial& e);
  void apply(std::size_t host, Daemon&, const HangUp& e);
  void apply(std::size_t host, Daemon& d, const AnswerHello& e);
  void apply(std::size_t host, Daemon&, const DropInbound& e);
  void apply(std::size_t host, Daemon& d, const SendHeartbeat& e);
  void apply(std::size_t host, Daemon& d, const SendGoodbye& e);
  template <class Make>
  void speak(std::size_t host, Daemon& d, std::uint64_t attempt, std::uint64_t inbound, Make make);
  void apply(std::size_t, Daemon& d, const PeerJoined& e);
  void apply(std::size_t, Daemon& d, const PeerEnded& e);
  void apply(std::size_t, Daemon& d, const PeerWentSilent& e);
  void apply(std::size_t host, Daemon& d, const StatusChanged& e);
  void apply(std::size_t host, Daemon& d, const IdentityLost& e);
  void apply(std::size_t, Daemon&, const MembershipLog&) {}

  // ---- faults (membership_sim_faults.cpp) ----
  std::size_t any_host() { return below(hosts_.size()); }

  void fault();
  void crash_and_restart(std::size_t host, bool resume);
  void power_cut(std::size_t host);
  void cut_for(std::size_t a, std::size_t b, bool both);
  void isolate(std::size_t a);
  void stop_and_restart(std::size_t host);
  /// SIGSTOP and SIGCONT; for the daemon, time jumps.
  void freeze(std::size_t host, Nanos time);
  void freeze_all();
  void thaw(std::size_t host);
  /// The slot's daemon moves to a reserve host under the same name (a pod that was rescheduled).
  void move(std::size_t host);
  void edit_list();
  void tell_list(std::size_t host);
  void steal_id();

  void heal();
  void settle();

  // ---- checkers ----
  /// No two daemons of one id may both be connected to a third for longer than heartbeats take.
  void inspect();

  void check_whole();

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
  Quorum quorum_ = Quorum::kRecovery;
  Nanos grace_{-1}, recovery_wait_max_{0};
  bool lease_when_silent_ = true;
  std::size_t node_count_ = 0;
  std::uint64_t runs_ = 0, inbounds_ = 0;
};

}  // namespace imex::domain::membership_sim
