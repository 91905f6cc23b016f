/// Where tests find their data: kept in the repository, or shared beside it, which may be missing.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

namespace imex::inference::testing {

/// A file of tests/data/inference, or of $IMEX_TEST_DATA.
inline std::string test_data(const std::string& name) {
  const char* const elsewhere = std::getenv("IMEX_TEST_DATA");
  return (elsewhere != nullptr ? std::string(elsewhere) : IMEX_TEST_DATA) + "/" + name;
}

/// A file of shared/models beside the repository, or under $IMEX_SHARED; it need not exist.
inline std::string shared_model(const std::string& name) {
  const char* const elsewhere = std::getenv("IMEX_SHARED");
  return (elsewhere != nullptr ? std::string(elsewhere) : IMEX_SHARED) + "/models/" + name;
}

/// In the cache of the user, if somebody has put it there; $IMEX_TEST_SMOLLM2 names another place.
inline std::string smollm2_path() {
  if (const char* const path = std::getenv("IMEX_TEST_SMOLLM2")) return path;
  std::string cache;
  if (const char* const own = std::getenv("IMEX_CACHE_DIR")) {
    cache = own;
  } else if (const char* const user = std::getenv("XDG_CACHE_HOME")) {
    cache = std::string(user) + "/imex";
  } else if (const char* const home = std::getenv("HOME")) {
    cache = std::string(home) + "/.cache/imex";
  }
  return cache + "/models/smollm2-135m.gguf";
}
constexpr const char* kNoSmollm2 =
    " is not there; run 'imex model fetch smollm2-135m' or set IMEX_TEST_SMOLLM2";

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace imex::inference::testing

/// Ends the test with a reason where the shared file is missing.
#define IMEX_NEEDS_SHARED_MODEL(name)                                                     \
  if (!std::filesystem::exists(::imex::inference::testing::shared_model(name)))           \
  GTEST_SKIP() << ::imex::inference::testing::shared_model(name) << " is not there; set " \
               << "IMEX_SHARED to the folder that has models/" << (name)
