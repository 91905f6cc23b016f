// The shipped protocol templates, every interleaving and every weak outcome of 2 and 3 ranks; and
// that a weaker order, one slot too few or a tag that is not compared is found.

#include <iostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "memory/wait_protocol.hpp"
#include "model/checker.hpp"
#include "protocol/mailbox.hpp"
#include "protocol/packet.hpp"
#include "protocol/ring.hpp"
#include "protocol/round.hpp"

namespace imex::exchange {
namespace {

using memory::Site;
using memory::model::Cell;
using memory::model::Checker;
using memory::model::ModelAtomics;
using memory::model::Mutations;
using memory::model::Report;
using memory::model::Word;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kRounds2 = 3;
constexpr std::uint64_t kRounds3 = 2;
#else
constexpr std::uint64_t kRounds2 = 5;
constexpr std::uint64_t kRounds3 = 3;
#endif

/// A run of lines in one receiver's memory.
struct ModelLines {
  std::vector<Word> tags;
  std::vector<Cell> payloads;
  Word& tag(std::uint32_t i) { return tags[i]; }
};

ModelLines make_lines(Checker& checker, std::size_t count, const std::string& name) {
  ModelLines lines;
  for (std::size_t i = 0; i != count; ++i) {
    lines.tags.push_back(checker.word(0, name + "." + std::to_string(i)));
    lines.payloads.push_back(checker.cell());
  }
  return lines;
}

std::uint64_t content(std::uint64_t round, std::size_t rank, std::uint32_t line) {
  return round << 16U | rank << 8U | line | 0x80;
}

/// Waits without end, as a rank does.
template <class Poll>
bool spin_until(ModelAtomics& m, Poll&& poll) {
  const memory::WaitLimits<ModelAtomics> limits{
      .policy = {.spin_ns = 0, .pause_ns = 0, .yield_rounds = 0, .sleep = false}};
  std::uint64_t abort = 0;
  m.begin_wait();
  return memory::wait_spinning(m, limits, abort, poll) == memory::SpinEnd::kDone;
}

Mutations spinning(Mutations mutations) {
  mutations.yields_are_waits = true;
  return mutations;
}

enum class Epochs : std::uint8_t { kCompared, kIgnored };

struct PacketModel {
  std::size_t ranks = 2;
  std::uint32_t slots = 2;
  std::uint32_t lines = 2;
  std::uint64_t rounds = 3;
  Epochs epochs = Epochs::kCompared;
};

/// Every rank sends to all and receives from all, round after round, with no barrier.
Report packets(const PacketModel& model, Mutations mutations = {}) {
  Checker checker(spinning(std::move(mutations)));
  // in[receiver][sender][slot]
  std::vector<std::vector<std::vector<ModelLines>>> in(
      model.ranks, std::vector<std::vector<ModelLines>>(model.ranks));
  for (std::size_t to = 0; to != model.ranks; ++to) {
    for (std::size_t from = 0; from != model.ranks; ++from) {
      for (std::uint32_t slot = 0; to != from && slot != model.slots; ++slot) {
        in[to][from].push_back(make_lines(
            checker, model.lines,
            std::to_string(from) + ">" + std::to_string(to) + "/" + std::to_string(slot)));
      }
    }
  }
  for (std::size_t self = 0; self != model.ranks; ++self) {
    checker.thread("rank " + std::to_string(self), [=](ModelAtomics& m) {
      for (std::uint64_t round = 1; round <= model.rounds; ++round) {
        const std::uint32_t slot = memory::slot_index(round, model.slots);
        for (std::size_t peer = 0; peer != model.ranks; ++peer) {
          if (peer == self) continue;
          ModelLines out = in[peer][self][slot];
          packet_send(m, out, model.lines, round,
                      [&](std::uint32_t i) { m.write(out.payloads[i], content(round, self, i)); });
        }
        for (std::size_t peer = 0; peer != model.ranks; ++peer) {
          if (peer == self) continue;
          const ModelLines& lines = in[self][peer][slot];
          bool overrun = false;
          // The mutation takes any tag that has ever been set for the one it waits for.
          const std::uint64_t wanted = model.epochs == Epochs::kCompared ? round : 1;
          const bool came = packet_receive(
              m, lines, model.lines, wanted, overrun,
              [&](auto&& poll) { return spin_until(m, poll); },
              [&](std::uint32_t i) {
                m.require(m.read(lines.payloads[i]) == content(round, peer, i), "wrong payload");
              });
          m.require(came || (overrun && model.epochs == Epochs::kIgnored), "slot overrun");
          if (!came) {
            m.require(m.read(lines.payloads[0]) == content(round, peer, 0), "wrong payload");
          }
        }
      }
    });
  }
  return checker.run();
}

/// Every rank asks every other, answers every other, reads the answers.
Report mailboxes(std::size_t ranks, std::uint32_t lines, std::uint64_t rounds,
                 Mutations mutations = {}, bool early = false) {
  Checker checker(spinning(std::move(mutations)));
  // box[owner][asker]
  std::vector<std::vector<ModelLines>> box(ranks, std::vector<ModelLines>(ranks));
  for (std::size_t owner = 0; owner != ranks; ++owner) {
    for (std::size_t asker = 0; asker != ranks; ++asker) {
      if (owner == asker) continue;
      box[owner][asker] =
          make_lines(checker, lines, std::to_string(asker) + ">" + std::to_string(owner));
    }
  }
  for (std::size_t self = 0; self != ranks; ++self) {
    checker.thread("rank " + std::to_string(self), [=](ModelAtomics& m) {
      const auto each = [&](auto&& action) {
        for (std::size_t peer = 0; peer != ranks; ++peer) {
          for (std::uint32_t i = 0; peer != self && i != lines; ++i) action(peer, i);
        }
      };
      const auto await = [&](auto&& poll) {
        memory::SlotState state = memory::SlotState::kEarly;
        spin_until(m, [&] { return (state = poll()) != memory::SlotState::kEarly; });
        m.require(state == memory::SlotState::kReady, "a later tag");
      };
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        each([&](std::size_t peer, std::uint32_t i) {
          ModelLines lines_out = box[peer][self];
          m.write(lines_out.payloads[i], content(round, self, i));
          mailbox_ask(m, lines_out, i, round);
        });
        each([&](std::size_t peer, std::uint32_t i) {
          ModelLines lines_in = box[self][peer];
          await([&] { return mailbox_asked(m, lines_in, i, round); });
          m.require(m.read(lines_in.payloads[i]) == content(round, peer, i), "wrong question");
          m.write(lines_in.payloads[i], content(round, 10 + self, i));
          mailbox_answer(m, lines_in, i, round);
        });
        each([&](std::size_t peer, std::uint32_t i) {
          ModelLines lines_out = box[peer][self];
          // The mutation asks again before it has read the answer.
          if (early) return;
          await([&] { return mailbox_answered(m, lines_out, i, round); });
          m.require(m.read(lines_out.payloads[i]) == content(round, 10 + peer, i), "wrong answer");
        });
      }
    });
  }
  return checker.run();
}

struct ModelRing {
  std::vector<Word> tags;
  std::vector<Cell> payloads;
  Word credits;
  Word& tag(std::uint32_t slot) { return tags[slot]; }
  Word& credit() { return credits; }
};

/// Two ranks stream to each other through rings, a chunk ahead of what they have read, as
/// all_reduce_ring() does.
Report rings(std::uint32_t slots, std::uint32_t believed, std::uint64_t messages,
             Mutations mutations = {}) {
  Checker checker(spinning(std::move(mutations)));
  std::vector<ModelRing> to(2);
  for (ModelRing& ring : to) {
    ring.credits = checker.word(0, "credit");
    for (std::uint32_t slot = 0; slot != slots; ++slot) {
      ring.tags.push_back(checker.word(0, "slot" + std::to_string(slot)));
      ring.payloads.push_back(checker.cell());
    }
  }
  for (std::size_t self = 0; self != 2; ++self) {
    checker.thread("rank " + std::to_string(self), [=](ModelAtomics& m) {
      ModelRing out = to[1 - self];
      ModelRing in = to[self];
      const auto receive = [&](std::uint64_t message) {
        memory::SlotState state = memory::SlotState::kEarly;
        spin_until(m, [&] {
          state = ring_poll(m, in, message, slots);
          return state != memory::SlotState::kEarly;
        });
        m.require(state == memory::SlotState::kReady, "slot overrun");
        m.require(m.read(in.payloads[memory::slot_index(message, slots)]) ==
                      content(message, 1 - self, 0),
                  "wrong payload");
        ring_release(m, in, message);
      };
      for (std::uint64_t message = 1; message <= messages; ++message) {
        spin_until(m, [&] { return ring_has_room(m, out, message, believed); });
        m.write(out.payloads[memory::slot_index(message, slots)], content(message, self, 0));
        ring_publish(m, out, message, slots);
        if (message > 1) receive(message - 1);
      }
      receive(messages);
    });
  }
  return checker.run();
}

struct ModelPost {
  Word ready_word, done_word;
  Cell said;
  Word& ready() { return ready_word; }
  Word& done() { return done_word; }
};

enum class Skipped : std::uint8_t { kNothing, kEntry, kFinish };

/// As all_reduce_registered() in place: every rank fills its buffer, reads everybody's element
/// `self`, writes the result into all buffers, and reads its own.
Report rounds_in_place(std::size_t ranks, std::uint64_t rounds, Mutations mutations = {},
                       Skipped skipped = Skipped::kNothing) {
  Checker checker(spinning(std::move(mutations)));
  std::vector<std::vector<Cell>> buffers(ranks);
  std::vector<std::vector<ModelPost>> posts(ranks, std::vector<ModelPost>(ranks));  // [to][from]
  for (std::size_t to = 0; to != ranks; ++to) {
    for (std::size_t from = 0; from != ranks; ++from) {
      buffers[to].push_back(checker.cell());
      if (to == from) continue;
      const std::string name = std::to_string(from) + ">" + std::to_string(to);
      posts[to][from] = {checker.word(0, "ready " + name), checker.word(0, "done " + name),
                         checker.cell()};
    }
  }
  for (std::size_t self = 0; self != ranks; ++self) {
    checker.thread("rank " + std::to_string(self), [=](ModelAtomics& m) {
      const auto peers = [&](auto&& action) {
        for (std::size_t peer = 0; peer != ranks; ++peer) {
          if (peer != self) action(peer);
        }
      };
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        for (std::uint32_t i = 0; i != ranks; ++i) {
          m.write(buffers[self][i], content(round, self, i));
        }
        peers([&](std::size_t peer) {
          m.write(posts[peer][self].said, round);
          round_enter(m, posts[peer][self], round);
        });
        peers([&](std::size_t peer) {
          if (skipped == Skipped::kEntry) return;
          spin_until(m, [&] {
            return round_entered(m, posts[self][peer], round) == memory::SlotState::kReady;
          });
          m.require(m.read(posts[self][peer].said) == round, "what another round said");
        });
        const auto at = static_cast<std::uint32_t>(self);
        peers([&](std::size_t peer) {
          m.require(m.read(buffers[peer][self]) == content(round, peer, at), "wrong input");
        });
        m.write(buffers[self][self], content(round, 10 + self, at));
        peers(
            [&](std::size_t peer) { m.write(buffers[peer][self], content(round, 10 + self, at)); });
        peers([&](std::size_t peer) { round_finish(m, posts[peer][self], round, 1); });
        peers([&](std::size_t peer) {
          if (skipped == Skipped::kFinish) return;
          spin_until(m, [&] { return round_finished(m, posts[self][peer], round, 1); });
        });
        for (std::uint32_t i = 0; i != ranks; ++i) {
          m.require(m.read(buffers[self][i]) == content(round, 10 + i, i), "wrong result");
        }
      }
    });
  }
  return checker.run();
}

void expect_proven(const Report& report) {
  EXPECT_TRUE(report.complete);
  EXPECT_FALSE(report.counterexample) << *report.counterexample;
  EXPECT_GT(report.states, 20U);
  std::cout << "[ proven   ] " << report.states << " states\n";
}

void expect_caught(const Report& report) {
  ASSERT_TRUE(report.counterexample) << "a wrong scheme passed " << report.states << " states";
  std::cout << "[ caught   ] " << report.counterexample->substr(0, 100) << '\n';
}

Mutations weaken(Site site) { return {.orders = {{site, std::memory_order_relaxed}}}; }

TEST(PacketModelTest, TwoSlotsNeedNoBarrierNorCredit) {
  expect_proven(packets({.rounds = kRounds2}));
  expect_proven(packets({.ranks = 3, .lines = 1, .rounds = kRounds3}));
}

TEST(PacketModelTest, WeakerOrdersAreCaught) {
  expect_caught(packets({}, weaken(Site::kSlotPublish)));
  expect_caught(packets({}, weaken(Site::kSlotPoll)));
}

TEST(PacketModelTest, ASlotReusedEarlyIsCaught) { expect_caught(packets({.slots = 1})); }

TEST(PacketModelTest, ATagThatIsNotComparedIsCaught) {
  expect_caught(packets({.epochs = Epochs::kIgnored}));
}

TEST(MailboxModelTest, OneLineServesQuestionAndAnswer) {
  expect_proven(mailboxes(2, 2, kRounds2));
  expect_proven(mailboxes(3, 1, kRounds3));
}

TEST(MailboxModelTest, WeakerOrdersAreCaught) {
  expect_caught(mailboxes(2, 1, 3, weaken(Site::kSlotPublish)));
  expect_caught(mailboxes(2, 1, 3, weaken(Site::kSlotPoll)));
}

TEST(MailboxModelTest, AskingBeforeTheAnswerIsCaught) {
  expect_caught(mailboxes(2, 1, 3, {}, true));
}

TEST(RoundModelTest, EntryAndFinishGuardBuffersInPlace) {
  expect_proven(rounds_in_place(2, kRounds2));
  expect_proven(rounds_in_place(3, 2));
}

TEST(RoundModelTest, WeakerOrdersAreCaught) {
  expect_caught(rounds_in_place(2, 2, weaken(Site::kSlotPublish)));
  expect_caught(rounds_in_place(2, 2, weaken(Site::kSlotPoll)));
}

TEST(RoundModelTest, AWaitLeftOutIsCaught) {
  expect_caught(rounds_in_place(2, 2, {}, Skipped::kEntry));
  expect_caught(rounds_in_place(2, 2, {}, Skipped::kFinish));
}

TEST(RingModelTest, CreditsKeepBothDirectionsApart) {
  expect_proven(rings(2, 2, kRounds2));
  expect_proven(rings(3, 3, kRounds2));
}

TEST(RingModelTest, OneCreditTooManyIsCaught) { expect_caught(rings(2, 3, 5)); }

TEST(RingModelTest, WeakerOrdersAreCaught) {
  for (const Site site :
       {Site::kSlotPublish, Site::kSlotPoll, Site::kCreditReturn, Site::kCreditPoll}) {
    expect_caught(rings(2, 2, 5, weaken(site)));
  }
}

}  // namespace
}  // namespace imex::exchange
