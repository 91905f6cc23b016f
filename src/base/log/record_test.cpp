#include "record.hpp"

#include <time.h>

#include <cmath>
#include <cstdlib>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace imex::log {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using WallTime = std::chrono::system_clock::time_point;

/// Local time is UTC+2 for the test.
class RecordTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "IMEX-2", 1);
    ::tzset();
  }
  void TearDown() override {
    ::unsetenv("TZ");
    ::tzset();
  }
};

constexpr WallTime kMarch25{seconds(1'742'892'114) +
                            milliseconds(938)};  // 2025-03-25 08:41:54.938 UTC

TEST_F(RecordTest, TextHasTheShapeOfNvidiaImex) {
  EXPECT_EQ(render_text({kMarch25, Level::kInfo, 38, "text"}),
            "[Mar 25 2025 10:41:54] [INFO] [tid 38] text");
  const WallTime early{seconds(1'735'689'599)};
  EXPECT_EQ(render_text({early, Level::kWarn, 7, "x"}),
            "[Jan 01 2025 01:59:59] [WARNING] [tid 7] x");
  EXPECT_EQ(render_text({early, Level::kCritical, 7, "x"}),
            "[Jan 01 2025 01:59:59] [CRITICAL] [tid 7] x");
  EXPECT_EQ(render_text({early, Level::kError, 7, "x"}),
            "[Jan 01 2025 01:59:59] [ERROR] [tid 7] x");
}

TEST_F(RecordTest, HeadlineHasNoLeadingZerosInItsDate) {
  EXPECT_EQ(headline(kMarch25), "IMEX Log initializing at: 3/25/2025 10:41:54.938");
  EXPECT_EQ(headline(WallTime(seconds(1'735'700'000) + milliseconds(5))),
            "IMEX Log initializing at: 1/1/2025 04:53:20.005");
}

TEST_F(RecordTest, TimesBeforeTheEpochKeepPositiveFractions) {
  EXPECT_EQ(headline(WallTime(milliseconds(-1))),
            "IMEX Log initializing at: 1/1/1970 01:59:59.999");
}

TEST_F(RecordTest, FieldsFollowTheTextInTheirOrder) {
  const Field fields[] = {{"node", 3},   {"big", UINT64_MAX}, {"ratio", 0.5},
                          {"up", true},  {"name", "plain"},   {"path", "a b"},
                          {"empty", ""}, {"quote", "a\"b\\"}};
  EXPECT_EQ(
      render_plain({kMarch25, Level::kInfo, 1, "joined", fields}),
      "joined node=3 big=18446744073709551615 ratio=0.5 up=true name=plain path=\"a b\" empty=\"\" "
      "quote=\"a\\\"b\\\\\"");
}

// A peer's name must not be able to forge a line.
TEST_F(RecordTest, BytesFromOutsideStayOnOneLine) {
  const std::string evil = "x\n[Mar 25 2025 10:41:54] [INFO] [tid 1] forged\r\t\x1b[2J\x7f";
  const Field fields[] = {{"name", evil}};
  for (const auto& render : {render_text, render_plain, render_json}) {
    const std::string line = render({kMarch25, Level::kInfo, 1, evil, fields});
    for (const char c : line) EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20) << line;
  }
  EXPECT_EQ(render_plain({kMarch25, Level::kInfo, 1, "a\n\x01", {}}), "a\\n\\x01");
}

TEST_F(RecordTest, JsonHasTypedFieldsAndUtcTime) {
  const Field fields[] = {{"node", 3}, {"text", "clash"}, {"up", false}, {"rate", std::nan("")}};
  const std::string line = render_json({kMarch25, Level::kError, 38, "lost \"peer\"", fields});
  EXPECT_EQ(line,
            R"({"time":"2025-03-25T08:41:54.938Z","level":"error","tid":38,"text":"lost \"peer\"",)"
            R"("node":3,"field_text":"clash","up":false,"rate":"nan"})");
}

TEST_F(RecordTest, JsonIsValidWhateverTheBytes) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const Field fields[] = {{"bytes", all}};
  const auto parsed =
      nlohmann::json::parse(render_json({kMarch25, Level::kInfo, 1, all, fields}), nullptr, false);
  ASSERT_FALSE(parsed.is_discarded());
  EXPECT_TRUE(parsed["text"].get<std::string>().starts_with(std::string("\0\x01\x02", 3)));
}

TEST_F(RecordTest, SecretsShowAsStars) {
  const Secret secret("hunter2");
  const Field fields[] = {{"password", secret}};
  EXPECT_EQ(render_plain({kMarch25, Level::kInfo, 1, "login", fields}), "login password=***");
  EXPECT_EQ(fmt::format("{} {:>5}", secret, secret), "***   ***");
  std::ostringstream out;
  out << secret;
  EXPECT_EQ(out.str(), "***");
  EXPECT_EQ(secret.reveal(), "hunter2");
  EXPECT_EQ(::testing::PrintToString(secret), "***");
}

TEST_F(RecordTest, LevelNumbersAreThoseOfTheConfiguration) {
  EXPECT_EQ(*level_from_number(0), Level::kOff);
  EXPECT_EQ(*level_from_number(2), Level::kError);
  EXPECT_EQ(*level_from_number(4), Level::kInfo);
  EXPECT_EQ(*level_from_number(6), Level::kTrace);
  EXPECT_FALSE(level_from_number(7));
  EXPECT_FALSE(level_from_number(-1));
  EXPECT_EQ(level_name(Level::kWarn), "warn");
}

}  // namespace
}  // namespace imex::log
