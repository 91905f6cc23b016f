#include "domain/channel_registry.hpp"

#include <deque>

#include <gtest/gtest.h>

#include "domain/journal.hpp"

namespace imex::domain {
namespace {

using std::chrono::seconds;

/// Registries that carry each other's messages at once, in order, where the link is up.
class Cluster {
 public:
  explicit Cluster(NodeId count, std::uint32_t channels_max = 16) {
    for (NodeId node = 0; node < count; ++node) {
      nodes.emplace_back(RegistryConfig{node, channels_max, seconds(2)},
                         std::vector<ChannelAssignment>{}, std::set<std::string>{});
      up.insert(node);
    }
    announce();
  }
  void announce() {
    for (NodeId node = 0; node < nodes.size(); ++node) {
      const std::set<NodeId> ready = up.contains(node) ? up : std::set<NodeId>{node};
      step(node, RegistryPeers{ready, nodes.size()});
    }
    deliver();
  }
  void step(NodeId node, RegistryEvent event) {
    for (RegistryEffect& effect : nodes[node].step(std::move(event), now)) {
      if (auto* sent = std::get_if<SendRegistryMessage>(&effect)) {
        if (up.contains(node) && up.contains(sent->to)) wire.push_back({node, *sent});
      } else if (auto* done = std::get_if<GrantDone>(&effect)) {
        done_by[node][done->request] = *done;
      } else if (auto* journal = std::get_if<JournalAssignment>(&effect)) {
        journalled[node].push_back(journal->assignment);
      }
    }
  }
  void deliver() {
    while (!wire.empty()) {
      const auto [from, sent] = wire.front();
      wire.pop_front();
      step(sent.to, RegistryMessageArrived{from, sent.message});
    }
  }
  GrantDone grant(NodeId node, const std::string& workload) {
    step(node, GrantWanted{++request, workload});
    deliver();
    const auto found = done_by[node].find(request);
    return found == done_by[node].end() ? GrantDone{request, Errc::kInternal, 0, "not answered"}
                                        : found->second;
  }
  void release(NodeId node, const std::string& workload) {
    step(node, ReleaseWanted{workload});
    deliver();
  }
  void pass(Nanos time) {
    now = now + time;
    for (NodeId node = 0; node < nodes.size(); ++node) {
      if (nodes[node].next_deadline() <= now) step(node, RegistryTick{});
    }
    deliver();
  }
  /// The node comes back as a new instance that finds the journal of the former one.
  void replace(NodeId node) {
    JournalState former;
    former.header.node = node;
    former.clean_stop = true;
    for (const ChannelAssignment& each : journalled[node]) {
      apply_journal_record(former, AssignmentRecord{each});
    }
    std::vector<ChannelAssignment> kept;
    const JournalState state = succeed_journal(former, former.header);
    for (const auto& [workload, each] : state.assignments) kept.push_back(each);
    nodes[node] = ChannelRegistry(RegistryConfig{node, 16, seconds(2)}, kept, {});
    for (NodeId other = 0; other < nodes.size(); ++other) {
      if (other != node && up.contains(other)) step(other, RegistryNodeEnded{node});
    }
  }

  std::vector<ChannelRegistry> nodes;
  std::set<NodeId> up;
  std::deque<std::pair<NodeId, SendRegistryMessage>> wire;
  std::map<NodeId, std::map<std::uint64_t, GrantDone>> done_by;
  std::map<NodeId, std::vector<ChannelAssignment>> journalled;
  std::uint64_t request = 0;
  Time now{};
};

TEST(ChannelRegistryTest, AllNodesGetOneNumberForAWorkload) {
  Cluster c(3);
  const GrantDone first = c.grant(2, "job");
  ASSERT_EQ(first.code, Errc::kOk) << first.text;
  EXPECT_NE(first.channel, 0U);
  EXPECT_EQ(c.grant(0, "job").channel, first.channel);
  EXPECT_EQ(c.grant(1, "job").channel, first.channel);
  for (const ChannelRegistry& node : c.nodes) {
    ASSERT_EQ(node.table().size(), 1U);
    EXPECT_EQ(node.table()[0].holders, (std::set<NodeId>{0, 1, 2}));
  }
}

TEST(ChannelRegistryTest, WorkloadsGetDifferentNumbers) {
  Cluster c(3);
  std::set<std::uint32_t> numbers;
  for (int i = 0; i < 15; ++i)
    numbers.insert(c.grant(static_cast<NodeId>(i % 3), "job" + std::to_string(i)).channel);
  EXPECT_EQ(numbers.size(), 15U);
  EXPECT_FALSE(numbers.contains(0));
  EXPECT_EQ(c.grant(0, "one too many").code, Errc::kResourceExhausted);
}

TEST(ChannelRegistryTest, GrantIsIdempotent) {
  Cluster c(2);
  const std::uint32_t channel = c.grant(1, "job").channel;
  EXPECT_EQ(c.grant(1, "job").channel, channel);
  EXPECT_EQ(c.nodes[0].table()[0].holders, std::set<NodeId>{1});
}

TEST(ChannelRegistryTest, NumberIsFreeOnceTheLastHolderReleased) {
  Cluster c(2, 2);
  c.grant(0, "a");
  c.grant(1, "a");
  c.release(0, "a");
  EXPECT_EQ(c.grant(0, "b").code, Errc::kResourceExhausted);
  c.release(1, "a");
  EXPECT_EQ(c.grant(0, "b").code, Errc::kOk);
  EXPECT_TRUE(c.journalled[0].size() >= 3);
}

TEST(ChannelRegistryTest, MinorityRefusesAndSaysWhy) {
  Cluster c(3);
  c.up = {0};
  c.announce();
  const GrantDone done = c.grant(0, "job");
  EXPECT_EQ(done.code, Errc::kUnavailable);
  EXPECT_NE(done.text.find("1 of 3"), std::string::npos) << done.text;
}

TEST(ChannelRegistryTest, HalfIsNoMajority) {
  Cluster c(4);
  c.up = {0, 1};
  c.announce();
  EXPECT_EQ(c.grant(0, "job").code, Errc::kUnavailable);
  c.up = {0, 1, 2};
  c.announce();
  EXPECT_EQ(c.grant(0, "job").code, Errc::kOk);
}

TEST(ChannelRegistryTest, WhatIsHeldStaysGrantedInAMinority) {
  Cluster c(3);
  const std::uint32_t channel = c.grant(0, "job").channel;
  c.up = {0};
  c.announce();
  EXPECT_EQ(c.grant(0, "job").channel, channel);
}

TEST(ChannelRegistryTest, AllocatorThatWasAwayDoesNotGiveATakenNumber) {
  Cluster c(3, 3);
  c.up = {1, 2};
  c.announce();
  const std::uint32_t first = c.grant(1, "a").channel;
  // Node 0 is back, but its links carry nothing of the table yet: it proposes what it thinks is
  // free.
  c.up = {0, 1, 2};
  c.step(0, RegistryPeers{c.up, 3});
  c.wire.clear();
  const GrantDone second = c.grant(0, "b");
  EXPECT_EQ(second.code, Errc::kOk) << second.text;
  EXPECT_NE(second.channel, first);
  EXPECT_EQ(c.grant(2, "b").channel, second.channel);
}

TEST(ChannelRegistryTest, AllocatorThatWasAwayAdoptsTheNumberOfAKnownWorkload) {
  Cluster c(3);
  c.up = {1, 2};
  c.announce();
  c.grant(1, "z");
  const std::uint32_t number = c.grant(1, "a").channel;
  c.up = {0, 1, 2};
  c.step(0, RegistryPeers{c.up, 3});
  c.wire.clear();
  EXPECT_EQ(c.grant(0, "a").channel, number);
}

TEST(ChannelRegistryTest, WaitingGrantGoesToTheNextAllocator) {
  Cluster c(3);
  c.step(2, GrantWanted{50, "job"});
  c.wire.clear();  // node 0 dies with the question
  c.up = {1, 2};
  c.announce();
  EXPECT_EQ(c.done_by[2][50].code, Errc::kOk) << c.done_by[2][50].text;
}

TEST(ChannelRegistryTest, UnansweredGrantEndsInTimeAndLeavesNothing) {
  Cluster c(3);
  c.step(2, GrantWanted{50, "job"});
  c.wire.clear();
  c.pass(seconds(4));
  EXPECT_EQ(c.done_by[2][50].code, Errc::kUnavailable);
  EXPECT_TRUE(c.nodes[2].table().empty());
  EXPECT_EQ(c.nodes[2].next_deadline(), kNever);
}

TEST(ChannelRegistryTest, ProposalWithoutAMajorityIsTakenBack) {
  Cluster c(3);
  c.step(0, GrantWanted{50, "job"});
  c.wire.clear();  // the proposal reaches nobody
  c.pass(seconds(2));
  EXPECT_EQ(c.done_by[0][50].code, Errc::kUnavailable);
  for (const ChannelRegistry& node : c.nodes) EXPECT_TRUE(node.table().empty());
  EXPECT_EQ(c.grant(0, "job").code, Errc::kOk);
}

TEST(ChannelRegistryTest, ReleaseDuringAgreementCancelsTheGrant) {
  Cluster c(3);
  c.step(2, GrantWanted{50, "job"});
  c.step(2, ReleaseWanted{"job"});
  c.deliver();
  EXPECT_EQ(c.done_by[2][50].code, Errc::kAborted);
  for (const ChannelRegistry& node : c.nodes) EXPECT_TRUE(node.table().empty());
}

TEST(ChannelRegistryTest, EndOfANodeReleasesItsHolds) {
  Cluster c(3);
  c.grant(1, "job");
  c.step(0, RegistryNodeEnded{1});
  EXPECT_TRUE(c.nodes[0].table().empty());
  EXPECT_TRUE(c.journalled[0].back().holders.empty());
}

TEST(ChannelRegistryTest, JoiningNodeLearnsTheTableAndMissedReleases) {
  Cluster c(3);
  c.grant(1, "kept");
  c.grant(1, "dropped");
  c.up = {1, 2};
  c.announce();
  c.release(1, "dropped");
  c.grant(2, "new");
  c.up = {0, 1, 2};
  c.announce();
  std::set<std::string> known;
  for (const ChannelAssignment& each : c.nodes[0].table()) known.insert(each.workload);
  EXPECT_EQ(known, (std::set<std::string>{"kept", "new"}));
}

TEST(ChannelRegistryTest, ConflictingTableIsCountedAndWhatWasHereIsKept) {
  Cluster c(2);
  const std::uint32_t channel = c.grant(0, "job").channel;
  RegistryMessage table;
  table.kind = RegistryMessage::Kind::kTable;
  table.table = {{"stranger", channel, {1}}};
  c.step(0, RegistryMessageArrived{1, table});
  EXPECT_EQ(c.nodes[0].conflicts(), 1U);
  ASSERT_EQ(c.nodes[0].table().size(), 1U);
  EXPECT_EQ(c.nodes[0].table()[0].workload, "job");
}

TEST(ChannelRegistryTest, JournalledTableIsKnownAtTheStart) {
  ChannelRegistry registry(RegistryConfig{0, 16, seconds(2)}, {{"job", 5, {0}}, {"empty", 6, {}}},
                           {"job"});
  ASSERT_EQ(registry.table().size(), 1U);
  const auto effects = registry.step(GrantWanted{1, "job"}, Time{});
  EXPECT_EQ(std::get<GrantDone>(effects.at(0)).channel, 5U);
}

TEST(ChannelRegistryTest, AHoldThatDiedDuringAgreementIsNoGrant) {
  // Proposed for this node itself, journalled, and then the daemon died before anybody agreed.
  ChannelRegistry registry(RegistryConfig{0, 16, seconds(2)},
                           {{"job", 5, {0}}, {"other", 6, {0, 1}}}, {});
  ASSERT_EQ(registry.table().size(), 1U);
  EXPECT_EQ(registry.table()[0].holders, std::set<NodeId>{1});
  const auto effects = registry.step(GrantWanted{1, "job"}, Time{});
  EXPECT_EQ(std::get<GrantDone>(effects.at(0)).code, Errc::kUnavailable);
}

TEST(ChannelRegistryTest, ANodeThatStartsAnewStillKnowsWhatItHelpedToGiveOut) {
  Cluster c(3);
  c.up = {0, 1};
  c.announce();
  const GrantDone left = c.grant(0, "left");
  ASSERT_EQ(left.code, Errc::kOk) << left.text;
  c.replace(1);
  c.up = {1, 2};  // node 0 holds on to its number, and nobody can ask it
  c.announce();
  const GrantDone right = c.grant(2, "right");
  ASSERT_EQ(right.code, Errc::kOk) << right.text;
  EXPECT_NE(left.channel, right.channel);
}

TEST(ChannelRegistryTest, WhatANodeGrantedItselfEndsWithItsInstance) {
  Cluster c(3);
  const GrantDone left = c.grant(1, "left");
  ASSERT_EQ(left.code, Errc::kOk) << left.text;
  c.replace(1);
  c.announce();
  for (const ChannelRegistry& node : c.nodes) EXPECT_TRUE(node.table().empty());
  // The number may go to somebody else; the former holder must ask again.
  EXPECT_EQ(c.grant(0, "right").channel, left.channel);
  EXPECT_NE(c.grant(1, "left").channel, left.channel);
}

TEST(ChannelRegistryTest, NamesOutOfRangeAreRefused) {
  Cluster c(1);
  EXPECT_EQ(c.grant(0, "").code, Errc::kInvalidArgument);
  EXPECT_EQ(c.grant(0, std::string(256, 'x')).code, Errc::kInvalidArgument);
  EXPECT_EQ(c.grant(0, std::string(255, 'x')).code, Errc::kOk);
}

}  // namespace
}  // namespace imex::domain
