#include <gmock/gmock.h>

#include "tenant_commands.hpp"

namespace imex::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

GpuWish to(std::uint32_t index, std::optional<std::string> partition) {
  return {index, std::move(partition)};
}

TEST(GpuWishesTest, NothingSaidLeavesItToTheVpc) {
  const auto wishes = gpu_wishes({}, 4);
  ASSERT_TRUE(wishes);
  EXPECT_FALSE(wishes->has_value());
}

TEST(GpuWishesTest, APartitionAloneMeansAllGpusOfTheType) {
  InstanceOptions options;
  options.partition = "a";
  EXPECT_THAT(**gpu_wishes(options, 2), ElementsAre(to(0, "a"), to(1, "a")));
  const auto unknown = gpu_wishes(options, std::nullopt);
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().hint, HasSubstr("--gpus"));
}

TEST(GpuWishesTest, ANumberTakesTheFirstGpus) {
  InstanceOptions options;
  options.partition = "a";
  options.gpus = 3;
  EXPECT_THAT(**gpu_wishes(options, 4), ElementsAre(to(0, "a"), to(1, "a"), to(2, "a")));
  options.gpus = 0;
  EXPECT_THAT(**gpu_wishes(options, 4), ElementsAre());
}

TEST(GpuWishesTest, GpusAreNamedOneByOneInAnyOrder) {
  InstanceOptions options;
  options.partition = "a";
  options.gpu = {"3", "1=b", "0=none"};
  EXPECT_THAT(**gpu_wishes(options, 4), ElementsAre(to(0, std::nullopt), to(1, "b"), to(3, "a")));
}

TEST(GpuWishesTest, WhatCannotBeMeantIsRefused) {
  const auto refused = [](std::optional<std::uint32_t> gpus, std::vector<std::string> gpu) {
    InstanceOptions options;
    options.gpus = gpus;
    options.gpu = std::move(gpu);
    const auto wishes = gpu_wishes(options, 4);
    return !wishes && wishes.error().code == Errc::kInvalidArgument;
  };
  EXPECT_TRUE(refused(4, {}));        // in which partition?
  EXPECT_TRUE(refused(4, {"0=a"}));   // both
  EXPECT_TRUE(refused({}, {"0"}));    // in which partition?
  EXPECT_TRUE(refused({}, {"0="}));   // nothing behind =
  EXPECT_TRUE(refused({}, {"x=a"}));  // no index
  EXPECT_TRUE(refused({}, {"-1=a"}));
  EXPECT_TRUE(refused({}, {"1=a", "1=b"}));  // twice
}

}  // namespace
}  // namespace imex::cli
