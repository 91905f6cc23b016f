/// Commands that run a model, as a user runs them: the real program, processes, signals.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "inference/testing/data.hpp"
#include "inference/testing/tiny_model.hpp"
#include "os/file.hpp"
#include "os/process.hpp"
#include "output.hpp"

namespace imex::cli {

using Words = std::vector<std::string>;
using Variables = std::vector<std::pair<std::string, std::string>>;

/// A tiny model of its own for each test, and a place for what programs leave.
class GenerateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto folder = os::make_temporary_directory("generate");
    ASSERT_TRUE(folder);
    folder_ = *folder;
    model_ = folder_ + "/tiny.bin";
    inference::testing::TinyModel sizes;
    sizes.vocabulary = 320;
    sizes.context = 30'000;
    inference::testing::write_tiny_llama2c(model_, sizes);
    inference::testing::write_tiny_tokenizer(folder_ + "/tok320.bin", sizes.vocabulary);
  }
  void TearDown() override { static_cast<void>(os::remove_tree(folder_)); }

  /// Starts the program with its output in files.
  os::Child start(Words words, Variables environment = {}, const std::string& in = "/dev/null") {
    words.insert(words.begin(), IMEX_PROGRAM);
    environment.emplace_back("IMEX_CACHE_DIR", folder_ + "/cache");
    const os::UniqueFd out(::open(out_path().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
    const os::UniqueFd input(::open(in.c_str(), O_RDONLY | O_CLOEXEC));
    const os::UniqueFd err(::open(err_path().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
    auto child = os::Child::start({.arguments = std::move(words),
                                   .environment = std::move(environment),
                                   .stdin_fd = input.get(),
                                   .stdout_fd = out.get(),
                                   .stderr_fd = err.get()});
    EXPECT_TRUE(child);
    return std::move(*child);
  }
  int run(Words words, Variables environment = {}, const std::string& in = "/dev/null") {
    return start(std::move(words), std::move(environment), in)
        .wait(std::chrono::seconds(60))
        .value_or(-1);
  }
  [[nodiscard]] std::string out_path() const { return folder_ + "/out"; }
  [[nodiscard]] std::string err_path() const { return folder_ + "/err"; }
  [[nodiscard]] std::string out() const { return inference::testing::read_text(out_path()); }
  [[nodiscard]] std::string err() const { return inference::testing::read_text(err_path()); }
  Json json(Words words) {
    words.insert(words.end(), {"--format", "json"});
    const auto at = std::ranges::find(words, "--");
    if (at != words.end()) std::rotate(at, words.end() - 2, words.end());
    EXPECT_EQ(run(words), 0) << err();
    return Json::parse(out());
  }
  /// Waits until the program has put something out.
  void await_text() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (out().size() < 20 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  static std::vector<std::int32_t> children_of(std::int32_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) +
                       "/children");
    std::vector<std::int32_t> pids;
    for (std::int32_t child = 0; file >> child;) pids.push_back(child);
    return pids;
  }

  std::string folder_, model_;
};

}  // namespace imex::cli
