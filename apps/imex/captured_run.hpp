/// For tests: the program inside the test's process, with what it printed.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tree.hpp"

namespace imex::cli {

struct CapturedRun {
  int status;
  std::string out, err;
};

/// `words` without the name of the program.
inline CapturedRun run_captured(std::vector<std::string> words) {
  words.insert(words.begin(), "imex");
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  CommandTree tree;
  const int status = tree.run(static_cast<int>(arguments.size()), arguments.data());
  return {status, ::testing::internal::GetCapturedStdout(),
          ::testing::internal::GetCapturedStderr()};
}

}  // namespace imex::cli
