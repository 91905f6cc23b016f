// The table of exchange.md 1.7, from the shipped slot protocol: when a slot may be used again, and
// that one slot less, or one order weaker, fails.

#include <iostream>

#include <gtest/gtest.h>

#include "memory/slot_protocol.hpp"
#include "memory/wait_protocol.hpp"
#include "model/checker.hpp"
#include "model/expectations.hpp"

namespace imex::memory::model {
namespace {

// At least what the tables were checked with (7 and 4); instrumented builds, which look for errors
// in the checker and the templates rather than in the protocol, do less.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kEpochs2 = 5;
constexpr std::uint64_t kEpochs3 = 3;
#else
constexpr std::uint64_t kEpochs2 = 9;
constexpr std::uint64_t kEpochs3 = 5;
#endif

std::uint64_t content(std::uint64_t epoch, std::size_t sender) {
  return epoch << 8U | sender | 0x80;
}

/// Waits without end, as a rank does between two exchanges.
template <class Poll>
void spin_until(ModelAtomics& m, Poll&& poll) {
  const WaitLimits<ModelAtomics> limits{
      .policy = {.spin_ns = 0, .pause_ns = 0, .yield_rounds = 0, .sleep = false}};
  std::uint64_t abort = 0;
  m.begin_wait();
  m.require(wait_spinning(m, limits, abort, poll) == SpinEnd::kDone, "wait ended without cause");
}

Mutations spinning(Mutations mutations = {}) {
  mutations.yields_are_waits = true;
  return mutations;
}

struct Lane {
  std::vector<Word> words;  ///< tags, or in-band words
  std::vector<Cell> payload;
};

/// lanes[sender][receiver]
std::vector<std::vector<Lane>> make_lanes(Checker& checker, std::size_t ranks, std::uint32_t slots,
                                          bool payload) {
  std::vector<std::vector<Lane>> lanes(ranks, std::vector<Lane>(ranks));
  for (std::size_t sender = 0; sender != ranks; ++sender) {
    for (std::size_t receiver = 0; receiver != ranks; ++receiver) {
      if (sender == receiver) continue;
      for (std::uint32_t slot = 0; slot != slots; ++slot) {
        lanes[sender][receiver].words.push_back(checker.word(0, "slot " + std::to_string(sender) +
                                                                    std::to_string(receiver) + "." +
                                                                    std::to_string(slot)));
        if (payload) lanes[sender][receiver].payload.push_back(checker.cell());
      }
    }
  }
  return lanes;
}

/// Every rank sends to all and receives from all, epoch after epoch, with no barrier.
Report tagged_exchange(std::size_t ranks, std::uint32_t slots, std::uint64_t epochs,
                       Mutations mutations = {}) {
  Checker checker(spinning(std::move(mutations)));
  const auto lanes = make_lanes(checker, ranks, slots, true);
  for (std::size_t self = 0; self != ranks; ++self) {
    checker.thread("rank " + std::to_string(self), [=](ModelAtomics& m) {
      for (std::uint64_t epoch = 1; epoch <= epochs; ++epoch) {
        const std::uint32_t slot = slot_index(epoch, slots);
        for (std::size_t peer = 0; peer != ranks; ++peer) {
          if (peer == self) continue;
          Word tag = lanes[self][peer].words[slot];
          m.write(lanes[self][peer].payload[slot], content(epoch, self));
          slot_publish(m, tag, epoch);
        }
        for (std::size_t peer = 0; peer != ranks; ++peer) {
          if (peer == self) continue;
          const Lane& from = lanes[peer][self];
          SlotState state = SlotState::kEarly;
          spin_until(m, [&] {
            state = slot_poll(m, from.words[slot], epoch);
            return state != SlotState::kEarly;
          });
          m.require(state == SlotState::kReady, "slot overrun: a later epoch lies in it");
          m.require(m.read(from.payload[slot]) == content(epoch, peer), "wrong payload");
        }
      }
    });
  }
  return checker.run();
}

/// One sender, one receiver, credits. `believed` slots in the sender's mind.
Report credited_lane(std::uint32_t slots, std::uint32_t believed, std::uint64_t epochs,
                     Mutations mutations = {}) {
  Checker checker(spinning(std::move(mutations)));
  const auto lanes = make_lanes(checker, 2, slots, true);
  Word credit = checker.word(0, "credit");
  const Lane lane = lanes[0][1];
  checker.thread("sender", [=](ModelAtomics& m) {
    for (std::uint64_t epoch = 1; epoch <= epochs; ++epoch) {
      const std::uint32_t slot = slot_index(epoch, slots);
      Word tag = lane.words[slot];
      spin_until(m, [&] { return credit_allows(m, credit, epoch, believed); });
      m.write(lane.payload[slot], content(epoch, 0));
      slot_publish(m, tag, epoch);
    }
  });
  checker.thread("receiver", [=](ModelAtomics& m) mutable {
    for (std::uint64_t epoch = 1; epoch <= epochs; ++epoch) {
      const std::uint32_t slot = slot_index(epoch, slots);
      SlotState state = SlotState::kEarly;
      spin_until(m, [&] {
        state = slot_poll(m, lane.words[slot], epoch);
        return state != SlotState::kEarly;
      });
      m.require(state == SlotState::kReady, "slot overrun: a later epoch lies in it");
      m.require(m.read(lane.payload[slot]) == content(epoch, 0), "wrong payload");
      credit_return(m, credit, epoch);
    }
  });
  return checker.run();
}

enum class Clear { kJustConsumed, kPreviousAfterSending };

/// Words that carry their own readiness, between two ranks.
Report word_exchange(Clear clear, std::uint32_t slots, std::uint64_t epochs,
                     Mutations mutations = {}) {
  Checker checker(spinning(std::move(mutations)));
  const auto lanes = make_lanes(checker, 2, slots, false);
  for (std::size_t self = 0; self != 2; ++self) {
    const std::size_t peer = 1 - self;
    checker.thread("rank " + std::to_string(self), [=](ModelAtomics& m) {
      for (std::uint64_t epoch = 1; epoch <= epochs; ++epoch) {
        Word out = lanes[self][peer].words[slot_index(epoch, slots)];
        Word in = lanes[peer][self].words[slot_index(epoch, slots)];
        word_send(m, out, content(epoch, self));
        if (clear == Clear::kPreviousAfterSending && epoch > 1) {
          Word previous = lanes[peer][self].words[slot_index(epoch - 1, slots)];
          word_arm(m, previous);
        }
        std::uint64_t got = kEmptyWord;
        spin_until(m, [&] { return (got = word_poll(m, in)) != kEmptyWord; });
        m.require(got == content(epoch, peer), "a word of another epoch");
        if (clear == Clear::kJustConsumed) word_arm(m, in);
        lane_fence(m);
      }
    });
  }
  return checker.run();
}

Mutations weaken(Site site) { return {.orders = {{site, std::memory_order_relaxed}}}; }

TEST(SlotModelTest, TwoTaggedSlotsNeedNoBarrier) {
  expect_proven(tagged_exchange(2, 2, kEpochs2));
  expect_proven(tagged_exchange(3, 2, kEpochs3));
}

TEST(SlotModelTest, OneTaggedSlotIsOverrun) {
  // Either the tag is seen too late, or the payload changes under the reader.
  const Report report = tagged_exchange(2, 1, 3);
  ASSERT_TRUE(report.counterexample);
  std::cout << "[ caught   ] " << *report.counterexample;
}

TEST(SlotModelTest, WeakerTagsAreCaught) {
  expect_caught(tagged_exchange(2, 2, 3, weaken(Site::kSlotPublish)), "data race");
  expect_caught(tagged_exchange(2, 2, 3, weaken(Site::kSlotPoll)), "data race");
}

TEST(SlotModelTest, CreditsKeepTheSenderOut) {
  expect_proven(credited_lane(1, 1, kEpochs2));
  expect_proven(credited_lane(2, 2, kEpochs2));
}

TEST(SlotModelTest, OneCreditTooManyIsCaught) {
  EXPECT_TRUE(credited_lane(2, 3, 4).counterexample.has_value());
  EXPECT_TRUE(credited_lane(1, 2, 3).counterexample.has_value());
}

TEST(SlotModelTest, WeakerCreditsAreCaught) {
  expect_caught(credited_lane(1, 1, 3, weaken(Site::kCreditReturn)), "overwritten while");
  expect_caught(credited_lane(1, 1, 3, weaken(Site::kCreditPoll)), "overwritten while");
}

TEST(SlotModelTest, TwoWordSlotsClearedAtOnceNeedTheFence) {
  expect_proven(word_exchange(Clear::kJustConsumed, 2, kEpochs2));
  expect_caught(word_exchange(Clear::kJustConsumed, 2, 4, {.dropped = {Site::kLaneFence}}),
                "nobody can go on");
}

TEST(SlotModelTest, TwoWordSlotsClearedLateLoseAWord) {
  expect_caught(word_exchange(Clear::kPreviousAfterSending, 2, 4), "nobody can go on");
}

TEST(SlotModelTest, ThreeWordSlotsClearedLateNeedTheFence) {
  expect_proven(word_exchange(Clear::kPreviousAfterSending, 3, kEpochs2));
  expect_caught(word_exchange(Clear::kPreviousAfterSending, 3, 6, {.dropped = {Site::kLaneFence}}),
                "nobody can go on");
}

TEST(SlotModelTest, ForgedCreditGrantsNothing) {
  HostAtomics atomics;
  std::atomic<std::uint64_t> credit{100};
  EXPECT_FALSE(credit_allows(atomics, credit, 5, 2));
  credit = 3;
  EXPECT_TRUE(credit_allows(atomics, credit, 5, 2));
  EXPECT_FALSE(credit_allows(atomics, credit, 6, 2));
}

}  // namespace
}  // namespace imex::memory::model
