#include "testing/simulated_ranks.hpp"

#include <algorithm>

namespace imex::exchange::testing_kit {

namespace {

constexpr std::uint64_t kRingMessages = 3;  ///< per round and pair: more than there are slots

/// What a rank writes; never the same twice.
std::uint64_t content(std::uint64_t round, std::size_t rank, std::uint64_t part = 0) {
  return round << 16U | rank << 8U | part | 0x80U;
}

}  // namespace

/// One rank's program. Every function is false once a wait has ended early.
class SimulatedRanks::Rank {
 public:
  Rank(const SimulatedRanks& all, std::size_t self, ModelAtomics& atomics)
      : all_(all), self_(self), m_(atomics) {}

  void run() {
    for (const RoundKind kind : all_.plan_.rounds) {
      ++round_;
      if (!once(kind)) return;
    }
  }

 private:
  bool once(RoundKind kind) {
    switch (kind) {
      case RoundKind::kPacket:
        return packet_round();
      case RoundKind::kMailbox:
        return mailbox_round();
      case RoundKind::kRing:
        return ring_round();
      case RoundKind::kInPlace:
        return in_place_round();
      case RoundKind::kBarrier:
        return barrier_round();
    }
    return false;
  }

  template <class Poll>
  bool wait(Poll&& poll) {
    const memory::WaitLimits<ModelAtomics> limits{
        .abort = &all_.aborts_[self_],
        .policy = {.spin_ns = 0, .pause_ns = 0, .yield_rounds = 0, .sleep = false}};
    std::uint64_t abort = 0;
    m_.begin_wait();
    return memory::wait_spinning(m_, limits, abort, poll) == memory::SpinEnd::kDone;
  }
  /// Until a slot says that it is ready; a later tag is a mistake of the protocol.
  template <class Poll>
  bool wait_slot(Poll&& poll) {
    SlotState state = SlotState::kEarly;
    const bool came = wait([&] { return (state = poll()) != SlotState::kEarly; });
    m_.require(!came || state == SlotState::kReady, "a later message lies in the slot");
    return came;
  }
  template <class Action>
  bool with_peers(Action&& action) {
    for (std::size_t i = 1; i != all_.plan_.ranks; ++i) {
      if (!action((self_ + i) % all_.plan_.ranks)) return false;
    }
    return true;
  }
  [[nodiscard]] Pair to(std::size_t peer) const { return all_.pairs_[peer][self_]; }
  [[nodiscard]] Pair from(std::size_t peer) const { return all_.pairs_[self_][peer]; }

  bool packet_round() {
    const std::uint64_t message = ++counts_.packets;
    const std::uint32_t slot = memory::slot_index(message, all_.plan_.packet_slots);
    const auto one_line = [&](Lines lines) {
      return Lines{.tags = {lines.tags[slot]}, .payloads = {lines.payloads[slot]}};
    };
    with_peers([&](std::size_t peer) {
      Lines out = one_line(to(peer).packets);
      packet_send(m_, out, 1, message,
                  [&](std::uint32_t i) { m_.write(out.payloads[i], content(round_, self_)); });
      return true;
    });
    return with_peers([&](std::size_t peer) {
      Lines in = one_line(from(peer).packets);
      bool overrun = false;
      const bool came = packet_receive(
          m_, in, 1, message, overrun, [&](auto&& poll) { return wait(poll); },
          [&](std::uint32_t i) {
            m_.require(m_.read(in.payloads[i]) == content(round_, peer), "wrong packet");
          });
      m_.require(!overrun, "a later message lies in the slot");
      return came;
    });
  }

  bool mailbox_round() {
    const std::uint64_t exchange = ++counts_.mails;
    with_peers([&](std::size_t peer) {
      Lines out = to(peer).mail;
      m_.write(out.payloads[0], content(round_, self_, 1));
      mailbox_ask(m_, out, 0, exchange);
      return true;
    });
    const bool answered = with_peers([&](std::size_t peer) {
      Lines in = from(peer).mail;
      if (!wait_slot([&] { return mailbox_asked(m_, in, 0, exchange); })) return false;
      m_.require(m_.read(in.payloads[0]) == content(round_, peer, 1), "wrong question");
      m_.write(in.payloads[0], content(round_, self_, 2));
      mailbox_answer(m_, in, 0, exchange);
      return true;
    });
    return answered && with_peers([&](std::size_t peer) {
             Lines out = to(peer).mail;
             if (!wait_slot([&] { return mailbox_answered(m_, out, 0, exchange); })) return false;
             m_.require(m_.read(out.payloads[0]) == content(round_, peer, 2), "wrong answer");
             return true;
           });
  }

  bool ring_receive(std::uint64_t message) {
    return with_peers([&](std::size_t peer) {
      Ring in = from(peer).ring;
      if (!wait_slot([&] { return ring_poll(m_, in, message, all_.plan_.ring_slots); }))
        return false;
      const Cell cell = in.payloads[memory::slot_index(message, all_.plan_.ring_slots)];
      m_.require(m_.read(cell) == content(message, peer, 3), "wrong message of the ring");
      ring_release(m_, in, message);
      return true;
    });
  }

  bool ring_round() {
    const std::uint64_t first = counts_.ring + 1;
    counts_.ring += kRingMessages;
    for (std::uint64_t message = first; message <= counts_.ring; ++message) {
      const bool sent = with_peers([&](std::size_t peer) {
        Ring out = to(peer).ring;
        if (!wait([&] { return ring_has_room(m_, out, message, all_.plan_.believed_slots); }))
          return false;
        m_.write(out.payloads[memory::slot_index(message, all_.plan_.ring_slots)],
                 content(message, self_, 3));
        ring_publish(m_, out, message, all_.plan_.ring_slots);
        return true;
      });
      if (!sent) return false;
      if (message != first && !ring_receive(message - 1)) return false;
    }
    return ring_receive(counts_.ring);
  }

  bool in_place_round() {
    const std::uint64_t exchange = ++counts_.exchanges;
    const std::vector<Cell>& own = all_.buffers_[self_];
    for (std::size_t i = 0; i != own.size(); ++i) m_.write(own[i], content(round_, self_, i));
    with_peers([&](std::size_t peer) {
      Post post = to(peer).post;
      m_.write(post.said, round_);
      round_enter(m_, post, exchange);
      return true;
    });
    const bool entered = with_peers([&](std::size_t peer) {
      Post post = from(peer).post;
      const bool came =
          wait([&] { return round_entered(m_, post, exchange) == SlotState::kReady; });
      if (came) m_.require(m_.read(post.said) == round_, "what another round said");
      return came;
    });
    if (!entered) return false;
    with_peers([&](std::size_t peer) {
      m_.require(m_.read(all_.buffers_[peer][self_]) == content(round_, peer, self_),
                 "wrong input");
      return true;
    });
    for (std::size_t rank = 0; rank != all_.plan_.ranks; ++rank)
      m_.write(all_.buffers_[rank][self_], content(round_, self_, 64));
    with_peers([&](std::size_t peer) {
      round_finish(m_, to(peer).post, exchange, 1);
      return true;
    });
    const bool finished = with_peers([&](std::size_t peer) {
      return wait([&] { return round_finished(m_, from(peer).post, exchange, 1); });
    });
    if (!finished) return false;
    for (std::size_t i = 0; i != own.size(); ++i)
      m_.require(m_.read(own[i]) == content(round_, i, 64), "wrong result");
    return true;
  }

  bool barrier() {
    const std::uint64_t number = ++counts_.barriers;
    with_peers([&](std::size_t peer) {
      Word word = to(peer).barrier;
      memory::slot_publish(m_, word, number);
      return true;
    });
    return with_peers([&](std::size_t peer) {
      const Word word = from(peer).barrier;
      return wait([&] { return memory::slot_poll(m_, word, number) != SlotState::kEarly; });
    });
  }

  bool barrier_round() {
    m_.write(all_.marks_[self_], content(round_, self_));
    if (!barrier()) return false;
    with_peers([&](std::size_t peer) {
      m_.require(m_.read(all_.marks_[peer]) == content(round_, peer), "not seen after a barrier");
      return true;
    });
    return barrier();
  }

  const SimulatedRanks& all_;
  const std::size_t self_;
  ModelAtomics& m_;
  std::uint64_t round_ = 0;
  Counts counts_;
};

bool SimulatedRanks::has(RoundKind kind) const {
  return std::ranges::find(plan_.rounds, kind) != plan_.rounds.end();
}

SimulatedRanks::Lines SimulatedRanks::lines(Checker& checker, std::size_t count,
                                            const std::string& name) const {
  Lines made;
  for (std::size_t i = 0; i != count; ++i) {
    made.tags.push_back(checker.word(0, name + "/" + std::to_string(i)));
    made.payloads.push_back(checker.cell());
  }
  return made;
}

SimulatedRanks::SimulatedRanks(Checker& checker, const Simulation& plan) : plan_(plan) {
  alarm_ = checker.word(0, "alarm");
  pairs_.assign(plan.ranks, std::vector<Pair>(plan.ranks));
  for (std::size_t rank = 0; rank != plan.ranks; ++rank) {
    aborts_.push_back(checker.word(0, "abort of " + std::to_string(rank)));
    marks_.push_back(checker.cell());
    buffers_.emplace_back();
    for (std::size_t i = 0; has(RoundKind::kInPlace) && i != plan.ranks; ++i)
      buffers_.back().push_back(checker.cell());
  }
  for (std::size_t to = 0; to != plan.ranks; ++to) {
    for (std::size_t from = 0; from != plan.ranks; ++from) {
      if (to == from) continue;
      Pair& pair = pairs_[to][from];
      const std::string name = std::to_string(from) + ">" + std::to_string(to);
      if (has(RoundKind::kPacket))
        pair.packets = lines(checker, plan.packet_slots, "packet " + name);
      if (has(RoundKind::kMailbox)) pair.mail = lines(checker, 1, "mail " + name);
      if (has(RoundKind::kRing)) {
        Lines slots = lines(checker, plan.ring_slots, "ring " + name);
        pair.ring = {slots.tags, slots.payloads, checker.word(0, "credit " + name)};
      }
      if (has(RoundKind::kInPlace)) {
        pair.post = {checker.word(0, "ready " + name), checker.word(0, "done " + name),
                     checker.cell()};
      }
      if (has(RoundKind::kBarrier)) pair.barrier = checker.word(0, "barrier " + name);
    }
  }
  for (std::size_t self = 0; self != plan.ranks; ++self) {
    checker.thread("rank " + std::to_string(self),
                   [all = *this, self](ModelAtomics& m) { Rank(all, self, m).run(); });
  }
  checker.thread("watcher", [all = *this](ModelAtomics& m) {
    const memory::WaitLimits<ModelAtomics> limits{
        .policy = {.spin_ns = 0, .pause_ns = 0, .yield_rounds = 0, .sleep = false}};
    std::uint64_t abort = 0;
    m.begin_wait();
    static_cast<void>(memory::wait_spinning(m, limits, abort, [&] {
      return m.load(all.alarm_, std::memory_order_acquire, memory::Site::kCount) != 0;
    }));
    for (Word word : all.aborts_) memory::abort_trip(m, word, 1);
  });
}

}  // namespace imex::exchange::testing_kit
