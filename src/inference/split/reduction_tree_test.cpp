#include "inference/split/reduction_tree.hpp"

#include <string>

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

namespace imex::inference {
namespace {

using ::testing::ElementsAre;

/// The additions of a subtree as text: ((0+1)+2).
std::string written(const Range& subtree) {
  if (subtree.size() == 1) return std::to_string(subtree.begin);
  const std::uint32_t middle = middle_of(subtree);
  return "(" + written({subtree.begin, middle}) + "+" + written({middle, subtree.end}) + ")";
}

std::string added_by(std::uint32_t leaves, const std::vector<Range>& owned) {
  const TreeSum sum(leaves, owned);
  std::vector<std::string> stack;
  for (const TreeSum::Step& step : sum.steps()) {
    stack.push_back(written(maximal_subtrees(leaves, owned[step.rank])[step.index]));
    EXPECT_LE(stack.size(), sum.depth());
    for (std::uint32_t i = 0; i < step.additions; ++i) {
      const std::string right = stack.back();
      stack.pop_back();
      stack.back() = "(" + stack.back() + "+" + right + ")";
    }
  }
  EXPECT_EQ(stack.size(), 1U);
  return stack.back();
}

TEST(ReductionTreeTest, TheLeftSubtreeIsAPowerOfTwo) {
  EXPECT_EQ(written({0, 1}), "0");
  EXPECT_EQ(written({0, 2}), "(0+1)");
  EXPECT_EQ(written({0, 5}), "(((0+1)+(2+3))+4)");
  EXPECT_EQ(written({0, 9}), "((((0+1)+(2+3))+((4+5)+(6+7)))+8)");
}

TEST(ReductionTreeTest, ARankHandsOverItsMaximalSubtrees) {
  EXPECT_THAT(maximal_subtrees(9, {0, 9}), ElementsAre(Range{0, 9}));
  EXPECT_THAT(maximal_subtrees(9, {0, 5}), ElementsAre(Range{0, 4}, Range{4, 5}));
  EXPECT_THAT(maximal_subtrees(9, {5, 9}), ElementsAre(Range{5, 6}, Range{6, 8}, Range{8, 9}));
  EXPECT_THAT(maximal_subtrees(9, {3, 3}), ElementsAre());
}

RC_GTEST_PROP(ReductionTreeTest, TheOrderOfAdditionsDoesNotDependOnTheRanks, ()) {
  const auto leaves = *rc::gen::inRange<std::uint32_t>(1, 70);
  const auto ranks = *rc::gen::inRange<std::uint32_t>(1, std::min(leaves, 9U) + 1);
  auto cuts = *rc::gen::unique<std::vector<std::uint32_t>>(
      ranks - 1, rc::gen::inRange<std::uint32_t>(1, std::max(2U, leaves)));
  std::ranges::sort(cuts);
  std::vector<Range> owned;
  std::uint32_t begin = 0;
  for (const std::uint32_t cut : cuts) {
    owned.push_back({begin, cut});
    begin = cut;
  }
  owned.push_back({begin, leaves});
  RC_ASSERT(added_by(leaves, owned) == written({0, leaves}));
}

}  // namespace
}  // namespace imex::inference
