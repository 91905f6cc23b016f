#include "json/json.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace imex::json {
namespace {

using ::testing::HasSubstr;

Error refused(std::string_view text, const Limits& limits = {}) {
  const auto found = parse(text, "it", limits);
  EXPECT_FALSE(found) << text;
  return found ? Error{} : found.error();
}

TEST(JsonTest, ValuesAreTheSameAsOfThePlainParser) {
  for (const char* text :
       {"null", "true", "-1", "18446744073709551615", "1.5e3", R"("é\u00e9\ud83d\ude00")", "[]",
        "{}", R"({"a":[1,{"b":[[],{}]},"x"],"b":{"a":null,"b":false}})", " [1 , 2 ]\n"}) {
    const auto found = parse(text, "it");
    ASSERT_TRUE(found) << text << ": " << found.error().to_string();
    EXPECT_EQ(*found, nlohmann::json::parse(text)) << text;
  }
}

TEST(JsonTest, WhatIsNoJsonIsRefusedWithItsPlaceAndWithoutItsText) {
  EXPECT_EQ(refused("{\"password\": x}").message, "it: not JSON at byte 14");
  for (const char* text : {"", "{", "[1,]", "1 2", "{'a':1}", "nul", "\"\xff\"", "[1]]", "01",
                           "\"\x01\"", "\"\\ud800\"", "NaN", "// 1"}) {
    EXPECT_EQ(refused(text).code, Errc::kInvalidArgument) << text;
  }
  EXPECT_THAT(refused("1e999").message, HasSubstr("number out of range"));
}

TEST(JsonTest, AKeyThatAppearsTwiceIsRefusedAtEveryDepth) {
  EXPECT_EQ(refused(R"({"a":1,"b":2,"a":1})").message, "it: key 'a' appears twice");
  EXPECT_THAT(refused(R"([{"x":{"k":1,"k":2}}])").message, HasSubstr("'k'"));
  EXPECT_THAT(refused(R"({"é":1,"\u00e9":1})").message, HasSubstr("twice"));
  EXPECT_TRUE(parse(R"({"a":{"a":{"a":1}},"b":{"a":1}})", "it"));
}

TEST(JsonTest, BoundsHoldAtTheirLastValue) {
  const Limits limits{.bytes_max = 20, .depth_max = 3, .values_max = 4};
  EXPECT_TRUE(parse("[[[]]]", "it", limits));
  EXPECT_EQ(refused("[[[[]]]]", limits).code, Errc::kResourceExhausted);
  EXPECT_TRUE(parse("[1,2,3]", "it", limits));
  EXPECT_EQ(refused("[1,2,3,4]", limits).code, Errc::kResourceExhausted);
  EXPECT_TRUE(parse(std::string(19, ' ') + "1", "it", limits));
  EXPECT_EQ(refused(std::string(20, ' ') + "1", limits).code, Errc::kResourceExhausted);
  const std::string deep(1'000'000, '[');
  EXPECT_EQ(refused(deep).code, Errc::kResourceExhausted);
}

TEST(JsonTest, FieldsAreGivenByTypeOrNamed) {
  const nlohmann::json object = {{"s", "x"},     {"u", 7U},  {"i", -7},          {"b", true},
                                 {"n", nullptr}, {"f", 1.5}, {"big", UINT64_MAX}};
  EXPECT_EQ(*required_string(object, "s"), "x");
  EXPECT_EQ(*required_u64(object, "u"), 7U);
  EXPECT_EQ(*required_i64(object, "i"), -7);
  EXPECT_EQ(*required_i64(object, "u"), 7);
  EXPECT_EQ(*required_bool(object, "b"), true);
  EXPECT_EQ(*optional_string(object, "n"), std::nullopt);
  EXPECT_EQ(*optional_u64(object, "none"), std::nullopt);
  EXPECT_EQ(required_string(object, "none").error().message, "'none' is missing: want a string");
  EXPECT_EQ(required_string(object, "u").error().message, "'u' must be a string, not number");
  EXPECT_FALSE(required_u64(object, "i"));
  EXPECT_FALSE(required_u64(object, "f"));
  EXPECT_FALSE(required_i64(object, "big"));
  EXPECT_FALSE(optional_bool(object, "s"));
  EXPECT_FALSE(required_string(nlohmann::json::array(), "s"));
}

TEST(JsonTest, WritesWhatIsNoUtf8WithoutThrowing) {
  EXPECT_EQ(text_of({{"a", "\xff"}}), "{\"a\":\"\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace imex::json
