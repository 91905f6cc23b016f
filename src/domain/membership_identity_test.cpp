// The rules of membership: who may talk to whom, by identity, domain, list and version.
#include <gtest/gtest.h>

#include "membership_fixture.hpp"

namespace imex::domain {
namespace {

using namespace std::chrono_literals;
using namespace testing_kit;

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

}  // namespace
}  // namespace imex::domain
