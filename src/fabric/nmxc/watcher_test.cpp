// Notifications, heartbeats and their gaps.
#include "testing/kit.hpp"

namespace imex::fabric::nmxc {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the kit of this room
using Kind = FabricEvent::Kind;

struct Watched {
  explicit Watched(Options options) : manager(open_or_die(std::move(options))) {
    manager->watch(log.handler());
  }
  ~Watched() { manager.reset(); }  // before the log that its thread writes to
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  EventLog log;
  std::unique_ptr<FabricManager> manager;
};

bool listens(const FakeController& controller) {
  return eventually([&] { return controller.open_streams() == 1; });
}

TEST(WatcherTest, AStreamBeginsWithAGapAndTellsWhatChanged) {
  FakeController controller;
  const Watched watched(options_for({controller.url()}));
  ASSERT_TRUE(watched.log.comes(Kind::kGap));
  ASSERT_TRUE(listens(controller));
  EXPECT_GE(controller.asked_heartbeat(), 1U);

  pb::ServerNotification notification;
  notification.mutable_fm_event()
      ->mutable_fm_event_partition_change()
      ->mutable_partition_id()
      ->set_partition_id(7);
  controller.notify(notification);
  notification.mutable_create_partition_response()->mutable_partition_id()->set_partition_id(8);
  controller.notify(notification);
  notification.mutable_fm_event()->mutable_fm_event_topology_change();
  controller.notify(notification);
  notification.mutable_health_state_changed();
  controller.notify(notification);
  notification.mutable_static_config_response();
  controller.notify(notification);
  ASSERT_TRUE(watched.log.comes(Kind::kConfiguration));
  std::vector<std::uint32_t> ids;
  for (const FabricEvent& event : watched.log.events())
    if (event.kind == Kind::kPartition) ids.push_back(event.partition_id);
  EXPECT_EQ(ids, (std::vector<std::uint32_t>{7, 8}));
  EXPECT_EQ(watched.log.count(Kind::kTopology), 1U);
  EXPECT_EQ(watched.log.count(Kind::kHealth), 1U);
}

TEST(WatcherTest, OnlyAChangedHeartbeatIsNews) {
  FakeController controller({.heartbeat = milliseconds(5)});
  const Watched watched(options_for({controller.url()}));
  ASSERT_TRUE(listens(controller));
  const int beats = controller.calls("GetDomainStateInfo");
  ASSERT_TRUE(eventually([&] { return controller.calls("GetDomainStateInfo") >= beats + 2; }));
  EXPECT_LE(watched.log.count(Kind::kControlPlane), 1U);
  controller.set_state(pb::CONTROL_PLANE_STATE_DEGRADED);
  EXPECT_TRUE(eventually([&] {
    for (const FabricEvent& event : watched.log.events())
      if (event.kind == Kind::kControlPlane && event.control_plane == ControlPlaneState::kDegraded)
        return true;
    return false;
  }));
}

TEST(WatcherTest, AStreamThatEndsIsAGapAndBeginsAgain) {
  FakeController controller;
  const Watched watched(options_for({controller.url()}));
  ASSERT_TRUE(listens(controller));
  controller.end_streams();
  EXPECT_TRUE(watched.log.comes(Kind::kGap, 2));
  EXPECT_TRUE(listens(controller));
}

TEST(WatcherTest, AStreamThatFallsSilentIsReplaced) {
  FakeController controller({.heartbeat = milliseconds(5)});
  const Watched watched(options_for({controller.url()}));
  ASSERT_TRUE(listens(controller));
  ASSERT_TRUE(eventually([&] {
    return watched.log.count(Kind::kControlPlane) > 0 || controller.calls("GetDomainStateInfo") > 2;
  }));
  const int before = controller.calls("Subscribe");
  controller.silence_streams(true);
  EXPECT_TRUE(eventually([&] {
    for (const FabricEvent& event : watched.log.events())
      if (event.kind == Kind::kGap && event.detail.find("silent") != std::string::npos) return true;
    return false;
  }));
  EXPECT_TRUE(eventually([&] { return controller.calls("Subscribe") > before; }));
}

TEST(WatcherTest, WithoutSubscribeTheStateIsPolled) {
  FakeController controller({.subscribe = false});
  const Watched watched(options_for({controller.url()}));
  ASSERT_TRUE(watched.log.comes(Kind::kGap));
  const int beats = controller.calls("GetDomainStateInfo");
  ASSERT_TRUE(eventually([&] { return controller.calls("GetDomainStateInfo") > beats; }));
  controller.set_state(pb::CONTROL_PLANE_STATE_DEGRADED);
  EXPECT_TRUE(watched.log.comes(Kind::kControlPlane));
  EXPECT_EQ(controller.calls("Subscribe"), 1);
}

TEST(WatcherTest, ADraftStreamHasNoHeartbeats) {
  FakeController controller({.current = false, .draft = true});
  const Watched watched(options_for({controller.url()}));
  ASSERT_TRUE(listens(controller));
  pb::ServerNotification notification;
  notification.mutable_fm_event()
      ->mutable_fm_event_partition_change()
      ->mutable_partition_id()
      ->set_partition_id(7);
  controller.notify(notification);
  EXPECT_TRUE(watched.log.comes(Kind::kPartition));
  const int beats = controller.calls("GetDomainStateInfo");
  ASSERT_TRUE(eventually([&] { return controller.calls("GetDomainStateInfo") > beats + 5; }));
  EXPECT_EQ(watched.log.count(Kind::kGap), 1U)
      << "silence means nothing where no heartbeat was promised";
}

TEST(WatcherTest, ARefusedSubscriptionWithoutASessionIsRepaired) {
  FakeController controller;
  controller.fail_next("Subscribe", {.code = NmxCode::kConnectionNotValid});
  const Watched watched(options_for({controller.url()}));
  EXPECT_TRUE(eventually(
      [&] { return controller.calls("Subscribe") >= 2 && controller.calls("Hello") >= 2; }));
  EXPECT_TRUE(watched.log.comes(Kind::kGap, 2));
}

TEST(WatcherTest, UnreachableIsToldOnceAndThenAGap) {
  FakeController controller;
  const Watched watched(options_for({controller.url()}));
  ASSERT_TRUE(listens(controller));
  const int former = controller.port();
  controller.stop();
  ASSERT_TRUE(watched.log.comes(Kind::kUnreachable));
  const std::size_t gaps = watched.log.count(Kind::kGap);
  controller.restart("instance-2");
  ASSERT_EQ(controller.port(), former);
  EXPECT_TRUE(watched.log.comes(Kind::kGap, gaps + 1));
  EXPECT_EQ(watched.log.count(Kind::kUnreachable), 1U);
}

TEST(WatcherTest, ARestartBeneathTheConnectionIsAGap) {
  FakeController controller;
  const Watched watched(options_for({controller.url()}));
  ASSERT_TRUE(watched.log.comes(Kind::kGap));
  controller.set_instance("instance-2");
  EXPECT_TRUE(watched.log.comes(Kind::kGap, 2));
}

TEST(WatcherTest, AStandbyIsLeftWhenItsPeerTakesOver) {
  FakeController first, second;
  const Watched watched(options_for({first.url(), second.url()}));
  ASSERT_TRUE(listens(first));
  first.set_state(pb::CONTROL_PLANE_STATE_STANDBY);
  EXPECT_TRUE(listens(second));
}

TEST(WatcherTest, TwoPrimariesAreAnAlarm) {
  FakeController first, second({.instance = "instance-2"});
  const Watched watched(options_for({first.url(), second.url()}));
  ASSERT_TRUE(watched.log.comes(Kind::kSplit));
  const int looks = second.calls("Hello");
  ASSERT_TRUE(eventually([&] { return second.calls("Hello") > looks; }));
  EXPECT_EQ(watched.log.count(Kind::kSplit), 1U) << "told once";
}

TEST(WatcherTest, TwoAddressesOfOneControllerAreNoAlarm) {
  FakeController first, same;
  const Watched watched(options_for({first.url(), same.url()}));
  ASSERT_TRUE(eventually([&] { return same.calls("Hello") >= 2; }));
  EXPECT_EQ(watched.log.count(Kind::kSplit), 0U);
}

TEST(WatcherTest, AnotherHandlerIsGreetedAndTheFormerIsNotCalled) {
  FakeController controller;
  EventLog first, second;
  const auto manager = open_or_die(options_for({controller.url()}));
  manager->watch(first.handler());
  ASSERT_TRUE(listens(controller));
  manager->watch(second.handler());
  const std::size_t told = first.events().size();
  ASSERT_TRUE(second.comes(Kind::kGap));
  manager->watch(nullptr);
  const std::size_t last = second.events().size();
  controller.end_streams();
  ASSERT_TRUE(listens(controller));
  EXPECT_EQ(first.events().size(), told);
  EXPECT_EQ(second.events().size(), last);
}

}  // namespace
}  // namespace imex::fabric::nmxc
