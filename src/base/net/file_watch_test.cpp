#include "net/file_watch.hpp"

#include <unistd.h>

#include <cstdio>
#include <fstream>

#include <gtest/gtest.h>

#include "os/file.hpp"

namespace imex::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class FileWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = os::make_temporary_directory("imex-file-watch-");
    ASSERT_TRUE(made);
    directory_ = *made;
    path_ = directory_ + "/file";
  }
  void TearDown() override { EXPECT_TRUE(os::remove_tree(directory_)); }

  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::trunc) << text;
  }
  void start() {
    auto watch = FileWatch::start(loop_, path_, [this] { ++changes_; });
    ASSERT_TRUE(watch) << watch.error().to_string();
    watch_ = std::move(*watch);
  }
  /// Waits for a change after the ones already counted.
  bool changed(Nanos within = seconds(10)) {
    const int before = changes_;
    return loop_.run_until([&] { return changes_ > before; }, loop_.now() + within);
  }

  EventLoop loop_;
  std::string directory_, path_;
  std::unique_ptr<FileWatch> watch_;
  int changes_ = 0;
};

TEST_F(FileWatchTest, SeesAFileThatAppearsIsWrittenReplacedAndRemoved) {
  start();
  write(path_, "a");
  EXPECT_TRUE(changed());
  write(path_, "b");
  EXPECT_TRUE(changed());
  write(directory_ + "/other", "c");
  ASSERT_EQ(std::rename((directory_ + "/other").c_str(), path_.c_str()), 0);
  EXPECT_TRUE(changed());
  write(path_, "after the replacement");
  EXPECT_TRUE(changed());
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  EXPECT_TRUE(changed());
}

TEST_F(FileWatchTest, IgnoresOtherFilesOfTheDirectory) {
  write(path_, "a");
  start();
  write(directory_ + "/other", "b");
  EXPECT_FALSE(changed(milliseconds(20)));
}

// A container's /etc/hosts is a bind mount of one file: its directory tells nothing.
TEST_F(FileWatchTest, SeesWritesThroughAnotherNameOfTheFile) {
  write(path_, "a");
  ASSERT_TRUE(os::make_directories(directory_ + "/elsewhere"));
  ASSERT_EQ(::link(path_.c_str(), (directory_ + "/elsewhere/name").c_str()), 0);
  start();
  write(directory_ + "/elsewhere/name", "b");
  EXPECT_TRUE(changed());
}

TEST_F(FileWatchTest, NeedsTheDirectory) {
  const auto watch = FileWatch::start(loop_, directory_ + "/none/file", [] {});
  ASSERT_FALSE(watch);
  EXPECT_EQ(watch.error().code, Errc::kNotFound);
}

}  // namespace
}  // namespace imex::net
