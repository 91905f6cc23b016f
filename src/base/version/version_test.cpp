#include "base/version.hpp"

#include <regex>

#include <gtest/gtest.h>

namespace imex {
namespace {

TEST(VersionTest, LineHasTheShapeThatScriptsParse) {
  const std::regex shape(R"(imex \d+\.\d+\.\d+ \(git [^ ,]+, [^ ,]+, backends [a-z,]+\))");
  EXPECT_TRUE(std::regex_match(version_line(), shape)) << version_line();
}

TEST(VersionTest, LineNamesTheProjectVersionOfThisBuild) {
  EXPECT_EQ(build_info().version, IMEX_TEST_PROJECT_VERSION);
  EXPECT_NE(version_line().find(IMEX_TEST_PROJECT_VERSION), std::string::npos);
}

}  // namespace
}  // namespace imex
