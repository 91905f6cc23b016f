// The memory model against litmus tests with known answers: a checker that allows too little proves
// nothing, one that allows too much finds errors that are none.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/checker.hpp"

namespace imex::memory::model {
namespace {

using testing::Contains;
using testing::Not;
using Outcome = std::vector<std::uint64_t>;
constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;
constexpr auto kAcqRel = std::memory_order_acq_rel;
constexpr auto kSeqCst = std::memory_order_seq_cst;
constexpr Site kNoSite = Site::kCount;

/// Store buffering: each thread writes one word and reads the other. {0, 0}: both missed.
Report store_buffering(std::memory_order store, std::memory_order load) {
  Checker checker;
  Word x = checker.word();
  Word y = checker.word();
  checker.thread("a", [=](ModelAtomics& m) mutable {
    m.store(x, 1, store, kNoSite);
    m.report(m.load(y, load, kNoSite));
  });
  checker.thread("b", [=](ModelAtomics& m) mutable {
    m.store(y, 1, store, kNoSite);
    m.report(m.load(x, load, kNoSite));
  });
  return checker.run();
}

TEST(LitmusTest, StoreBufferingNeedsSeqCst) {
  EXPECT_THAT(store_buffering(kRelease, kAcquire).outcomes, Contains(Outcome{0, 0}));
  EXPECT_THAT(store_buffering(kSeqCst, kAcquire).outcomes, Contains(Outcome{0, 0}));
  EXPECT_THAT(store_buffering(kRelease, kSeqCst).outcomes, Contains(Outcome{0, 0}));
  const Report strong = store_buffering(kSeqCst, kSeqCst);
  EXPECT_THAT(strong.outcomes, Not(Contains(Outcome{0, 0})));
  EXPECT_EQ(strong.outcomes.size(), 3U);
}

/// Message passing: {1, 0} means flag seen, data not.
Report message_passing(std::memory_order store, std::memory_order load) {
  Checker checker;
  Word data = checker.word();
  Word flag = checker.word();
  checker.thread("writer", [=](ModelAtomics& m) mutable {
    m.store(data, 1, kRelaxed, kNoSite);
    m.store(flag, 1, store, kNoSite);
  });
  checker.thread("reader", [=](ModelAtomics& m) mutable {
    m.report(m.load(flag, load, kNoSite));
    m.report(m.load(data, kRelaxed, kNoSite));
  });
  return checker.run();
}

TEST(LitmusTest, MessagePassingNeedsReleaseAndAcquire) {
  EXPECT_THAT(message_passing(kRelaxed, kAcquire).outcomes, Contains(Outcome{1, 0}));
  EXPECT_THAT(message_passing(kRelease, kRelaxed).outcomes, Contains(Outcome{1, 0}));
  EXPECT_THAT(message_passing(kRelease, kAcquire).outcomes, Not(Contains(Outcome{1, 0})));
}

TEST(LitmusTest, FencesPassMessagesForRelaxedAccesses) {
  for (const bool fenced : {true, false}) {
    Checker checker;
    Word data = checker.word();
    Word flag = checker.word();
    checker.thread("writer", [=](ModelAtomics& m) mutable {
      m.store(data, 1, kRelaxed, kNoSite);
      if (fenced) m.fence(kNoSite);
      m.store(flag, 1, kRelaxed, kNoSite);
    });
    checker.thread("reader", [=](ModelAtomics& m) mutable {
      m.report(m.load(flag, kRelaxed, kNoSite));
      m.fence(kNoSite);
      m.report(m.load(data, kRelaxed, kNoSite));
    });
    EXPECT_EQ(checker.run().outcomes.contains({1, 0}), !fenced);
  }
}

TEST(LitmusTest, OneThreadNeverReadsBackwards) {
  Checker checker;
  Word x = checker.word();
  checker.thread("writer", [=](ModelAtomics& m) mutable {
    m.store(x, 1, kRelaxed, kNoSite);
    m.store(x, 2, kRelaxed, kNoSite);
  });
  checker.thread("reader", [=](ModelAtomics& m) mutable {
    const std::uint64_t first = m.load(x, kRelaxed, kNoSite);
    m.require(m.load(x, kRelaxed, kNoSite) >= first, "coherence");
  });
  EXPECT_TRUE(checker.run().proven());
}

/// Independent reads of independent writes: {1, 0, 1, 0} means the readers disagree about the
/// order.
Report independent_reads(std::memory_order store, std::memory_order load) {
  Checker checker;
  Word x = checker.word();
  Word y = checker.word();
  checker.thread("x", [=](ModelAtomics& m) mutable { m.store(x, 1, store, kNoSite); });
  checker.thread("y", [=](ModelAtomics& m) mutable { m.store(y, 1, store, kNoSite); });
  for (const auto& [first, second] : {std::pair(x, y), std::pair(y, x)}) {
    checker.thread("reader", [=, first = first, second = second](ModelAtomics& m) {
      m.report(m.load(first, load, kNoSite));
      m.report(m.load(second, load, kNoSite));
    });
  }
  return checker.run();
}

TEST(LitmusTest, ReadersAgreeOnlyUnderSeqCst) {
  EXPECT_THAT(independent_reads(kRelease, kAcquire).outcomes, Contains(Outcome{1, 0, 1, 0}));
  EXPECT_THAT(independent_reads(kSeqCst, kSeqCst).outcomes, Not(Contains(Outcome{1, 0, 1, 0})));
}

// A store may take its place before one that ran earlier: both words end with the value that the
// other thread wrote first.
TEST(LitmusTest, StoresOfTwoThreadsMayInterleaveEitherWay) {
  Checker checker;
  Word x = checker.word();
  Word y = checker.word();
  checker.thread("a", [=](ModelAtomics& m) mutable {
    m.store(x, 1, kRelaxed, kNoSite);
    m.store(y, 2, kRelaxed, kNoSite);
    m.report(m.load(y, kRelaxed, kNoSite));
  });
  checker.thread("b", [=](ModelAtomics& m) mutable {
    m.store(y, 1, kRelaxed, kNoSite);
    m.store(x, 2, kRelaxed, kNoSite);
    m.report(m.load(x, kRelaxed, kNoSite));
  });
  // Each sees the other's first store behind its own second one.
  EXPECT_THAT(checker.run().outcomes, Contains(Outcome{1, 1}));
}

TEST(LitmusTest, AtomicAddsAreNeverLost) {
  Checker checker;
  Word x = checker.word();
  for (int i = 0; i != 3; ++i) {
    checker.thread("adder", [=](ModelAtomics& m) mutable {
      m.report(m.fetch_add(x, std::uint64_t{1}, kRelaxed, kNoSite));
    });
  }
  const Report report = checker.run();
  EXPECT_EQ(report.outcomes.size(), 6U);  // every permutation of 0, 1, 2
  for (Outcome outcome : report.outcomes) {
    std::sort(outcome.begin(), outcome.end());
    EXPECT_EQ(outcome, (Outcome{0, 1, 2}));
  }
}

TEST(LitmusTest, ReleaseSequenceGoesThroughRelaxedAdds) {
  Checker checker;
  Word x = checker.word();
  const Cell payload = checker.cell();
  checker.thread("writer", [=](ModelAtomics& m) mutable {
    m.write(payload, 7);
    m.fetch_add(x, std::uint64_t{1}, kAcqRel, kNoSite);
  });
  checker.thread("adder", [=](ModelAtomics& m) mutable {
    m.fetch_add(x, std::uint64_t{2}, kRelaxed, kNoSite);
  });
  checker.thread("reader", [=](ModelAtomics& m) mutable {
    if (m.load(x, kAcquire, kNoSite) == 3) m.require(m.read(payload) == 7, "payload");
    // 3 is also reached when the adder came first; then the writer's own add releases.
  });
  EXPECT_TRUE(checker.run().proven());
}

TEST(LitmusTest, UnorderedPayloadIsARace) {
  Checker checker;
  const Cell payload = checker.cell();
  checker.thread("writer", [=](ModelAtomics& m) { m.write(payload, 1); });
  checker.thread("reader", [=](ModelAtomics& m) { m.report(m.read(payload)); });
  const Report report = checker.run();
  ASSERT_TRUE(report.counterexample);
  EXPECT_THAT(*report.counterexample, testing::HasSubstr("data race"));
}

TEST(LitmusTest, SleepWithoutWakeIsFound) {
  Checker checker;
  Word x = checker.word();
  checker.thread("sleeper", [=](ModelAtomics& m) { m.sleep(x, 0, nullptr, kNoDeadline); });
  checker.thread("writer", [=](ModelAtomics& m) mutable { m.store(x, 1, kSeqCst, kNoSite); });
  const Report report = checker.run();
  ASSERT_TRUE(report.counterexample);
  EXPECT_THAT(*report.counterexample, testing::HasSubstr("sleeper sleeps for ever"));
}

TEST(LitmusTest, WakeAfterChangeIsNeverLost) {
  Checker checker;
  Word x = checker.word();
  checker.thread("sleeper", [=](ModelAtomics& m) { m.sleep(x, 0, nullptr, kNoDeadline); });
  checker.thread("writer", [=](ModelAtomics& m) mutable {
    m.store(x, 1, kRelaxed, kNoSite);
    m.wake_all(x);
  });
  EXPECT_TRUE(checker.run().proven());
}

TEST(LitmusTest, LimitOfStatesIsNoProof) {
  Checker checker;
  Word x = checker.word();
  for (int i = 0; i != 3; ++i) {
    checker.thread("adder", [=](ModelAtomics& m) mutable {
      m.fetch_add(x, std::uint64_t{1}, kRelaxed, kNoSite);
    });
  }
  EXPECT_FALSE(checker.run(3).proven());
}

}  // namespace
}  // namespace imex::memory::model
