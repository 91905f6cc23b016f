// The shipped protocol templates over random executions: more ranks and longer histories than the
// exhaustive model can walk, with a rank that dies or an abort at any step. A failure prints its
// seed; IMEX_SIMULATION_SEED=N runs that one alone.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/simulated_ranks.hpp"

namespace imex::exchange {
namespace {

using memory::Site;
using memory::model::Interruption;
using memory::model::Mutations;
using memory::model::Report;
using testing_kit::Checker;
using testing_kit::RoundKind;
using testing_kit::SimulatedRanks;
using testing_kit::Simulation;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kSeeds = 8;
constexpr std::size_t kLength = 1;  // of histories: their cost grows with its square
#else
constexpr std::uint64_t kSeeds = 200;
constexpr std::size_t kLength = 2;
#endif

constexpr std::uint64_t kStepsOfARound = 30;  // per rank, about: where interruptions are drawn from

std::optional<std::uint64_t> only_seed() {
  const char* text = std::getenv("IMEX_SIMULATION_SEED");
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

/// One execution: the seed draws the schedule, and whether a rank dies or all are aborted, and
/// when; for some of the seeds after all have ended.
Report simulate(const Simulation& plan, std::uint64_t seed, Mutations mutations = {}) {
  mutations.yields_are_waits = true;
  Checker checker(std::move(mutations));
  const SimulatedRanks ranks(checker, plan);
  std::mt19937_64 random(~seed);
  const std::uint64_t steps = plan.rounds.size() * plan.ranks * kStepsOfARound;
  Interruption interruption{.before_step = steps, .killed = std::nullopt, .raised = ranks.alarm()};
  if (random() % 4 != 0) interruption.killed = random() % plan.ranks;
  return checker.run_random({.seed = seed, .interruption = interruption});
}

/// Runs the seeds, or the one that is asked for.
void expect_all_right(const std::function<Simulation(std::uint64_t seed)>& plan,
                      std::uint64_t seeds) {
  std::uint64_t steps = 0;
  for (std::uint64_t seed = only_seed().value_or(1); seed <= only_seed().value_or(seeds); ++seed) {
    const Report report = simulate(plan(seed), seed);
    steps += report.states;
    ASSERT_TRUE(report.proven()) << "replay with IMEX_SIMULATION_SEED=" << seed << ": "
                                 << report.counterexample.value_or("it did not end");
  }
  std::printf("[ walked   ] %llu steps\n", static_cast<unsigned long long>(steps));
}

void expect_right(const Simulation& plan, std::uint64_t seeds) {
  expect_all_right([&](std::uint64_t) { return plan; }, seeds);
}

/// Some seed finds the mistake out.
void expect_found(const Simulation& plan, const Mutations& mutations, const std::string& by) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Report report = simulate(plan, seed, mutations);
    if (!report.counterexample) continue;
    EXPECT_NE(report.counterexample->find(by), std::string::npos) << *report.counterexample;
    std::printf("[ found    ] by seed %llu: %s\n", static_cast<unsigned long long>(seed),
                report.counterexample->substr(0, report.counterexample->find('\n')).c_str());
    return;
  }
  FAIL() << "no seed up to " << kSeeds << " finds it";
}

std::vector<RoundKind> many(RoundKind kind, std::size_t count) {
  return std::vector<RoundKind>(count, kind);
}

Mutations weaken(Site site) { return {.orders = {{site, std::memory_order_relaxed}}}; }

TEST(SimulationTest, AnyMixtureOfProtocolsOnOneLane) {
  const auto plan = [](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    Simulation drawn{.ranks = 4, .rounds = {}};
    for (std::size_t round = 0; round != 5 * kLength; ++round)
      drawn.rounds.push_back(static_cast<RoundKind>(random() % 5));
    return drawn;
  };
  expect_all_right(plan, kSeeds);
}

TEST(SimulationTest, EachProtocolForLongAmongManyRanks) {
  expect_right({.ranks = 8, .rounds = many(RoundKind::kPacket, 4 * kLength)}, kSeeds / 4);
  expect_right({.ranks = 8, .rounds = many(RoundKind::kMailbox, 3 * kLength)}, kSeeds / 5);
  expect_right({.ranks = 6, .rounds = many(RoundKind::kRing, 1 + kLength)}, kSeeds / 5);
  expect_right({.ranks = 7, .rounds = many(RoundKind::kInPlace, 3 * kLength)}, kSeeds / 5);
  expect_right({.ranks = 8, .rounds = many(RoundKind::kBarrier, 3 * kLength)}, kSeeds / 5);
}

TEST(SimulationTest, TheSameSeedIsTheSameExecution) {
  const Simulation plan{.ranks = 4, .rounds = many(RoundKind::kPacket, 5)};
  const Report once = simulate(plan, 7, weaken(Site::kSlotPoll));
  const Report again = simulate(plan, 7, weaken(Site::kSlotPoll));
  EXPECT_EQ(once.states, again.states);
  EXPECT_EQ(once.counterexample, again.counterexample);
  EXPECT_NE(once.states, simulate(plan, 8).states);
}

TEST(SimulationTest, WeakerOrdersAreFound) {
  const Simulation packets{.ranks = 5, .rounds = many(RoundKind::kPacket, 5)};
  expect_found(packets, weaken(Site::kSlotPublish), "data race");
  expect_found(packets, weaken(Site::kSlotPoll), "data race");
  const Simulation rings{.ranks = 4, .rounds = many(RoundKind::kRing, 3)};
  expect_found(rings, weaken(Site::kCreditReturn), "data race");
  expect_found(rings, weaken(Site::kCreditPoll), "data race");
}

TEST(SimulationTest, SlotsReusedEarlyAreFound) {
  expect_found({.ranks = 5, .rounds = many(RoundKind::kPacket, 5), .packet_slots = 1}, {}, "");
  expect_found({.ranks = 4, .rounds = many(RoundKind::kRing, 3), .believed_slots = 3}, {}, "");
}

TEST(SimulationTest, WaitsThatDoNotLookAtTheAbortWordAreFound) {
  const Simulation plan{.ranks = 5, .rounds = many(RoundKind::kPacket, 4)};
  expect_found(plan, {.dropped = {Site::kAbortPoll}}, "nobody can go on");
  expect_found(plan, {.dropped = {Site::kAbortTrip}}, "nobody can go on");
}

}  // namespace
}  // namespace imex::exchange
