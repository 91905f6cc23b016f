#include "domain/domain_view.hpp"

#include <gtest/gtest.h>

#include "domain_view_kit.hpp"

namespace imex::domain {
namespace {

using namespace view_kit;

TEST(DomainStateTest, ADomainWithAllNodesReadyAndAllPairsConnectedIsUp) {
  EXPECT_EQ(domain_state(whole(1)), DomainState::kUp);
  EXPECT_EQ(domain_state(whole(18)), DomainState::kUp);
}

TEST(DomainStateTest, OneMissingPairInOneDirectionDegrades) {
  DomainView view = whole(3);
  view.nodes[2].report->peers[0].state = PairState::kRecovering;
  EXPECT_EQ(domain_state(view), DomainState::kDegraded);
}

TEST(DomainStateTest, ANodeThatIsNotReadyOrSilentDegrades) {
  DomainView view = whole(2);
  view.nodes[1].report->status = DaemonStatus::kInitGpu;
  EXPECT_EQ(domain_state(view), DomainState::kDegraded);
  view.nodes[1].report.reset();
  EXPECT_EQ(domain_state(view), DomainState::kDegraded);
}

TEST(DomainStateTest, WithoutAnyReadyDaemonTheDomainIsDown) {
  DomainView view = whole(2);
  view.nodes[0].report->status = DaemonStatus::kShuttingDown;
  view.nodes[1].report.reset();
  EXPECT_EQ(domain_state(view), DomainState::kDown);
  EXPECT_EQ(domain_state(DomainView{}), DomainState::kDown);
}

TEST(DomainStateTest, EmptySlotsDegradeOnlyWhereAllSlotsCount) {
  DomainView view = whole(3);
  leave(view, 2);
  view.nodes[2].assigned = false;
  view.assigned_only = false;
  EXPECT_EQ(domain_state(view), DomainState::kDegraded);
  view.assigned_only = true;
  EXPECT_EQ(domain_state(view), DomainState::kUp);
  view.nodes[2].assigned = true;  // has an address, so somebody should be there
  EXPECT_EQ(domain_state(view), DomainState::kDegraded);
}

TEST(DomainStateTest, AReporterWithAShorterListHasNotConnectedToTheNewSlot) {
  DomainView view = whole(2);
  view.nodes[0].report->peers.pop_back();
  EXPECT_EQ(pair_state(view, 0, 1), PairState::kNeverConnected);
  EXPECT_EQ(pair_state(view, 7, 1), PairState::kInvalid);
}

}  // namespace
}  // namespace imex::domain
