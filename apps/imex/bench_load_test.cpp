// `imex bench load`, as a user runs it.
#include <filesystem>

#include "generate_fixture.hpp"
#include "inference/format/tensor.hpp"

namespace imex::cli {
namespace {

using BenchLoadTest = GenerateTest;

Words operations_of(const Json& rows) {
  Words words;
  for (const Json& row : rows) {
    words.push_back(row["operation"].get<std::string>() + " " + row["source"].get<std::string>());
  }
  return words;
}

TEST_F(BenchLoadTest, HoldsEachWayOfLoadingAgainstReadingTheSameFiles) {
  const std::string path = folder_ + "/tiny.gguf";
  inference::testing::TinyModel sizes;
  sizes.hidden = 64;
  sizes.feed_forward = 96;
  sizes.vocabulary = 320;
  inference::testing::write_tiny_gguf(path, sizes, inference::TensorType::kQ41, {});
  const Json rows = json({"bench", "load", "--model", path, "--rounds", "2"})["results"];
  EXPECT_THAT(operations_of(rows),
              ::testing::IsSupersetOf(
                  {"read_memory page cache", "load_first page cache", "load_again page cache"}));
  for (const Json& row : rows) {
    EXPECT_EQ(row["n"], 2);
    EXPECT_GT(row["gb_per_second"].get<double>(), 0);
    EXPECT_EQ(row.contains("share_of_limit"),
              row["operation"].get<std::string>().starts_with("load_"));
  }
  // What it packed was its own.
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/cache"));
}

TEST_F(BenchLoadTest, AModelThatIsMappedAsItIsHasNothingToLoadAgain) {
  const Json rows = json({"bench", "load", "--model", model_, "--rounds", "1"})["results"];
  EXPECT_THAT(operations_of(rows), ::testing::Not(::testing::Contains("load_again page cache")));
}

TEST_F(BenchLoadTest, AMissingModelIsNamed) {
  EXPECT_EQ(run({"bench", "load", "--model", folder_ + "/none.gguf"}), 1);
  EXPECT_THAT(err(), ::testing::HasSubstr("none.gguf"));
}

}  // namespace
}  // namespace imex::cli
