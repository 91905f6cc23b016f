#include "partition/rest/identity.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace imex::partition {
namespace {

using Json = nlohmann::json;

jwt::Token token_with(Json claims) {
  jwt::Token token;
  token.subject = "sub-1";
  token.claims = std::make_shared<const Json>(std::move(claims));
  return token;
}

/// "PA", "PV", "TA" of what is held; "no" if the org is refused.
std::string roles_in(const RestIssuer& issuer, const Json& claims, std::string_view org) {
  const auto caller = caller_of(token_with(claims), issuer, org);
  if (!caller) return caller.error().code == Errc::kPermissionDenied ? "no" : "wrong error";
  EXPECT_EQ(caller->org, org);
  EXPECT_EQ(caller->subject, "sub-1");
  return std::string(caller->roles.provider_admin ? "PA " : "") +
         (caller->roles.provider_viewer ? "PV " : "") + (caller->roles.tenant_admin ? "TA " : "");
}

TEST(IdentityTest, RolesMatchAfterOneLeadingWord) {
  const auto held = [](std::string_view name) {
    Roles roles;
    add_role(roles, name);
    return roles.tenant_admin;
  };
  EXPECT_TRUE(held("TENANT_ADMIN"));
  EXPECT_TRUE(held("NICO_TENANT_ADMIN"));
  EXPECT_TRUE(held("FORGE_TENANT_ADMIN"));
  EXPECT_FALSE(held("A_B_TENANT_ADMIN"));
  EXPECT_FALSE(held("_TENANT_ADMIN"));
  EXPECT_FALSE(held("tenant_admin"));
  EXPECT_FALSE(held("TENANT_ADMIN_"));
  EXPECT_FALSE(held(""));
}

TEST(IdentityTest, StaticOrgAndRoles) {
  const RestIssuer issuer{.mappings = {{.org = "acme", .roles = {"TENANT_ADMIN"}}}};
  EXPECT_EQ(roles_in(issuer, Json::object(), "acme"), "TA ");
  EXPECT_EQ(roles_in(issuer, Json::object(), "Acme"), "no");
  EXPECT_EQ(roles_in(issuer, Json::object(), ""), "no");
}

TEST(IdentityTest, OrgAndRolesFromClaims) {
  const RestIssuer issuer{
      .mappings = {{.org_claim = "data.org", .roles_claim = "realm_access.roles"}}};
  const Json claims = {{"data", {{"org", {"a", "b"}}}},
                       {"realm_access", {{"roles", {"X_PROVIDER_VIEWER", "PROVIDER_ADMIN", 7}}}}};
  EXPECT_EQ(roles_in(issuer, claims, "b"), "PA PV ");
  EXPECT_EQ(roles_in(issuer, claims, "c"), "no");
  EXPECT_EQ(roles_in(issuer, {{"data", {{"org", "a"}}}}, "a"), "");
  EXPECT_EQ(roles_in(issuer, {{"data", "a"}}, "a"), "no");
  EXPECT_EQ(roles_in(issuer, {{"data", {{"org", {{"a", 1}}}}}}, "a"), "no");
}

TEST(IdentityTest, AClaimMayHaveDotsInItsName) {
  const RestIssuer issuer{.mappings = {{.org_claim = "https://id.example/org"}}};
  EXPECT_EQ(roles_in(issuer, {{"https://id.example/org", "a"}}, "a"), "");
}

TEST(IdentityTest, AMappingWithoutOrgGivesNone) {
  const RestIssuer issuer{.mappings = {{.roles = {"TENANT_ADMIN"}}}};
  EXPECT_EQ(roles_in(issuer, {{"", "a"}}, "a"), "no");
  EXPECT_EQ(roles_in(RestIssuer{}, Json::object(), "a"), "no");
}

TEST(IdentityTest, AServiceAccountHasBothAdminRolesAndTheFirstMappingCounts) {
  const RestIssuer issuer{.mappings = {{.org = "a", .roles = {"PROVIDER_VIEWER"}},
                                       {.org_claim = "org", .service_account = true}}};
  EXPECT_EQ(roles_in(issuer, {{"org", "b"}}, "b"), "PA TA ");
  EXPECT_EQ(roles_in(issuer, {{"org", "a"}}, "a"), "PV ");
}

TEST(IdentityTest, NamesComeFromTheUsualClaims) {
  const RestIssuer issuer{.mappings = {{.org = "a"}}};
  const auto caller = caller_of(
      token_with({{"email", "e@x"}, {"given_name", "G"}, {"family_name", 7}}), issuer, "a");
  ASSERT_TRUE(caller);
  EXPECT_EQ(caller->email, "e@x");
  EXPECT_EQ(caller->first_name, "G");
  EXPECT_EQ(caller->last_name, "");
}

}  // namespace
}  // namespace imex::partition
