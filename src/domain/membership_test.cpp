// The rules of membership, one statement each, on one Membership whose peers the test plays.
#include "domain/membership.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "membership_test_kit.hpp"

namespace imex::domain {
namespace {

using namespace std::chrono_literals;
using namespace testing_kit;
using Effects = std::vector<MembershipEffect>;

constexpr const char* kThree = "10.0.0.1\n10.0.0.2\n10.0.0.3\n";
constexpr const char* kNames = "node-a\nnode-b\nnode-c\n";

/// Node 0 of a domain under test.
class MembershipTest : public ::testing::Test {
 protected:
  MembershipConfig config = [] {
    MembershipConfig c;
    c.domain_id = id_of(0xd0);
    c.instance = id_of(1);
    c.boot_id = id_of(0xb0);
    c.version = "0.1.0";
    return c;
  }();
  SeededRandom random{7};
  Time now{1'000'000'000'000};
  std::optional<Membership> m;
  std::uint64_t next_stream = 1;

  Effects make(const char* list = kThree, NodeId self = 0) {
    m.emplace(config, random, now);
    return step(ListChanged{*parse_node_list(list), self});
  }
  Effects step(MembershipEvent event) { return m->step(std::move(event), now); }
  Effects after(Nanos d) {
    now = now + d;
    return step(Tick{});
  }
  /// Ticks at each deadline until `d` has passed; all effects.
  Effects run(Nanos d) {
    const Time end = now + d;
    Effects effects;
    while (m->next_deadline() <= end) {
      now = std::max(now, m->next_deadline());
      for (auto& e : step(Tick{})) effects.push_back(std::move(e));
    }
    now = end;
    return effects;
  }
  PeerView view(NodeId node) const { return m->peers().at(node); }
  PairState pair(NodeId node) const { return view(node).state; }

  Hello hello_of(NodeId node, std::uint64_t instance, const char* list = kThree) const {
    Hello h;
    h.version = "0.1.0";
    h.domain_id = config.domain_id;
    h.instance = id_of(instance);
    h.boot_id = id_of(0xb0 + node);
    h.node = node;
    h.target = 0;
    h.list = *parse_node_list(list);
    h.link_path = "/run/link";
    return h;
  }
  /// Answers the dial among `effects` to `node`.
  Effects answer(const Effects& effects, const Hello& hello,
                 HelloVerdict verdict = HelloVerdict::kAccepted) {
    return step(HelloAnswered{hello.node, attempt(effects, hello.node), verdict, hello});
  }
  static std::uint64_t attempt(const Effects& effects, NodeId node) {
    for (const Dial& d : all<Dial>(effects)) {
      if (d.node == node) return d.attempt;
    }
    ADD_FAILURE() << "no dial to node " << node;
    return 0;
  }
  /// READY with node 1 connected as instance 11, both ways; node 2 away. Returns our attempt.
  std::uint64_t ready_with_peer() {
    const Effects start = make();
    (void)step(GpusReady{});
    (void)answer(start, hello_of(1, 11));
    (void)step(HelloReceived{kInbound, hello_of(1, 11)});
    EXPECT_EQ(pair(1), PairState::kConnected);
    return attempt(start, 1);
  }
  static constexpr std::uint64_t kInbound = 100;

  /// The daemon of node 1 vanishes; `answers`: its machine resets the connections.
  Effects lose_peer(std::uint64_t our_attempt, bool answers) {
    Effects e = step(StreamLost{1, our_attempt, answers});
    for (auto& more : step(InboundClosed{kInbound})) e.push_back(std::move(more));
    return e;
  }
  /// Runs for `d` while the machine of node 1 refuses (or swallows) each dial.
  Effects run_away(Nanos d, bool answers) {
    const Time end = now + d;
    Effects effects;
    while (m->next_deadline() <= end) {
      now = std::max(now, m->next_deadline());
      Effects fresh = step(Tick{});
      for (const Dial& dial : all<Dial>(fresh)) {
        if (dial.node != 1) continue;
        for (auto& e : step(DialFailed{1, dial.attempt, "away", answers})) {
          effects.push_back(std::move(e));
        }
      }
      std::ranges::move(fresh, std::back_inserter(effects));
    }
    now = end;
    return effects;
  }
};

// ---- life cycle and quorum ----

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

// ---- pairs ----

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

// ---- who may talk ----

TEST_F(MembershipTest, OwnInstanceIsRefusedAsSelf) {
  const Effects start = make();
  Hello h = hello_of(1, 1);
  EXPECT_EQ(one<AnswerHello>(step(HelloReceived{1, h}))->verdict, HelloVerdict::kSelf);
  (void)answer(start, h);
  EXPECT_EQ(pair(1), PairState::kNeverConnected);
}

TEST_F(MembershipTest, Section18_03_AClaimOfOurOwnIdIsRefusedLoudly) {
  (void)make();
  const Effects e = step(HelloReceived{1, hello_of(0, 99)});
  EXPECT_EQ(one<AnswerHello>(e)->verdict, HelloVerdict::kDuplicateId);
  EXPECT_TRUE(logged(e, "duplicate node id 0", 2));
  EXPECT_FALSE(logged(step(HelloReceived{2, hello_of(0, 99)}), "duplicate"));  // not on each try
}

TEST_F(MembershipTest, ASecondDaemonOfOneIdIsRefusedWhileTheFirstIsConnected) {
  const auto our_attempt = ready_with_peer();
  Effects e = step(HelloReceived{7, hello_of(1, 12)});
  EXPECT_EQ(one<AnswerHello>(e)->verdict, HelloVerdict::kDuplicateId);
  EXPECT_TRUE(all<PeerEnded>(e).empty());
  now = now + 1s;
  (void)step(HeartbeatReceived{1, id_of(11), DaemonStatus::kReady});
  EXPECT_TRUE(logged(step(HelloReceived{8, hello_of(1, 12)}), "duplicate node id 1", 2));
  // Once the first is gone, the second is a new instance.
  (void)lose_peer(our_attempt, true);
  e = step(HelloReceived{9, hello_of(1, 12)});
  EXPECT_EQ(one<AnswerHello>(e)->verdict, HelloVerdict::kAccepted);
  EXPECT_EQ(one<PeerEnded>(e)->instance, id_of(11));
}

TEST_F(MembershipTest, AQuickRestartIsNotCalledADuplicate) {
  (void)ready_with_peer();
  EXPECT_FALSE(logged(step(HelloReceived{7, hello_of(1, 12)}), "duplicate"));
}

TEST_F(MembershipTest, BeingRefusedAsDuplicateForLongEndsTheDaemon) {
  Effects e = make("10.0.0.1\n10.0.0.2\n");
  std::optional<IdentityLost> lost;
  const Time begin = now;
  while (!lost && now < begin + 20s) {
    for (const Dial& d : all<Dial>(e)) {
      lost = one<IdentityLost>(step(HelloAnswered{1, d.attempt, HelloVerdict::kDuplicateId, {}}));
    }
    if (lost) break;
    now = m->next_deadline();
    e = step(Tick{});
  }
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->exit_code, 75);
  EXPECT_GE(now - begin, 6s);  // the other owner may be a ghost that heartbeats expose
  EXPECT_EQ(m->next_deadline(), kNever);
  EXPECT_TRUE(step(HelloReceived{3, hello_of(1, 11)}).empty());
}

TEST_F(MembershipTest, OnePeerAgainstManyCannotTakeOurId) {
  const char* list = "10.0.0.1\n10.0.0.2\n10.0.0.3\n10.0.0.4\n";
  Effects e = make(list);
  (void)answer(e, hello_of(2, 22, list));
  (void)answer(e, hello_of(3, 33, list));
  std::size_t refusals = 0;
  for (const Time end = now + 60s; now < end;) {
    for (const Dial& d : all<Dial>(e)) {
      if (d.node != 1) continue;
      ++refusals;
      const Effects r = step(HelloAnswered{1, d.attempt, HelloVerdict::kDuplicateId, {}});
      EXPECT_FALSE(one<IdentityLost>(r));
    }
    (void)step(HeartbeatReceived{2, id_of(22), DaemonStatus::kReady});
    (void)step(HeartbeatReceived{3, id_of(33), DaemonStatus::kReady});
    now = m->next_deadline();
    e = step(Tick{});
  }
  EXPECT_GT(refusals, 15U);
}

TEST_F(MembershipTest, Section18_01_AForeignDomainIsRefusedAndNeitherEndsNorJoinsAnything) {
  const auto our_attempt = ready_with_peer();
  Hello stranger = hello_of(1, 99);
  stranger.domain_id = id_of(0xdd);
  Effects e = step(HelloReceived{7, stranger});
  EXPECT_EQ(one<AnswerHello>(e)->verdict, HelloVerdict::kForeignDomain);
  (void)lose_peer(our_attempt, true);
  e = run(200ms);
  e = answer(e, stranger);  // its address was reused
  EXPECT_TRUE(all<PeerEnded>(e).empty());
  EXPECT_TRUE(all<PeerJoined>(e).empty());
  EXPECT_EQ(pair(1), PairState::kRecovering);
}

TEST_F(MembershipTest, WithoutAConfiguredDomainTheListsDecide) {
  config.domain_id = Uuid{};
  const Effects start = make();
  Hello other = hello_of(1, 11, "10.0.0.1\n10.0.0.3\n10.0.0.2\n");
  EXPECT_EQ(one<AnswerHello>(step(HelloReceived{1, other}))->verdict, HelloVerdict::kMapMismatch);
  EXPECT_EQ(one<AnswerHello>(step(HelloReceived{2, hello_of(1, 11)}))->verdict,
            HelloVerdict::kAccepted);
}

TEST_F(MembershipTest, Section18_13_VersionRangesMustOverlap) {
  const Effects start = make();
  Hello newer = hello_of(1, 11);
  newer.protocol_min = kProtocolMax + 1;
  newer.protocol_max = kProtocolMax + 5;
  EXPECT_EQ(one<AnswerHello>(step(HelloReceived{1, newer}))->verdict,
            HelloVerdict::kVersionMismatch);
  (void)answer(start, newer);
  EXPECT_EQ(pair(1), PairState::kVersionMismatch);
  newer.protocol_min = kProtocolMin;
  (void)answer(run(200ms), newer);
  EXPECT_EQ(pair(1), PairState::kConnected);
}

TEST_F(MembershipTest, Section18_13_EachPeerOfARollingUpgradeIsJudgedByItsRange) {
  struct Case {
    std::uint32_t min, max;
    bool fits;
  };
  // Older, the same, newer that still speaks ours, newer and older that do not.
  const Case cases[] = {{0, kProtocolMin, true},
                        {kProtocolMin, kProtocolMax, true},
                        {kProtocolMax, kProtocolMax + 9, true},
                        {kProtocolMax + 1, kProtocolMax + 9, false},
                        {0, kProtocolMin - 1, false},
                        {kProtocolMax + 1, 0, false}};
  for (const Case& each : cases) {
    const Effects start = make();
    Hello peer = hello_of(1, 11);
    peer.protocol_min = each.min;
    peer.protocol_max = each.max;
    // Both ways round: it dials us, and we dial it.
    EXPECT_EQ(one<AnswerHello>(step(HelloReceived{1, peer}))->verdict,
              each.fits ? HelloVerdict::kAccepted : HelloVerdict::kVersionMismatch)
        << each.min << " to " << each.max;
    (void)answer(start, peer);
    EXPECT_EQ(pair(1), each.fits ? PairState::kConnected : PairState::kVersionMismatch);
    // One stranger splits nothing: the third node is as welcome as ever.
    EXPECT_EQ(one<AnswerHello>(step(HelloReceived{2, hello_of(2, 12)}))->verdict,
              HelloVerdict::kAccepted);
  }
}

TEST_F(MembershipTest, AnotherOrderOfTheListIsAMapMismatchBothWays) {
  const Effects start = make();
  const Hello other = hello_of(1, 11, "10.0.0.2\n10.0.0.1\n10.0.0.3\n");
  EXPECT_EQ(one<AnswerHello>(step(HelloReceived{1, other}))->verdict, HelloVerdict::kMapMismatch);
  const Effects e = answer(start, hello_of(1, 11), HelloVerdict::kMapMismatch);
  EXPECT_EQ(pair(1), PairState::kMapMismatch);
  EXPECT_TRUE(logged(e, "Node configuration mismatch"));
  // It was taken away meanwhile: what is shown is not stale.
  const Effects again = run(200ms);
  (void)step(DialFailed{1, attempt(again, 1), "refused", true});
  EXPECT_EQ(pair(1), PairState::kNeverConnected);
}

TEST_F(MembershipTest, AnAcceptedAnswerWithAnotherListIsStillAMismatch) {
  const Effects start = make();
  (void)answer(start, hello_of(1, 11, "10.0.0.1\n10.0.0.2\n10.0.0.9\n"));
  EXPECT_EQ(pair(1), PairState::kMapMismatch);
}

TEST_F(MembershipTest, AGrownListAgreesByPrefixButNotWhenIdenticalIsAsked) {
  const char* grown = "10.0.0.1\n10.0.0.2\n10.0.0.3\n10.0.0.4\n";
  (void)make();
  EXPECT_EQ(one<AnswerHello>(step(HelloReceived{1, hello_of(1, 11, grown)}))->verdict,
            HelloVerdict::kAccepted);
  // The new node itself must wait until our list has its slot.
  EXPECT_EQ(one<AnswerHello>(step(HelloReceived{2, hello_of(3, 33, grown)}))->verdict,
            HelloVerdict::kNotReady);
  config.list_rule = ListRule::kIdentical;
  (void)make();
  EXPECT_EQ(one<AnswerHello>(step(HelloReceived{1, hello_of(1, 11, grown)}))->verdict,
            HelloVerdict::kMapMismatch);
}

TEST_F(MembershipTest, AHelloForAnotherSlotIsRefused) {
  const Effects start = make();
  Hello h = hello_of(1, 11);
  h.target = 2;
  EXPECT_EQ(one<AnswerHello>(step(HelloReceived{1, h}))->verdict, HelloVerdict::kMapMismatch);
  // And node 2 must not answer for node 1.
  (void)step(HelloAnswered{1, attempt(start, 1), HelloVerdict::kAccepted, hello_of(2, 22)});
  EXPECT_EQ(pair(1), PairState::kMapMismatch);
}

TEST_F(MembershipTest, TheSlotsOwnAddressDecidesBetweenTwoInstances) {
  const Effects start = make();
  (void)step(HelloReceived{5, hello_of(1, 11)});  // came by itself
  const Effects e = answer(start, hello_of(1, 12));
  EXPECT_EQ(one<DropInbound>(e)->stream, 5U);
  EXPECT_EQ(one<PeerEnded>(e)->instance, id_of(11));
  EXPECT_EQ(one<PeerJoined>(e)->instance, id_of(12));
}

TEST_F(MembershipTest, InboundStreamsOfOnePeerAreBounded) {
  (void)make();
  std::size_t dropped = 0;
  for (std::uint64_t s = 1; s <= 50; ++s) {
    const Effects e = step(HelloReceived{s, hello_of(1, 11)});
    for (const DropInbound& d : all<DropInbound>(e)) EXPECT_EQ(d.stream, ++dropped);
  }
  EXPECT_EQ(dropped, 46U);
}

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
