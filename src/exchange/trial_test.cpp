#include "trial.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace imex::exchange {
namespace {

/// Runs a trial whose algorithms take what `ns` says; on two ranks, the second `slower` times.
Algorithm outcome(const TuningQuestion& question, const std::function<float(Algorithm)>& ns,
                  float slower = 1) {
  Trial trial;
  trial.begin(question, {});
  while (!trial.decided()) {
    if (!trial.took(ns(trial.next()))) continue;
    Trial::Times other = trial.times();
    for (float& time : other) time *= slower;
    trial.decide(std::vector{trial.times(), other});
  }
  return trial.choice();
}

TEST(TrialTest, TheFastestStaysWhateverTheModelSays) {
  const TuningQuestion question{.bytes = 64 << 10, .ranks = 2};
  for (const Algorithm winner : {Algorithm::kMailbox, Algorithm::kRing}) {
    const auto ns = [&](Algorithm algorithm) { return algorithm == winner ? 10.0F : 20.0F; };
    EXPECT_EQ(outcome(question, ns), winner);
  }
}

TEST(TrialTest, APreemptionDecidesNothing) {
  int calls = 0;
  const auto ns = [&](Algorithm algorithm) {
    if (++calls % 5 == 0) return 1e6F;
    return algorithm == Algorithm::kRing ? 10.0F : 20.0F;
  };
  EXPECT_EQ(outcome({.bytes = 64 << 10, .ranks = 2}, ns), Algorithm::kRing);
}

TEST(TrialTest, TheSlowestRankCounts) {
  Trial trial;
  trial.begin({.bytes = 64 << 10, .ranks = 2}, {});
  ASSERT_FALSE(trial.decided());
  const Algorithm first = trial.next();
  static_cast<void>(trial.took(10));
  const Algorithm second = trial.next();
  ASSERT_NE(first, second);
  const Trial::Times mine{10, 20, 1000, 1000}, theirs{50, 20, 1000, 1000};
  trial.decide(std::vector{mine, theirs});
  EXPECT_EQ(trial.choice(), second);
}

TEST(TrialTest, WhereOneIsFarAheadNothingIsTried) {
  Trial trial;
  trial.begin({.bytes = 8, .ranks = 2}, {});
  EXPECT_EQ(trial.choice(), Algorithm::kPacket);
}

// The model takes all ranks for equally far, so that two levels never look good to it.
TEST(TrialTest, WhereThereAreGroupsTwoLevelsAreTried) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{64} << 10U, std::size_t{4} << 20U}) {
    const TuningQuestion question{.bytes = bytes, .ranks = 8, .shape = {.groups = 2, .largest = 4}};
    const auto near_wins = [](Algorithm algorithm) {
      return algorithm == Algorithm::kTwoLevel ? 10.0F : 20.0F;
    };
    EXPECT_EQ(outcome(question, near_wins), Algorithm::kTwoLevel) << bytes;
    const auto near_loses = [](Algorithm algorithm) {
      return algorithm == Algorithm::kTwoLevel ? 20.0F : 10.0F;
    };
    EXPECT_NE(outcome(question, near_loses), Algorithm::kTwoLevel) << bytes;
  }
}

TEST(TrialTest, WhatCannotServeIsNotTried) {
  Trial trial;
  trial.begin({.bytes = 64 << 20, .ranks = 2}, {});
  for (std::uint32_t i = 0; i != Trial::kCandidatesMax * Trial::kRounds && !trial.decided(); ++i) {
    EXPECT_NE(trial.next(), Algorithm::kRegistered);
    EXPECT_NE(trial.next(), Algorithm::kSingleCopy);
    EXPECT_NE(trial.next(), Algorithm::kPacket);
    EXPECT_NE(trial.next(), Algorithm::kTwoLevel);
    if (trial.took(1)) break;
  }
}

}  // namespace
}  // namespace imex::exchange
