#include "inference/catalogue/catalogue.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "os/file.hpp"

namespace imex::inference {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// Nothing set that says where models lie or whether they may come; put back at the end.
class CatalogueTest : public ::testing::Test {
 protected:
  static constexpr const char* kNames[] = {"IMEX_CACHE_DIR",
                                           "NIM_CACHE_PATH",
                                           "XDG_CACHE_HOME",
                                           "HOME",
                                           "IMEX_DISABLE_MODEL_DOWNLOAD",
                                           "NIM_DISABLE_MODEL_DOWNLOAD"};
  CatalogueTest() {
    for (const char* const name : kNames) {
      const char* const value = std::getenv(name);
      if (value != nullptr) former_.emplace_back(name, value);
      ::unsetenv(name);
    }
  }
  ~CatalogueTest() override {
    for (const char* const name : kNames) ::unsetenv(name);
    for (const auto& [name, value] : former_) ::setenv(name.c_str(), value.c_str(), 1);
    EXPECT_TRUE(os::remove_tree(folder_));
  }
  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  [[nodiscard]] std::string put(const std::string& path, std::uint64_t bytes) const {
    const std::string file = folder_ + "/" + path;
    fs::create_directories(fs::path(file).parent_path());
    std::ofstream(file) << "x";
    fs::resize_file(file, bytes);
    return file;
  }
  std::string folder_ = *os::make_temporary_directory("catalogue");

 private:
  std::vector<std::pair<std::string, std::string>> former_;
};

std::string folder_now() {
  const auto cache = ModelCache::from_environment();
  return cache ? cache->folder : cache.error().to_string();
}

TEST_F(CatalogueTest, TheFolderIsTheFirstThatTheEnvironmentNames) {
  EXPECT_THAT(folder_now(), HasSubstr("IMEX_CACHE_DIR"));
  set("HOME", "/home/a");
  EXPECT_EQ(folder_now(), "/home/a/.cache/imex");
  set("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(folder_now(), "/xdg/imex");
  set("NIM_CACHE_PATH", "/opt/nim/.cache");
  EXPECT_EQ(folder_now(), "/opt/nim/.cache");
  set("IMEX_CACHE_DIR", "");
  EXPECT_EQ(folder_now(), "/opt/nim/.cache");  // empty is unset
  set("IMEX_CACHE_DIR", "/own");
  EXPECT_EQ(folder_now(), "/own");
}

TEST_F(CatalogueTest, OurVariableDecidesOverNimsWhetherToFetch) {
  set("HOME", "/home/a");
  EXPECT_EQ(ModelCache::from_environment()->fetch_switched_off_by, "");
  set("NIM_DISABLE_MODEL_DOWNLOAD", "1");
  EXPECT_EQ(ModelCache::from_environment()->fetch_switched_off_by, "NIM_DISABLE_MODEL_DOWNLOAD");
  set("IMEX_DISABLE_MODEL_DOWNLOAD", "False");
  EXPECT_EQ(ModelCache::from_environment()->fetch_switched_off_by, "");
  set("IMEX_DISABLE_MODEL_DOWNLOAD", "true");
  EXPECT_EQ(ModelCache::from_environment()->fetch_switched_off_by, "IMEX_DISABLE_MODEL_DOWNLOAD");
}

TEST_F(CatalogueTest, WhatExistsIsAPathWhateverItsName) {
  set("IMEX_CACHE_DIR", folder_);
  const std::string file = put("some.gguf", 3);
  EXPECT_EQ(find_model(file).value(), file);
  EXPECT_EQ(find_model(folder_).value(), folder_);
}

TEST_F(CatalogueTest, ANameIsTheFileInTheCache) {
  set("IMEX_CACHE_DIR", folder_);
  const auto absent = find_model("smollm2-135m");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Errc::kNotFound);
  EXPECT_THAT(absent.error().message, HasSubstr(folder_ + "/models/smollm2-135m.gguf"));
  EXPECT_THAT(absent.error().hint, HasSubstr("imex model fetch smollm2-135m"));

  const std::string file = put("models/smollm2-135m.gguf", 98'362'432);  // a hole, no bytes
  EXPECT_EQ(find_model("smollm2-135m").value(), file);

  fs::resize_file(file, 98'362'431);
  const auto damaged = find_model("smollm2-135m");
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, Errc::kDataLoss);
  EXPECT_THAT(damaged.error().message, HasSubstr("98362432 bytes wanted, 98362431 found"));
}

TEST_F(CatalogueTest, WhatIsNeitherPathNorNameGetsTheListOfNames) {
  set("HOME", folder_);
  const auto unknown = find_model("gpt-7");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Errc::kNotFound);
  EXPECT_THAT(unknown.error().message, HasSubstr("'gpt-7'"));
  EXPECT_THAT(unknown.error().hint, HasSubstr("smollm2-135m"));
  EXPECT_THAT(unknown.error().hint, HasSubstr("imex model fetch"));
  EXPECT_FALSE(find_model(""));
}

TEST_F(CatalogueTest, EveryModelIsPinned) {
  for (const CatalogueModel& model : catalogue()) {
    EXPECT_EQ(model.sha256.size(), 64U) << model.name;
    EXPECT_GT(model.size_bytes, 0U) << model.name;
    EXPECT_THAT(std::string(model.requirement), HasSubstr("==")) << model.name;
    EXPECT_FALSE(model.licence.empty()) << model.name;
  }
}

}  // namespace
}  // namespace imex::inference
