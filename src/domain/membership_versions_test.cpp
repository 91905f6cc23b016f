// Two Memberships of different releases that talk to each other.
#include <deque>

#include <gtest/gtest.h>

#include "domain/membership.hpp"
#include "membership_test_kit.hpp"

namespace imex::domain {
namespace {

using namespace std::chrono_literals;
using namespace testing_kit;

/// Two nodes of one domain, and the streams between them.
class MembershipVersionsTest : public ::testing::Test {
 protected:
  struct Range {
    std::uint32_t min, max;
  };

  /// A daemon of that release starts (anew) on the node.
  void start(NodeId node, Range range) {
    MembershipConfig config;
    config.domain_id = id_of(0xd0);
    config.instance = id_of(++instances_);
    config.boot_id = id_of(0xb0U + node);
    config.protocol_min = range.min;
    config.protocol_max = range.max;
    sides_[node].emplace(config, random_, now_);
    step(node, ListChanged{*parse_node_list("10.0.0.1\n10.0.0.2\n"), node});
    settle();
    step(node, GpusReady{});
    settle();
  }
  /// The daemon of the node dies: the machine resets its streams.
  void kill(NodeId node) {
    sides_[node].reset();
    const NodeId other = node == 0 ? 1 : 0;
    if (attempt_[other] != 0) step(other, StreamLost{node, attempt_[other], true});
    if (inbound_[other] != 0) step(other, InboundClosed{inbound_[other]});
    settle();
  }
  void pass(Nanos time) {
    const Time end = now_ + time;
    for (;;) {
      Time next = kNever;
      for (const auto& side : sides_) {
        if (side) next = std::min(next, side->next_deadline());
      }
      if (next > end) break;
      now_ = std::max(now_, next);
      for (const NodeId node : {NodeId{0}, NodeId{1}}) step(node, Tick{});
      settle();
    }
    now_ = end;
  }
  /// How the node sees the other one.
  [[nodiscard]] PairState pair(NodeId node) const {
    return sides_[node]->peers().at(node == 0 ? 1 : 0).state;
  }
  [[nodiscard]] DaemonStatus status(NodeId node) const { return sides_[node]->status(); }

 private:
  void step(NodeId node, MembershipEvent event) {
    if (!sides_[node]) return;
    for (auto& effect : sides_[node]->step(std::move(event), now_)) {
      effects_.emplace_back(node, std::move(effect));
    }
  }
  /// Carries out effects until nothing is left to do at this time.
  void settle() {
    while (!effects_.empty()) {
      const auto [node, effect] = std::move(effects_.front());
      effects_.pop_front();
      if (const auto* dial = std::get_if<Dial>(&effect)) connect(node, *dial);
    }
  }
  void connect(NodeId from, const Dial& dial) {
    const NodeId to = dial.node;
    if (!sides_[to]) return step(from, DialFailed{to, dial.attempt, "refused", true});
    const std::uint64_t stream = ++streams_;
    auto effects = sides_[to]->step(HelloReceived{stream, dial.hello}, now_);
    const auto answer = one<AnswerHello>(effects);
    ASSERT_TRUE(answer);
    for (auto& effect : effects) effects_.emplace_back(to, std::move(effect));
    const bool accepted = answer->verdict == HelloVerdict::kAccepted;
    attempt_[from] = accepted ? dial.attempt : 0;
    inbound_[to] = accepted ? stream : 0;
    step(from, HelloAnswered{to, dial.attempt, answer->verdict, answer->hello});
  }

  SeededRandom random_{7};
  Time now_{1'000'000'000'000};
  std::optional<Membership> sides_[2];
  std::uint64_t attempt_[2] = {0, 0};  ///< of the node's stream to the other one
  std::uint64_t inbound_[2] = {0, 0};  ///< the stream that the node accepted
  std::uint64_t instances_ = 0, streams_ = 0;
  std::deque<std::pair<NodeId, MembershipEffect>> effects_;
};

TEST_F(MembershipVersionsTest, Section18_13_ReleasesWhoseRangesOverlapFormADomain) {
  const std::pair<Range, Range> cases[] = {
      {{1, 1}, {1, 1}}, {{1, 2}, {2, 3}}, {{1, 4}, {2, 3}}, {{2, 2}, {1, 2}}};
  for (const auto& [first, second] : cases) {
    start(0, first);
    start(1, second);
    pass(2s);
    for (const NodeId node : {NodeId{0}, NodeId{1}}) {
      EXPECT_EQ(pair(node), PairState::kConnected) << first.max << " and " << second.min;
      EXPECT_EQ(status(node), DaemonStatus::kReady);
    }
    kill(0);
    kill(1);
  }
}

TEST_F(MembershipVersionsTest, Section18_13_ReleasesWhoseRangesAreDisjointRefuseEachOther) {
  const std::pair<Range, Range> cases[] = {{{1, 1}, {2, 2}}, {{3, 5}, {1, 2}}};
  for (const auto& [first, second] : cases) {
    start(0, first);
    start(1, second);
    pass(2s);
    for (const NodeId node : {NodeId{0}, NodeId{1}}) {
      EXPECT_EQ(pair(node), PairState::kVersionMismatch) << first.max << " and " << second.min;
      EXPECT_EQ(status(node), DaemonStatus::kReady);  // alone, and working
    }
    kill(0);
    kill(1);
  }
}

TEST_F(MembershipVersionsTest, Section18_13_ARollingUpgradeGoesOverAReleaseThatSpeaksBoth) {
  start(0, {1, 1});
  start(1, {1, 1});
  for (const Range next : {Range{1, 2}, Range{2, 2}}) {
    for (const NodeId node : {NodeId{0}, NodeId{1}}) {
      kill(node);
      start(node, next);
      pass(5s);
      EXPECT_EQ(pair(0), PairState::kConnected) << "node " << node << " at " << next.min;
      EXPECT_EQ(pair(1), PairState::kConnected) << "node " << node << " at " << next.min;
    }
  }
  kill(1);
  start(1, {1, 1});  // one that was forgotten
  pass(5s);
  EXPECT_EQ(pair(0), PairState::kVersionMismatch);
  EXPECT_EQ(pair(1), PairState::kVersionMismatch);
}

}  // namespace
}  // namespace imex::domain
