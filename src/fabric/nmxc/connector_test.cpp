// Sessions, endpoints, back-off: what happens when a controller is not where or what it was.
#include "connector.hpp"

#include "testing/kit.hpp"

namespace imex::fabric::nmxc {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the kit of this room

class FixedRandom final : public Random {
 public:
  void fill(std::span<std::byte> out) override { std::fill(out.begin(), out.end(), std::byte{0}); }
};

/// A port that nobody listens on: one that was just given back.
std::string dead_url() {
  FakeController controller;
  return controller.url();
}

TEST(EndpointTest, TakesUrlsApart) {
  const auto parts = [](std::string_view text) {
    const auto endpoint = parse_endpoint(text);
    return endpoint ? (endpoint->tls ? "tls " : "plain ") + endpoint->target()
                    : std::string("refused");
  };
  EXPECT_EQ(parts("http://10.0.0.1"), "plain 10.0.0.1:9370");
  EXPECT_EQ(parts("https://switch-1.rack:1234/"), "tls switch-1.rack:1234");
  EXPECT_EQ(parts("https://[fe80::1%eth0]:5"), "tls [fe80::1%eth0]:5");
  EXPECT_EQ(parts("http://[::1]"), "plain [::1]:9370");
  for (const char* bad : {"", "10.0.0.1", "grpc://a", "http://", "http://:80",
                          "http://a:", "http://a:0", "http://a:65536", "http://a:8x", "http://[::1",
                          "http://[::1]x", "http://[a]", "http://a/b", "http://a b", "http://u@h"})
    EXPECT_EQ(parts(bad), "refused") << bad;
}

TEST(SessionTest, HelloIsSaidAgainOnceWhenTheControllerForgot) {
  FakeController controller;
  const auto manager = open_or_die(options_for({controller.url()}));
  ASSERT_TRUE(manager->observe(patient()));
  EXPECT_EQ(controller.calls("Hello"), 1);
  controller.fail_next("CreatePartition", {.code = NmxCode::kConnectionNotValid});
  ASSERT_TRUE(manager->create_partition({.name = "a", .gpu_uids = {kFirstUid + 4}}, patient()));
  EXPECT_EQ(controller.calls("Hello"), 2);

  controller.fail_always("GetGpuInfoList", Fault{.code = NmxCode::kConnectionNotValid});
  const auto refused = manager->observe(patient());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, NmxCode::kConnectionNotValid);
  EXPECT_EQ(controller.calls("Hello"), 3) << "once, before it reports an error";
}

TEST(SessionTest, ANewConnectionHasItsOwnHello) {
  FakeController controller({.session = SessionMode::kConnection});
  const auto manager = open_or_die(options_for({controller.url()}));
  ASSERT_TRUE(manager->observe(patient()));
  controller.restart("instance-2");
  ASSERT_TRUE(eventually([&] { return manager->observe(patient()).has_value(); }));
  const auto snapshot = manager->observe(patient());
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->instance, "instance-2");
  EXPECT_EQ(controller.calls("Hello"), 2);
}

TEST(SessionTest, ARestartBeneathTheConnectionIsNoticed) {
  FakeController controller;
  const auto manager = open_or_die(options_for({controller.url()}));
  ASSERT_TRUE(manager->observe(patient()));
  controller.set_instance("instance-2");
  const auto snapshot = manager->observe(patient());
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->instance, "instance-2") << "a snapshot is of one life of the controller";
}

TEST(SessionTest, AnotherDomainBehindTheConnectionIsRefused) {
  FakeController controller;
  const auto manager = open_or_die(options_for({controller.url()}));
  ASSERT_TRUE(manager->observe(patient()));
  controller.set_domain("00000000-0000-4000-8000-000000000001");
  const auto snapshot = manager->observe(patient());
  ASSERT_FALSE(snapshot);
  EXPECT_EQ(snapshot.error().error.code, Errc::kFailedPrecondition);
  const auto created =
      manager->create_partition({.name = "a", .gpu_uids = {kFirstUid + 4}}, patient());
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().error.code, Errc::kFailedPrecondition);
  EXPECT_EQ(controller.calls("CreatePartition"), 0) << "nothing is changed in another rack";
}

TEST(SessionTest, HelloWithoutADomainIsRefused) {
  for (const char* domain : {"", "no uuid", "00000000-0000-0000-0000-000000000000"}) {
    FakeController controller({.domain = domain});
    const auto description = open_or_die(options_for({controller.url()}))->describe(patient());
    EXPECT_FALSE(description) << domain;
  }
}

TEST(ConnectorTest, AnUnreachableEndpointGivesWayToTheNext) {
  FakeController controller;
  const auto manager = open_or_die(options_for({dead_url(), controller.url()}));
  const auto snapshot = manager->observe(patient());
  ASSERT_TRUE(snapshot) << snapshot.error().error.to_string();
  EXPECT_EQ(snapshot->endpoint, controller.url());
}

TEST(ConnectorTest, AReadGoesOnWhenItsControllerDies) {
  FakeController first, second({.instance = "instance-2"});
  const auto manager = open_or_die(options_for({first.url(), second.url()}));
  ASSERT_TRUE(manager->observe(patient()));
  first.stop();
  const auto snapshot = manager->observe(patient());
  ASSERT_TRUE(snapshot) << snapshot.error().error.to_string();
  EXPECT_EQ(snapshot->endpoint, second.url());
  EXPECT_EQ(snapshot->instance, "instance-2");
}

TEST(ConnectorTest, AChangeInFlightIsNotRepeatedElsewhere) {
  FakeController first, second;
  const auto manager = open_or_die(options_for({first.url(), second.url()}));
  ASSERT_TRUE(manager->observe(patient()));
  first.fail_next("CreatePartition",
                  {.status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "going down")});
  const auto created =
      manager->create_partition({.name = "a", .gpu_uids = {kFirstUid + 4}}, patient());
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().effect, Effect::kUnknown);
  EXPECT_EQ(second.calls("CreatePartition"), 0);
}

TEST(ConnectorTest, StandbyAndUnreadyControllersGiveWay) {
  FakeController standby, unready, primary;
  standby.set_state(pb::CONTROL_PLANE_STATE_STANDBY);
  unready.fail_always("GetDomainStateInfo", Fault{.code = NmxCode::kNotReady});
  const auto manager = open_or_die(options_for({standby.url(), unready.url(), primary.url()}));
  const auto snapshot = manager->observe(patient());
  ASSERT_TRUE(snapshot) << snapshot.error().error.to_string();
  EXPECT_EQ(snapshot->endpoint, primary.url());
}

TEST(ConnectorTest, AControllerThatLostItsRoleGivesWay) {
  FakeController first, second;
  const auto manager = open_or_die(options_for({first.url(), second.url()}));
  ASSERT_TRUE(manager->observe(patient()));
  first.fail_always("GetDomainStateInfo", Fault{.code = NmxCode::kNotReady});
  first.fail_always("CreatePartition", Fault{.code = NmxCode::kNotReady});
  const auto created =
      manager->create_partition({.name = "a", .gpu_uids = {kFirstUid + 4}}, patient());
  ASSERT_TRUE(created) << created.error().error.to_string();
  EXPECT_EQ(second.calls("CreatePartition"), 1)
      << "a refusal is certain, so another one may be asked";
}

TEST(ConnectorTest, WithOnlyAStandbyItIsSeenAsOne) {
  FakeController standby;
  standby.set_state(pb::CONTROL_PLANE_STATE_STANDBY);
  const auto manager = open_or_die(options_for({dead_url(), standby.url()}));
  const auto snapshot = manager->observe(patient());
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->control_plane, ControlPlaneState::kStandby);
  EXPECT_FALSE(snapshot->can_change());
}

TEST(ConnectorTest, AnEndpointOfAnotherDomainIsPassedOver) {
  FakeController foreign({.domain = "00000000-0000-4000-8000-000000000001"}), own;
  Options options = options_for({foreign.url(), own.url()});
  options.domain_uuid = *Uuid::parse(kDomain);
  const auto manager = open_or_die(options);
  const auto snapshot = manager->observe(patient());
  ASSERT_TRUE(snapshot) << snapshot.error().error.to_string();
  EXPECT_EQ(snapshot->endpoint, own.url());
  EXPECT_EQ(foreign.calls("GetGpuInfoList"), 0);
}

TEST(ConnectorTest, ASwallowingEndpointLeavesTimeForTheNext) {
  FakeController silent, own;
  silent.fail_always("Hello", Fault{.hang = true});
  const auto manager = open_or_die(options_for({silent.url(), own.url()}));
  const auto snapshot = manager->observe(CallOptions::within(seconds(3)));
  ASSERT_TRUE(snapshot) << snapshot.error().error.to_string();
  EXPECT_EQ(snapshot->endpoint, own.url());
}

TEST(ConnectorTest, BackOffFailsFastAndEndsWithTheClock) {
  FixedRandom random;
  std::atomic<std::int64_t> now_ns{0};
  Options options = options_for({dead_url()});
  options.random = &random;
  options.clock = [&now_ns] { return Time{now_ns}; };
  options.backoff = {.first = seconds(10), .max = seconds(40)};
  const auto manager = open_or_die(options);
  const auto refused = manager->observe(patient());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().error.code, Errc::kUnavailable);
  EXPECT_EQ(refused.error().retry_after, Nanos(0));
  for (const std::int64_t delay_s : {5, 10, 20, 20}) {  // half of 10, 20, 40, 40: the lowest draw
    const auto waiting = manager->observe(patient());
    ASSERT_FALSE(waiting);
    EXPECT_EQ(waiting.error().retry_after, seconds(delay_s));
    now_ns += Nanos(seconds(delay_s)).count();
    const auto tried = manager->observe(patient());
    ASSERT_FALSE(tried);
    EXPECT_EQ(tried.error().retry_after, Nanos(0)) << "it was tried again";
  }
}

TEST(ConnectorTest, TheEndOfTheManagerEndsItsCalls) {
  FakeController controller;
  Connector connector(
      [&] {
        static FixedRandom random;
        Options options = options_for({controller.url()});
        options.random = &random;
        options.clock = [] { return Time{0}; };
        return options;
      }(),
      {*parse_endpoint(controller.url())});
  controller.fail_always("Hello", Fault{.hang = true});
  std::thread ender([&] {
    EXPECT_TRUE(eventually([&] { return controller.calls("Hello") > 0; }));
    connector.shut_down();
  });
  const auto session = connector.acquire(connector.scope(CallOptions::within(seconds(60))));
  ender.join();
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().error.code, Errc::kAborted);
}

}  // namespace
}  // namespace imex::fabric::nmxc
