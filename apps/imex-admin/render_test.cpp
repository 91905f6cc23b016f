#include "render.hpp"

#include <gmock/gmock.h>

namespace imex::admin {
namespace {

Output list() {
  return {
      .json = Json::array({{{"chassis_serial", "18203251"}, {"endpoint", "https://10.0.0.7:9370"}},
                           {{"chassis_serial", "a,\"b\""}, {"endpoint", "http://[::1]:9370"}}}),
      .table = {.columns = {"chassis_serial", "endpoint"},
                .rows = {{"18203251", "https://10.0.0.7:9370"}, {"a,\"b\"", "http://[::1]:9370"}}}};
}

Output one() {
  return {
      .json = {{"id", "6f0d1c1e-0000-4000-8000-000000000001"},
               {"config", {{"name", "caf\u00e9"}, {"labels", Json::array()}}},
               {"gpus", Json::array({Json{{"guid", 18446744073709551615U}, {"slot", nullptr}}})}},
      .fields = {{"ID", "6f0d1c1e-0000-4000-8000-000000000001"},
                 {"NAME", "caf\u00e9"},
                 {"LOGICAL PARTITION ID", ""}}};
}

TEST(Render, TableHasBordersAndColumnsAsWideAsTheirWidestCell) {
  EXPECT_EQ(render(list(), Format::kAsciiTable),
            "+----------------+-----------------------+\n"
            "| chassis_serial | endpoint              |\n"
            "+----------------+-----------------------+\n"
            "| 18203251       | https://10.0.0.7:9370 |\n"
            "| a,\"b\"          | http://[::1]:9370     |\n"
            "+----------------+-----------------------+\n");
}

TEST(Render, EmptyTableIsItsHeader) {
  Output output{.json = Json::array(), .table = {.columns = {"Id", "State"}}};
  EXPECT_EQ(render(output, Format::kAsciiTable),
            "+----+-------+\n| Id | State |\n+----+-------+\n");
  EXPECT_EQ(render(output, Format::kCsv), "Id,State\n");
  EXPECT_EQ(render(output, Format::kJson), "[]\n");
  EXPECT_EQ(render(output, Format::kYaml), "[]\n");
}

TEST(Render, FieldsAreOneALine) {
  EXPECT_EQ(render(one(), Format::kAsciiTable),
            "ID                   : 6f0d1c1e-0000-4000-8000-000000000001\n"
            "NAME                 : caf\u00e9\n"
            "LOGICAL PARTITION ID :\n");
}

TEST(Render, WidthsCountCharactersAndNotBytes) {
  Output output{.json = Json::array({1}),
                .table = {.columns = {"Name"}, .rows = {{"\u00e9\u00e9\u00e9\u00e9\u00e9"}}}};
  EXPECT_EQ(render(output, Format::kAsciiTable),
            "+-------+\n| Name  |\n+-------+\n| \u00e9\u00e9\u00e9\u00e9\u00e9 |\n+-------+\n");
}

TEST(Render, CsvQuotesWhatNeedsIt) {
  EXPECT_EQ(render(list(), Format::kCsv),
            "chassis_serial,endpoint\n"
            "18203251,https://10.0.0.7:9370\n"
            "\"a,\"\"b\"\"\",http://[::1]:9370\n");
  EXPECT_EQ(render(one(), Format::kCsv),
            "ID,NAME,LOGICAL PARTITION ID\n6f0d1c1e-0000-4000-8000-000000000001,caf\u00e9,\n");
}

TEST(Render, JsonKeepsTheOrderOfKeys) {
  EXPECT_EQ(render(list(), Format::kJson),
            "[\n  {\n    \"chassis_serial\": \"18203251\",\n    \"endpoint\": "
            "\"https://10.0.0.7:9370\"\n  },\n  {\n    \"chassis_serial\": \"a,\\\"b\\\"\",\n    "
            "\"endpoint\": \"http://[::1]:9370\"\n  }\n]\n");
}

TEST(Render, JsonLinesAreOneForEachElement) {
  EXPECT_EQ(render(list(), Format::kJsonLines),
            "{\"chassis_serial\":\"18203251\",\"endpoint\":\"https://10.0.0.7:9370\"}\n"
            "{\"chassis_serial\":\"a,\\\"b\\\"\",\"endpoint\":\"http://[::1]:9370\"}\n");
  EXPECT_EQ(render(Output{.json = Json::array()}, Format::kJsonLines), "");
  EXPECT_EQ(render(Output{.json = {{"a", 1}}}, Format::kJsonLines), "{\"a\":1}\n");
}

TEST(Render, YamlNestsAndQuotesWhatWouldBeReadAsSomethingElse) {
  EXPECT_EQ(render(list(), Format::kYaml),
            "- chassis_serial: \"18203251\"\n"
            "  endpoint: \"https://10.0.0.7:9370\"\n"
            "- chassis_serial: \"a,\\\"b\\\"\"\n"
            "  endpoint: \"http://[::1]:9370\"\n");
  EXPECT_EQ(render(one(), Format::kYaml),
            "id: \"6f0d1c1e-0000-4000-8000-000000000001\"\n"
            "config:\n"
            "  name: \"caf\u00e9\"\n"
            "  labels: []\n"
            "gpus:\n"
            "  - guid: 18446744073709551615\n"
            "    slot: null\n");
  const Output words{.json = {{"a", "true"},
                              {"b", "No"},
                              {"c", ""},
                              {"d", "READY"},
                              {"e", " x"},
                              {"f", "null"},
                              {"g", "-"},
                              {"h", "a: b"},
                              {"i", "l1\nl2"}}};
  EXPECT_EQ(render(words, Format::kYaml),
            "a: \"true\"\nb: \"No\"\nc: \"\"\nd: READY\ne: \" x\"\nf: \"null\"\ng: \"-\"\n"
            "h: \"a: b\"\ni: \"l1\\nl2\"\n");
}

TEST(Render, YamlOfListsInLists) {
  const Output nested{.json = {{"rows", Json::array({Json::array({1, 2}), Json::array()})},
                               {"empty", Json::object()}}};
  EXPECT_EQ(render(nested, Format::kYaml), "rows:\n  -\n    - 1\n    - 2\n  - []\nempty: {}\n");
}

TEST(Render, JsonCanBeWhatPeopleGetToo) {
  Output output = one();
  output.as_json = true;
  EXPECT_EQ(render(output, Format::kAsciiTable), render(output, Format::kJson));
}

TEST(Render, NothingToSayIsNothing) {
  for (const Format format : {Format::kAsciiTable, Format::kJson, Format::kCsv, Format::kYaml})
    EXPECT_EQ(render(Output{}, format), "");
}

TEST(Render, WhatCouldSteerATerminalIsEscaped) {
  const Output evil{.json = {{"name", "\x1b[2J"}}, .fields = {{"NAME", "\x1b[2J\nID : forged"}}};
  EXPECT_EQ(render(evil, Format::kAsciiTable), "NAME : \\x1b[2J\\nID : forged\n");
  EXPECT_EQ(render(evil, Format::kJson), "{\n  \"name\": \"\\u001b[2J\"\n}\n");
  EXPECT_EQ(render(evil, Format::kYaml), "name: \"\\u001b[2J\"\n");
}

TEST(Format, NamesAreThoseOfNico) {
  EXPECT_EQ(parse_format("ascii-table").value(), Format::kAsciiTable);
  EXPECT_EQ(parse_format("json").value(), Format::kJson);
  EXPECT_EQ(parse_format("jsonl").value(), Format::kJsonLines);
  EXPECT_EQ(parse_format("csv").value(), Format::kCsv);
  EXPECT_EQ(parse_format("yaml").value(), Format::kYaml);
  EXPECT_FALSE(parse_format("xml"));
}

}  // namespace
}  // namespace imex::admin
