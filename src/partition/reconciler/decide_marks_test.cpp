// What one pass costs: 100 domains of 18 trays, all as wanted.
#include <sys/resource.h>

#include <cstdio>

#include <gtest/gtest.h>

#include "decide_fixture.hpp"

namespace imex::partition::reconciler {
namespace {

using testing::id_of;

double cpu_ms() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

TEST(DecideMarksTest, PassOver7200GpusInSync) {
  testing::World world;
  for (std::uint8_t lp = 1; lp <= 6; ++lp) {
    std::vector<GpuUid> members;
    for (std::uint8_t tray = static_cast<std::uint8_t>(3 * lp - 2); tray <= 3 * lp; ++tray) {
      world.tray(tray, lp);
      for (GpuUid i = 1; i <= 4; ++i) members.push_back(tray * 10U + i);
    }
    world.want(lp, lp, members).seen_ours(lp, lp, members);
  }
  const double before = cpu_ms();
  std::size_t ready = 0;
  for (int domain = 0; domain < 100; ++domain) {
    const Decision decision = world.decide();
    EXPECT_TRUE(decision.units.empty());
    for (const GpuStatus& gpu : decision.gpus) ready += gpu.state == State::kReady ? 1 : 0;
  }
  const double took = cpu_ms() - before;
  EXPECT_EQ(ready, 7'200U);
  std::printf("7200 GPUs in sync: %.1f ms of CPU\n", took);
  EXPECT_LT(took, 2'000);
}

}  // namespace
}  // namespace imex::partition::reconciler
