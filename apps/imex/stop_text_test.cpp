#include "stop_text.hpp"

#include <gtest/gtest.h>

namespace imex::cli {
namespace {

std::string given_out(StopText& stop, const std::vector<std::string>& pieces) {
  std::string out;
  for (const std::string& piece : pieces) out += stop.add(piece);
  return out + stop.finish("");
}

TEST(StopTextTest, EndsAtTheFirstStringHoweverItComes) {
  for (const auto& pieces : std::vector<std::vector<std::string>>{
           {"one END two"}, {"one E", "N", "D two"}, {"o", "n", "e", " ", "E", "N", "D", "!"}}) {
    StopText stop({"END", "two"});
    EXPECT_EQ(given_out(stop, pieces), "one ");
    EXPECT_TRUE(stop.found());
  }
}

TEST(StopTextTest, WhatOnlyBeginsLikeAStringComesOutLater) {
  StopText stop({"END", ""});
  EXPECT_EQ(stop.add("an E"), "an ");
  EXPECT_EQ(stop.add("ENx"), "EENx");
  EXPECT_EQ(stop.add("EN"), "");
  EXPECT_EQ(stop.finish(""), "EN");
  EXPECT_FALSE(stop.found());
}

TEST(StopTextTest, WithoutStringsNothingIsHeldBack) {
  StopText stop({});
  EXPECT_EQ(stop.add("abc"), "abc");
}

}  // namespace
}  // namespace imex::cli
