// Every operation of the real service, over HTTP, for each role and for a foreign tenant. Who may
// call what is written down here a second time, from partition-api.md 2.2 and 8.
#include <fstream>
#include <map>

#include <gmock/gmock.h>

#include "jwt/signer.hpp"
#include "net/http/client.hpp"
#include "os/file.hpp"
#include "partition/rest/rest_server.hpp"
#include "testing/service_kit.hpp"

namespace imex::partition::testing {
namespace {

using Json = nlohmann::json;
using net::http::ClientResponse;

auto patience() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

enum class Who { kNobody, kMember, kProviderViewer, kProviderAdmin, kTenantAdmin };

bool starts_with_any(std::string_view path, std::initializer_list<std::string_view> beginnings) {
  return std::ranges::any_of(beginnings,
                             [&](std::string_view one) { return path.starts_with(one); });
}

/// Whether the specification lets this role in.
bool is_allowed(std::string_view method, std::string_view path, Who who) {
  if (who == Who::kNobody) return false;
  const bool provider = who == Who::kProviderAdmin || who == Who::kProviderViewer;
  const bool tenant = who == Who::kTenantAdmin;
  const bool reads = method == "GET";
  if (starts_with_any(path, {"/metadata", "/user/"})) return true;
  if (starts_with_any(path, {"/service-account/"})) return provider || tenant;
  if (path == "/audit-record") return who == Who::kProviderAdmin;
  if (starts_with_any(path, {"/tenant/", "/nvlink-logical-partition", "/nvlink-interface",
                             "/nvlink-reservation"})) {
    return tenant;
  }
  if (starts_with_any(
          path, {"/vpc-prefix", "/subnet", "/ipblock", "/operating-system", "/sshkeygroup"})) {
    return provider || tenant;
  }
  if (starts_with_any(path, {"/vpc"})) return tenant;
  if (path.starts_with("/instance") && !path.starts_with("/instance/type")) return tenant;
  if (starts_with_any(path, {"/infrastructure-provider/", "/machine/gpu/", "/nvlink-domain",
                             "/nvlink-health"})) {
    return provider;
  }
  if (path.starts_with("/nvlink-endpoint") || path == "/instance/type/{id}/machine") {
    return reads ? provider : who == Who::kProviderAdmin;
  }
  // Sites, machines, types, allocations, physical partitions, operations.
  return reads ? provider || tenant : who == Who::kProviderAdmin;
}

class MatrixTest : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    observe(4);
    folder_ = *os::make_temporary_directory("imex-matrix-");
    std::ofstream(folder_ + "/keys.json") << signer_.key_set();
    RestOptions options;
    options.listeners = {{.address = "127.0.0.1:0"}};
    options.issuers = {
        {.keys = {.name = "t", .issuer = "https://id.example", .key_set = folder_ + "/keys.json"},
         .mappings = {{.org_claim = "org", .roles_claim = "roles"}}}};
    auto server = RestServer::start(options, operations_of(*service_), registry_, log_);
    ASSERT_TRUE(server) << server.error().to_string();
    server_ = std::move(*server);
    client_ =
        *net::http::Client::make({.url = "http://127.0.0.1:" + std::to_string(server_->port())});
  }
  void TearDown() override {
    server_.reset();
    EXPECT_TRUE(os::remove_tree(folder_));
    ServiceTest::TearDown();
  }
  std::string token(const std::string& org, Who who) {
    static const std::map<Who, Json> kRoles = {{Who::kMember, Json::array()},
                                               {Who::kProviderViewer, {"PROVIDER_VIEWER"}},
                                               {Who::kProviderAdmin, {"PROVIDER_ADMIN"}},
                                               {Who::kTenantAdmin, {"NICO_TENANT_ADMIN"}}};
    return *signer_.sign(
        {{"iss", "https://id.example"}, {"exp", 4e9}, {"org", org}, {"roles", kRoles.at(who)}});
  }
  ClientResponse ask(const Operation& operation, const std::string& path, const std::string& org,
                     const std::string& token) {
    net::http::ClientRequest request{.method = *net::http::method_from_name(operation.method),
                                     .path = "/v2/org/" + org + "/nico" + path};
    if (operation.method == "POST" || operation.method == "PATCH") request.body = "{}";
    if (!token.empty()) request.headers.add("Authorization", "Bearer " + token);
    auto answer = client_->send(request, patience());
    EXPECT_TRUE(answer) << answer.error().to_string();
    return answer ? std::move(*answer) : ClientResponse{};
  }
  /// The path with an id in each place.
  static std::string filled(std::string_view pattern, const std::string& id) {
    std::string path(pattern);
    for (auto open = path.find('{'); open != std::string::npos; open = path.find('{')) {
      path.replace(open, path.find('}', open) - open + 1, id);
    }
    return path;
  }

  jwt::Signer signer_ = *jwt::Signer::generate(jwt::Algorithm::kEdDsa);
  log::Logger log_{log::Options{}};
  metrics::Registry registry_;
  std::string folder_;
  std::unique_ptr<RestServer> server_;
  std::unique_ptr<net::http::Client> client_;
};

TEST_F(MatrixTest, EachRoleGetsWhereTheSpecificationLetsIt) {
  std::size_t checked = 0;
  for (const Operation& operation : Service::operations()) {
    for (const Who who : {Who::kNobody, Who::kMember, Who::kProviderViewer, Who::kProviderAdmin,
                          Who::kTenantAdmin}) {
      const bool provider = who == Who::kProviderViewer || who == Who::kProviderAdmin;
      const std::string org = provider ? "nvidia" : "acme";
      const std::string path = filled(operation.path, "6f1f4c0e-8f0e-4f4e-9d0e-5a5a5a5a5a5a");
      const ClientResponse answer =
          ask(operation, path, org, who == Who::kNobody ? "" : token(org, who));
      const std::string what = std::string(operation.method) + " " + std::string(operation.path) +
                               " as " + std::to_string(static_cast<int>(who)) + ": " +
                               std::to_string(answer.status) + " " + answer.body;
      const bool by_role = answer.body.find("this needs the role") != std::string::npos;
      if (who == Who::kNobody) {
        EXPECT_EQ(answer.status, 401U) << what;
      } else if (is_allowed(operation.method, operation.path, who)) {
        EXPECT_FALSE(by_role) << what;
        EXPECT_NE(answer.status, 401U) << what;
        EXPECT_LT(answer.status, 500U) << what;
      } else {
        EXPECT_EQ(answer.status, 403U) << what;
        EXPECT_TRUE(by_role) << what;
      }
      ++checked;
    }
    // A token of one org says nothing in another.
    EXPECT_EQ(
        ask(operation, filled(operation.path, "x"), "acme", token("umbrella", Who::kTenantAdmin))
            .status,
        403U)
        << operation.path;
  }
  EXPECT_EQ(checked, 5 * Service::operations().size());
}

TEST_F(MatrixTest, AForeignTenantSeesAndChangesNothing) {
  const std::string partition = make_partition("secret-partition");
  const std::string vpc = make_vpc("secret-vpc", partition);
  const std::string instance = make_instance("secret-instance", vpc);
  const std::string foreign = token("umbrella", Who::kTenantAdmin);
  const std::string own = token("acme", Who::kTenantAdmin);
  std::size_t lists = 0, objects = 0;
  for (const Operation& operation : Service::operations()) {
    const std::string_view path = operation.path;
    if (!is_allowed(operation.method, path, Who::kTenantAdmin)) continue;
    if (path.find('{') == std::string_view::npos) {
      if (operation.method != "GET") continue;
      const ClientResponse answer = ask(operation, std::string(path), "umbrella", foreign);
      EXPECT_EQ(answer.body.find("secret-"), std::string::npos) << path << " " << answer.body;
      for (const std::string* id : {&partition, &vpc, &instance}) {
        EXPECT_EQ(answer.body.find(*id), std::string::npos) << path << " " << answer.body;
      }
      ++lists;
      continue;
    }
    const std::string& id = path.starts_with("/nvlink-logical-partition") ? partition
                            : path.starts_with("/vpc")                    ? vpc
                                                                          : instance;
    const ClientResponse answer = ask(operation, filled(path, id), "umbrella", foreign);
    EXPECT_GE(answer.status, 400U) << operation.method << " " << path << " " << answer.body;
    EXPECT_LT(answer.status, 500U) << operation.method << " " << path << " " << answer.body;
    EXPECT_EQ(answer.body.find("secret-"), std::string::npos) << path << " " << answer.body;
    ++objects;
  }
  EXPECT_GE(lists, 10U);
  EXPECT_GE(objects, 15U);
  // It is all still there for whom it belongs to.
  for (const Operation& operation : Service::operations()) {
    const std::string_view name = operation.name;
    if (name == "get-vpc") {
      EXPECT_EQ(ask(operation, "/vpc/" + vpc, "acme", own).status, 200U);
    }
    if (name == "get-instance") {
      EXPECT_EQ(ask(operation, "/instance/" + instance, "acme", own).status, 200U);
    }
    if (name == "get-nvlink-logical-partition") {
      EXPECT_EQ(ask(operation, "/nvlink-logical-partition/" + partition, "acme", own).status, 200U);
    }
  }
}

/// Each operation has a row, and each row an operation.
TEST_F(MatrixTest, TheDocumentHasEveryOperationAndNoOther) {
  const auto answer = client_->send({.path = "/openapi.json"}, patience());
  ASSERT_TRUE(answer);
  const Json document = Json::parse(answer->body);
  std::size_t described = 0;
  for (const auto& path : document["paths"]) described += path.size();
  EXPECT_EQ(described, Service::operations().size() + 3);
}

}  // namespace
}  // namespace imex::partition::testing
