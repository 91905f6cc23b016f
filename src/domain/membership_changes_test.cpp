// The rules of membership: addresses, connections and the list change while the domain runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "membership_fixture.hpp"

namespace imex::domain {
namespace {

using namespace std::chrono_literals;
using namespace testing_kit;

// ---- names and unassigned slots ----

TEST_F(MembershipTest, NamesAreResolvedAnewForEachAttempt) {
  Effects e = make(kNames);
  EXPECT_EQ(all<Resolve>(e).size(), 2U);
  EXPECT_TRUE(all<Dial>(e).empty());
  e = step(SlotResolved{1, "10.9.0.2"});
  EXPECT_EQ(one<Dial>(e)->address, "10.9.0.2");
  (void)step(DialFailed{1, attempt(e, 1), "refused", true});
  e = run(200ms);
  const auto again = all<Resolve>(e);
  EXPECT_TRUE(std::ranges::any_of(
      again, [](const Resolve& r) { return r.node == 1 && r.name == "node-b"; }));
}

TEST_F(MembershipTest, SlotsWithoutAddressAreNotDialledAndNoFailure) {
  (void)make(kNames);
  (void)step(SlotResolved{1, ""});
  (void)step(SlotResolved{2, std::string(kUnassignedAddress)});
  for (const Time end = now + 10min; now < end;) {
    now = m->next_deadline();
    const Effects e = step(Tick{});
    EXPECT_TRUE(all<Dial>(e).empty());
    for (const auto& line : all<MembershipLog>(e)) EXPECT_GT(line.level, 3) << line.text;
    for (const Resolve& r : all<Resolve>(e)) (void)step(SlotResolved{r.node, ""});
  }
  EXPECT_EQ(view(1).address, "");
  EXPECT_EQ(pair(1), PairState::kNeverConnected);
  EXPECT_NE(view(0).address, "");
}

TEST_F(MembershipTest, UnassignedSlotsAreAskedForEverMoreRarely) {
  (void)make("node-a\nnode-b\n");
  (void)step(SlotResolved{1, ""});
  std::size_t asked = 0;
  for (const Time end = now + 10min; now < end;) {
    now = m->next_deadline();
    for (const Resolve& r : all<Resolve>(step(Tick{}))) {
      ++asked;
      (void)step(SlotResolved{r.node, ""});
    }
  }
  EXPECT_LT(asked, 90U);  // 600 s / 7.5 s and the first quick ones
  EXPECT_GT(asked, 35U);
}

TEST_F(MembershipTest, AnUnassignedSlotThatDialsUsIsResolvedAndDialledAtOnce) {
  (void)make(kNames);
  (void)step(SlotResolved{1, ""});
  (void)run(1s);
  (void)step(SlotResolved{1, ""});
  Effects e = step(HelloReceived{1, hello_of(1, 11, kNames)});
  EXPECT_EQ(one<AnswerHello>(e)->verdict, HelloVerdict::kAccepted);
  EXPECT_EQ(one<Resolve>(e)->node, 1);
  EXPECT_TRUE(one<Dial>(step(SlotResolved{1, "10.9.0.2"})));
}

TEST_F(MembershipTest, AConnectedSlotThatBecomesUnassignedIsHungUp) {
  (void)make(kNames);
  Effects e = step(SlotResolved{1, "10.9.0.2"});
  const auto our_attempt = attempt(e, 1);
  (void)answer(e, hello_of(1, 11, kNames));
  e = step(SlotResolved{1, std::string(kUnassignedAddress)});
  EXPECT_EQ(one<HangUp>(e)->attempt, our_attempt);
  EXPECT_EQ(view(1).address, "");
  EXPECT_EQ(pair(1), PairState::kRecovering);
}

TEST_F(MembershipTest, ANameServerThatFailsDoesNotCutAWorkingPair) {
  (void)make(kNames);
  (void)answer(step(SlotResolved{1, "10.9.0.2"}), hello_of(1, 11, kNames));
  EXPECT_FALSE(all<Resolve>(step(ReconnectRequested{})).empty());
  EXPECT_TRUE(all<HangUp>(step(SlotResolved{1, ""})).empty());
  EXPECT_EQ(pair(1), PairState::kConnected);
  EXPECT_EQ(view(1).address, "10.9.0.2");
}

TEST_F(MembershipTest, ANameServerThatStumblesDoesNotSendAKnownPeerToRest) {
  (void)make("node-a\nnode-b\n");
  Effects e = step(SlotResolved{1, "10.9.0.2"});
  const auto our_attempt = attempt(e, 1);
  (void)answer(e, hello_of(1, 11, "node-a\nnode-b\n"));
  (void)step(StreamLost{1, our_attempt, true});
  for (const Time end = now + 20s; now < end;) {
    const Time before = now;
    do {
      now = m->next_deadline();
      e = step(Tick{});
    } while (all<Resolve>(e).empty());
    EXPECT_LE(now - before, 3s);
    (void)step(SlotResolved{1, ""});
    EXPECT_EQ(view(1).address, "10.9.0.2");
  }
}

// ---- rebuilding ----

TEST_F(MembershipTest, AReconnectReplacesStreamsWithoutAGap) {
  const auto old_attempt = ready_with_peer();
  Effects e = step(ReconnectRequested{});
  const auto fresh = attempt(e, 1);
  EXPECT_NE(fresh, old_attempt);
  EXPECT_EQ(pair(1), PairState::kConnected);
  e = answer(e, hello_of(1, 11));
  EXPECT_EQ(one<HangUp>(e)->attempt, old_attempt);
  EXPECT_EQ(pair(1), PairState::kConnected);
  EXPECT_TRUE(all<PeerEnded>(e).empty());
  EXPECT_TRUE(all<PeerJoined>(e).empty());
  EXPECT_TRUE(step(StreamLost{1, old_attempt, false}).empty());  // echo of the hang-up
}

TEST_F(MembershipTest, AFailedRebuildKeepsTheOldStreamOfTheSameAddress) {
  (void)ready_with_peer();
  const Effects e = step(ReconnectRequested{});
  EXPECT_TRUE(all<HangUp>(step(DialFailed{1, attempt(e, 1), "bad certificate", false})).empty());
  EXPECT_EQ(pair(1), PairState::kConnected);
}

TEST_F(MembershipTest, APeerThatMovedIsFoundByAReconnectAndTheOldPlaceGivenUp) {
  (void)make(kNames);
  (void)step(GpusReady{});
  Effects e = step(SlotResolved{1, "10.9.0.2"});
  const auto old_attempt = attempt(e, 1);
  (void)answer(e, hello_of(1, 11, kNames));
  (void)step(ReconnectRequested{});
  e = step(SlotResolved{1, "10.9.0.7"});
  const auto moved = attempt(e, 1);
  e = step(DialFailed{1, moved, "refused", true});
  EXPECT_EQ(one<HangUp>(e)->attempt, old_attempt);
  EXPECT_EQ(pair(1), PairState::kRecovering);
}

TEST_F(MembershipTest, AReconnectThatOvertakesAResolutionUsesTheLastAnswer) {
  (void)make("node-a\nnode-b\n");
  (void)step(ReconnectRequested{});  // the first question is still open
  Effects e = step(SlotResolved{1, "10.9.0.2"});
  const auto stale = attempt(e, 1);
  e = step(SlotResolved{1, "10.9.0.7"});
  EXPECT_EQ(one<HangUp>(e)->attempt, stale);
  EXPECT_EQ(one<Dial>(e)->address, "10.9.0.7");
}

TEST_F(MembershipTest, SixReconnectsInTwoSecondsAreTwoRunsAndTheLastIsNotLost) {
  config.reconnect_window = 5s;
  (void)ready_with_peer();
  const Time begin = now;
  std::vector<Nanos> runs;
  const auto count = [&](const Effects& e) {
    if (logged(e, "rebuilding all outgoing connections")) runs.push_back(now - begin);
    for (const Dial& d : all<Dial>(e)) {
      if (d.node == 1)
        (void)step(HelloAnswered{1, d.attempt, HelloVerdict::kAccepted, hello_of(1, 11)});
      else
        (void)step(DialFailed{d.node, d.attempt, "refused", true});
    }
  };
  for (int i = 0; i < 6; ++i) {
    count(step(ReconnectRequested{}));
    now = now + 400ms;
  }
  while (now < begin + 30s) {
    (void)step(HeartbeatReceived{1, id_of(11), DaemonStatus::kReady});
    now = m->next_deadline();
    count(step(Tick{}));
  }
  EXPECT_THAT(runs, ::testing::ElementsAre(Nanos(0), Nanos(5s)));
}

// ---- list changes ----

TEST_F(MembershipTest, Section18_02_AnAdditionDisturbsNobody) {
  (void)ready_with_peer();
  const Effects e =
      step(ListChanged{*parse_node_list("10.0.0.1\n10.0.0.2\n10.0.0.3\n10.0.0.4\n"), 0});
  EXPECT_TRUE(all<HangUp>(e).empty());
  EXPECT_TRUE(all<PeerEnded>(e).empty());
  EXPECT_EQ(pair(1), PairState::kConnected);
  EXPECT_EQ(attempt(e, 3), all<Dial>(e).back().attempt);
  EXPECT_EQ(m->list_epoch(), 2U);
  EXPECT_EQ(m->peers().size(), 4U);
}

TEST_F(MembershipTest, Section18_02_ARemovalEndsOnlyThatPeer) {
  const Effects start = make();
  (void)answer(start, hello_of(1, 11));
  (void)answer(start, hello_of(2, 22));
  const Effects e = step(ListChanged{*parse_node_list("10.0.0.1\n10.0.0.2\n"), 0});
  EXPECT_EQ(one<PeerEnded>(e)->node, 2);
  EXPECT_EQ(one<HangUp>(e)->node, 2);
  EXPECT_EQ(pair(1), PairState::kConnected);
  EXPECT_EQ(m->peers().size(), 2U);
}

TEST_F(MembershipTest, AReplacedSlotEndsTheOldPeerAndDialsTheNew) {
  const Effects start = make();
  (void)answer(start, hello_of(1, 11));
  const Effects e = step(ListChanged{*parse_node_list("10.0.0.1\n10.0.0.9\n10.0.0.3\n"), 0});
  EXPECT_EQ(one<PeerEnded>(e)->instance, id_of(11));
  const auto dials = all<Dial>(e);
  EXPECT_TRUE(std::ranges::any_of(
      dials, [](const Dial& d) { return d.node == 1 && d.address == "10.0.0.9"; }));
  EXPECT_EQ(pair(1), PairState::kNeverConnected);
}

TEST_F(MembershipTest, Section18_03_ANewOwnIdEndsTheDaemon) {
  (void)ready_with_peer();
  const Effects e = step(ListChanged{*parse_node_list("10.0.0.9\n10.0.0.1\n"), 1});
  EXPECT_EQ(one<IdentityLost>(e)->exit_code, 75);
  EXPECT_TRUE(step(GoodbyeReceived{1, id_of(11)}).empty());
  EXPECT_EQ(all<SendGoodbye>(step(StopRequested{})).size(), 1U);
}

TEST_F(MembershipTest, LosingTheOwnSlotEndsTheDaemon) {
  (void)make();
  EXPECT_EQ(
      one<IdentityLost>(step(ListChanged{*parse_node_list("10.0.0.9\n"), kNoNode}))->exit_code, 75);
}

TEST_F(MembershipTest, TheSameListAgainChangesNothing) {
  (void)ready_with_peer();
  EXPECT_TRUE(step(ListChanged{*parse_node_list(kThree), 0}).empty());
  EXPECT_EQ(m->list_epoch(), 1U);
}

TEST_F(MembershipTest, AMendedListEndsAMismatchAtOnce) {
  const Effects start = make("10.0.0.1\n10.0.0.2\n10.0.0.9\n");
  (void)answer(start, hello_of(1, 11), HelloVerdict::kMapMismatch);
  EXPECT_EQ(pair(1), PairState::kMapMismatch);
  const Effects e = step(ListChanged{*parse_node_list(kThree), 0});
  (void)answer(e, hello_of(1, 11));
  EXPECT_EQ(pair(1), PairState::kConnected);
}

}  // namespace
}  // namespace imex::domain
