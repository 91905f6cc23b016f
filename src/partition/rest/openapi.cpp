#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "json/json.hpp"
#include "net/http/message.hpp"
#include "partition/rest/rest_server.hpp"
#include "route_table.hpp"
#include "schema.hpp"

namespace imex::partition {

namespace {

using Json = nlohmann::json;

/// "/vpc/{id}" to {"id"}.
std::vector<std::string> names_in(std::string_view path) {
  std::vector<std::string> names;
  for (auto open = path.find('{'); open != std::string_view::npos;
       open = path.find('{', open + 1)) {
    names.emplace_back(path.substr(open + 1, path.find('}', open) - open - 1));
  }
  return names;
}

Json parameter(std::string_view name, const char* place, bool required, Json schema) {
  return {{"name", name}, {"in", place}, {"required", required}, {"schema", std::move(schema)}};
}

void add_paging(Json& parameters, std::string_view fields) {
  Json orders = Json::array();
  while (!fields.empty()) {
    const std::string_view field = fields.substr(0, fields.find(' '));
    fields.remove_prefix(std::min(fields.size(), field.size() + 1));
    orders.push_back(fmt::format("{}_ASC", field));
    orders.push_back(fmt::format("{}_DESC", field));
  }
  parameters.push_back(parameter("pageNumber", "query", false,
                                 {{"type", "integer"}, {"minimum", 1}, {"default", 1}}));
  parameters.push_back(
      parameter("pageSize", "query", false,
                {{"type", "integer"}, {"minimum", 1}, {"maximum", 100}, {"default", 20}}));
  parameters.push_back(
      parameter("orderBy", "query", false, {{"type", "string"}, {"enum", std::move(orders)}}));
}

Json parameters_of(const RestOperation& operation, const RouteRow& row) {
  Json parameters = Json::array();
  parameters.push_back(parameter("org", "path", true, {{"type", "string"}, {"minLength", 1}}));
  for (const std::string& name : names_in(operation.path)) {
    parameters.push_back(parameter(name, "path", true, {{"type", "string"}, {"minLength", 1}}));
  }
  for (const Member& member : members_of(row.query)) {
    parameters.push_back(parameter(member.name, "query", member.required, schema_of(member.type)));
  }
  if (!row.order_by.empty()) add_paging(parameters, row.order_by);
  if (operation.method != "GET") {
    parameters.push_back(parameter("dryRun", "query", false, schema_of("bool")));
  }
  return parameters;
}

Json content(std::string_view type) {
  if (type == "text") return {{"text/plain", {{"schema", {{"type", "string"}}}}}};
  return {{"application/json", {{"schema", schema_of(type)}}}};
}

Json pagination_header() {
  return {{"X-Pagination",
           {{"description", "{\"pageNumber\", \"pageSize\", \"total\", \"orderBy\"}"},
            {"schema", {{"type", "string"}}}}}};
}

Json responses_of(const RestOperation& operation, const RouteRow& row) {
  Json responses;
  // What a write would do is told with 200, whatever it answers else.
  const bool writes = operation.method != "GET";
  if (writes) {
    responses["200"] = {{"description", "With dryRun=true: what would be"},
                        {"content", content("@DryRun")}};
  }
  Json success = {{"description", net::http::status_text(row.status)},
                  {"content", content(row.answer)}};
  if (!row.order_by.empty()) success["headers"] = pagination_header();
  if (writes && row.status == 200) {
    success["content"]["application/json"]["schema"] = {
        {"anyOf", Json::array({schema_of(row.answer), schema_of("@DryRun")})}};
  }
  responses[std::to_string(row.status)] = std::move(success);
  std::string errors =
      fmt::format("400 401 403 500 503 {}{}", row.errors, row.body.empty() ? "" : " 413");
  std::string_view rest = errors;
  while (!rest.empty()) {
    const std::string status(rest.substr(0, rest.find(' ')));
    rest.remove_prefix(std::min(rest.size(), status.size() + 1));
    if (status.empty() || responses.contains(status)) continue;
    const auto number = static_cast<unsigned>(std::stoul(status));
    responses[status] = {{"description", net::http::status_text(number)},
                         {"content", content(number < 400 ? "object" : "@Error")}};
  }
  return responses;
}

Json roles_of(RoleSet roles) {
  Json names = Json::array();
  if ((roles & kProviderAdmin) != 0) names.push_back("PROVIDER_ADMIN");
  if ((roles & kProviderViewer) != 0) names.push_back("PROVIDER_VIEWER");
  if ((roles & kTenantAdmin) != 0) names.push_back("TENANT_ADMIN");
  return names;
}

Json operation_of(const RestOperation& operation, const RouteRow& row) {
  const std::string_view tail = operation.path.substr(1);
  Json described = {{"operationId", operation.name},
                    {"summary", row.summary},
                    {"tags", Json::array({tail.substr(0, tail.find('/'))})},
                    {"parameters", parameters_of(operation, row)},
                    {"responses", responses_of(operation, row)},
                    {"x-imex-roles", roles_of(row.roles)}};
  if (!row.body.empty()) {
    described["requestBody"] = {
        {"required", !row.body.ends_with('?')},
        {"content",
         content(row.body.ends_with('?') ? row.body.substr(0, row.body.size() - 1) : row.body)}};
  }
  return described;
}

Json plain_operation(const char* name, const char* summary, std::vector<unsigned> statuses) {
  Json responses;
  for (const unsigned status : statuses) {
    responses[std::to_string(status)] = {{"description", net::http::status_text(status)},
                                         {"content", content("object")}};
  }
  return {{"operationId", name},
          {"summary", summary},
          {"tags", Json::array({"service"})},
          {"security", Json::array()},
          {"responses", std::move(responses)}};
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

}  // namespace

std::string openapi_document(const RestOptions& options,
                             const std::vector<RestOperation>& operations) {
  Json paths = {
      {"/healthz", {{"get", plain_operation("get-health", "Whether the process lives", {200})}}},
      {"/readyz",
       {{"get", plain_operation("get-readiness", "Whether it can serve requests", {200, 503})}}},
      {"/openapi.json", {{"get", plain_operation("get-openapi", "This document", {200})}}}};
  for (const RestOperation& operation : operations) {
    const RouteRow* row = find_row(operation.name);
    if (row == nullptr) continue;
    const std::string path = fmt::format("/v2/org/{{org}}/{}{}", options.api_name, operation.path);
    paths[path][lower(operation.method)] = operation_of(operation, *row);
  }
  const Json document = {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "Imex partition API"},
        {"version", options.version},
        {"description", "NVLink partitions for tenants; compatible with NICo's REST API v2."},
        {"license", {{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}}},
      {"servers", Json::array({Json{{"url", "/"}}})},
      {"security", Json::array({Json{{"bearer", Json::array()}}})},
      {"paths", std::move(paths)},
      {"components",
       {{"schemas", component_schemas()},
        {"securitySchemes",
         {{"bearer", {{"type", "http"}, {"scheme", "bearer"}, {"bearerFormat", "JWT"}}}}}}}};
  return json::text_of(document);
}

}  // namespace imex::partition
