// Every execution of the shipped signal protocol, under a weak memory model: no lost wake-up, no
// payload seen too early; and for each memory order that matters, that a weaker one is found out.

#include <cstdint>
#include <iostream>
#include <vector>

#include <gtest/gtest.h>

#include "memory/signal_protocol.hpp"
#include "model/checker.hpp"
#include "model/expectations.hpp"

namespace imex::memory::model {
namespace {

constexpr WaitPolicy kSleepAtOnce{.spin_ns = 0, .pause_ns = 0, .yield_rounds = 0, .sleep = true};
/// A pure spin.
constexpr WaitPolicy kNeverSleep{.spin_ns = 0, .pause_ns = 0, .yield_rounds = 0, .sleep = false};
/// One look in each stage.
constexpr WaitPolicy kAllStages{.spin_ns = 1, .pause_ns = 1, .yield_rounds = 1, .sleep = true};
constexpr std::uint64_t kPeerLostWord = 10;
// The checker is one thread: ThreadSanitizer finds nothing in it and makes it thirty times slower.
#ifdef __SANITIZE_THREAD__
constexpr bool kSmall = true;
#else
constexpr bool kSmall = false;
#endif

struct Signals {
  explicit Signals(Checker& checker)
      : value(checker.word(0, "value")),
        waiters(checker.word32("waiters")),
        abort(checker.word(0, "abort")),
        payload(checker.cell()),
        cause(checker.cell()) {}

  [[nodiscard]] SignalWords<ModelAtomics> words() { return {value, waiters}; }

  Word value;
  Word32 waiters;
  Word abort;
  Cell payload, cause;
};

WaitLimits<ModelAtomics> limits(WaitPolicy policy, const Word* abort = nullptr,
                                SteadyTime deadline = kNoDeadline) {
  return {.deadline = deadline, .abort = abort, .policy = policy};
}

Report notify_against_wait(WaitPolicy policy, int waiters = 1, Mutations mutations = {}) {
  Checker checker(std::move(mutations));
  Signals s(checker);
  checker.thread("producer", [=](ModelAtomics& m) mutable {
    m.write(s.payload, 42);
    signal_notify(m, s.words(), 1);
  });
  for (int i = 0; i != waiters; ++i) {
    checker.thread("waiter", [=](ModelAtomics& m) mutable {
      m.begin_wait();
      const WaitResult result = signal_wait(m, s.words(), 1, limits(policy));
      m.require(result.ok() && result.seen == 1, "wait did not return the count");
      m.require(m.read(s.payload) == 42, "payload not visible after the wait");
    });
  }
  return checker.run();
}

Report abandon_against_wait(WaitPolicy policy, Mutations mutations = {}) {
  Checker checker(std::move(mutations));
  Signals s(checker);
  checker.thread("producer", [=](ModelAtomics& m) mutable { signal_abandon(m, s.words()); });
  checker.thread("waiter", [=](ModelAtomics& m) mutable {
    const WaitResult result = signal_wait(m, s.words(), 1, limits(policy));
    m.require(result.status == WaitStatus::kAbandoned, "abandoned signal not reported");
  });
  return checker.run();
}

Report abort_against_wait(WaitPolicy policy, Mutations mutations = {}) {
  Checker checker(std::move(mutations));
  Signals s(checker);
  checker.thread("daemon", [=](ModelAtomics& m) mutable {
    m.write(s.cause, 3);
    m.require(abort_trip(m, s.abort, kPeerLostWord), "first trip not told so");
  });
  checker.thread("waiter", [=](ModelAtomics& m) mutable {
    const WaitResult result = signal_wait(m, s.words(), 1, limits(policy, &s.abort));
    m.require(result.status == WaitStatus::kAborted && result.abort == kPeerLostWord,
              "abort not reported");
    m.require(m.read(s.cause) == 3, "cause not visible after the abort");
  });
  return checker.run();
}

Mutations weaken(Site site, std::memory_order order) { return {.orders = {{site, order}}}; }
constexpr const char* kLostWake = "waiter sleeps for ever";
constexpr const char* kRace = "data race";

TEST(SignalModelTest, NotifyReachesEveryWaiter) {
  expect_proven(notify_against_wait(kSleepAtOnce));
  expect_proven(notify_against_wait(kAllStages));
  if (!kSmall) expect_proven(notify_against_wait(kAllStages, 2));
  expect_proven(notify_against_wait(kSleepAtOnce, 2));
  expect_proven(notify_against_wait(kNeverSleep, 2, {.yields_are_waits = true}));
}

TEST(SignalModelTest, CountOfTwoProducersShowsBothPayloads) {
  Checker checker;
  Signals s(checker);
  for (const Cell cell : {s.payload, s.cause}) {
    checker.thread("producer", [=](ModelAtomics& m) mutable {
      m.write(cell, 42);
      signal_notify(m, s.words(), 1);
    });
  }
  checker.thread("waiter", [=](ModelAtomics& m) mutable {
    const WaitResult result = signal_wait(m, s.words(), 2, limits(kSleepAtOnce));
    m.require(result.ok() && result.seen == 2, "wait did not return the count");
    m.require(m.read(s.payload) == 42 && m.read(s.cause) == 42, "payload not visible");
  });
  expect_proven(checker.run());
}

TEST(SignalModelTest, AbandonReachesTheWaiter) {
  expect_proven(abandon_against_wait(kSleepAtOnce));
  expect_proven(abandon_against_wait(kAllStages));
}

Report count_against_abandon(const std::vector<std::uint64_t>& targets) {
  Checker checker;
  Signals s(checker);
  checker.thread("producer", [=](ModelAtomics& m) mutable {
    m.write(s.payload, 42);
    signal_notify(m, s.words(), 1);
    signal_abandon(m, s.words());
  });
  for (const std::uint64_t target : targets) {
    checker.thread("waiter", [=](ModelAtomics& m) mutable {
      const WaitResult result = signal_wait(m, s.words(), target, limits(kSleepAtOnce));
      m.require(result.ok() == (target == 1), "status");
      m.require(result.seen == 1, "count");
      m.require(m.read(s.payload) == 42, "payload not visible");
    });
  }
  return checker.run();
}

TEST(SignalModelTest, CountReachedWinsOverAbandon) {
  expect_proven(count_against_abandon({1}));
  expect_proven(count_against_abandon({2}));
  if (!kSmall) expect_proven(count_against_abandon({1, 2}));
}

TEST(SignalModelTest, AbortReachesTheWaiter) {
  expect_proven(abort_against_wait(kSleepAtOnce));
  expect_proven(abort_against_wait(kAllStages));
}

TEST(SignalModelTest, AbortRacingWithNotifyEndsInOneOfThem) {
  Checker checker;
  Signals s(checker);
  checker.thread("producer", [=](ModelAtomics& m) mutable {
    m.write(s.payload, 42);
    signal_notify(m, s.words(), 1);
  });
  checker.thread("daemon", [=](ModelAtomics& m) mutable { abort_trip(m, s.abort, kPeerLostWord); });
  checker.thread("waiter", [=](ModelAtomics& m) mutable {
    const WaitResult result = signal_wait(m, s.words(), 1, limits(kSleepAtOnce, &s.abort));
    m.report(static_cast<std::uint64_t>(result.status));
    if (result.ok()) m.require(m.read(s.payload) == 42 && result.abort == 0, "payload");
    if (!result.ok()) m.require(result.abort == kPeerLostWord, "abort word");
  });
  const Report report = checker.run();
  expect_proven(report);
  EXPECT_EQ(report.outcomes.size(), 2U);
}

TEST(SignalModelTest, FirstOfTwoAbortsStays) {
  Checker checker;
  Signals s(checker);
  for (const std::uint64_t word : {10U, 11U}) {
    checker.thread(
        "daemon", [=](ModelAtomics& m) mutable { m.report(abort_trip(m, s.abort, word) ? 1 : 0); });
  }
  checker.thread("waiter", [=](ModelAtomics& m) mutable {
    const WaitResult result = signal_wait(m, s.words(), 1, limits(kSleepAtOnce, &s.abort));
    m.report(result.abort);
  });
  const Report report = checker.run();
  expect_proven(report);
  using Outcome = std::vector<std::uint64_t>;
  EXPECT_EQ(report.outcomes, (std::set<Outcome>{{1, 0, 10}, {0, 1, 11}}));
}

TEST(SignalModelTest, DeadlineEndsTheWaitUnlessTheCountWasReached) {
  Checker checker;
  Signals s(checker);
  checker.thread("producer", [=](ModelAtomics& m) mutable {
    m.write(s.payload, 42);
    signal_notify(m, s.words(), 1);
  });
  checker.thread("waiter", [=](ModelAtomics& m) mutable {
    const WaitResult result =
        signal_wait(m, s.words(), 1,
                    limits(kSleepAtOnce, nullptr, SteadyTime::max() - std::chrono::seconds(1)));
    m.report(static_cast<std::uint64_t>(result.status));
    if (result.ok()) m.require(m.read(s.payload) == 42, "payload");
  });
  const Report report = checker.run();
  expect_proven(report);
  EXPECT_EQ(report.outcomes.size(), 2U);
}

// From here on: what the checker must find.

TEST(SignalModelTest, WeakerNotifyIsCaught) {
  using enum std::memory_order;
  Mutations relaxed_add = weaken(Site::kSignalAdd, relaxed);
  relaxed_add.yields_are_waits = true;
  expect_caught(notify_against_wait(kNeverSleep, 1, relaxed_add), kRace);
  expect_caught(notify_against_wait(kSleepAtOnce, 1, weaken(Site::kSignalAdd, release)), kLostWake);
  expect_caught(notify_against_wait(kSleepAtOnce, 1, weaken(Site::kSignalAdd, acq_rel)), kLostWake);
}

TEST(SignalModelTest, WeakerLookForWaitersIsCaught) {
  using enum std::memory_order;
  expect_caught(notify_against_wait(kSleepAtOnce, 1, weaken(Site::kSignalWaiters, acquire)),
                kLostWake);
  expect_caught(notify_against_wait(kSleepAtOnce, 1, weaken(Site::kSignalWaiters, relaxed)),
                kLostWake);
}

TEST(SignalModelTest, WeakerCountInIsCaught) {
  using enum std::memory_order;
  expect_caught(notify_against_wait(kSleepAtOnce, 1, weaken(Site::kSignalCountIn, acq_rel)),
                kLostWake);
  expect_caught(notify_against_wait(kSleepAtOnce, 1, weaken(Site::kSignalCountIn, relaxed)),
                kLostWake);
}

TEST(SignalModelTest, WeakerRecheckIsCaught) {
  using enum std::memory_order;
  expect_caught(notify_against_wait(kSleepAtOnce, 1, weaken(Site::kSignalRecheck, acquire)),
                kLostWake);
  // Relaxed alone both loses wake-ups and lets payload be read too early; which is met first is the
  // search's affair.
  EXPECT_TRUE(notify_against_wait(kSleepAtOnce, 1, weaken(Site::kSignalRecheck, relaxed))
                  .counterexample.has_value());
}

TEST(SignalModelTest, WeakerPollIsCaught) {
  expect_caught(
      notify_against_wait(kAllStages, 1, weaken(Site::kSignalPoll, std::memory_order_relaxed)),
      kRace);
}

TEST(SignalModelTest, WeakerAbandonIsCaught) {
  using enum std::memory_order;
  expect_caught(abandon_against_wait(kSleepAtOnce, weaken(Site::kSignalAbandon, acq_rel)),
                kLostWake);
  expect_caught(abandon_against_wait(kSleepAtOnce, weaken(Site::kSignalAbandon, relaxed)),
                kLostWake);
}

TEST(SignalModelTest, WeakerAbortIsCaught) {
  using enum std::memory_order;
  expect_caught(abort_against_wait(kAllStages, weaken(Site::kAbortTrip, relaxed)), kRace);
  expect_caught(abort_against_wait(kAllStages, weaken(Site::kAbortPoll, relaxed)), kRace);
}

TEST(SignalModelTest, CountingInAfterTheLastLookIsCaught) {
  expect_caught(notify_against_wait(kSleepAtOnce, 1,
                                    {.swapped = {{Site::kSignalCountIn, Site::kSignalRecheck}}}),
                kLostWake);
  expect_caught(notify_against_wait(kSleepAtOnce, 1, {.dropped = {Site::kSignalCountIn}}),
                kLostWake);
}

// The tempting layout of style.md: the flag in a bit that the futex does not compare.
TEST(SignalModelTest, FlagOutsideTheFutexWordIsCaught) {
  expect_caught(abandon_against_wait(kSleepAtOnce, {.futex_mask = 0xffff'fffeU}), kLostWake);
}

// The one order that may be anything: counting out tells nobody anything.
TEST(SignalModelTest, CountingOutNeedsNoOrder) {
  expect_proven(notify_against_wait(kSleepAtOnce, 2,
                                    weaken(Site::kSignalCountOut, std::memory_order_relaxed)));
  expect_proven(notify_against_wait(kSleepAtOnce, 1, {.dropped = {Site::kSignalCountOut}}));
}

}  // namespace
}  // namespace imex::memory::model
