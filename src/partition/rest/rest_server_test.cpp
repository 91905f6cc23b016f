// The REST front over real HTTP, with operations that only say what reached them.
#include "partition/rest/rest_server.hpp"

#include <atomic>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "jwt/signer.hpp"
#include "net/http/client.hpp"
#include "os/file.hpp"

namespace imex::partition {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;
using net::http::ClientResponse;
using net::http::Method;

auto in_time() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Tells what an operation was given, as JSON.
Answer echo(const Request& request, std::string_view name) {
  Answer answer;
  answer.status = 201;
  answer.body = Json{{"name", name},
                     {"org", request.caller.org},
                     {"subject", request.caller.subject},
                     {"service", request.caller.service_account},
                     {"path", request.path},
                     {"body", request.body}}
                    .dump();
  answer.pagination = R"({"pageNumber":1})";
  return answer;
}

std::vector<RestOperation> echo_operations() {
  static constexpr std::array<std::array<std::string_view, 3>, 12> kSome = {{
      {"POST", "/vpc", "create-vpc"},
      {"GET", "/vpc/{id}", "get-vpc"},
      {"DELETE", "/nvlink-logical-partition/{id}", "delete-nvlink-logical-partition"},
      {"GET", "/instance/type", "get-all-instance-type"},
      {"DELETE", "/instance/type/{id}/machine/{machineId}",
       "delete-instance-type-machine-association"},
      {"GET", "/instance/{id}", "get-instance"},
      {"POST", "/site", "create-site"},
      {"GET", "/site", "get-all-site"},
      {"GET", "/machine/gpu/stats", "get-machine-gpu-stats"},
      {"GET", "/metadata", "get-metadata"},
      {"GET", "/nvlink-health", "get-nvlink-health"},
      {"GET", "/tenant/current", "get-current-tenant"},
  }};
  std::vector<RestOperation> operations;
  for (const auto& [method, path, name] : kSome) {
    operations.push_back({method, path, name,
                          [name = name](const Request& request) { return echo(request, name); }});
  }
  return operations;
}

class RestServerTest : public testing::Test {
 protected:
  RestServerTest()
      : folder_(*os::make_temporary_directory("imex-rest-")),
        signer_(*jwt::Signer::generate(jwt::Algorithm::kEs256)),
        log_({.file = folder_ + "/log", .headline = false}) {
    std::ofstream(folder_ + "/keys.json") << signer_.key_set();
    options_.listeners = {{.address = "127.0.0.1:0"}};
    options_.metrics_listeners = {{.address = "127.0.0.1:0"}};
    options_.issuers = {{.keys = {.name = "test",
                                  .issuer = "https://id.example",
                                  .key_set = folder_ + "/keys.json",
                                  .audiences = {"imex"}},
                         .scopes = {"nico"},
                         .mappings = {{.org_claim = "org", .roles_claim = "roles"},
                                      {.org_claim = "account", .service_account = true}}}};
  }
  ~RestServerTest() override {
    server_.reset();
    EXPECT_TRUE(os::remove_tree(folder_));
  }

  void serve() {
    auto server = RestServer::start(options_, operations_, registry_, log_);
    ASSERT_TRUE(server) << server.error().to_string();
    server_ = std::move(*server);
    auto client =
        net::http::Client::make({.url = "http://127.0.0.1:" + std::to_string(server_->port())});
    ASSERT_TRUE(client);
    client_ = std::move(*client);
  }
  [[nodiscard]] Json claims(const std::vector<std::string>& roles) const {
    return {{"iss", "https://id.example"},
            {"sub", "alice"},
            {"aud", "imex"},
            {"exp", unix_now() + 600},
            {"scope", "nico"},
            {"org", "acme"},
            {"roles", roles}};
  }
  [[nodiscard]] std::string token(const std::vector<std::string>& roles) const {
    return *signer_.sign(claims(roles));
  }
  ClientResponse ask(Method method, const std::string& path, const std::string& token = "",
                     const std::string& body = "") {
    net::http::ClientRequest request{.method = method, .path = path, .body = body};
    if (!token.empty()) request.headers.add("Authorization", "Bearer " + token);
    auto answer = client_->send(request, in_time());
    EXPECT_TRUE(answer) << answer.error().to_string();
    return answer ? std::move(*answer) : ClientResponse{};
  }
  /// Status of a refusal, whose body must have the form of the API.
  unsigned refusal(const ClientResponse& answer) {
    const Json body = Json::parse(answer.body, nullptr, false);
    EXPECT_EQ(body.value("source", ""), "nico") << answer.body;
    EXPECT_TRUE(body.contains("message") && body["message"].is_string()) << answer.body;
    EXPECT_TRUE(body.contains("data") && body["data"].is_null()) << answer.body;
    EXPECT_EQ(body.size(), 3U);
    EXPECT_EQ(answer.headers.find("Content-Type"), "application/json");
    return answer.status;
  }

  std::string folder_;
  jwt::Signer signer_;
  log::Logger log_;
  metrics::Registry registry_;
  RestOptions options_;
  std::vector<RestOperation> operations_ = echo_operations();
  std::unique_ptr<RestServer> server_;
  std::unique_ptr<net::http::Client> client_;
};

TEST_F(RestServerTest, OperationsGetWhoAsksForWhat) {
  serve();
  const std::string admin = token({"NICO_TENANT_ADMIN", "PROVIDER_ADMIN"});
  const ClientResponse answer =
      ask(Method::kPost, "/v2/org/acme/nico/vpc", admin, R"({"name":"x"})");
  EXPECT_EQ(answer.status, 201U) << answer.body;
  EXPECT_EQ(answer.headers.find("X-Pagination"), R"({"pageNumber":1})");
  const Json told = Json::parse(answer.body);
  EXPECT_EQ(told["name"], "create-vpc");
  EXPECT_EQ(told["org"], "acme");
  EXPECT_EQ(told["subject"], "alice");
  EXPECT_EQ(told["body"], R"({"name":"x"})");
  EXPECT_EQ(told["path"], Json::array());
  const Json removed = Json::parse(
      ask(Method::kDelete, "/v2/org/acme/nico/instance/type/a%2Fb/machine/m%201", admin).body);
  EXPECT_EQ(removed["path"], Json({"a/b", "m 1"}));
  EXPECT_EQ(Json::parse(ask(Method::kGet, "/v2/org/acme/nico/instance/type", admin).body)["name"],
            "get-all-instance-type");
}

TEST_F(RestServerTest, ChecksComeInTheOrderOfTheSpecification) {
  serve();
  const std::string path = "/v2/org/acme/nico/vpc/1";
  const ClientResponse nobody = ask(Method::kGet, path);
  EXPECT_EQ(refusal(nobody), 401U);
  EXPECT_EQ(nobody.headers.find("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(refusal(ask(Method::kGet, path, "x.y.z")), 401U);
  const auto with = [&](const char* name, const Json& value) {
    Json changed = claims({"TENANT_ADMIN"});
    changed[name] = value;
    return *signer_.sign(changed);
  };
  EXPECT_EQ(refusal(ask(Method::kGet, path, with("exp", unix_now() - 3600))), 401U);
  EXPECT_EQ(refusal(ask(Method::kGet, path, with("aud", "other"))), 401U);
  // Expired and without scope: the token is looked at first.
  EXPECT_EQ(refusal(ask(Method::kGet, path, with("scope", "other"))), 403U);
  EXPECT_EQ(refusal(ask(Method::kGet, "/v2/org//nico/vpc/1", with("scope", "other"))), 403U);
  EXPECT_EQ(refusal(ask(Method::kGet, "/v2/org//nico/vpc/1", token({"TENANT_ADMIN"}))), 400U);
  EXPECT_EQ(refusal(ask(Method::kGet, "/v2/org/other/nico/vpc/1", token({"TENANT_ADMIN"}))), 403U);
  EXPECT_EQ(refusal(ask(Method::kGet, path, token({}))), 403U);
  EXPECT_EQ(ask(Method::kGet, path, token({"TENANT_ADMIN"})).status, 201U);
  EXPECT_EQ(refusal(ask(Method::kGet, "/v2/org/acme/nico/none", token({"TENANT_ADMIN"}))), 404U);
  const ClientResponse other = ask(Method::kPatch, path, token({"TENANT_ADMIN"}));
  EXPECT_EQ(refusal(other), 405U);
  EXPECT_EQ(other.headers.find("Allow"), "GET, HEAD");
}

TEST_F(RestServerTest, TheSchemesNameIsTheSameInAnyCaseAndOthersAreRefused) {
  serve();
  const auto status = [&](const std::string& header) {
    net::http::ClientRequest request{.path = "/v2/org/acme/nico/metadata"};
    request.headers.add("Authorization", header);
    return client_->send(request, in_time())->status;
  };
  const std::string good = token({});
  EXPECT_EQ(status("bearer " + good), 201U);
  EXPECT_EQ(status("Basic " + good), 401U);
  EXPECT_EQ(status("Bearer"), 401U);
  EXPECT_EQ(status("Bearer "), 401U);
  EXPECT_EQ(status(good), 401U);
}

TEST_F(RestServerTest, AServiceAccountHasBothAdminRoles) {
  serve();
  Json account = claims({});
  account.erase("org");
  account["account"] = "acme";
  const std::string service = *signer_.sign(account);
  const ClientResponse tenant = ask(Method::kGet, "/v2/org/acme/nico/vpc/1", service);
  EXPECT_EQ(tenant.status, 201U);
  EXPECT_EQ(Json::parse(tenant.body)["service"], true);
  EXPECT_EQ(ask(Method::kPost, "/v2/org/acme/nico/site", service, "{}").status, 201U);
}

TEST_F(RestServerTest, KeysThatCannotBeHadAreA503) {
  options_.issuers[0].keys.key_set = folder_ + "/none.json";
  serve();
  EXPECT_EQ(refusal(ask(Method::kGet, "/v2/org/acme/nico/metadata", token({}))), 503U);
}

TEST_F(RestServerTest, LongBodiesAreRefusedInTheApisForm) {
  options_.body_bytes_max = 100;
  serve();
  EXPECT_EQ(refusal(ask(Method::kPost, "/v2/org/acme/nico/vpc", token({"TENANT_ADMIN"}),
                        std::string(101, 'x'))),
            413U);
}

TEST_F(RestServerTest, HealthNeedsNoTokenAndReadinessSaysWhyNot) {
  std::atomic<bool> ready = false;
  options_.ready = [&]() -> Result<void> {
    if (ready) return {};
    return fail(Errc::kUnavailable, "the store is being opened");
  };
  serve();
  EXPECT_EQ(ask(Method::kGet, "/healthz").status, 200U);
  const ClientResponse not_yet = ask(Method::kGet, "/readyz");
  EXPECT_EQ(refusal(not_yet), 503U);
  EXPECT_THAT(not_yet.body, HasSubstr("the store is being opened"));
  ready = true;
  EXPECT_EQ(ask(Method::kGet, "/readyz").status, 200U);
}

TEST_F(RestServerTest, MetricsCountByRouteAndNotByPath) {
  serve();
  const std::string tenant = token({"TENANT_ADMIN"});
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(ask(Method::kGet, "/v2/org/acme/nico/vpc/" + std::to_string(i), tenant));
  }
  static_cast<void>(ask(Method::kGet, "/nothing/at/all"));
  auto metrics = net::http::Client::make(
      {.url = "http://127.0.0.1:" + std::to_string(server_->metrics_port())});
  ASSERT_TRUE(metrics);
  std::string text;
  const auto counted = [&] {
    text = (*metrics)->send({.path = "/metrics"}, in_time())->body;
    return text.find("code=\"404\"") != std::string::npos;
  };
  const auto deadline = in_time();
  while (!counted() && std::chrono::steady_clock::now() < deadline) {
  }
  EXPECT_THAT(text, HasSubstr("nico_api_requests_total{code=\"201\",method=\"GET\","
                              "url=\"/v2/org/{org}/nico/vpc/{id}\"} 3"));
  EXPECT_THAT(text, HasSubstr("nico_api_requests_total{code=\"404\",method=\"GET\","
                              "url=\"unknown\"} 1"));
  EXPECT_THAT(text, HasSubstr("nico_api_request_duration_seconds_bucket"));
  EXPECT_EQ((*metrics)->send({.path = "/v2/org/acme/nico/metadata"}, in_time())->status, 404U);
}

TEST_F(RestServerTest, TheDocumentDescribesEveryRoute) {
  serve();
  const Json document = Json::parse(ask(Method::kGet, "/openapi.json").body);
  EXPECT_EQ(document["openapi"], "3.1.0");
  std::size_t described = 0;
  for (const RestOperation& operation : operations_) {
    std::string method(operation.method);
    for (char& c : method) c = static_cast<char>(c | 0x20);
    const Json& one = document["paths"]["/v2/org/{org}/nico" + std::string(operation.path)][method];
    EXPECT_EQ(one["operationId"], operation.name);
    for (const char* status : {"400", "401", "403", "500", "503"}) {
      EXPECT_TRUE(one["responses"].contains(status)) << operation.name << " " << status;
    }
    ++described;
  }
  std::size_t in_document = 0;
  for (const auto& path : document["paths"]) in_document += path.size();
  EXPECT_EQ(in_document, described + 3);  // healthz, readyz, the document itself
}

TEST_F(RestServerTest, AnOperationWithoutARowIsAnError) {
  operations_.push_back({"GET", "/odd", "get-odd", [](const Request&) { return Answer{}; }});
  const auto server = RestServer::start(options_, operations_, registry_, log_);
  ASSERT_FALSE(server);
  EXPECT_THAT(server.error().message, StartsWith("operation get-odd"));
}

}  // namespace
}  // namespace imex::partition
