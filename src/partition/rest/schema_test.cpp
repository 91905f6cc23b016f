#include "schema.hpp"

#include <set>

#include <gmock/gmock.h>

#include "partition/rest/rest_server.hpp"
#include "route_table.hpp"

namespace imex::partition {
namespace {

using Json = nlohmann::json;

TEST(SchemaTest, TheShorthandBecomesJsonSchema) {
  EXPECT_EQ(schema_of("uuid"), Json::parse(R"({"type":"string","format":"uuid"})"));
  EXPECT_EQ(schema_of("int", true), Json::parse(R"({"type":["integer","null"]})"));
  EXPECT_EQ(schema_of("[@Vpc]"),
            Json::parse(R"({"type":"array","items":{"$ref":"#/components/schemas/Vpc"}})"));
  EXPECT_EQ(
      schema_of("#VpcStatus", true),
      Json::parse(R"({"oneOf":[{"$ref":"#/components/schemas/VpcStatus"},{"type":"null"}]})"));
  EXPECT_EQ(schema_of("@Vpc?"), schema_of("@Vpc", true));
}

TEST(SchemaTest, MembersCarryTheirMarks) {
  const auto members = members_of("id:uuid site:@SiteSummary- name:string? siteId:uuid! x:[int]?-");
  ASSERT_EQ(members.size(), 5U);
  EXPECT_EQ(members[1].type, "@SiteSummary");
  EXPECT_TRUE(members[1].optional && !members[1].nullable);
  EXPECT_TRUE(members[2].nullable && !members[2].optional);
  EXPECT_TRUE(members[3].required);
  EXPECT_EQ(members[4].type, "[int]");
  EXPECT_TRUE(members[4].optional && members[4].nullable);
  EXPECT_TRUE(members_of("").empty());
}

void collect_references(const Json& value, std::set<std::string>& found) {
  if (value.is_object() && value.contains("$ref")) found.insert(value["$ref"]);
  for (const auto& child : value) {
    if (child.is_structured()) collect_references(child, found);
  }
}

/// Each reference of the document leads somewhere, and no component is there for nothing.
TEST(SchemaTest, ReferencesAndComponentsAreTheSame) {
  std::vector<RestOperation> operations;
  std::vector<std::string> paths;
  paths.reserve(route_rows().size());
  for (const RouteRow& row : route_rows()) {
    paths.push_back("/" + std::string(row.name));
    operations.push_back({"POST", paths.back(), row.name, {}});
  }
  const Json document = Json::parse(openapi_document({}, operations));
  std::set<std::string> referenced, defined;
  collect_references(document, referenced);
  for (const auto& [name, schema] : document["components"]["schemas"].items()) {
    defined.insert("#/components/schemas/" + name);
  }
  EXPECT_EQ(referenced, defined);
}

TEST(SchemaTest, RowsHaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const RouteRow& row : route_rows()) EXPECT_TRUE(names.insert(row.name).second) << row.name;
  EXPECT_EQ(find_row("get-vpc")->answer, "@Vpc");
  EXPECT_EQ(find_row("none"), nullptr);
}

}  // namespace
}  // namespace imex::partition
