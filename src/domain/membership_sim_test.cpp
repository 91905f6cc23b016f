// Memberships of a whole domain over a simulated network: delays, one-way and full partitions,
// killed, stopped, resumed and rebooted daemons, moved addresses, list edits, a second daemon with
// a stolen id. Checkers watch every effect; after the faults stop the domain must be whole again
// within a bound.
//
// A failing seed is replayed alone with IMEX_SIM_SEED=<seed>.
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "membership_sim_cluster.hpp"

namespace imex::domain::membership_sim {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 60;  // each is some ten times slower there
#else
constexpr std::uint64_t kSeeds = 300;
#endif

TEST(MembershipSimTest, EveryHistoryOfFaultsEndsInAWholeDomain) {
  std::uint64_t first = 1, count = kSeeds;
  if (const char* seed = std::getenv("IMEX_SIM_SEED")) {
    first = std::strtoull(seed, nullptr, 10);
    count = 1;
  }
  std::size_t connects = 0, ends = 0, silences = 0, duplicates = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(fmt::format("replay with IMEX_SIM_SEED={}", seed));
    Cluster cluster(seed);
    cluster.run();
    connects += cluster.connects;
    ends += cluster.ends;
    silences += cluster.silences;
    duplicates += cluster.duplicates;
    if (HasFailure()) return;
  }
  if (count == 1) return;
  // The faults must have bitten, or the run proves nothing.
  EXPECT_GT(connects, 10 * count);
  EXPECT_GT(ends, count);
  EXPECT_GT(silences, count);
  EXPECT_GT(duplicates, count);
}

}  // namespace
}  // namespace imex::domain::membership_sim
