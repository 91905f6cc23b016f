// Ctrl-C of `imex model fetch`, with the real program and a python3 that never ends.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "os/file.hpp"
#include "os/process.hpp"

namespace imex::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

TEST(ModelInterruptTest, NothingIsLeftBehind) {
  const std::string folder = *os::make_temporary_directory("model-interrupt");
  std::ofstream(folder + "/python3") << "#!/bin/sh\necho $$ > \"$TMPDIR/pid\"\nexec sleep 60\n";
  fs::permissions(folder + "/python3", fs::perms::owner_all);
  auto fetch =
      os::Child::start({.arguments = {IMEX_PROGRAM, "model", "fetch", "smollm2-135m", "--quiet"},
                        .environment = {{"PATH", folder + ":/usr/bin:/bin"},
                                        {"IMEX_CACHE_DIR", folder},
                                        {"IMEX_DISABLE_MODEL_DOWNLOAD", "0"}}});
  ASSERT_TRUE(fetch) << fetch.error().to_string();
  const std::string pid_file = folder + "/models/.smollm2-135m.fetch/tmp/pid";
  const auto deadline = steady_clock::now() + std::chrono::seconds(10);
  std::string pid;
  while (!pid.ends_with('\n')) {
    ASSERT_LT(steady_clock::now(), deadline);
    std::this_thread::yield();
    pid = os::read_file(pid_file).value_or("");
  }
  const auto began = steady_clock::now();
  ASSERT_TRUE(fetch->kill(SIGINT));
  EXPECT_EQ(fetch->wait(std::chrono::seconds(10)), 128 + SIGINT);
  EXPECT_LT(steady_clock::now() - began, std::chrono::seconds(1));
  EXPECT_NE(::kill(std::stoi(pid), 0), 0) << "the program that it started still runs";
  for (const auto& entry : fs::directory_iterator(folder + "/models")) {
    EXPECT_EQ(entry.path().filename(), ".smollm2-135m.lock");
  }
  EXPECT_TRUE(os::remove_tree(folder));
}

}  // namespace
}  // namespace imex::cli
