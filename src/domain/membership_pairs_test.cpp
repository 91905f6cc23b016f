// The rules of membership: a pair of daemons connects, is lost, comes back, or ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "membership_fixture.hpp"

namespace imex::domain {
namespace {

using namespace std::chrono_literals;
using namespace testing_kit;

TEST_F(MembershipTest, AnAcceptedHelloConnectsThePairAndTellsOurStatusAtOnce) {
  const Effects start = make();
  EXPECT_EQ(pair(1), PairState::kNeverConnected);
  const Effects e = answer(start, hello_of(1, 11));
  EXPECT_EQ(pair(1), PairState::kConnected);
  const auto joined = one<PeerJoined>(e);
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined->instance, id_of(11));
  EXPECT_EQ(joined->address, "10.0.0.2");
  EXPECT_EQ(joined->link_path, "/run/link");
  EXPECT_FALSE(joined->returned);
  EXPECT_EQ(one<SendHeartbeat>(e)->attempt, attempt(start, 1));
}

TEST_F(MembershipTest, APeerJoinsOnceThoughItConnectsBothWays) {
  const Effects start = make();
  EXPECT_EQ(all<PeerJoined>(step(HelloReceived{1, hello_of(1, 11)})).size(), 1U);
  EXPECT_EQ(pair(1), PairState::kNeverConnected);  // our own way is not up yet
  EXPECT_TRUE(all<PeerJoined>(answer(start, hello_of(1, 11))).empty());
  EXPECT_EQ(pair(1), PairState::kConnected);
}

TEST_F(MembershipTest, TheSameInstanceComesBackAndNothingIsCleaned) {
  const auto our_attempt = ready_with_peer();
  Effects e = lose_peer(our_attempt, true);
  EXPECT_EQ(pair(1), PairState::kRecovering);
  EXPECT_TRUE(logged(e, "Node disconnect event detected"));
  e = run(200ms);
  e = answer(e, hello_of(1, 11));
  EXPECT_EQ(pair(1), PairState::kConnected);
  EXPECT_TRUE(all<PeerEnded>(e).empty());
  EXPECT_TRUE(one<PeerJoined>(e)->returned);
}

TEST_F(MembershipTest, ANewInstanceEndsTheOldOneBeforeItJoins) {
  const auto our_attempt = ready_with_peer();
  (void)lose_peer(our_attempt, true);
  Effects e = run(200ms);
  e = answer(e, hello_of(1, 12));
  EXPECT_EQ(pair(1), PairState::kConnected);
  std::vector<std::string> order;
  for (const auto& effect : e) {
    if (const auto* ended = std::get_if<PeerEnded>(&effect)) {
      EXPECT_EQ(ended->instance, id_of(11));
      order.emplace_back("ended");
    }
    if (const auto* joined = std::get_if<PeerJoined>(&effect)) {
      EXPECT_EQ(joined->instance, id_of(12));
      EXPECT_FALSE(joined->returned);
      order.emplace_back("joined");
    }
  }
  EXPECT_THAT(order, ::testing::ElementsAre("ended", "joined"));
}

TEST_F(MembershipTest, Section18_08_ADaemonThatIsGoneIsEndedAfterItsLeaseAndNotBefore) {
  const auto our_attempt = ready_with_peer();
  Effects e = lose_peer(our_attempt, true);
  e = run_away(30s - 1ns, true);
  EXPECT_TRUE(all<PeerEnded>(e).empty());
  EXPECT_TRUE(all<PeerWentSilent>(e).empty());  // refusals are signs of life of the machine
  EXPECT_EQ(pair(1), PairState::kRecovering);
  e = run_away(1ns, true);
  EXPECT_EQ(one<PeerEnded>(e)->instance, id_of(11));
  EXPECT_EQ(pair(1), PairState::kDisconnected);
  EXPECT_TRUE(all<PeerEnded>(run_away(1h, true)).empty());
}

TEST_F(MembershipTest, Section18_09_ASilentMachineIsToldOnceAndEndedAfterTheLease) {
  const auto our_attempt = ready_with_peer();
  Effects e = run_away(3s - 1ns, false);
  EXPECT_TRUE(all<PeerWentSilent>(e).empty());
  EXPECT_EQ(pair(1), PairState::kConnected);
  e = run_away(1ns, false);
  EXPECT_EQ(one<PeerWentSilent>(e)->instance, id_of(11));
  EXPECT_EQ(one<HangUp>(e)->attempt, our_attempt);
  EXPECT_EQ(one<DropInbound>(e)->stream, kInbound);
  EXPECT_EQ(pair(1), PairState::kRecovering);
  e = run_away(30s - 1ns, false);
  EXPECT_TRUE(all<PeerEnded>(e).empty());
  EXPECT_TRUE(all<PeerWentSilent>(e).empty());
  EXPECT_TRUE(one<PeerEnded>(run_away(1ns, false)));
}

TEST_F(MembershipTest, WithoutALeaseForSilenceAndGraceMinusOneNothingIsEverEnded) {
  config.lease_when_silent = false;
  (void)ready_with_peer();
  EXPECT_TRUE(all<PeerEnded>(run_away(24h, false)).empty());
  EXPECT_EQ(pair(1), PairState::kRecovering);
}

TEST_F(MembershipTest, GraceZeroEndsAPeerAtOnce) {
  config.grace = 0s;
  const auto our_attempt = ready_with_peer();
  const Effects e = lose_peer(our_attempt, true);
  EXPECT_TRUE(one<PeerEnded>(e));
  EXPECT_EQ(pair(1), PairState::kDisconnected);
}

TEST_F(MembershipTest, GraceOfSecondsEndsAPeerAfterThem) {
  config.grace = 7s;
  config.lease_when_silent = false;
  const auto our_attempt = ready_with_peer();
  (void)lose_peer(our_attempt, false);
  EXPECT_TRUE(all<PeerEnded>(run_away(7s - 1ns, false)).empty());
  EXPECT_TRUE(one<PeerEnded>(run_away(1ns, false)));
}

TEST_F(MembershipTest, AGraceLongerThanTheLeaseHoldsForASilentMachine) {
  config.grace = 60s;
  (void)ready_with_peer();
  Effects e = run_away(62s, false);  // 3 s until silent, then 60 s
  EXPECT_TRUE(all<PeerEnded>(e).empty());
  EXPECT_TRUE(one<PeerEnded>(run_away(1s, false)));
}

TEST_F(MembershipTest, AMachineThatStopsAnsweringAfterItsDaemonDiedIsSilent) {
  const auto our_attempt = ready_with_peer();
  (void)lose_peer(our_attempt, true);
  EXPECT_TRUE(all<PeerWentSilent>(run_away(10s, true)).empty());
  EXPECT_EQ(all<PeerWentSilent>(run_away(10s, false)).size(), 1U);
}

TEST_F(MembershipTest, OneBrokenStreamOfTwoIsNoOutage) {
  config.grace = 0s;
  const auto our_attempt = ready_with_peer();
  Effects e = step(StreamLost{1, our_attempt, true});
  EXPECT_EQ(pair(1), PairState::kRecovering);
  EXPECT_TRUE(all<PeerEnded>(e).empty());  // it still speaks to us on its own stream
  e = answer(run(200ms), hello_of(1, 11));
  EXPECT_EQ(pair(1), PairState::kConnected);
  EXPECT_TRUE(all<PeerJoined>(e).empty());
}

TEST_F(MembershipTest, GoodbyeEndsThePeerAndLeavesThePairDisconnected) {
  const auto our_attempt = ready_with_peer();
  const Effects e = step(GoodbyeReceived{1, id_of(11)});
  EXPECT_EQ(one<PeerEnded>(e)->reason, Errc::kPeerLost);
  EXPECT_EQ(one<HangUp>(e)->attempt, our_attempt);
  EXPECT_EQ(one<DropInbound>(e)->stream, kInbound);
  EXPECT_TRUE(logged(e, "Received notification of shutdown from node 1"));
  EXPECT_EQ(pair(1), PairState::kDisconnected);
  // It is dialled again, and a new instance is welcome.
  EXPECT_TRUE(one<PeerJoined>(answer(run(200ms), hello_of(1, 12))));
  EXPECT_EQ(pair(1), PairState::kConnected);
}

TEST_F(MembershipTest, AGoodbyeOfAnotherInstanceIsIgnored) {
  (void)ready_with_peer();
  EXPECT_TRUE(step(GoodbyeReceived{1, id_of(99)}).empty());
  EXPECT_EQ(pair(1), PairState::kConnected);
}

TEST_F(MembershipTest, HeartbeatsKeepAPeerAndCarryItsStatus) {
  (void)ready_with_peer();
  for (int i = 0; i < 60; ++i) {
    EXPECT_TRUE(all<PeerWentSilent>(run(1s)).empty());
    (void)step(HeartbeatReceived{1, id_of(11), DaemonStatus::kReady});
  }
  EXPECT_EQ(view(1).status, DaemonStatus::kReady);
  EXPECT_EQ(pair(1), PairState::kConnected);
}

TEST_F(MembershipTest, HeartbeatsOfAnEarlierInstanceKeepNobody) {
  (void)ready_with_peer();
  Effects e;
  for (int i = 0; i < 4; ++i) {
    for (auto& more : run(1s)) e.push_back(std::move(more));
    (void)step(HeartbeatReceived{1, id_of(10), DaemonStatus::kReady});
  }
  EXPECT_EQ(all<PeerWentSilent>(e).size(), 1U);
}

TEST_F(MembershipTest, HeartbeatsAlternateBetweenTheTwoStreamsOfAPair) {
  const auto our_attempt = ready_with_peer();
  int out_way = 0, in_way = 0;
  for (int i = 0; i < 10; ++i) {
    for (const SendHeartbeat& beat : all<SendHeartbeat>(run(1s))) {
      EXPECT_EQ(beat.node, 1);
      if (beat.attempt == our_attempt) ++out_way;
      if (beat.stream == kInbound) ++in_way;
      EXPECT_NE(beat.attempt == 0, beat.stream == 0);
    }
    (void)step(HeartbeatReceived{1, id_of(11), DaemonStatus::kReady});
  }
  EXPECT_EQ(out_way, 5);
  EXPECT_EQ(in_way, 5);
}

TEST_F(MembershipTest, ADaemonThatSleptSendsOneBeatNotABurst) {
  (void)ready_with_peer();
  now = now + 2s;
  EXPECT_EQ(all<SendHeartbeat>(step(Tick{})).size(), 1U);
  EXPECT_EQ(m->next_deadline(), now + 1s);
}

// ---- back-off ----

TEST_F(MembershipTest, BackOffGrowsFrom100MsTo3SWithJitterAndResetsOnSuccess) {
  Effects e = make("10.0.0.1\n10.0.0.2\n");
  std::vector<Nanos> gaps;
  for (int i = 0; i < 200; ++i) {
    (void)step(DialFailed{1, attempt(e, 1), "refused", true});
    const Time failed = now;
    do {
      now = m->next_deadline();
      e = step(Tick{});
    } while (all<Dial>(e).empty());
    gaps.push_back(now - failed);
  }
  for (const Nanos gap : gaps) {
    EXPECT_GE(gap, 100ms);
    EXPECT_LE(gap, 3s);
  }
  EXPECT_LE(gaps.front(), 200ms);
  EXPECT_NE(gaps[50], gaps[51]);
  EXPECT_GT(*std::max_element(gaps.begin(), gaps.end()), 2500ms);

  (void)answer(e, hello_of(1, 11, "10.0.0.1\n10.0.0.2\n"));
  (void)step(StreamLost{1, attempt(e, 1), true});
  const Time lost = now;
  do {
    now = m->next_deadline();
    e = step(Tick{});
  } while (all<Dial>(e).empty());
  EXPECT_LE(now - lost, 200ms);
}

TEST_F(MembershipTest, EachAttemptIsABrandNewStream) {
  Effects e = make();
  const auto first = attempt(e, 1);
  (void)step(DialFailed{1, first, "refused", true});
  e = run(200ms);
  EXPECT_NE(attempt(e, 1), first);
  // A late answer to the first attempt is nobody's.
  EXPECT_TRUE(step(HelloAnswered{1, first, HelloVerdict::kAccepted, hello_of(1, 11)}).empty());
  EXPECT_EQ(pair(1), PairState::kNeverConnected);
}

TEST_F(MembershipTest, AnUnansweredDialIsGivenUp) {
  const Effects start = make();
  const Effects e = run(5s);
  const auto hung_up = all<HangUp>(e);
  EXPECT_TRUE(std::ranges::any_of(hung_up,
                                  [&](const HangUp& h) { return h.attempt == attempt(start, 1); }));
  EXPECT_EQ(view(1).last_error, "no answer in time");
  EXPECT_FALSE(all<Dial>(run(200ms)).empty());
}

TEST_F(MembershipTest, APeerThatDialsUsIsDialledAtOnce) {
  Effects e = make();
  for (int i = 0; i < 8; ++i) {  // deep into the back-off
    (void)step(DialFailed{1, attempt(e, 1), "away", false});
    do {
      now = m->next_deadline();
      e = step(Tick{});
    } while (all<Dial>(e).empty() || all<Dial>(e).front().node != 1);
  }
  (void)step(DialFailed{1, attempt(e, 1), "away", false});
  now = now + 150ms;
  e = step(HelloReceived{9, hello_of(1, 11)});
  EXPECT_TRUE(one<Dial>(e));
}

TEST_F(MembershipTest, RetriesAreLoggedEverMoreRarely) {
  Effects e = make();
  std::size_t lines = 0;
  for (int i = 0; i < 1000; ++i) {
    (void)step(DialFailed{1, attempt(e, 1), "away", false});
    do {
      now = m->next_deadline();
      e = step(Tick{});
      if (logged(e, "target node 1")) ++lines;
    } while (std::ranges::none_of(all<Dial>(e), [](const Dial& d) { return d.node == 1; }));
  }
  EXPECT_LE(lines, 10U);
  EXPECT_GE(view(1).attempts, 1000U);
}

}  // namespace
}  // namespace imex::domain
