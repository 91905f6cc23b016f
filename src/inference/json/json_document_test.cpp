#include "inference/json/json_document.hpp"

#include <string>

#include <gmock/gmock.h>

namespace imex::inference {
namespace {

using ::testing::HasSubstr;

Error refused(std::string_view text) {
  JsonDocument document(4);
  const auto found = document.parse<simdjson::dom::object>(text, "a file");
  EXPECT_FALSE(found) << text;
  return found ? Error{} : found.error();
}

TEST(JsonDocumentTest, GivesWhatIsAsked) {
  JsonDocument document(4);
  const auto object = document.parse<simdjson::dom::object>(R"({"a":{"a":1},"b":{"a":2}})", "x");
  ASSERT_TRUE(object) << object.error().to_string();
  EXPECT_EQ(object->size(), 2U);
  EXPECT_TRUE(document.parse<simdjson::dom::array>("[1]", "x"));
}

TEST(JsonDocumentTest, AKeyThatAppearsTwiceIsRefusedByNameAtEveryDepth) {
  EXPECT_EQ(refused(R"({"a":1,"b":2,"a":1})").message, "a file: key 'a' appears twice");
  EXPECT_THAT(refused(R"({"x":[{"k":1,"k":2}]})").message, HasSubstr("'k'"));
  EXPECT_THAT(refused(R"({"é":1,"\u00e9":1})").message, HasSubstr("'é'"));  // the same key
}

TEST(JsonDocumentTest, WhatIsNoJsonOrTooDeepIsRefused) {
  EXPECT_EQ(refused("{").code, Errc::kDataLoss);
  EXPECT_EQ(refused("[]").code, Errc::kDataLoss);
  EXPECT_EQ(refused(R"({"a":[[[[[1]]]]]})").code, Errc::kDataLoss);
  EXPECT_THAT(refused("").message, HasSubstr("a file: "));
}

}  // namespace
}  // namespace imex::inference
