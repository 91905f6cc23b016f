// Random histories of requests, faults, crashes and lies around the shipped reconciler; rules are
// checked after each step. IMEX_SIM_SEED=N replays one, IMEX_SIM_SEEDS=N runs as many.
#include <cstdlib>
#include <iostream>
#include <set>

#include <gtest/gtest.h>

#include "partition_world.hpp"

namespace imex::partition_sim {
namespace {

using partition::reconciler::Decide;
using partition::reconciler::Decision;
using partition::reconciler::Desired;
using partition::reconciler::Memory;
using partition::reconciler::Observed;
using partition::reconciler::Operation;
using partition::reconciler::OperationKind;
using partition::reconciler::State;

#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 8;
#elif defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kSeeds = 60;
#else
constexpr std::uint64_t kSeeds = 400;
#endif
constexpr std::size_t kSteps = 600;
constexpr std::uint64_t kMutantSeeds = 600;

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void expect_sound(std::uint64_t seed) {
  HistoryResult result = run_history({.seed = seed}, kSteps);
  if (result.violation.empty()) return;
  result = run_history({.seed = seed, .keep_history = true}, kSteps);
  ADD_FAILURE() << "IMEX_SIM_SEED=" << seed << ": " << result.violation << '\n' << result.history;
}

TEST(PartitionSimTest, NoHistoryBreaksARule) {
  if (std::getenv("IMEX_SIM_SEED") != nullptr) return expect_sound(number_from("IMEX_SIM_SEED", 1));
  const std::uint64_t seeds = number_from("IMEX_SIM_SEEDS", kSeeds);
  const std::uint64_t first = number_from("IMEX_SIM_FIRST_SEED", 1);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    expect_sound(seed);
    if (::testing::Test::HasFailure()) return;
  }
}

// A run in which nothing happens proves nothing.
TEST(PartitionSimTest, HistoriesReachWhatTheyAreFor) {
  std::map<std::string, std::uint64_t> reached;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    for (const auto& [mark, times] : run_history({.seed = seed}, kSteps).marks)
      reached[mark] += times;
  }
  for (const char* mark : {"fault: refused",
                           "fault: lost",
                           "fault: silent",
                           "fault: late",
                           "fault: half done",
                           "fault: half refused",
                           "fault: pretended",
                           "fault: error but applied",
                           "fault: renamed",
                           "fault: exhausted",
                           "event lost",
                           "event doubled",
                           "manager not reachable",
                           "one list stale",
                           "both lists stale",
                           "operation: create",
                           "operation: add",
                           "operation: remove",
                           "operation: delete",
                           "operation: delete-default",
                           "store away",
                           "machine clear",
                           "partition adopted",
                           "crash before the answer",
                           "crash at rest",
                           "crash in a pass",
                           "partition deleted",
                           "machine given up",
                           "machine taken",
                           "partition dropped",
                           "GPU stolen",
                           "foreign partition",
                           "GPU missing or back",
                           "manager forgot everything",
                           "GPU taken out"}) {
    EXPECT_GT(reached[mark], 0U) << mark;
  }
}

// ---- Every rule can be broken: reconcilers that do one thing wrong are found.

/// Some history shows that the mutant breaks `rule`.
::testing::AssertionResult is_found(Decide mutant, const std::string& rule) {
  std::set<std::string> others;
  for (std::uint64_t seed = 1; seed <= kMutantSeeds; ++seed) {
    const std::string violation = run_history({.seed = seed, .decide = mutant}, kSteps).violation;
    const std::string broken = violation.substr(0, violation.find(':'));
    if (broken == rule) return ::testing::AssertionSuccess();
    if (!broken.empty()) others.insert(broken);
  }
  ::testing::AssertionResult failure = ::testing::AssertionFailure();
  failure << "no history of " << kMutantSeeds << " breaks '" << rule << "', but:";
  for (const std::string& other : others) failure << ' ' << other;
  return failure;
}

TEST(PartitionMutantTest, OfferingMachinesThatWereNotSeenClearIsFound) {
  EXPECT_TRUE(is_found(
      [](const Desired& desired, const Observed& observed, const Memory& memory, Time now,
         Nanos interval) {
        Decision decision = decide(desired, observed, memory, now, interval);
        for (auto& machine : decision.machines) machine.clear = true;
        return decision;
      },
      "release"));
}

/// A GPU joins its tenant's partition seconds after the call was given up; meanwhile the tenant has
/// given the machine up and another one waits for it.
std::string late_join_after_release(Decide decide) {
  World world({.seed = 5, .machines = 2, .decide = decide, .random_faults = false});
  Store& store = world.store();
  store.create_partition(1);
  store.create_partition(2);
  std::string broken;
  const auto drive_until = [&](auto condition) {
    for (int i = 0; i < 3'000 && broken.empty() && !condition(); ++i) broken = world.drive();
  };
  drive_until([&] { return store.is_offered(0) && store.is_offered(1); });
  static_cast<void>(store.take(0, 1) && store.take(1, 1));
  static_cast<void>(store.put(1, 0, 1) && store.put(1, 1, 1));
  world.wake();
  if (broken.empty()) broken = world.settle();
  static_cast<void>(store.put(0, 0, 1));
  world.arm(0, Fault::kLate);
  const std::size_t before = world.calls_made();
  world.wake();
  drive_until([&] { return world.calls_made() > before; });
  static_cast<void>(store.give_up(0));
  world.wake();
  drive_until([&] { return store.is_offered(0); });
  if (broken.empty() && !store.take(0, 2)) broken = "scene: not offered";
  return broken.empty() ? world.come_to_rest() : broken;
}

TEST(PartitionSimTest, MachineIsNotGivenOnWhileAJoinMayStillCome) {
  EXPECT_EQ(late_join_after_release(&partition::reconciler::decide), "");
}

TEST(PartitionMutantTest, ForgettingOperationsInDoubtIsFound) {
  const std::string broken =
      late_join_after_release([](const Desired& desired, const Observed& observed,
                                 const Memory& memory, Time now, Nanos interval) {
        Memory without = memory;
        without.traces.clear();
        return decide(desired, observed, without, now, interval);
      });
  EXPECT_EQ(broken.substr(0, broken.find(':')), "isolation");
}

TEST(PartitionMutantTest, BelievingOneLookIsFound) {
  EXPECT_TRUE(is_found(
      [](const Desired& desired, const Observed& observed, const Memory& memory, Time now,
         Nanos interval) {
        Memory believing = memory;
        believing.seen_clear.clear();
        for (const auto& gpu : observed.gpus) believing.seen_clear.push_back(gpu.uid);
        return decide(desired, observed, believing, now, interval);
      },
      "release"));
}

TEST(PartitionMutantTest, BelievingOneListIsFound) {
  EXPECT_TRUE(is_found(
      [](const Desired& desired, const Observed& observed, const Memory& memory, Time now,
         Nanos interval) {
        Observed one = observed;
        for (auto& gpu : one.gpus) {
          gpu.partition_id = 0;
          for (const auto& partition : one.partitions) {
            for (const auto uid : partition.members) {
              if (uid == gpu.uid) gpu.partition_id = partition.id;
            }
          }
        }
        return decide(desired, one, memory, now, interval);
      },
      "readiness"));
}

TEST(PartitionMutantTest, CallingEverythingReadyIsFound) {
  EXPECT_TRUE(is_found(
      [](const Desired& desired, const Observed& observed, const Memory& memory, Time now,
         Nanos interval) {
        Decision decision = decide(desired, observed, memory, now, interval);
        for (auto& gpu : decision.gpus) gpu.state = State::kReady;
        return decision;
      },
      "readiness"));
}

TEST(PartitionMutantTest, NotPuttingGpusWhereTheyAreWantedIsFound) {
  EXPECT_TRUE(is_found(
      [](const Desired& desired, const Observed& observed, const Memory& memory, Time now,
         Nanos interval) {
        Decision decision = decide(desired, observed, memory, now, interval);
        std::erase_if(decision.units, [](const auto& unit) {
          return unit.steps.back().operation.kind == OperationKind::kAdd;
        });
        return decision;
      },
      "convergence"));
}

TEST(PartitionMutantTest, LettingStrangersStayIsFound) {
  EXPECT_TRUE(is_found(
      [](const Desired& desired, const Observed& observed, const Memory& memory, Time now,
         Nanos interval) {
        Decision decision = decide(desired, observed, memory, now, interval);
        for (auto& unit : decision.units) {
          std::erase_if(unit.steps, [](const auto& step) {
            return step.operation.kind == OperationKind::kRemove;
          });
        }
        return decision;
      },
      "convergence"));
}

TEST(PartitionMutantTest, DeletingWhatIsNotOursIsFound) {
  EXPECT_TRUE(is_found(
      [](const Desired& desired, const Observed& observed, const Memory& memory, Time now,
         Nanos interval) {
        Decision decision = decide(desired, observed, memory, now, interval);
        for (const auto& drift : decision.drift) {
          Operation operation{.kind = OperationKind::kDelete,
                              .partition_id = drift.partition_id,
                              .name = drift.name};
          decision.units.push_back({{}, {{std::move(operation), std::nullopt, false}}});
        }
        return decision;
      },
      "trespass"));
}

TEST(PartitionMutantTest, GivingGpusToTheWrongTenantIsFound) {
  EXPECT_TRUE(is_found(
      [](const Desired& desired, const Observed& observed, const Memory& memory, Time now,
         Nanos interval) {
        // Whoever holds a machine, its first GPU is wanted by the first partition.
        Desired wrong = desired;
        if (!wrong.partitions.empty()) {
          for (auto& machine : wrong.machines) {
            if (machine.holder.is_nil()) continue;
            machine.holder = wrong.partitions[0].tenant;
            for (auto& partition : wrong.partitions) {
              std::erase(partition.members, machine.gpus[0]);
              partition.tenant = machine.holder;
            }
            wrong.partitions[0].members.push_back(machine.gpus[0]);
          }
        }
        return decide(wrong, observed, memory, now, interval);
      },
      "isolation"));
}

}  // namespace
}  // namespace imex::partition_sim
