#include "inference/chat/chat_template.hpp"

#include <chrono>
#include <string>

#include <gmock/gmock.h>

#include "inference/testing/data.hpp"

namespace imex::inference {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

/// 7 March 2026, 09:05:02 UTC, as in make_chats.py.
constexpr std::chrono::system_clock::time_point kNow{std::chrono::seconds(1'772'874'302)};

Result<std::string> rendered(const std::string& text,
                             const ordered_json& extra = ordered_json::object()) {
  const auto made = ChatTemplate::parse(text);
  if (!made) return fail(made.error());
  ChatInput input;
  input.begin_token = "<s>";
  input.end_token = "</s>";
  input.extra = extra;
  input.now = kNow;
  return made->render(input);
}

std::string error_of(const std::string& text) {
  const auto result = rendered(text);
  return result ? "gave: " + *result : result.error().message;
}

TEST(ChatTemplateTest, GivesTheTextOfTheOriginalInterpreter) {
  const auto cases = ordered_json::parse(testing::read_text(testing::test_data("chats.json")));
  ASSERT_GT(cases.size(), 40U);
  for (const auto& one : cases) {
    const auto text = one.at("template").get<std::string>();
    const auto result = rendered(text, one.at("given"));
    ASSERT_TRUE(result) << result.error().to_string() << "\n" << text;
    EXPECT_EQ(*result, one.at("expected").get<std::string>()) << text;
  }
}

TEST(ChatTemplateTest, MessagesHaveRoleAndContent) {
  const auto made = ChatTemplate::parse(
      "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}{{ add_generation_prompt "
      "}}");
  ASSERT_TRUE(made);
  ChatInput input;
  input.messages = {{"user", "a"}, {"assistant", "b"}};
  EXPECT_EQ(*made->render(input), "[user:a][assistant:b]True");
}

TEST(ChatTemplateTest, WhatIsNotKnownIsRefusedByNameAndLineBeforeItRuns) {
  const auto parsed = [](const std::string& text) {
    const auto made = ChatTemplate::parse(text);
    return made ? std::string("was taken") : made.error().message;
  };
  EXPECT_EQ(parsed("\n\n{{ x | wordwrap }}"), "chat template line 3: unknown filter 'wordwrap'");
  EXPECT_EQ(parsed("{{ x is callable }}"), "chat template line 1: unknown test 'callable'");
  EXPECT_EQ(parsed("{% include 'x' %}"), "chat template line 1: unknown block 'include'");
  EXPECT_EQ(parsed("{{ x.__class__() }}"), "chat template line 1: unknown method '__class__'");
  EXPECT_EQ(parsed("{% if x %}"), "chat template line 1: 'endif' is missing");
  EXPECT_EQ(parsed("\n{{ x"), "chat template line 2: a tag does not end");
  EXPECT_EQ(parsed("{{ 'x }}"), "chat template line 1: a string does not end");
  EXPECT_EQ(parsed("{{ 1 1 }}"), "chat template line 1: unexpected '1'");
  EXPECT_EQ(parsed("{{ a ! b }}"), "chat template line 1: unexpected '!'");
  EXPECT_THAT(parsed("{{ 1 < 2 < 3 }}"), HasSubstr("a chain of comparisons"));
  EXPECT_THAT(parsed("{{ " + std::string(500, '(') + " }}"), HasSubstr("nested deeper than 100"));
  std::string chain = "{{ 1";
  for (int i = 0; i < 5000; ++i) chain += "+1";
  EXPECT_THAT(parsed(chain + "}}"), HasSubstr("more than 2000 parts"));
  EXPECT_THAT(parsed(std::string((1U << 20U) + 1, 'x')), HasSubstr("1 MiB"));
}

TEST(ChatTemplateTest, ErrorsOfRunningHaveTheirLine) {
  EXPECT_EQ(error_of("\n{{ raise_exception('no ' ~ 'tools') }}"),
            "chat template line 2: the template says: no tools");
  EXPECT_EQ(error_of("{{ 1 + 'a' }}"), "chat template line 1: '+' of int and string");
  EXPECT_EQ(error_of("{{ a.b }}"), "chat template line 1: 'b' of an undefined value");
  EXPECT_EQ(error_of("{% set a = {} %}{{ a.b }}"), "gave: ");
  EXPECT_EQ(error_of("{% set a = {} %}{{ a.b.c }}"),
            "chat template line 1: 'c' of an undefined value");
  EXPECT_EQ(error_of("{{ nothing() }}"), "chat template line 1: unknown function 'nothing'");
  EXPECT_THAT(error_of("{{ 1 // 0 }}"), HasSubstr("no result"));
  EXPECT_THAT(error_of("{{ 9223372036854775807 + 1 }}"), HasSubstr("too large"));
  EXPECT_THAT(error_of("{% for a, b in [1] %}{% endfor %}"), HasSubstr("not 2 values"));
  EXPECT_THAT(error_of("{% set x.y = 1 %}"), HasSubstr("'x' is no namespace"));
}

TEST(ChatTemplateTest, NoTemplateRunsForeverOrFillsTheMemory) {
  EXPECT_THAT(
      error_of("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}"),
      HasSubstr("more than 1000000 steps"));
  EXPECT_THAT(error_of("{% set ns = namespace(x='12345678') %}{% for i in range(60) %}"
                       "{% set ns.x = ns.x ~ ns.x %}{% endfor %}"),
              HasSubstr("a value that is too large"));
  EXPECT_THAT(error_of("{% set ns = namespace(x='aa') %}{% for i in range(60) %}"
                       "{% set ns.x = ns.x.replace('a', 'aaaaaaaa') %}{% endfor %}"),
              HasSubstr("over 16 MiB"));
  EXPECT_THAT(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              HasSubstr("deeper than 32"));
  EXPECT_THAT(error_of("{{ range(1000000) }}"), HasSubstr("a range of more than"));
}

}  // namespace
}  // namespace imex::inference
