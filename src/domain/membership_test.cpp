// The rules of membership, one statement each: the life of a daemon from its start to its stop.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "membership_fixture.hpp"

namespace imex::domain {
namespace {

using namespace std::chrono_literals;
using namespace testing_kit;

TEST_F(MembershipTest, ALoneDaemonBecomesReady) {
  m.emplace(config, random, now);
  EXPECT_EQ(m->status(), DaemonStatus::kInitializing);
  EXPECT_EQ(m->next_deadline(), kNever);
  const Effects e = step(ListChanged{*parse_node_list(kThree), 0});
  EXPECT_EQ(one<StatusChanged>(e)->status, DaemonStatus::kInitGpu);
  EXPECT_TRUE(logged(e, "Creating gRPC channels to all peers (nPeers = 2"));
  EXPECT_EQ(one<StatusChanged>(step(GpusReady{}))->status, DaemonStatus::kReady);
  EXPECT_EQ(pair(0), PairState::kConnected);
  EXPECT_EQ(view(0).status, DaemonStatus::kReady);
  EXPECT_EQ(view(0).address, "10.0.0.1");
}

// imex-service.md 19, "READY within 1 s": no name, no peer and no timer lies between the start and
// READY; what the GPUs and the machine need is all that is left of the second.
TEST_F(MembershipTest, NamesThatNobodyAnswersForDoNotDelayReadiness) {
  std::string names;
  for (int i = 0; i < 18; ++i) names += "compute-domain-daemon-" + std::to_string(i) + "\n";
  const Time start = now;
  const Effects e = make(names.c_str(), 4);
  EXPECT_EQ(all<Resolve>(e).size(), 17U);
  EXPECT_EQ(one<StatusChanged>(e)->status, DaemonStatus::kInitGpu);
  EXPECT_EQ(one<StatusChanged>(step(GpusReady{}))->status, DaemonStatus::kReady);
  EXPECT_EQ(now, start);
  static_cast<void>(run(60s));  // nobody ever answers
  EXPECT_EQ(m->status(), DaemonStatus::kReady);
}

TEST_F(MembershipTest, AllPeersAreDialledAtOnceAndNotTheOwnSlot) {
  const auto dials = all<Dial>(make());
  ASSERT_EQ(dials.size(), 2U);
  EXPECT_EQ(dials[0].node, 1);
  EXPECT_EQ(dials[0].address, "10.0.0.2");
  EXPECT_EQ(dials[0].hello.target, 1);
  EXPECT_EQ(dials[0].hello.instance, config.instance);
  EXPECT_EQ(dials[1].node, 2);
  EXPECT_NE(dials[0].attempt, dials[1].attempt);
}

TEST_F(MembershipTest, RecoveryWaitsUntilEachFormerImporterIsBack) {
  config.former_importers = {1, 2, 0, 77};  // itself and a slot that is gone do not count
  const Effects start = make();
  EXPECT_EQ(m->status(), DaemonStatus::kWaitingForRecovery);
  (void)answer(start, hello_of(1, 11));
  EXPECT_EQ(m->status(), DaemonStatus::kWaitingForRecovery);
  EXPECT_TRUE(all<StatusChanged>(run(1h)).empty());
  // An importer that dials us is back as well.
  const Effects e = step(HelloReceived{1, hello_of(2, 22)});
  EXPECT_EQ(one<StatusChanged>(e)->status, DaemonStatus::kInitGpu);
}

TEST_F(MembershipTest, RecoveryWaitEndsAtItsLimit) {
  config.former_importers = {1};
  config.recovery_wait_max = 10s;
  (void)make();
  (void)run(10s - 1ns);
  EXPECT_EQ(m->status(), DaemonStatus::kWaitingForRecovery);
  (void)run(1ns);
  EXPECT_EQ(m->status(), DaemonStatus::kInitGpu);
}

TEST_F(MembershipTest, ARecoveringDaemonDoesNotWaitForASlotTakenFromTheList) {
  config.former_importers = {2};
  (void)make();
  EXPECT_EQ(m->status(), DaemonStatus::kWaitingForRecovery);
  (void)step(ListChanged{*parse_node_list("10.0.0.1\n10.0.0.2\n"), 0});
  EXPECT_EQ(m->status(), DaemonStatus::kInitGpu);
}

TEST_F(MembershipTest, QuorumNoneAndCleanStopDoNotWait) {
  config.quorum = Quorum::kNone;
  config.former_importers = {1};
  (void)make();
  EXPECT_EQ(m->status(), DaemonStatus::kInitGpu);
}

TEST_F(MembershipTest, FullQuorumWaitsForAllListedPeers) {
  config.quorum = Quorum::kFull;
  const Effects start = make();
  EXPECT_EQ(m->status(), DaemonStatus::kWaitingForPeers);
  (void)answer(start, hello_of(1, 11));
  EXPECT_EQ(m->status(), DaemonStatus::kWaitingForPeers);
  (void)answer(start, hello_of(2, 22));
  EXPECT_EQ(m->status(), DaemonStatus::kInitGpu);
}

TEST_F(MembershipTest, FullQuorumGivesUpWhenMostPeersHaveAnotherList) {
  config.quorum = Quorum::kFull;
  Effects e = make();
  std::optional<IdentityLost> lost;
  for (const Time end = now + 30s; !lost && now < end;) {
    for (const Dial& d : all<Dial>(e)) {
      const Effects r = step(HelloAnswered{d.node, d.attempt, HelloVerdict::kMapMismatch, {}});
      if (!lost) lost = one<IdentityLost>(r);
    }
    now = m->next_deadline() == kNever ? end : m->next_deadline();
    e = step(Tick{});
  }
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->exit_code, 76);
  EXPECT_THAT(lost->why, ::testing::HasSubstr("Node configuration mismatch"));
}

TEST_F(MembershipTest, AListWithoutOwnSlotEndsTheStart) {
  EXPECT_EQ(one<IdentityLost>(make(kThree, kNoNode))->exit_code, 71);
}

TEST_F(MembershipTest, StopSaysGoodbyeOnEachPairAndEndsAllTimers) {
  const auto our_attempt = ready_with_peer();
  (void)step(HelloReceived{5, hello_of(2, 22)});  // only inbound
  const Effects e = step(StopRequested{});
  const auto goodbyes = all<SendGoodbye>(e);
  ASSERT_EQ(goodbyes.size(), 2U);
  EXPECT_EQ(goodbyes[0].attempt, our_attempt);
  EXPECT_EQ(goodbyes[1].stream, 5U);
  EXPECT_EQ(one<StatusChanged>(e)->status, DaemonStatus::kShuttingDown);
  EXPECT_EQ(m->next_deadline(), kNever);
  EXPECT_EQ(one<AnswerHello>(step(HelloReceived{6, hello_of(2, 22)}))->verdict,
            HelloVerdict::kNotReady);
  EXPECT_TRUE(all<SendGoodbye>(step(StopRequested{})).empty());
}

TEST_F(MembershipTest, BeforeTheListIsKnownHellosAreAnsweredNotReady) {
  m.emplace(config, random, now);
  EXPECT_EQ(one<AnswerHello>(step(HelloReceived{1, hello_of(1, 11)}))->verdict,
            HelloVerdict::kNotReady);
}

// ---- robustness ----

TEST_F(MembershipTest, EventsAboutUnknownNodesAndStreamsAreIgnored) {
  (void)ready_with_peer();
  for (const NodeId node : {NodeId{0}, NodeId{3}, NodeId{500}, kNoNode}) {
    EXPECT_TRUE(all<PeerEnded>(step(GoodbyeReceived{node, id_of(11)})).empty());
    EXPECT_TRUE(step(HeartbeatReceived{node, id_of(11), DaemonStatus::kReady}).empty());
    EXPECT_TRUE(step(DialFailed{node, 1, "", false}).empty());
    EXPECT_TRUE(step(StreamLost{node, 1, true}).empty());
    EXPECT_TRUE(step(SlotResolved{node, "10.1.1.1"}).empty());
    EXPECT_TRUE(step(HelloAnswered{node, 1, HelloVerdict::kAccepted, hello_of(1, 11)}).empty());
    const auto answers = all<AnswerHello>(step(HelloReceived{9, hello_of(node, 12)}));
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_NE(answers[0].verdict, HelloVerdict::kAccepted);
  }
  EXPECT_TRUE(step(InboundClosed{424242}).empty());
  EXPECT_EQ(pair(1), PairState::kConnected);
}

TEST(MembershipWordsTest, WordsAndCodesAreTheDocumentedOnes) {
  EXPECT_EQ(status_word(DaemonStatus::kReady), "READY");
  EXPECT_EQ(status_word(DaemonStatus::kUnavailable), "UNAVAILABLE");
  EXPECT_EQ(status_word(static_cast<DaemonStatus>(200)), "UNAVAILABLE");
  EXPECT_EQ(pair_code(PairState::kMapMismatch), "!M!");
  EXPECT_EQ(pair_word(PairState::kNeverConnected), "NEVER_CONNECTED");
  EXPECT_EQ(pair_code(static_cast<PairState>(99)), "I");
}

}  // namespace
}  // namespace imex::domain
