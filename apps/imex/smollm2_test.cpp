// The model of the main job against a float32 reference that shares no code with ours: see
// tests/data/inference/make_smollm2.py. Skips where the model is not in the cache.
#include <cmath>
#include <filesystem>

#include "generate_fixture.hpp"

namespace imex::cli {
namespace {

using inference::testing::smollm2_path;
using inference::testing::test_data;

class Smollm2GenerateTest : public GenerateTest {
 protected:
  void SetUp() override {
    GenerateTest::SetUp();
    if (!std::filesystem::exists(smollm2_path())) {
      GTEST_SKIP() << smollm2_path() << inference::testing::kNoSmollm2;
    }
    golden_ = Json::parse(inference::testing::read_text(test_data("smollm2.golden.json")));
  }
  Json golden_;
};

TEST_F(Smollm2GenerateTest, GreedyTextIsThatOfFloat32UpToNearTies) {
  // Logits of ours move by about 0.001 against float32 (inference.md 18.2.1).
  constexpr double kNearTie = 0.02;
  std::size_t compared = 0;
  for (const char* ranks : {"1", "2", "3"}) {
    for (const Json& one : golden_.at("prompts")) {
      const auto wanted = one.at("ids").get<std::vector<std::uint32_t>>();
      const Json result =
          json({"generate", "--model", smollm2_path(), "-T", ranks, "--temperature", "0",
                "--max-tokens", std::to_string(wanted.size()), "--", one.at("text")});
      EXPECT_EQ(result.at("prompt_ids"), one.at("prompt_ids")) << one.at("text");
      const auto ids = result.at("ids").get<std::vector<std::uint32_t>>();
      ASSERT_LE(ids.size(), wanted.size());
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] != wanted[i] && one.at("gaps")[i].get<double>() < kNearTie) break;
        ASSERT_EQ(ids[i], wanted[i])
            << one.at("text") << ", token " << i << ", " << ranks << " ranks";
        ++compared;
      }
      // Shorter only because the model ended its text.
      EXPECT_TRUE(ids.size() == wanted.size() || result.at("finish_reason") == "stop");
    }
  }
  EXPECT_GT(compared, 700U);  // of 1152: some end, some part at a tie
}

TEST_F(Smollm2GenerateTest, ARankTakesTheMemoryThatThePlanSays) {
  std::string prompt = "1";
  for (int i = 2; i < 200; ++i) prompt += ", " + std::to_string(i);
  const Json result = json({"generate", "--model", smollm2_path(), "-T", "2", "--temperature", "0",
                            "--max-tokens", "64", "--", prompt});
  const std::size_t context = result.at("prompt_ids").size() + 64;
  const Json plan =
      json({"model", "show", smollm2_path(), "-T", "2", "--context", std::to_string(context)})
          .at("split");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const Json& planned = plan.at("ranks")[rank];
    EXPECT_EQ(result.at("memory_bytes_per_rank")[rank], planned.at("total_bytes"));
    // Weights lie in the file's pages, which all ranks share; the rest is the rank's own.
    const auto taken = planned.at("weight_bytes").get<double>() +
                       result.at("ranks")[rank].at("private_bytes").get<double>();
    EXPECT_NEAR(taken / planned.at("total_bytes").get<double>(), 1, 0.05) << "rank " << rank;
  }
}

TEST_F(Smollm2GenerateTest, PerplexityIsThatOfFloat32AtEveryNumberOfRanks) {
  const Json& text = golden_.at("text");
  const std::string file = folder_ + "/text";
  std::ofstream(file) << text.at("text").get<std::string>();
  for (const char* ranks : {"1", "2", "3", "4", "9"}) {
    const Json result =
        json({"perplexity", "--model", smollm2_path(), "-T", ranks, "--file", file});
    EXPECT_EQ(result.at("tokens"), text.at("tokens"));
    EXPECT_NEAR(result.at("perplexity").get<double>() / std::exp(text.at("nll").get<double>()), 1,
                0.005)
        << ranks << " ranks";
  }
}

}  // namespace
}  // namespace imex::cli
