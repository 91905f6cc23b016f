// The pair (this node -> peer): dialling, streams, and the life of the peer's daemon.
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "membership_state.hpp"

namespace imex::domain {

// ---- state and dialling ----

void Membership::State::set_pair(PeerSlot& p, PairState state, Time now) {
  if (p.state == state) return;
  log(4, fmt::format("node {} ({}): {} -> {}", p.node, p.entry.text, pair_word(p.state),
                     pair_word(state)));
  p.state = state;
  p.since = now;
}

/// Starts an attempt at once, from the name where there is one: every attempt resolves anew.
void Membership::State::begin_dial(PeerSlot& p, Time now) {
  p.next_dial = kNever;
  if (p.entry.is_name) {
    p.phase = DialPhase::kResolving;
    p.phase_deadline = now + config.dial_timeout;
    emit(Resolve{p.node, p.entry.text});
  } else {
    dial(p, now);
  }
}

void Membership::State::dial(PeerSlot& p, Time now) {
  p.phase = DialPhase::kDialling;
  p.phase_deadline = now + config.dial_timeout;
  p.last_dial = now;
  p.dial_attempt = next_attempt++;
  p.dial_address = p.address;
  ++p.attempts;
  // The counter of a peer that stays away grows for ever; its log lines must not.
  if (std::has_single_bit(p.attempts)) {
    log(4, fmt::format("Attempting connection for target node {} ({}, {}), attempt #{}", p.node,
                       p.entry.text, p.address, p.attempts));
  }
  emit(Dial{p.node, p.address, p.dial_attempt, hello_to(p.node)});
}

void Membership::State::cancel_dial(PeerSlot& p) {
  if (p.phase == DialPhase::kDialling) emit(HangUp{p.node, p.dial_attempt});
  p.dial_attempt = 0;
  p.phase = DialPhase::kIdle;
}

/// Jittered exponential back-off: min..2 min, then doubled up to max, each drawn from its upper
/// half.
void Membership::State::retry_later(PeerSlot& p, Time now) {
  const std::int64_t low = config.dial_backoff_min.count(), high = config.dial_backoff_max.count();
  std::int64_t ceiling = low;
  for (std::uint32_t i = 0; i <= p.failures && ceiling < high; ++i) ceiling *= 2;
  ceiling = std::min(ceiling, high);
  const std::int64_t floor = std::max(low, ceiling / 2);
  const auto jitter = random.below(static_cast<std::uint64_t>(ceiling - floor) + 1);
  if (p.failures < 63) ++p.failures;
  p.phase = DialPhase::kWaiting;
  p.next_dial = now + Nanos(floor + static_cast<std::int64_t>(jitter));
}

/// No address: ask again, ever more rarely, so that unused slots do not flood the resolver. A slot
/// whose daemon is known keeps to the back-off: a name server that stumbled must not cost 15 s.
void Membership::State::rest(PeerSlot& p, Time now) {
  p.attempts = 0;
  const Nanos slow = config.dial_backoff_max;
  retry_later(p, now);
  if (!p.life && p.next_dial - now > slow / 2) {
    const auto half = static_cast<std::uint64_t>(config.unassigned_rest.count() / 2);
    const auto spread = static_cast<std::int64_t>(half + random.below(half + 1));
    p.next_dial = now + std::max(slow, Nanos(spread));
  }
  p.phase = DialPhase::kResting;
}

void Membership::State::hang_up(PeerSlot& p) {
  if (p.stream_attempt != 0) emit(HangUp{p.node, p.stream_attempt});
  p.stream_attempt = 0;
}

void Membership::State::drop_inbound(PeerSlot& p) {
  for (const std::uint64_t stream : p.inbound) {
    emit(DropInbound{stream});
    streams.erase(stream);
  }
  p.inbound.clear();
}

void Membership::State::on(const SlotResolved& e, Time now) {
  if (e.node == self && self != kNoNode) {
    self_address = e.address == kUnassignedAddress ? std::string() : e.address;
    return;
  }
  PeerSlot* p = peer(e.node);
  if (p == nullptr || !active() || !p->entry.is_name) return;
  const bool asked = p->phase == DialPhase::kResolving;
  if (e.address == kUnassignedAddress || (e.address.empty() && p->stream_attempt == 0 && asked)) {
    // Nobody lives there (any more). A mere failure to resolve does not cut a stream that works.
    cancel_dial(*p);
    if (p->stream_attempt != 0) {
      hang_up(*p);
      set_pair(*p, PairState::kRecovering, now);
      check_outage(*p, now);
    }
    if (!p->life || !e.address.empty()) p->address.clear();
    rest(*p, now);
  } else if (e.address.empty()) {
    if (asked) p->phase = DialPhase::kIdle;  // the stream stays as it is
  } else if (asked) {
    p->address = e.address;
    dial(*p, now);
  } else if (e.address != p->address) {
    p->address = e.address;  // unasked news: it moved, or got its first address
    cancel_dial(*p);
    p->failures = 0;
    dial(*p, now);
  }
}

void Membership::State::on(const DialFailed& e, Time now) {
  PeerSlot* p = peer(e.node);
  if (p == nullptr || p->phase != DialPhase::kDialling || p->dial_attempt != e.attempt) return;
  dial_failed(*p, e.why, e.refused, now);
}

void Membership::State::dial_failed(PeerSlot& p, const std::string& why, bool refused_by_machine,
                                    Time now) {
  p.dial_attempt = 0;
  p.last_error = why;
  if (p.stream_attempt != 0 && p.stream_address == p.dial_address) {
    // A rebuild that failed: what worked before goes on working.
    log(3, fmt::format("node {} ({}): new connection failed, keeping the old one: {}", p.node,
                       p.entry.text, why));
    p.phase = DialPhase::kIdle;
    return;
  }
  if (p.stream_attempt != 0) hang_up(p);
  p.machine_answers = refused_by_machine;
  p.refused_as_duplicate = p.refused_for_list = kNever;
  set_pair(p, p.away_state(), now);
  check_outage(p, now);
  retry_later(p, now);
}

// ---- hellos ----

HelloVerdict Membership::State::judge(const Hello& hello) const {
  if (hello.instance == config.instance) return HelloVerdict::kSelf;
  if (hello.protocol_min > config.protocol_max || hello.protocol_max < config.protocol_min) {
    return HelloVerdict::kVersionMismatch;
  }
  if (hello.domain_id != config.domain_id) return HelloVerdict::kForeignDomain;
  if (!lists_agree(list, hello.list, config.list_rule)) return HelloVerdict::kMapMismatch;
  if (hello.node == self) return HelloVerdict::kDuplicateId;
  // With the prefix rule a peer may know slots that our list does not have yet.
  if (hello.node >= peers.size()) return HelloVerdict::kNotReady;
  return HelloVerdict::kAccepted;
}

void Membership::State::on(const HelloAnswered& e, Time now) {
  PeerSlot* p = peer(e.node);
  if (p == nullptr || p->phase != DialPhase::kDialling || p->dial_attempt != e.attempt) return;
  HelloVerdict verdict = e.verdict;
  if (verdict == HelloVerdict::kAccepted) {
    verdict = judge(e.hello);
    // Another slot answers where this one should live: our map of addresses is wrong.
    const bool other_slot = e.hello.node != p->node;
    if (other_slot && verdict == HelloVerdict::kAccepted) verdict = HelloVerdict::kMapMismatch;
  }
  if (!e.hello.version.empty()) p->version = e.hello.version;
  if (verdict == HelloVerdict::kAccepted) {
    connected(*p, e.hello, now);
  } else {
    refused(*p, verdict, now);
  }
}

void Membership::State::refused(PeerSlot& p, HelloVerdict verdict, Time now) {
  emit(HangUp{p.node, p.dial_attempt});
  hang_up(p);
  p.dial_attempt = 0;
  p.phase = DialPhase::kIdle;
  PairState state = p.away_state();
  std::string why = "it is not ready";
  switch (verdict) {
    case HelloVerdict::kVersionMismatch:
      state = PairState::kVersionMismatch;
      why = "it shares no protocol version with us";
      break;
    case HelloVerdict::kMapMismatch:
      state = PairState::kMapMismatch;
      why = "Node configuration mismatch: its node list differs from ours";
      break;
    case HelloVerdict::kForeignDomain:
      why = "a daemon of another domain answers there";
      break;
    case HelloVerdict::kSelf:
      why = "its address leads to this daemon itself";
      break;
    case HelloVerdict::kDuplicateId:
      why = fmt::format("it knows another live daemon as node {}", self);
      break;
    case HelloVerdict::kAccepted:
    case HelloVerdict::kNotReady:
      break;
  }
  if (why != p.last_error) {
    const bool usual = verdict == HelloVerdict::kNotReady;
    log(usual ? 4 : 3, fmt::format("node {} ({}) refused: {}", p.node, p.entry.text, why));
  }
  p.last_error = why;
  if (verdict != HelloVerdict::kDuplicateId) p.refused_as_duplicate = kNever;
  if (verdict != HelloVerdict::kMapMismatch) p.refused_for_list = kNever;
  // A stranger at the address says nothing about the machine that had it.
  p.machine_answers = verdict != HelloVerdict::kForeignDomain && verdict != HelloVerdict::kSelf;
  set_pair(p, state, now);
  check_outage(p, now);
  retry_later(p, now);
  if (verdict == HelloVerdict::kDuplicateId) note_refusal_as_duplicate(p, now);
  if (verdict == HelloVerdict::kMapMismatch) note_refusal_for_list(p, now);
}

void Membership::State::connected(PeerSlot& p, const Hello& hello, Time now) {
  // The slot's own address answered: whoever else held the slot is over, streams included.
  if (p.life && p.life->instance != hello.instance) drop_inbound(p);
  hang_up(p);  // of a rebuild: the new stream serves from here on
  p.stream_attempt = p.dial_attempt;
  p.stream_address = p.dial_address;
  p.dial_attempt = 0;
  p.phase = DialPhase::kIdle;
  p.failures = 0;
  p.attempts = 0;
  p.was_connected = true;
  p.last_error.clear();
  p.refused_as_duplicate = p.refused_for_list = kNever;
  contact(p, hello, now);
  set_pair(p, PairState::kConnected, now);
  emit(SendHeartbeat{p.node, status, p.stream_attempt, 0});
}

void Membership::State::on(const HelloReceived& e, Time now) {
  const auto answer = [&](HelloVerdict verdict) {
    emit(AnswerHello{e.stream, verdict, hello_to(e.hello.node)});
  };
  if (!active() || status == DaemonStatus::kInitializing) return answer(HelloVerdict::kNotReady);
  HelloVerdict verdict = judge(e.hello);
  if (verdict == HelloVerdict::kAccepted && e.hello.target != self) {
    verdict = HelloVerdict::kMapMismatch;
  }
  if (verdict == HelloVerdict::kDuplicateId)
    note_duplicate(peers[self], config.instance, e.hello, now);
  if (verdict != HelloVerdict::kAccepted) return answer(verdict);

  PeerSlot& p = peers[e.hello.node];
  if (p.life && p.up() && p.life->instance != e.hello.instance) {
    note_duplicate(p, p.life->instance, e.hello, now);
    answer(HelloVerdict::kDuplicateId);
    // Perhaps the slot moved and only we still hold the old place: look where its name leads now.
    if (p.entry.is_name && p.phase == DialPhase::kIdle &&
        now - p.last_dial >= config.dial_backoff_min) {
      begin_dial(p, now);
    }
    return;
  }
  answer(HelloVerdict::kAccepted);
  contact(p, e.hello, now);
  p.inbound.insert(e.stream);
  streams[e.stream] = p.node;
  if (p.inbound.size() > kInboundPerPeerMax) {
    const std::uint64_t oldest = *p.inbound.begin();
    emit(DropInbound{oldest});
    streams.erase(oldest);
    p.inbound.erase(oldest);
  }
  emit(SendHeartbeat{p.node, status, 0, e.stream});
  // It is up, so our own back-off or rest has no point any more.
  if (p.phase == DialPhase::kWaiting || p.phase == DialPhase::kResting) {
    p.failures = 0;
    p.next_dial = std::min(p.next_dial, std::max(now, p.last_dial + config.dial_backoff_min));
  }
}

/// Two live daemons claim slot `p`. Loud once it is sure, and then not more than once a minute.
void Membership::State::note_duplicate(PeerSlot& p, const Uuid& owner, const Hello& hello,
                                       Time now) {
  constexpr Nanos kRepeat = std::chrono::minutes(1);
  if (p.duplicate != hello.instance) {
    p.duplicate = hello.instance;
    p.duplicate_since = now;
    p.duplicate_told = kNever;
  }
  const bool insists = p.node == self || now - p.duplicate_since >= kDuplicatePatience;
  if (!insists || (p.duplicate_told != kNever && now - p.duplicate_told < kRepeat)) return;
  p.duplicate_told = now;
  log(2, fmt::format("duplicate node id {}: daemon {} refused, {} has this id", p.node,
                     hello.instance.to_string(), owner.to_string()));
}

// ---- the life of the peer's daemon ----

/// A hello was accepted, either way: the daemon `hello.instance` lives.
void Membership::State::contact(PeerSlot& p, const Hello& hello, Time now) {
  if (p.life && p.life->instance != hello.instance) {
    end_life(p, "a new daemon instance answers", now);
  }
  const bool fresh = !p.life;
  const bool returned = p.life && p.outage;
  p.life = PeerLife{hello.instance, hello.boot_id, hello.link_path};
  p.version = hello.version;
  p.heard = now;
  p.outage = p.silent_told = p.machine_answers = false;
  awaited.erase(p.node);
  if (fresh || returned) {
    if (fresh) p.status = DaemonStatus::kUnavailable;  // until its first heartbeat
    emit(PeerJoined{p.node, hello.instance, hello.boot_id, p.address, hello.link_path, returned});
  }
}

void Membership::State::check_outage(PeerSlot& p, Time now) {
  if (!p.life || p.up() || p.outage) return;
  p.outage = true;
  p.outage_since = now;
  log(3, fmt::format("Node disconnect event detected: node {} ({})", p.node, p.entry.text));
}

Time Membership::State::silent_at(const PeerSlot& p) const noexcept {
  if (!p.life || p.silent_told || (p.machine_answers && !p.up())) return kNever;
  return p.heard + config.heartbeat_timeout;
}

Time Membership::State::end_at(const PeerSlot& p) const noexcept {
  if (!p.life || !p.outage) return kNever;
  Time end = kNever;
  if (config.grace >= Nanos(0)) end = p.outage_since + config.grace;
  const bool leased = p.machine_answers || (config.lease_when_silent && config.grace < Nanos(0));
  if (leased) end = std::min(end, p.outage_since + config.lease);
  return end;
}

void Membership::State::go_silent(PeerSlot& p, Time now) {
  p.silent_told = true;
  const auto silence = std::chrono::duration_cast<std::chrono::milliseconds>(now - p.heard);
  log(3, fmt::format("node {} ({}): silent for {} ms", p.node, p.entry.text, silence.count()));
  emit(PeerWentSilent{p.node, p.life->instance});
  const bool had_stream = p.stream_attempt != 0;
  hang_up(p);
  drop_inbound(p);
  if (had_stream) {
    p.last_error = "no heartbeat";
    set_pair(p, PairState::kRecovering, now);
    if (p.phase == DialPhase::kIdle) retry_later(p, now);
  }
  check_outage(p, now);
}

/// Everything of this daemon instance is over: the broker and the registry clean up.
void Membership::State::end_life(PeerSlot& p, const std::string& why, Time now) {
  if (!p.life) return;
  log(3, fmt::format("node {} ({}): daemon {} ended: {}", p.node, p.entry.text,
                     p.life->instance.to_string(), why));
  emit(PeerEnded{p.node, p.life->instance, Errc::kPeerLost});
  p.life.reset();
  p.outage = p.silent_told = false;
  if (p.state == PairState::kRecovering) set_pair(p, PairState::kDisconnected, now);
}

void Membership::State::on(const StreamLost& e, Time now) {
  PeerSlot* p = peer(e.node);
  if (p == nullptr || !active()) return;
  if (p->phase == DialPhase::kDialling && p->dial_attempt == e.attempt) {
    return dial_failed(*p, "connection closed before the answer", e.refused_or_reset, now);
  }
  if (p->stream_attempt == 0 || p->stream_attempt != e.attempt) return;
  p->stream_attempt = 0;
  p->last_error = e.refused_or_reset ? "connection closed by the other side" : "connection broke";
  p->machine_answers = e.refused_or_reset;
  set_pair(*p, PairState::kRecovering, now);
  check_outage(*p, now);
  if (p->phase == DialPhase::kIdle) retry_later(*p, now);
}

void Membership::State::on(const InboundClosed& e, Time now) {
  const auto found = streams.find(e.stream);
  if (found == streams.end()) return;
  PeerSlot* p = peer(found->second);
  streams.erase(found);
  if (p == nullptr) return;
  p->inbound.erase(e.stream);
  check_outage(*p, now);
}

void Membership::State::on(const HeartbeatReceived& e, Time now) {
  PeerSlot* p = peer(e.node);
  if (p == nullptr || !p->life || p->life->instance != e.instance || !p->up()) return;
  p->heard = now;
  p->status = e.status <= DaemonStatus::kUnavailable ? e.status : DaemonStatus::kUnavailable;
}

void Membership::State::on(const GoodbyeReceived& e, Time now) {
  PeerSlot* p = peer(e.node);
  // The instance must fit: whoever got the address of a node that left must not end its successor.
  if (p == nullptr || !active() || !p->life || p->life->instance != e.instance) return;
  log(4,
      fmt::format("Received notification of shutdown from node {} ({})", p->node, p->entry.text));
  cancel_dial(*p);
  hang_up(*p);
  drop_inbound(*p);
  end_life(*p, "orderly shutdown", now);
  p->last_error = "shut down";
  set_pair(*p, PairState::kDisconnected, now);
  p->failures = 0;
  retry_later(*p, now);
}

// ---- time ----

void Membership::State::run_peer_timers(PeerSlot& p, Time now) {
  const bool waits = p.phase == DialPhase::kWaiting || p.phase == DialPhase::kResting;
  if (waits && now >= p.next_dial) {
    begin_dial(p, now);
  } else if (p.phase == DialPhase::kResolving && now >= p.phase_deadline) {
    on(SlotResolved{p.node, {}}, now);
  } else if (p.phase == DialPhase::kDialling && now >= p.phase_deadline) {
    emit(HangUp{p.node, p.dial_attempt});
    dial_failed(p, "no answer in time", false, now);
  }
  if (now >= silent_at(p)) go_silent(p, now);
  if (now >= end_at(p)) {
    end_life(p, p.machine_answers ? "its lease is over" : "its time to come back is over", now);
  }
}

/// On one of the two streams of the pair: that of the node with the lower id, or the other one.
void Membership::State::heartbeat(PeerSlot& p, bool on_lower) {
  const bool out_way = p.stream_attempt != 0, in_way = !p.inbound.empty();
  const bool out_turn = on_lower == (self < p.node);
  if (out_way && (!in_way || out_turn)) {
    emit(SendHeartbeat{p.node, status, p.stream_attempt, 0});
  } else if (in_way) {
    emit(SendHeartbeat{p.node, status, 0, *p.inbound.rbegin()});
  }
}

/// The streams of a pair take turns: each gets every second beat, so that a stream that a middlebox
/// swallowed neither hides a live peer nor costs twice the traffic. Whose turn it is follows from
/// the time, so that both ends on one machine use the same connection.
void Membership::State::heartbeat_all(Time now) {
  const bool on_lower = now.ns / config.heartbeat_interval.count() % 2 == 0;
  for (PeerSlot& p : peers) {
    if (p.node != self) heartbeat(p, on_lower);
  }
}

}  // namespace imex::domain
