#include "state_file.hpp"

#include <gtest/gtest.h>

#include "os/file.hpp"

namespace imex::rack {
namespace {

class RackStateFile : public testing::Test {
 protected:
  RackStateFile() : directory_(os::make_temporary_directory("imex-rack-state").value()) {}
  ~RackStateFile() override { static_cast<void>(os::remove_tree(directory_)); }
  [[nodiscard]] std::string path() const { return directory_ + "/rack-0.json"; }

 private:
  std::string directory_;
};

TEST_F(RackStateFile, WhatIsWrittenIsRead) {
  DomainState state{.topology = "t",
                    .seed = 7,
                    .partitions = {},
                    .last_id = 3,
                    .tray_generations = {0, 2},
                    .cliques = {{~0ULL, 5}},
                    .config = {{"fm_config", {{"A", "b"}}}},
                    .cages_down = {65},
                    .faults = {}};
  state.partitions.push_back({.id = 3,
                              .name = "n",
                              .kind = PartitionKind::kByUid,
                              .members = {{{{1, 2, 1}, 4}, ~0ULL}},
                              .mode = ResiliencyMode::kFullBandwidth,
                              .groups = 16});
  Fault fault{.kind = FaultKind::kSlow,
              .method = "Hello",
              .probability = 0.25,
              .starts = Time{-5},
              .ends = Time{900}};
  fault.delay = std::chrono::seconds(2);
  state.faults.push_back(fault);
  ASSERT_TRUE(write_state_file(path(), state_text(state)));
  const auto read = read_state_file(path());
  ASSERT_TRUE(read && *read);
  EXPECT_EQ((*read)->partitions, state.partitions);
  EXPECT_EQ((*read)->cliques, state.cliques);
  EXPECT_EQ((*read)->config, state.config);
  EXPECT_EQ((*read)->tray_generations, state.tray_generations);
  ASSERT_EQ((*read)->faults.size(), 1U);
  EXPECT_EQ((*read)->faults[0].starts, Time{-5});
  EXPECT_EQ((*read)->faults[0].ends, Time{900});
  EXPECT_EQ((*read)->faults[0].delay, std::chrono::seconds(2));
  EXPECT_DOUBLE_EQ((*read)->faults[0].probability, 0.25);
}

TEST_F(RackStateFile, MissingIsNothingAndDamageIsAnError) {
  const auto missing = read_state_file(path());
  ASSERT_TRUE(missing);
  EXPECT_FALSE(*missing);
  for (const char* text : {"", "{}", "[]", R"({"format":"imex-rack-state","version":2})",
                           R"({"format":"imex-rack-state","version":1})"}) {
    const auto state = parse_state(text, "file");
    ASSERT_FALSE(state) << text;
    EXPECT_EQ(state.error().code, Errc::kDataLoss);
  }
}

}  // namespace
}  // namespace imex::rack
