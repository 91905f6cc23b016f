#include "domain/node_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace imex::domain {
namespace {

using ::testing::HasSubstr;

NodeList list_of(std::string_view text) {
  auto list = parse_node_list(text);
  EXPECT_TRUE(list) << (list ? "" : list.error().to_string());
  return list ? *list : NodeList{};
}

std::string problem_of(std::string_view text) {
  const auto list = parse_node_list(text);
  if (list) return "accepted";
  EXPECT_EQ(list.error().code, Errc::kInvalidArgument);
  return list.error().message;
}

TEST(NodeListTest, LineOrderGivesTheNodeId) {
  const NodeList list = list_of("10.0.0.11\n10.0.0.12\nfe80::1%eth0\nhost-a.example.\n");
  ASSERT_EQ(list.entries.size(), 4U);
  EXPECT_EQ(list.entries[0], (NodeEntry{"10.0.0.11", false}));
  EXPECT_EQ(list.entries[2], (NodeEntry{"fe80::1%eth0", false}));
  EXPECT_EQ(list.entries[3], (NodeEntry{"host-a.example.", true}));
}

TEST(NodeListTest, CommentsBlankLinesBlanksAndCarriageReturnsAreCut) {
  const NodeList list = list_of("# first\r\n\r\n  10.0.0.1\t\r\n\t# second\n\n10.0.0.2");
  ASSERT_EQ(list.entries.size(), 2U);
  EXPECT_EQ(list.entries[1].text, "10.0.0.2");
}

TEST(NodeListTest, TheListOfTheKubernetesDriverIsReadAsNames) {
  std::string text;
  for (int i = 0; i < 18; ++i) {
    text += "compute-domain-daemon-00" + std::string(i < 10 ? "0" : "") + std::to_string(i) + '\n';
  }
  const NodeList list = list_of(text);
  ASSERT_EQ(list.entries.size(), 18U);
  for (const NodeEntry& entry : list.entries) EXPECT_TRUE(entry.is_name) << entry.text;
}

TEST(NodeListTest, AnEmptyFileIsAnEmptyList) {
  EXPECT_TRUE(list_of("").entries.empty());
  EXPECT_TRUE(list_of("\n# nobody\n").entries.empty());
}

TEST(NodeListTest, AllProblemsAreNamedWithTheirLines) {
  const std::string text = problem_of("10.0.0.1\n10.0.0.300\nbad name\n10.0.0.1\n");
  EXPECT_THAT(text, HasSubstr("line 2: '10.0.0.300': looks like an IPv4 address"));
  EXPECT_THAT(text, HasSubstr("line 3: 'bad name'"));
  EXPECT_THAT(text, HasSubstr("line 4: '10.0.0.1' stands in line 1 already"));
}

TEST(NodeListTest, OneAddressInTwoSpellingsIsADuplicate) {
  EXPECT_THAT(problem_of("::1\n0:0::1\n"), HasSubstr("line 2"));
  EXPECT_THAT(problem_of("Node-A\nnode-a\n"), HasSubstr("line 2"));
}

TEST(NodeListTest, BadNamesAreRefused) {
  EXPECT_THAT(problem_of(std::string(254, 'a')), HasSubstr("254 bytes"));
  EXPECT_THAT(problem_of(std::string(64, 'a')), HasSubstr("64 bytes"));
  EXPECT_THAT(problem_of("a..b"), HasSubstr("empty"));
  EXPECT_THAT(problem_of("-a"), HasSubstr("'-'"));
  EXPECT_THAT(problem_of("10.0.0.1:50000"), HasSubstr("neither"));
  EXPECT_THAT(problem_of("[::1]"), HasSubstr("neither"));
  EXPECT_THAT(problem_of("fe80::1%"), HasSubstr("neither"));
  EXPECT_THAT(problem_of(std::string_view("a\0b\x1b", 4)), HasSubstr("\\x00b\\x1b"));
}

TEST(NodeListTest, NothingHidesBehindANul) {
  using namespace std::string_literals;
  for (const std::string& text : {"::1\0rest"s, "10.0.0.1\0"s, "::1\0%eth0"s, "node\0"s}) {
    EXPECT_FALSE(parse_node_list(text)) << text.size();
  }
}

TEST(NodeListTest, MoreThanTheMaximumOfNodesIsRefusedOnce) {
  std::string text;
  for (std::size_t i = 0; i < kMaxNodes + 5; ++i) text += "n" + std::to_string(i) + '\n';
  EXPECT_EQ(problem_of(text), "node list: line 4097: more than 4096 nodes");
}

TEST(NodeListTest, ManyProblemsAreCountedNotListed) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "a b\n";
  EXPECT_THAT(problem_of(text), HasSubstr("and 92 more"));
}

TEST(NodeListTest, TheDigestDependsOnEveryEntryAndTheirOrder) {
  const Uuid ab = list_of("a\nb\n").digest();
  EXPECT_EQ(ab, list_of("# again\na\nb").digest());
  EXPECT_NE(ab, list_of("b\na\n").digest());
  EXPECT_NE(ab, list_of("ab\n").digest());
  EXPECT_NE(ab, list_of("a\nb\nc\n").digest());
}

TEST(NodeListTest, TheDomainIdentityStaysWhileAListGrows) {
  const Uuid before = domain_identity(std::nullopt, list_of("a\nb\n"));
  EXPECT_EQ(before, domain_identity(std::nullopt, list_of("a\nb\nc\n")));
  EXPECT_NE(before, domain_identity(std::nullopt, list_of("b\na\n")));
  const Uuid configured = *Uuid::parse("00112233-4455-6677-8899-aabbccddeeff");
  EXPECT_EQ(domain_identity(configured, list_of("a\n")), configured);
}

TEST(NodeListTest, IdenticalAndPrefixRulesDifferOnlyInLength) {
  const NodeList two = list_of("a\nb\n"), three = list_of("a\nb\nc\n"), swapped = list_of("b\na\n");
  EXPECT_TRUE(lists_agree(two, two, ListRule::kIdentical));
  EXPECT_FALSE(lists_agree(two, three, ListRule::kIdentical));
  EXPECT_TRUE(lists_agree(two, three, ListRule::kPrefix));
  EXPECT_TRUE(lists_agree(three, two, ListRule::kPrefix));
  EXPECT_FALSE(lists_agree(three, swapped, ListRule::kPrefix));
}

}  // namespace
}  // namespace imex::domain
