#include "config/key_value.hpp"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace imex::config {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> flat(const std::vector<Assignment>& assignments) {
  std::vector<std::string> result;
  for (const Assignment& line : assignments) {
    result.push_back(std::to_string(line.line_number) + "|" + line.key + "|" + line.value);
  }
  return result;
}

std::vector<std::string> texts(const std::vector<Problem>& problems) {
  std::vector<std::string> result;
  for (const Problem& problem : problems) result.push_back(problem.to_string());
  return result;
}

TEST(KeyValueTest, BlanksCommentsAndLineEndsAreCut) {
  Findings findings;
  const auto lines = parse_key_values(
      "\xEF\xBB\xBF# head\r\n\r\n  A = 1 \r\n\tB\t=\tx # y\t\n   # C=3\nD=\nE=a=b\n F=\"q\"", "f",
      findings);
  EXPECT_THAT(flat(lines), ElementsAre("3|A|1", "4|B|x # y", "6|D|", "7|E|a=b", "8|F|\"q\""));
  EXPECT_THAT(findings.errors(), IsEmpty());
  EXPECT_THAT(findings.warnings(), IsEmpty());
}

TEST(KeyValueTest, LaterDuplicateWinsWithAWarning) {
  Findings findings;
  EXPECT_THAT(flat(parse_key_values("A=1\nB=2\nA=3\nA=4\n", "f", findings)),
              ElementsAre("4|A|4", "2|B|2"));
  EXPECT_THAT(findings.warning_lines(), ElementsAre("f:3: A: replaces the value of line 1",
                                                    "f:4: A: replaces the value of line 3"));
}

TEST(KeyValueTest, MalformedLinesAreErrorsAndTheOthersStillCount) {
  Findings findings;
  const std::string text = "oops\n=1\nA B=1\nA=" + std::string(257, 'x') +
                           "\nB=" + std::string(256, 'x') + "\nC=\x01\n" + std::string(129, 'K') +
                           "=1\nD=1\nD\xC3\xA9=1\n";
  const auto lines = parse_key_values(text, "f", findings);
  EXPECT_THAT(flat(lines), ElementsAre("5|B|" + std::string(256, 'x'), "8|D|1"));
  EXPECT_THAT(texts(findings.errors()),
              ElementsAre("f:1: 'oops' is no KEY=VALUE", "f:2: no key before '='",
                          "f:3: 'A B' is no key: up to 128 letters, digits and _ - .",
                          "f:4: A: value of 257 characters, at most 256 are allowed",
                          "f:6: C: value holds control characters",
                          "f:7: '" + std::string(40, 'K') +
                              "...' is no key: up to 128 letters, digits and _ - .",
                          "f:9: 'D\xC3\xA9' is no key: up to 128 letters, digits and _ - ."));
}

TEST(KeyValueTest, ReportsAreBoundedAndSayWhatIsLeftOut) {
  std::string text;
  for (int i = 0; i < 150; ++i) text += "bad\n";
  Findings findings;
  EXPECT_THAT(parse_key_values(text, "f", findings), IsEmpty());
  EXPECT_EQ(findings.errors().size(), Findings::kKept);
  const auto checked = findings.check();
  ASSERT_FALSE(checked);
  EXPECT_TRUE(checked.error().message.ends_with("\nand 50 more"));
}

TEST(KeyValueTest, HugeTextIsRefused) {
  Findings findings;
  EXPECT_THAT(parse_key_values(std::string(kTextBytesMax + 1, '\n'), "f", findings), IsEmpty());
  EXPECT_THAT(texts(findings.errors()),
              ElementsAre("f: 1048577 bytes, at most 1048576 are allowed"));
}

// Goal: no byte sequence crashes the parser, every assignment it gives obeys the limits, and every
// line is accounted for. Method: random texts from an alphabet of the characters that mean
// something.
TEST(KeyValueTest, RandomTextKeepsTheLimits) {
  constexpr std::string_view kAlphabet("AB_=# \t\r\n\0\x7f\xff", 12);
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (auto size = random() % 80; size > 0; --size)
      text += kAlphabet[random() % kAlphabet.size()];
    Findings findings;
    for (const Assignment& line : parse_key_values(text, "f", findings)) {
      ASSERT_FALSE(line.key.empty());
      ASSERT_EQ(line.key.find_first_not_of("AB_"), std::string::npos);
      ASSERT_EQ(line.value.find_first_of(std::string_view("\n\r\0\x7f", 4)), std::string::npos);
      ASSERT_TRUE(line.value.empty() || (line.value.front() != ' ' && line.value.back() != ' '));
      ASSERT_LE(line.line_number, 80U);
    }
  }
}

}  // namespace
}  // namespace imex::config
