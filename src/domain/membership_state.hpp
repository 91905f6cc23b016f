/// The state behind Membership, private to membership*.cpp: pairs in membership_pairs.cpp, lists,
/// quorum and stopping in membership_quorum.cpp.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "domain/membership.hpp"

namespace imex::domain {

/// Accepted streams kept per peer. A rebuild overlaps old and new for a moment; more is a peer gone
/// mad.
inline constexpr std::size_t kInboundPerPeerMax = 4;
/// A refused newcomer is only called a duplicate loudly when it still insists after this: a daemon
/// that restarts faster than its old connection breaks looks the same for a moment.
inline constexpr Nanos kDuplicatePatience = std::chrono::seconds(1);

/// One run of a peer's daemon that joined and did not end.
struct PeerLife {
  Uuid instance, boot_id;
  std::string link_path;
};

enum class DialPhase : std::uint8_t {
  kIdle,       ///< nothing to do: the stream is up, or we stop
  kWaiting,    ///< until next_dial (back-off)
  kResting,    ///< until next_dial; the slot has no address
  kResolving,  ///< Resolve is out, until phase_deadline
  kDialling,   ///< Dial is out as dial_attempt, until phase_deadline
};

struct PeerSlot {
  NodeId node = kNoNode;
  NodeEntry entry;
  std::string address;  ///< last known; empty: unassigned

  PairState state = PairState::kNeverConnected;
  Time since{};
  bool was_connected = false;
  std::string version, last_error;
  DaemonStatus status = DaemonStatus::kUnavailable;

  // The way out. A rebuild dials anew while the stream of before still serves.
  DialPhase phase = DialPhase::kIdle;
  Time next_dial = kNever, phase_deadline = kNever, last_dial{INT64_MIN / 2};
  std::uint64_t dial_attempt = 0;
  std::string dial_address;
  std::uint64_t stream_attempt = 0;  ///< 0: no stream of ours is up
  std::string stream_address;
  std::uint32_t failures = 0;  ///< in a row, for the back-off
  std::uint64_t attempts = 0;  ///< since the last success, for people

  // The peer's daemon.
  std::optional<PeerLife> life;
  std::set<std::uint64_t>
      inbound;               ///< accepted streams of `life`; ids grow, so the first is the oldest
  Time heard{};              ///< last sign of `life`
  bool outage = false;       ///< no stream either way since outage_since
  bool silent_told = false;  ///< PeerWentSilent was emitted in this outage
  bool machine_answers = false;  ///< the last thing seen of the machine was a refusal: not silent
  Time outage_since{};

  // Refusals.
  Uuid duplicate;  ///< instance that we refuse as second owner of the slot
  Time duplicate_since{}, duplicate_told = kNever;
  Time refused_as_duplicate = kNever,
       refused_for_list = kNever;  ///< since when the peer refuses us

  /// What the pair is while no stream of ours is up.
  [[nodiscard]] PairState away_state() const noexcept {
    if (!was_connected) return PairState::kNeverConnected;
    return life ? PairState::kRecovering : PairState::kDisconnected;
  }
  [[nodiscard]] bool up() const noexcept { return stream_attempt != 0 || !inbound.empty(); }
};

struct Membership::State {
  State(MembershipConfig c, Random& r)
      : config(std::move(c)), random(r), awaited(config.former_importers) {}

  MembershipConfig config;
  Random& random;

  NodeList list;
  NodeId self = kNoNode;
  std::string self_address;
  std::uint64_t epoch = 0;
  DaemonStatus status = DaemonStatus::kInitializing;
  bool identity_lost = false;
  std::vector<PeerSlot> peers;              ///< by node id; the own slot is unused
  std::map<std::uint64_t, NodeId> streams;  ///< accepted stream -> peer
  std::uint64_t next_attempt = 1;
  Time next_heartbeat = kNever;
  Time reconnect_allowed{INT64_MIN / 2};
  bool reconnect_pending = false;
  std::set<NodeId> awaited;  ///< former importers that did not come back yet
  Time recovery_until = kNever;
  std::vector<MembershipEffect> out;

  // membership.cpp
  void emit(MembershipEffect effect) { out.push_back(std::move(effect)); }
  void log(int level, std::string text) { emit(MembershipLog{level, std::move(text)}); }
  [[nodiscard]] PeerSlot* peer(NodeId node) noexcept;
  [[nodiscard]] bool active() const noexcept;
  [[nodiscard]] Hello hello_to(NodeId target) const;
  [[nodiscard]] Time next_deadline() const noexcept;
  void run_timers(Time now);
  void set_next_heartbeat(Time now) noexcept;

  // membership_pairs.cpp
  void set_pair(PeerSlot& p, PairState state, Time now);
  void begin_dial(PeerSlot& p, Time now);
  void dial(PeerSlot& p, Time now);
  void cancel_dial(PeerSlot& p);
  void retry_later(PeerSlot& p, Time now);
  void rest(PeerSlot& p, Time now);
  void hang_up(PeerSlot& p);
  void drop_inbound(PeerSlot& p);
  void dial_failed(PeerSlot& p, const std::string& why, bool refused, Time now);
  void refused(PeerSlot& p, HelloVerdict verdict, Time now);
  [[nodiscard]] HelloVerdict judge(const Hello& hello) const;
  void contact(PeerSlot& p, const Hello& hello, Time now);
  void note_duplicate(PeerSlot& p, const Uuid& owner, const Hello& hello, Time now);
  void connected(PeerSlot& p, const Hello& hello, Time now);
  void check_outage(PeerSlot& p, Time now);
  void go_silent(PeerSlot& p, Time now);
  void end_life(PeerSlot& p, const std::string& why, Time now);
  [[nodiscard]] Time silent_at(const PeerSlot& p) const noexcept;
  [[nodiscard]] Time end_at(const PeerSlot& p) const noexcept;
  void run_peer_timers(PeerSlot& p, Time now);
  void heartbeat(PeerSlot& p, bool on_lower);
  void heartbeat_all(Time now);

  // membership_quorum.cpp
  void adopt_list(const ListChanged& event, Time now);
  void replace_slots(const NodeList& fresh, Time now);
  void set_status(DaemonStatus next, Time now);
  void begin_start(Time now);
  void check_start(Time now);
  void reconnect_all(Time now);
  void note_refusal_as_duplicate(PeerSlot& p, Time now);
  void note_refusal_for_list(PeerSlot& p, Time now);
  void lose_identity(int exit_code, std::string why);
  void stop(Time now);

  // Events; membership_pairs.cpp unless said otherwise.
  void on(const ListChanged& e, Time now) { adopt_list(e, now); }
  void on(const SlotResolved& e, Time now);
  void on(const DialFailed& e, Time now);
  void on(const HelloAnswered& e, Time now);
  void on(const StreamLost& e, Time now);
  void on(const HelloReceived& e, Time now);
  void on(const InboundClosed& e, Time now);
  void on(const HeartbeatReceived& e, Time now);
  void on(const GoodbyeReceived& e, Time now);
  void on(const ReconnectRequested& e, Time now);  // membership_quorum.cpp
  void on(const GpusReady& e, Time now);           // membership_quorum.cpp
  void on(const StopRequested&, Time now) { stop(now); }
  void on(const Tick&, Time) {}
};

}  // namespace imex::domain
