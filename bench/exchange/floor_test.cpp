#include "exchange/floor.hpp"

#include <string_view>

#include <gtest/gtest.h>

#include "exchange/bench_cores.hpp"
#include "peers/placement.h"

namespace imex::bench {
namespace {

TEST(OperationTest, NamesAreThoseOfTheCommandLine) {
  for (const OperationFacts& facts : operations()) {
    EXPECT_EQ(operation_from_name(facts.name), facts.operation);
  }
  EXPECT_EQ(facts_of(Operation::kReduceScatter).name, "reduce-scatter");
  EXPECT_FALSE(operation_from_name("all_reduce"));
}

TEST(OperationTest, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kReduceScatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllToAll, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kBroadcast, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kReduce, 4), 1);
}

TEST(OperationTest, SharesTakeSizesThatCanBeCut) {
  EXPECT_EQ(granularity(Operation::kAllReduce, DataType::kFloat16, 4), 2U);
  EXPECT_EQ(granularity(Operation::kAllGather, DataType::kFloat16, 4), 8U);
  EXPECT_EQ(granularity(Operation::kBarrier, DataType::kFloat16, 4), 0U);
}

TEST(FloorTest, AllReduceOfTwoRanksMovesWhatTheRuleSays) {
  const Moves kept = moves_of(Operation::kAllReduce, 64 * 1000, 2, false);
  EXPECT_DOUBLE_EQ(kept.read + kept.written, 2000);  // 2N/64
  const Moves registered = moves_of(Operation::kAllReduce, 64 * 1000, 2, true);
  EXPECT_DOUBLE_EQ(registered.swapped, 500);  // N/2/64
  EXPECT_DOUBLE_EQ(registered.read + registered.written, 0);
}

TEST(FloorTest, SmallVectorsMoveALineAndABarrierNone) {
  EXPECT_DOUBLE_EQ(moves_of(Operation::kAllGather, 8, 2, false).read, 1);
  EXPECT_DOUBLE_EQ(moves_of(Operation::kAllReduce, 8, 2, true).swapped, 1);
  const Moves none = moves_of(Operation::kBarrier, 0, 2, false);
  EXPECT_DOUBLE_EQ(none.read + none.written + none.swapped, 0);
  EXPECT_DOUBLE_EQ(floor_us(none, {.hand_off = 120}), 0.12);
}

TEST(FloorTest, EachKindOfLineHasItsCost) {
  const Moves moves{.swapped = 100, .read = 10, .written = 1, .hand_offs = 2};
  EXPECT_DOUBLE_EQ(floor_us(moves, {.hand_off = 50, .swapped = 10, .read = 5, .written = 3}),
                   (2 * 50 + 100 * 10 + 10 * 5 + 1 * 3) / 1000.0);
}

TEST(FloorTest, NoOperationIsCheaperRegisteredThanNothingNorDearerThanPrivate) {
  const LineCosts costs{.hand_off = 60, .swapped = 8, .read = 6, .written = 4};
  for (const OperationFacts& facts : operations()) {
    for (const std::uint32_t ranks : {2U, 3U, 8U}) {
      const double kept = floor_us(moves_of(facts.operation, 1 << 20, ranks, false), costs);
      const double registered = floor_us(moves_of(facts.operation, 1 << 20, ranks, true), costs);
      EXPECT_GT(registered, 0) << facts.name;
      EXPECT_LE(registered, kept) << facts.name << " of " << ranks;
    }
  }
}

TEST(PlacementTest, NearAndFarMeetAtOneRoundTrip) {
  EXPECT_EQ(std::string_view(core_distance(100, 179)), "moved") << "1.79 times as far";
  EXPECT_EQ(std::string_view(core_distance(120, 179)), "near");
  EXPECT_EQ(std::string_view(core_distance(180, 181)), "far");
  EXPECT_EQ(std::string_view(core_distance(179, 181)), "moved");
  EXPECT_EQ(std::string_view(core_distance(350, 330)), "far");
  EXPECT_EQ(std::string_view(core_distance(38, 39)), "hyperthreads");
  EXPECT_EQ(std::string_view(core_distance(350, 90)), "moved");
  EXPECT_EQ(std::string_view(core_distance(200, 390)), "moved");
}

TEST(BenchCoresTest, ThreadsOfOneCoreComeLast) {
  const auto pairs = [](unsigned core) { return std::to_string(core / 2); };
  EXPECT_EQ(spread({2, 3, 4, 5, 7}, pairs), (std::vector<unsigned>{2, 4, 7, 3, 5}));
  EXPECT_FALSE(bench_cores().empty());
}

TEST(BenchCoresTest, APinnedThreadIsLetGo) {
  const auto before = bench_cores();
  {
    const auto pinned = Pinned::to(before.back());
    ASSERT_TRUE(pinned) << pinned.error().to_string();
    EXPECT_EQ(bench_cores(), std::vector<unsigned>{before.back()});
  }
  EXPECT_EQ(bench_cores(), before);
}

}  // namespace
}  // namespace imex::bench
