#include "partition/model/status.hpp"

#include <gtest/gtest.h>

#include "partition/model/reconciliation.hpp"

namespace imex::partition {
namespace {

TEST(StatusTest, EveryNameReadsBack) {
  for (int i = 0; i <= static_cast<int>(Status::kRegistered); ++i) {
    const auto status = static_cast<Status>(i);
    EXPECT_EQ(parse_status(status_name(status)), status);
  }
  for (int i = 0; i <= static_cast<int>(OperationState::kRolledBack); ++i) {
    const auto state = static_cast<OperationState>(i);
    EXPECT_EQ(parse_operation_state(operation_state_name(state)), state);
  }
  for (int i = 0; i <= static_cast<int>(OperationKind::kDeleteDefaultPartition); ++i) {
    const auto kind = static_cast<OperationKind>(i);
    EXPECT_EQ(parse_operation_kind(operation_kind_name(kind)), kind);
  }
  for (int i = 0; i <= static_cast<int>(Health::kUnhealthy); ++i) {
    const auto health = static_cast<Health>(i);
    EXPECT_EQ(parse_health(health_name(health)), health);
  }
  EXPECT_EQ(parse_status("ready"), std::nullopt);
  EXPECT_EQ(parse_status(""), std::nullopt);
}

TEST(StatusTest, FiltersAcceptWhatTheApiDocuments) {
  EXPECT_TRUE(is_status_of(Kind::kInstance, Status::kTerminated));
  EXPECT_TRUE(is_status_of(Kind::kInstance, Status::kBootCompleted));
  EXPECT_FALSE(is_status_of(Kind::kLogicalPartition, Status::kTerminated));
  EXPECT_FALSE(is_status_of(Kind::kInterface, Status::kConfiguring));
  EXPECT_TRUE(is_status_of(Kind::kMachine, Status::kReset));
}

}  // namespace
}  // namespace imex::partition
