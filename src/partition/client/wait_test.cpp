#include "partition/client/wait.hpp"

#include <atomic>

#include <gmock/gmock.h>

#include "partition/client/testing/scripted_controller.hpp"

namespace imex::partition::client {
namespace {

using net::http::Response;
using testing::ElementsAre;
using testing::HasSubstr;
using Asked = ScriptedController::Asked;
using std::chrono::steady_clock;

const InstanceId kAwaited{uuid_of(10)};

WaitOptions for_seconds(int seconds) {
  return {.deadline = steady_clock::now() + std::chrono::seconds(seconds),
          .pause = std::chrono::milliseconds(1)};
}

TEST(WaitTest, AnInstanceIsReadyOnceEachOfItsGpusIs) {
  std::atomic<int> looks = 0;
  const ScriptedController controller([&](const Asked&) {
    switch (++looks) {
      case 1:
        return Response::json(200, instance_json(10, "a", "Pending", ""));
      case 2:
        return Response::json(200, instance_json(10, "a", "Ready",
                                                 interface_json(20, 10, 1, 0, "Ready") + "," +
                                                     interface_json(21, 10, 1, 1, "Pending")));
      case 3:
        return Response::json(200, instance_json(10, "a", "Ready",
                                                 interface_json(20, 10, 1, 0, "Ready") + "," +
                                                     interface_json(22, 10, 2, 0, "Deleting")));
      default:
        return Response::json(
            200, instance_json(10, "a", "Ready", interface_json(20, 10, 1, 0, "Ready")));
    }
  });
  std::vector<std::string> told;
  auto options = for_seconds(30);
  options.progress = [&](const std::string& words) { told.push_back(words); };
  const auto ready = wait_ready(*controller.client(), kAwaited, options);
  ASSERT_TRUE(ready) << ready.error().to_string();
  EXPECT_EQ(looks, 4);
  EXPECT_THAT(told, ElementsAre("Pending", "Ready, 1 of 2 GPUs in place",
                                "Ready, 1 of 1 GPUs in place, 1 leaving"));
}

TEST(WaitTest, AControllerThatRestartsIsWaitedFor) {
  std::atomic<int> looks = 0;
  const ScriptedController controller([&](const Asked&) {
    if (++looks < 3) return Response::json(503, "{}");
    return Response::json(200, partition_json(1, "a"));
  });
  EXPECT_TRUE(wait_ready(*controller.client(), LogicalPartitionId{uuid_of(1)}, for_seconds(30)));
}

TEST(WaitTest, ErrorEndsTheWaitAndSaysWhy) {
  const ScriptedController controller(
      [&](const Asked&) { return Response::json(200, partition_json(1, "a", "Error")); });
  const auto ready =
      wait_ready(*controller.client(), LogicalPartitionId{uuid_of(1)}, for_seconds(30));
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error().code, Errc::kFailedPrecondition);
  EXPECT_THAT(ready.error().message, HasSubstr("'a' is in state Error: as told"));
}

TEST(WaitTest, TheDeadlineSaysWhatWasSeenLast) {
  const ScriptedController controller(
      [&](const Asked&) { return Response::json(200, instance_json(10, "a", "Pending", "")); });
  auto options = for_seconds(0);
  const auto ready = wait_ready(*controller.client(), kAwaited, options);
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error().code, Errc::kDeadlineExceeded);
  EXPECT_THAT(ready.error().message, HasSubstr("last seen: Pending"));
}

TEST(WaitTest, GoneIsWhatNobodyFinds) {
  std::atomic<int> looks = 0;
  const ScriptedController controller([&](const Asked&) {
    if (++looks < 3) return Response::json(200, instance_json(10, "a", "Terminating", ""));
    return Response::json(404, "{}");
  });
  EXPECT_TRUE(wait_gone(*controller.client(), kAwaited, for_seconds(30)));
  EXPECT_EQ(looks, 3);
}

TEST(WaitTest, ARefusalIsNoReasonToGoOn) {
  const ScriptedController controller(
      [&](const Asked&) { return Response::json(403, R"({"message":"no"})"); });
  const auto gone = wait_gone(*controller.client(), kAwaited, for_seconds(30));
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Errc::kPermissionDenied);
  EXPECT_EQ(controller.asked().size(), 1U);
}

}  // namespace
}  // namespace imex::partition::client
