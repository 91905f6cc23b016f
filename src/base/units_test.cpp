#include "base/units.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace imex {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(UnitsTest, SizesAreRead) {
  struct Case {
    std::string_view text;
    std::uint64_t bytes;
  };
  for (const auto& [text, bytes] : std::to_array<Case>({{"0", 0},
                                                        {"64", 64},
                                                        {"64B", 64},
                                                        {"4K", 4096},
                                                        {"4KiB", 4096},
                                                        {"4KB", 4000},
                                                        {"1.5KiB", 1536},
                                                        {"1M", 1U << 20U},
                                                        {"2MiB", 2U << 20U},
                                                        {"2MB", 2'000'000},
                                                        {"1G", 1U << 30U},
                                                        {"3GiB", 3ULL << 30U},
                                                        {"1TiB", 1ULL << 40U},
                                                        {"2TB", 2'000'000'000'000}})) {
    const auto size = parse_size(text);
    ASSERT_TRUE(size) << text;
    EXPECT_EQ(*size, bytes) << text;
  }
}

TEST(UnitsTest, DurationsAreRead) {
  struct Case {
    std::string_view text;
    nanoseconds duration;
  };
  for (const auto& [text, duration] : std::to_array<Case>({{"0", nanoseconds(0)},
                                                           {"30", seconds(30)},
                                                           {"30s", seconds(30)},
                                                           {"250ms", milliseconds(250)},
                                                           {"1.5s", milliseconds(1500)},
                                                           {"7us", microseconds(7)},
                                                           {"9ns", nanoseconds(9)},
                                                           {"2m", minutes(2)},
                                                           {"1h", minutes(60)}})) {
    const auto parsed = parse_duration(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(*parsed, duration) << text;
  }
}

TEST(UnitsTest, MalformedTextIsRefusedWithTheFormExpected) {
  for (const std::string_view text :
       {"",    " ",        "x",     "-1",   "+1",   "1 ",  " 1", "1 KiB",
        "1kb", "1KIB",     "1e3",   "0x10", "1..5", "1.",  ".5", "nan",
        "inf", "infinity", "1KiBx", "KiB",  "1,5K", "--1", "."}) {
    const auto size = parse_size(text);
    ASSERT_FALSE(size) << text;
    EXPECT_EQ(size.error().code, Errc::kInvalidArgument);
    EXPECT_NE(size.error().message.find(text), std::string::npos);
    EXPECT_FALSE(size.error().hint.empty()) << text;
    EXPECT_FALSE(parse_duration(text)) << text;
  }
  EXPECT_FALSE(parse_duration("1d"));
  EXPECT_FALSE(parse_duration("1MS"));
}

TEST(UnitsTest, NumbersThatDoNotFitAreRefused) {
  EXPECT_FALSE(parse_size("9223372036854775808"));
  EXPECT_FALSE(parse_size("8388608TiB"));
  EXPECT_FALSE(parse_size("99999999999999999999999999"));
  EXPECT_FALSE(parse_size("0.5")) << "half a byte";
  EXPECT_FALSE(parse_size("1.0001KiB"));
  EXPECT_FALSE(parse_size("1.0000000KiB")) << "seven decimals";
  EXPECT_TRUE(parse_size("9223372036854775807"));
  EXPECT_FALSE(parse_duration("9223372037s"));
  EXPECT_FALSE(parse_duration("2562048h"));
  EXPECT_TRUE(parse_duration("2562047h"));
}

// Every size up to 2^63 written out in bytes comes back exactly, and in each unit that divides it.
RC_GTEST_PROP(UnitsTest, WholeSizesAreReadExactly, ()) {
  const auto shift = *rc::gen::element(0U, 10U, 20U, 30U, 40U);
  const auto bits = *rc::gen::inRange(1U, 63U - shift);
  const std::uint64_t number = *rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << bits);
  constexpr std::array<std::string_view, 5> kSuffixes = {"", "KiB", "MiB", "GiB", "TiB"};
  const std::string text = std::to_string(number) + std::string(kSuffixes[shift / 10]);
  RC_ASSERT(parse_size(text).value() == number << shift);
}

RC_GTEST_PROP(UnitsTest, WholeDurationsAreReadExactly, ()) {
  struct Unit {
    std::string suffix;
    std::int64_t ns;
  };
  const std::array<Unit, 6> units = {{{"ns", 1},
                                      {"us", 1'000},
                                      {"ms", 1'000'000},
                                      {"s", 1'000'000'000},
                                      {"m", 60'000'000'000},
                                      {"h", 3'600'000'000'000}}};
  const Unit& unit = units[*rc::gen::inRange<std::size_t>(0, units.size())];
  const auto number =
      *rc::gen::inRange<std::int64_t>(0, std::numeric_limits<std::int64_t>::max() / unit.ns);
  RC_ASSERT(parse_duration(std::to_string(number) + unit.suffix).value() ==
            nanoseconds(number * unit.ns));
}

/// "1.5 GiB" -> "1.5GiB", as the parsers take it.
std::string without_blank(std::string text) {
  std::erase(text, ' ');
  return text;
}

// What is shown is rounded to two places: read back it is within half a hundredth of its unit,
// which is at most 0.5 % of the value.
RC_GTEST_PROP(UnitsTest, ShownDurationsAreReadBackNearly, ()) {
  const auto bits = *rc::gen::inRange(1U, 62U);
  const auto ns = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << bits);
  const auto back = parse_duration(without_blank(format_duration(nanoseconds(ns))));
  RC_ASSERT(back.has_value());
  const double error = std::abs(static_cast<double>(back->count() - ns));
  RC_ASSERT(error <= 0.5 + 0.005 * static_cast<double>(ns));
}

TEST(UnitsTest, SizesAreShownShort) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(64), "64 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1024), "1 KiB");
  EXPECT_EQ(format_size(2U << 20U), "2 MiB");
  EXPECT_EQ(format_size(3ULL << 29U), "1.5 GiB");
  EXPECT_EQ(format_size(1ULL << 50U), "1024 TiB");
}

TEST(UnitsTest, DurationsAreShownShort) {
  EXPECT_EQ(format_duration(nanoseconds(0)), "0 ns");
  EXPECT_EQ(format_duration(nanoseconds(1250)), "1.25 us");
  EXPECT_EQ(format_duration(milliseconds(250)), "250 ms");
  EXPECT_EQ(format_duration(seconds(30)), "30 s");
  EXPECT_EQ(format_duration(nanoseconds(-1250)), "-1.25 us");
}

TEST(UnitsTest, IntegersUseTheWholeTextAndKeepTheirRange) {
  EXPECT_EQ(parse_integer("42", 0, 100).value(), 42);
  EXPECT_EQ(parse_integer("-1", -1, 5).value(), -1);
  for (const std::string_view text :
       {"", "101", "-1", "4 ", " 4", "+4", "4x", "0x4", "4.0", "99999999999999999999"}) {
    const auto number = parse_integer(text, 0, 100);
    ASSERT_FALSE(number) << text;
    EXPECT_EQ(number.error().message,
              "'" + std::string(text) + "' is no whole number from 0 to 100");
  }
}

RC_GTEST_PROP(UnitsTest, EveryIntegerIsReadBack, (std::int64_t number)) {
  constexpr auto kLow = std::numeric_limits<std::int64_t>::min();
  constexpr auto kHigh = std::numeric_limits<std::int64_t>::max();
  RC_ASSERT(parse_integer(std::to_string(number), kLow, kHigh).value() == number);
}

}  // namespace
}  // namespace imex
