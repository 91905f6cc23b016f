#include "tuner.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace imex::exchange {
namespace {

TEST(TunerTest, MeasuredCostsFlipTheChoice) {
  const TuningQuestion question{.bytes = 2000, .ranks = 2};
  // Where lines are cheap to move and a hand-off dear, everything at once; where moving lines is
  // dear, fewer moves and one hand-off more.
  EXPECT_EQ(choose(question, {.hop = 500, .line = 1}), Algorithm::kPacket);
  EXPECT_EQ(choose(question, {.hop = 10, .line = 50, .stream = 50}), Algorithm::kMailbox);
}

TEST(TunerTest, LargePrivateVectorsGoThroughTheKernelOnlyWherePermitted) {
  const TuningQuestion question{.bytes = 64 << 20, .ranks = 2};
  EXPECT_EQ(choose(question, {.kernel_page = 1, .kernel_allowed = true}), Algorithm::kSingleCopy);
  EXPECT_NE(choose(question, {.kernel_page = 1, .kernel_allowed = false}), Algorithm::kSingleCopy);
  EXPECT_TRUE(std::isinf(predict(Algorithm::kSingleCopy, question, {})));
}

TEST(TunerTest, RegisteredBuffersAreUsedFromSomeSizeOn) {
  EXPECT_EQ(choose({.bytes = 8, .ranks = 2, .registered = true}, {}), Algorithm::kPacket);
  EXPECT_EQ(choose({.bytes = 1 << 20, .ranks = 2, .registered = true}, {}), Algorithm::kRegistered);
  EXPECT_TRUE(std::isinf(predict(Algorithm::kRegistered, {.bytes = 1 << 20, .ranks = 2}, {})));
}

TEST(TunerTest, TwoLevelsNeedGroups) {
  TuningQuestion question{.bytes = 1 << 20, .ranks = 8};
  EXPECT_TRUE(std::isinf(predict(Algorithm::kTwoLevel, question, {})));
  question.shape = {.groups = 2, .largest = 4};
  EXPECT_FALSE(std::isinf(predict(Algorithm::kTwoLevel, question, {})));
  const TuningTable table(8, {}, question.shape);
  EXPECT_NE(table.explain(false, {}).find("two-level"), std::string::npos);
}

TEST(TunerTest, TheTableNeverAnswersWithWhatCannotServe) {
  for (const std::uint32_t ranks : {2U, 3U, 8U, 72U}) {
    const TuningTable table(ranks, {.line = 0.001});  // packets would win at every size
    for (std::size_t bytes = 1; bytes < std::size_t{1} << 33U; bytes += 1 + bytes / 7) {
      const Algorithm choice = table.choice(bytes, false);
      EXPECT_FALSE(std::isinf(predict(choice, {bytes, ranks, false}, table.costs())))
          << bytes << " bytes";
    }
  }
}

TEST(TunerTest, CostsFollowFromTwoTimes) {
  const Costs base;
  const Costs costs = costs_from(200, 1200, 2, base);
  EXPECT_NEAR(predict(Algorithm::kPacket, {.bytes = 2240, .ranks = 2}, costs), 1200, 60);
  EXPECT_NEAR(costs.stream / costs.line, base.stream / base.line, 1e-9);
  // A rank that was preempted in either measurement.
  const Costs odd = costs_from(1e7, 100, 2, base);
  EXPECT_LE(odd.hop, 5'000);
  EXPECT_GE(odd.line, 1);
}

TEST(TunerTest, ExplainsItself) {
  const std::string text = TuningTable(2, {.hop = 123}).explain(false, {});
  EXPECT_NE(text.find("hop 123"), std::string::npos) << text;
  EXPECT_NE(text.find("kernel copies not permitted here"), std::string::npos) << text;
}

}  // namespace
}  // namespace imex::exchange
