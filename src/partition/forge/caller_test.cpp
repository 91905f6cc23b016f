#include "partition/forge/caller.hpp"

#include <gmock/gmock.h>

namespace imex::partition::forge {
namespace {

using ::testing::HasSubstr;

std::vector<CallerRule> rules() {
  return {*parse_caller_rule("cn:ops-*", Role::kAdmin),
          *parse_caller_rule("san:spiffe://site.example/default/sa/site-agent", Role::kSiteAgent)};
}

TEST(CallerRules, NameACommonNameOrAnAlternativeName) {
  const Caller operator_of_site = identify({.common_name = "ops-alice"}, rules());
  EXPECT_EQ(operator_of_site.role, Role::kAdmin);
  EXPECT_EQ(operator_of_site.subject, "cn:ops-alice");
  const Caller agent = identify(
      {.common_name = "agent",
       .alternative_names = {"agent.local", "spiffe://site.example/default/sa/site-agent"}},
      rules());
  EXPECT_EQ(agent.role, Role::kSiteAgent);
  EXPECT_EQ(agent.subject, "san:spiffe://site.example/default/sa/site-agent");
}

TEST(CallerRules, WithoutAsteriskTakeTheWholeNameOnly) {
  const auto role = [](const std::string& name) {
    return identify({.alternative_names = {name}}, rules()).role;
  };
  EXPECT_EQ(role("spiffe://site.example/default/sa/site-agent-2"), Role::kNone);
  EXPECT_EQ(role("spiffe://site.example/default/sa"), Role::kNone);
  // A common name is no alternative name: whoever may choose one need not be allowed the other.
  EXPECT_EQ(identify({.common_name = "spiffe://site.example/default/sa/site-agent"}, rules()).role,
            Role::kNone);
}

TEST(CallerRules, GiveTheStrongestRoleOfAllNames) {
  EXPECT_EQ(identify({.common_name = "ops-bot",
                      .alternative_names = {"spiffe://site.example/default/sa/site-agent"}},
                     rules())
                .role,
            Role::kAdmin);
}

TEST(CallerRules, ThatNameEverybodyOrNobodyAreRefused) {
  for (const std::string_view text :
       {"cn:*", "san:*", "cn:", "san:", "*", "alice", "dns:alice", ""})
    EXPECT_FALSE(parse_caller_rule(text, Role::kAdmin)) << text;
}

TEST(Callers, WithoutNamesHaveNoRole) { EXPECT_EQ(identify({}, rules()).role, Role::kNone); }

TEST(Callers, ThatAreLocalAreOperators) {
  EXPECT_EQ(identify({.local = true}, {}).role, Role::kAdmin);
}

TEST(Access, IsByRole) {
  const Caller nobody{Role::kNone, "cn:x"}, agent{Role::kSiteAgent, "cn:agent"},
      admin{Role::kAdmin, "cn:ops"};
  EXPECT_TRUE(authorise(nobody, Access::kAnyone, "Version"));
  EXPECT_FALSE(authorise(nobody, Access::kPartitions, "FindNVLinkPartitionIds"));
  EXPECT_TRUE(authorise(agent, Access::kPartitions, "FindNVLinkPartitionIds"));
  EXPECT_TRUE(authorise(admin, Access::kPartitions, "FindNVLinkPartitionIds"));
  EXPECT_TRUE(authorise(admin, Access::kAdminOnly, "CreateCredential"));
  const auto refused = authorise(agent, Access::kAdminOnly, "CreateCredential");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kPermissionDenied);
  EXPECT_THAT(refused.error().message, HasSubstr("CreateCredential is for administrators"));
  EXPECT_THAT(refused.error().message, HasSubstr("'cn:agent' has role site-agent"));
}

}  // namespace
}  // namespace imex::partition::forge
