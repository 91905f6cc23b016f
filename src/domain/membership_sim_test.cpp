// Memberships of a whole domain over a simulated network: delays, one-way and full partitions,
// killed, stopped, frozen, resumed and rebooted daemons, machines that sleep, moved addresses, list
// edits, a second daemon with a stolen id, events told twice; under every quorum. Checkers watch
// every effect; after the faults stop the domain must be whole again within a bound.
//
// A failing seed is replayed alone with IMEX_SIM_SEED=<seed>.
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "membership_sim_cluster.hpp"

namespace imex::domain::membership_sim {
namespace {

// One thread and a virtual clock: ThreadSanitizer has nothing to find here but that it builds.
#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 4;
#elif defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kSeeds = 40;
#else
constexpr std::uint64_t kSeeds = 300;
#endif

// Each must be reached by the histories of one run; otherwise the run proves less than it says.
constexpr const char* kMarks[] = {"address moved",
                                  "all machines asleep",
                                  "cable cut",
                                  "cable cut one way",
                                  "daemon killed",
                                  "daemon resumed",
                                  "daemon started",
                                  "daemon stopped for a while",
                                  "daemon stopped in order",
                                  "duplicate refused",
                                  "event repeated",
                                  "id stolen",
                                  "identity lost",
                                  "list edited",
                                  "machine isolated",
                                  "machine lost power",
                                  "peer ended",
                                  "peer joined",
                                  "peer returned",
                                  "peer silent",
                                  "status WAITING_FOR_PEERS",
                                  "status WAITING_FOR_RECOVERY",
                                  "status READY",
                                  "status SHUTTING_DOWN"};

TEST(MembershipSimTest, EveryHistoryOfFaultsEndsInAWholeDomain) {
  std::uint64_t first = 1, count = kSeeds;
  if (const char* seed = std::getenv("IMEX_SIM_SEED")) {
    first = std::strtoull(seed, nullptr, 10);
    count = 1;
  }
  std::map<std::string, std::uint64_t> marks;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(fmt::format("replay with IMEX_SIM_SEED={}", seed));
    Cluster cluster(seed);
    cluster.run();
    for (const auto& [mark, times] : cluster.marks) marks[mark] += times;
    if (HasFailure()) return;
  }
  for (const auto& [mark, times] : marks) std::cout << "reached: " << mark << " x" << times << '\n';
  if (count < 40) return;  // too few for every fault
  for (const char* mark : kMarks) EXPECT_GT(marks[mark], 0U) << "never reached: " << mark;
  // The faults must have bitten, or the run proves nothing.
  EXPECT_GT(marks["peer joined"], 10 * count);
  EXPECT_GT(marks["peer ended"], count);
  EXPECT_GT(marks["peer silent"], count);
  EXPECT_GT(marks["duplicate refused"], count);
}

}  // namespace
}  // namespace imex::domain::membership_sim
