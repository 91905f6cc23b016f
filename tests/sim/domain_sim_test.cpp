// Hundreds of histories of the domain per run. A failing seed replays with `sim --seed N` and then
// becomes a named test here.
#include "domain_sim.hpp"

#include <cstdlib>
#include <iostream>

#include <gtest/gtest.h>

namespace imex::sim {
namespace {

// One thread and a virtual clock: ThreadSanitizer has nothing to find here but that it builds.
#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 8;
#elif defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kSeeds = 100;
#else
constexpr std::uint64_t kSeeds = 400;
#endif
constexpr std::uint64_t kSeedsForAllMarks = 100;

// Each must be reached by the histories of one run; otherwise the run proves less than it says.
constexpr const char* kMarks[] = {"killed after append of a session",
                                  "killed after append of a session's end",
                                  "killed after append of an id block",
                                  "killed after append of an importer",
                                  "killed after append of an assignment",
                                  "killed after append of a grant",
                                  "killed between two effects",
                                  "killed at rest",
                                  "daemon stopped in order",
                                  "torn journal tail",
                                  "append on a full disk",
                                  "journal written anew",
                                  "daemon resumed",
                                  "daemon replaced",
                                  "peer instance ended",
                                  "session resumed",
                                  "link lost",
                                  "node cut off",
                                  "partition moved",
                                  "killed during a revocation",
                                  "channel released",
                                  "silent importer killed",
                                  "export quiescent",
                                  "exported anew",
                                  "handle forged",
                                  "importer told",
                                  "importer told of an end in order",
                                  "export ended while its daemon was away",
                                  "exporter told",
                                  "import answered with ok",
                                  "import answered with permission_denied",
                                  "import answered with stale",
                                  "import answered with not_found",
                                  "import answered with unavailable"};

TEST(DomainSimTest, NoSeedBreaksARule) {
  const char* first_text = std::getenv("IMEX_SIM_SEED");
  const std::uint64_t first = first_text != nullptr ? std::strtoull(first_text, nullptr, 10) : 1;
  std::map<std::string, std::uint64_t> marks;
  for (std::uint64_t seed = first; seed != first + kSeeds; ++seed) {
    const SimResult result = run_domain_sim({seed, false});
    ASSERT_EQ(result.violation, "")
        << "seed " << result.seed << ": replay with sim --seed " << result.seed;
    for (const auto& [mark, times] : result.marks) marks[mark] += times;
  }
  std::cout << "seeds " << first << " to " << first + kSeeds - 1 << '\n';
  for (const auto& [mark, times] : marks) std::cout << "reached: " << mark << " x" << times << '\n';
  if (kSeeds < kSeedsForAllMarks) return;
  for (const char* mark : kMarks) EXPECT_GT(marks[mark], 0U) << "never reached: " << mark;
}

TEST(DomainSimTest, OneSeedGivesOneHistory) {
  const SimResult a = run_domain_sim({11, true});
  const SimResult b = run_domain_sim({11, true});
  EXPECT_EQ(a.history, b.history);
  EXPECT_EQ(a.marks, b.marks);
  EXPECT_NE(a.history, run_domain_sim({12, true}).history);
}

}  // namespace
}  // namespace imex::sim
