#include "locality.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace imex::exchange {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

os::CoreMask cores(std::initializer_list<unsigned> numbers) {
  os::CoreMask mask{};
  for (const unsigned core : numbers) mask[core / 64] |= std::uint64_t{1} << core % 64;
  return mask;
}

TEST(LocalityTest, IsTheCacheAndTheNodeThatHoldAllCores) {
  // Two NUMA nodes, each with two L3 caches of two cores.
  const auto topology = Topology::synthetic("node:2 l3:2 core:2 pu:1");
  ASSERT_TRUE(topology);
  const auto of = [&](std::initializer_list<unsigned> numbers) {
    const Locality found = topology->locality_of(cores(numbers));
    return std::pair(found.cache, found.node);
  };
  EXPECT_EQ(of({0, 1}), std::pair(0U, 0U));
  EXPECT_EQ(of({3}), std::pair(2U, 0U));
  EXPECT_EQ(of({6}), std::pair(6U, 1U));
  EXPECT_EQ(of({1, 2}), std::pair(kNowhere, 0U)) << "two caches of one node";
  EXPECT_EQ(of({3, 4}), std::pair(kNowhere, kNowhere)) << "two nodes";
  EXPECT_EQ(of({}), std::pair(kNowhere, kNowhere)) << "the kernel did not say";
  EXPECT_EQ(of({600}), std::pair(kNowhere, kNowhere)) << "no core of this machine";
}

TEST(LocalityTest, OfThisMachineIsTheSameForAllThreads) {
  const os::CoreMask mask = os::core_mask();
  const Locality first = Topology::of_this_machine().locality_of(mask);
  const Locality again = Topology::of_this_machine().locality_of(mask);
  EXPECT_EQ(first.cache, again.cache);
  EXPECT_EQ(first.node, again.node);
}

std::vector<Locality> at_caches(std::initializer_list<std::uint32_t> caches) {
  std::vector<Locality> by_rank;
  for (const std::uint32_t cache : caches) by_rank.push_back({.cache = cache, .node = 0});
  return by_rank;
}

TEST(GroupRanksTest, ByCacheInTheOrderOfTheirFirstRanks) {
  EXPECT_THAT(group_ranks(at_caches({8, 8, 0, 0})),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(group_ranks(at_caches({4, 0, 4, 4})),
              ElementsAre(ElementsAre(0, 2, 3), ElementsAre(1)));
}

TEST(GroupRanksTest, NoneWhereTheyMakeNoTwoLevels) {
  EXPECT_THAT(group_ranks(at_caches({0, 0, 0})), IsEmpty()) << "all are near";
  EXPECT_THAT(group_ranks(at_caches({0, 2, 4})), IsEmpty()) << "nobody is near another";
  EXPECT_THAT(group_ranks(at_caches({0, 0, kNowhere})), IsEmpty()) << "one is not pinned";
}

TEST(GroupRanksTest, ByNodeWhereCachesDoNot) {
  const std::vector<Locality> own_caches{{0, 0}, {2, 0}, {4, 1}, {6, 1}};
  EXPECT_THAT(group_ranks(own_caches), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  const std::vector<Locality> loose{{kNowhere, 0}, {0, 0}, {kNowhere, 1}};
  EXPECT_THAT(group_ranks(loose), ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
}

}  // namespace
}  // namespace imex::exchange
