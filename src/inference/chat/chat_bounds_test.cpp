// A template of a stranger ends, says why, and takes neither the stack nor the memory with it.
#include <chrono>
#include <string>

#include <gmock/gmock.h>

#include "inference/chat/chat_template.hpp"

namespace imex::inference {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

Result<std::string> run_template(const std::string& text,
                                 const ordered_json& extra = ordered_json::object()) {
  const auto made = ChatTemplate::parse(text);
  if (!made) return fail(made.error());
  ChatInput input;
  input.extra = extra;
  return made->render(input);
}

/// What it says; the code must be `code`.
std::string refusal(const std::string& text, Errc code = Errc::kResourceExhausted,
                    const ordered_json& extra = ordered_json::object()) {
  const auto result = run_template(text, extra);
  if (result) return "gave " + std::to_string(result->size()) + " bytes: " + result->substr(0, 80);
  EXPECT_EQ(result.error().code, code) << result.error().to_string();
  return result.error().message;
}

std::string times(std::string_view text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

TEST(ChatBoundsTest, AValueThatContainsItselfIsNeitherPrintedNorLeaked) {
  const std::string self = "{% set ns = namespace() %}{% set ns.x = ns %}";
  for (const char* const use :
       {"{{ ns }}", "{{ ns | string }}", "{{ [ns] | join }}", "{{ ns ~ '' }}", "{{ ns | tojson }}",
        "{{ ns == ns }}", "{{ ns in [ns] }}"}) {
    EXPECT_THAT(refusal(self + use), HasSubstr("chat template line 1: a value nested deeper"))
        << use;
  }
  // Two that contain each other, one of them reassigned: nothing is left (AddressSanitizer looks).
  EXPECT_TRUE(
      run_template("{% set a = namespace() %}{% set b = namespace(a=a) %}"
                   "{% set a.b = b %}{% set a = 1 %}{{ b.a.b.a is defined }}"));
}

TEST(ChatBoundsTest, AValueSharedByItselfDoesNotMultiply) {
  const std::string shared =
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}";
  for (const char* const use : {"{{ ns.x }}", "{{ ns.x | tojson }}", "{{ ns.x == [ns.x] + [2] }}",
                                "{% set y = [ns.x[0], ns.x[1]] %}{{ y == ns.x }}"}) {
    const std::string said = refusal(shared + use);
    EXPECT_TRUE(said.starts_with("chat template line 1: more than 1000000 steps") ||
                said.starts_with("gave 5 bytes: False"))
        << said;
  }
}

TEST(ChatBoundsTest, ADeepValueIsRefusedWhereItIsMade) {
  const std::string grow = "{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}";
  EXPECT_THAT(refusal("{% set ns = namespace(x=1) %}" + grow), HasSubstr("nested deeper than 100"));
  // A long chain of namespaces is no deep value; it is taken apart without recursion.
  EXPECT_EQ(run_template("{% set ns = namespace(x=1) %}{% for i in range(20000) %}"
                         "{% set one = namespace() %}{% set one.x = ns.x %}{% set ns.x = one %}"
                         "{% endfor %}made")
                .value(),
            "made");
}

TEST(ChatBoundsTest, DeepTreesInsideMacrosDoNotEndTheStack) {
  EXPECT_TRUE(run_template("{{ 1" + times(" ~ 1", 400) + " }}"));
  EXPECT_THAT(refusal("{{ x" + times(".x", 900) + " }}"), HasSubstr("deeper than 800"));
  EXPECT_THAT(refusal("{% macro m() %}{{ m()" + times(" ~ 1", 400) + " }}{% endmacro %}{{ m() }}"),
              HasSubstr("deeper than 800"));
  EXPECT_THAT(refusal("{% macro m() %}" + times("{% if true %}", 45) + "{{ " + times("not ", 40) +
                      "m() }}" + times("{% endif %}", 45) + "{% endmacro %}{{ m() }}"),
              HasSubstr("deeper than 800"));
  constexpr std::pair<const char*, const char*> kAround[] = {
      {"(", ")"},   {"[", "]"},  {"{'a': ", "}"}, {"-", ""},
      {"not ", ""}, {"x[", "]"}, {"f(", ")"},     {"x if x else ", ""}};
  for (const auto& [before, after] : kAround) {
    const auto made =
        ChatTemplate::parse("{{ " + times(before, 20'000) + "x" + times(after, 20'000) + " }}");
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().message, HasSubstr("nested deeper than 100")) << before;
  }
}

TEST(ChatBoundsTest, BytesAreCountedWhoeverMakesThem) {
  const std::string big = "{% set t = 'abcdefgh' * 1000000 %}";
  for (const char* const more :
       {"{% for i in range(100) %}{% set u = t ~ i %}{% endfor %}",
        "{% for i in range(100) %}{% set u = t | upper %}{% endfor %}",
        "{% for i in range(100) %}{% set u = t.replace('a', 'b') %}{% endfor %}",
        "{% for i in range(100) %}{% set u = [t] | string %}{% endfor %}",
        "{% for i in range(100) %}{% set u %}{{ t }}{% endset %}{% endfor %}", "{{ t | list }}",
        "{% for c in t %}{% endfor %}", "{{ t[::2] }}", "{{ t.split('a') }}",
        "{{ (t * 2).split('h') }}", "{{ [t, t, t, t] | map('upper') | map('list') | list }}",
        "{% set l = range(100000) %}{% for i in range(1000) %}{% set m = l + l %}{% endfor %}",
        "{% set ns = namespace(l=[1, 2, 3, 4]) %}{% for i in range(30) %}{% set ns.l = ns.l + ns.l "
        "%}"
        "{% endfor %}"}) {
    const auto result = run_template(big + more);
    ASSERT_FALSE(result) << more;
    EXPECT_TRUE(result.error().message.find("128 MiB") != std::string::npos ||
                result.error().message.find("too large") != std::string::npos ||
                result.error().message.find("1000000 steps") != std::string::npos)
        << more << result.error().message;
  }
  EXPECT_THAT(refusal("{{ ('a\n' * 1000000) | indent(64) }}"), HasSubstr("over 16 MiB"));
}

TEST(ChatBoundsTest, TimeIsCountedToo) {
  const auto began = std::chrono::steady_clock::now();
  // A search that naively takes the product of both sizes.
  EXPECT_TRUE(run_template("{% set t = 'a' * 8000000 %}{{ ('a' * 4000000 ~ 'b') in t }}"));
  EXPECT_THAT(
      refusal("{% set t = 'a' * 8000000 %}{% for i in range(100000) %}{% set x = 'b' in t %}"
              "{% endfor %}"),
      HasSubstr("1000000 steps"));
  std::string names;
  for (int i = 0; i < 20'000; ++i) {
    const std::string name = "v" + std::to_string(i);
    names += "{% set " + name + " = 1 %}";
  }
  EXPECT_THAT(refusal(names + "{% for i in range(100000) %}{{ nothing }}{% endfor %}"),
              HasSubstr("1000000 steps"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
}

TEST(ChatBoundsTest, NumbersThatDoNotFitAreRefused) {
  const auto wrong = Errc::kInvalidArgument;
  EXPECT_THAT(refusal("{{ x | int }}", wrong, {{"x", 1e300}}), HasSubstr("too large"));
  EXPECT_THAT(refusal("{{ (0 - x) | int }}", wrong, {{"x", 9.3e18}}), HasSubstr("too large"));
  EXPECT_THAT(refusal("{{ '9223372036854775808' | int }}", wrong), HasSubstr("too large"));
  EXPECT_EQ(run_template("{{ x | int }}", {{"x", -9223372036854775808.0}}).value(),
            "-9223372036854775808");
  EXPECT_THAT(refusal("{{ range(0 - 9223372036854775807 - 1, 5) }}", wrong),
              HasSubstr("without end"));
  EXPECT_THAT(refusal("{{ x }}", wrong, {{"x", 9223372036854775808U}}),
              HasSubstr("'x': a JSON number over 9223372036854775807: 9223372036854775808"));
  ordered_json deep = 1;
  // No deeper: copies of the library that holds it recurse themselves.
  for (int i = 0; i < 300; ++i) deep = ordered_json::array({std::move(deep)});
  EXPECT_THAT(refusal("{{ x }}", wrong, {{"x", std::move(deep)}}), HasSubstr("deeper than 100"));
}

TEST(ChatBoundsTest, AnArgumentThatAFilterDoesNotHaveIsRefused) {
  const auto unknown = Errc::kUnsupported;
  EXPECT_THAT(refusal("{{ [1] | tojson(indnt=2) }}", unknown),
              HasSubstr("line 1: filter 'tojson' has no argument 'indnt'"));
  EXPECT_THAT(refusal("{{ 'a' | indent(2, true, true) }}", unknown),
              HasSubstr("takes 2 arguments"));
  EXPECT_THAT(refusal("{{ [1] | join(',', attribute='a') }}", unknown), HasSubstr("'attribute'"));
  EXPECT_THAT(refusal("{{ nothing | tojson }}", Errc::kInvalidArgument),
              HasSubstr("JSON of a value of type undefined"));
}

}  // namespace
}  // namespace imex::inference
