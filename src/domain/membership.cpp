#include "domain/membership.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "membership_state.hpp"

namespace imex::domain {

std::string_view status_word(DaemonStatus status) noexcept {
  constexpr std::array<std::string_view, 8> kWords = {"INITIALIZING",      "STARTING_AUTH_SERVER",
                                                      "WAITING_FOR_PEERS", "WAITING_FOR_RECOVERY",
                                                      "INIT_GPU",          "READY",
                                                      "SHUTTING_DOWN",     "UNAVAILABLE"};
  const auto index = static_cast<std::size_t>(status);
  return index < kWords.size() ? kWords.at(index) : kWords.back();
}

std::string_view pair_code(PairState state) noexcept {
  constexpr std::array<std::string_view, 8> kCodes = {"I", "N", "R", "D", "A", "!V!", "!M!", "C"};
  const auto index = static_cast<std::size_t>(state);
  return index < kCodes.size() ? kCodes.at(index) : kCodes.front();
}

std::string_view pair_word(PairState state) noexcept {
  constexpr std::array<std::string_view, 8> kWords = {
      "INVALID",        "NEVER_CONNECTED",  "RECOVERING",        "DISCONNECTED",
      "AUTHENTICATING", "VERSION_MISMATCH", "NODE_MAP_MISMATCH", "CONNECTED"};
  const auto index = static_cast<std::size_t>(state);
  return index < kWords.size() ? kWords.at(index) : kWords.front();
}

PeerSlot* Membership::State::peer(NodeId node) noexcept {
  return node < peers.size() && node != self ? &peers[node] : nullptr;
}

/// Whether peers are dialled and answered.
bool Membership::State::active() const noexcept {
  return self != kNoNode && !identity_lost && status != DaemonStatus::kShuttingDown;
}

Hello Membership::State::hello_to(NodeId target) const {
  Hello hello;
  hello.protocol_min = config.protocol_min;
  hello.protocol_max = config.protocol_max;
  hello.version = config.version;
  hello.domain_id = config.domain_id;
  hello.instance = config.instance;
  hello.boot_id = config.boot_id;
  hello.node = self;
  hello.target = target;
  hello.list = list;
  hello.link_path = config.link_path;
  return hello;
}

void Membership::State::run_timers(Time now) {
  if (!active()) return;
  for (PeerSlot& p : peers) {
    if (p.node != self) run_peer_timers(p, now);
  }
  if (reconnect_pending && now >= reconnect_allowed) reconnect_all(now);
  if (now >= next_heartbeat) {
    set_next_heartbeat(now);
    heartbeat_all(now);
  }
  check_start(now);
}

/// At whole multiples of the interval, so that the daemons of one machine wake up together and find
/// each other's beats at once. After `now`, not after the missed time: a daemon that slept owes one
/// beat, not a burst.
void Membership::State::set_next_heartbeat(Time now) noexcept {
  const std::int64_t interval = config.heartbeat_interval.count();
  next_heartbeat = Time{(now.ns / interval + 1) * interval};
}

Time Membership::State::next_deadline() const noexcept {
  if (!active()) return kNever;
  Time next = next_heartbeat;
  if (reconnect_pending) next = std::min(next, reconnect_allowed);
  if (status == DaemonStatus::kWaitingForRecovery) next = std::min(next, recovery_until);
  for (const PeerSlot& p : peers) {
    if (p.node == self) continue;
    const bool waits = p.phase == DialPhase::kWaiting || p.phase == DialPhase::kResting;
    const bool asks = p.phase == DialPhase::kResolving || p.phase == DialPhase::kDialling;
    if (waits) next = std::min(next, p.next_dial);
    if (asks) next = std::min(next, p.phase_deadline);
    next = std::min({next, silent_at(p), end_at(p)});
  }
  return next;
}

Membership::Membership(MembershipConfig config, Random& random, Time /*now*/)
    : state_(std::make_unique<State>(std::move(config), random)) {
  const MembershipConfig& c = state_->config;
  IMEX_ASSERT(c.dial_backoff_min > Nanos(0) && c.dial_backoff_max >= c.dial_backoff_min,
              "back-off needs 0 < min <= max");
  IMEX_ASSERT(c.heartbeat_interval > Nanos(0) && c.heartbeat_timeout > c.heartbeat_interval,
              "a heartbeat must fit into its time-out");
}
Membership::~Membership() = default;
Membership::Membership(Membership&&) noexcept = default;

std::vector<MembershipEffect> Membership::step(MembershipEvent event, Time now) {
  State& s = *state_;
  s.out.clear();
  if (!s.identity_lost || std::holds_alternative<StopRequested>(event)) {
    std::visit([&](const auto& e) { s.on(e, now); }, event);
    s.run_timers(now);
  }
  return std::exchange(s.out, {});
}

Time Membership::next_deadline() const noexcept { return state_->next_deadline(); }
DaemonStatus Membership::status() const noexcept { return state_->status; }
NodeId Membership::self() const noexcept { return state_->self; }
std::uint64_t Membership::list_epoch() const noexcept { return state_->epoch; }

std::vector<PeerView> Membership::peers() const {
  const State& s = *state_;
  std::vector<PeerView> views;
  views.reserve(s.peers.size());
  for (const PeerSlot& p : s.peers) {
    PeerView& v = views.emplace_back();
    v.node = p.node;
    v.host = p.entry.text;
    if (p.node == s.self) {
      v.address = s.self_address.empty() ? p.entry.text : s.self_address;
      v.state =
          s.status == DaemonStatus::kReady ? PairState::kConnected : PairState::kNeverConnected;
      v.status = s.status;
      v.version = s.config.version;
      v.instance = s.config.instance;
      v.boot_id = s.config.boot_id;
      v.since = p.since;
      continue;
    }
    v.address = p.address;
    v.state = p.state;
    v.status = p.up() ? p.status : DaemonStatus::kUnavailable;
    v.version = p.version;
    if (p.life) {
      v.instance = p.life->instance;
      v.boot_id = p.life->boot_id;
    }
    v.since = p.since;
    v.attempts = p.attempts;
    v.last_error = p.last_error;
  }
  return views;
}

}  // namespace imex::domain
