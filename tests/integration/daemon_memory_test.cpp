// Memory between sessions of this process through real daemons: one, two, restarted, upgraded; and
// the grants that say who may.

#include <sys/stat.h>

#include <csignal>

#include <gmock/gmock.h>
#include <imex/allocation.hpp>
#include <imex/session.hpp>

#include "cluster.hpp"
#include "domain/control_client.hpp"
#include "memory_kit.hpp"

namespace imex::test {
namespace {

TEST(DaemonMemory, IsSharedThroughOneDaemon) {
  Cluster cluster(1);
  cluster.start();
  Session a = open_session(cluster[0]), b = open_session(cluster[0]);
  auto shared = share(a, b);
  ASSERT_TRUE(shared) << shared.error().to_string();
  expect_shared(*shared, 0x5a);
}

TEST(DaemonMemory, Section18_12_IsSharedBetweenNodesOfOneMachineThroughDescriptors) {
  Cluster cluster(2);
  cluster.start();
  ASSERT_TRUE(cluster.wait_up());
  Session a = open_session(cluster[0]), b = open_session(cluster[1]);
  for (Session* exporter : {&a, &b}) {
    auto shared = share(*exporter, exporter == &a ? b : a);
    ASSERT_TRUE(shared) << shared.error().to_string();
    expect_shared(*shared, 0x33);
  }
}

// imex-service.md 18.8: neither a crash within the lease nor an upgrade ends what is mapped.
TEST(DaemonMemory, Section18_08_MappingsSurviveASigkillAndAnUpgradeOfTheDaemon) {
  TwoNodes nodes;
  auto& [cluster, a, b, shared] = nodes;
  cluster[0].kill(SIGKILL);
  ASSERT_EQ(cluster[0].wait_exit(), 128 + SIGKILL);
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
  ASSERT_TRUE(wait_event(a, SessionEvent::Kind::kDaemonResumed));
  expect_shared(shared, 0x11);
  cluster[1].kill(SIGUSR2);
  ASSERT_TRUE(cluster[1].wait_ready()) << cluster[1].log();
  ASSERT_TRUE(wait_event(b, SessionEvent::Kind::kDaemonResumed));
  expect_shared(shared, 0x22);
  ASSERT_TRUE(cluster.wait_up());
  EXPECT_FALSE(a.default_scope().error());
  EXPECT_FALSE(b.default_scope().error());
  auto again = b.import_memory(shared.exported.handle(), {.rank = 2});  // the handle stays valid
  ASSERT_TRUE(again) << again.error().to_string() << cluster[1].log();
  EXPECT_EQ(again->data()[0], std::byte{0x22});
}

TEST(DaemonMemory, AnExportThatEndsIsSeenAcrossDaemons) {
  Cluster cluster(2);
  cluster.start();
  ASSERT_TRUE(cluster.wait_up());
  Session b = open_session(cluster[1]);
  std::optional<Result<Shared>> shared;
  {
    Session a = open_session(cluster[0]);
    shared.emplace(share(a, b));
    ASSERT_TRUE(*shared) << shared->error().to_string();
    {
      const Export ending = std::move((*shared)->exported);
    }
  }
  EXPECT_TRUE(wait_event(b, SessionEvent::Kind::kExporterLost));
}

TEST(DaemonMemory, AnOrderlyStopTellsSessions) {
  Cluster cluster(1);
  cluster.start();
  Session a = open_session(cluster[0]);
  EXPECT_EQ(cluster[0].stop(), 0);
  EXPECT_TRUE(wait_event(a, SessionEvent::Kind::kDaemonLost));
}

TEST(DaemonGrants, Section18_10_AllNodesUseOneNumberAndOnlyThatChannelImports) {
  Cluster cluster(2);
  cluster.start();
  ASSERT_TRUE(cluster.wait_up());
  std::vector<domain::ChannelGrant> grants;
  for (std::size_t i = 0; i < 2; ++i) {
    auto control = domain::ControlClient::connect(cluster[i].run_directory() + "/control.sock");
    ASSERT_TRUE(control) << control.error().to_string();
    domain::GrantRequestOptions wanted;
    wanted.workload = "job-7";
    wanted.gpu_indexes = {1};
    auto granted = control->grant(wanted);
    ASSERT_TRUE(granted) << granted.error().to_string();
    EXPECT_EQ(control->grant(wanted)->channel, granted->channel);  // idempotent
    wanted.gpu_indexes = {2};
    EXPECT_EQ(control->grant(wanted).error().code, Errc::kAlreadyExists);
    wanted.workload = "job-8";
    wanted.gpu_indexes = {99};
    EXPECT_EQ(control->grant(wanted).error().code, Errc::kNotFound);
    grants.push_back(*granted);
  }
  EXPECT_EQ(grants[0].channel, grants[1].channel);
  EXPECT_NE(grants[0].channel, 0U);
  Session a = open_session(cluster[0], grants[0].channel);
  Session b = open_session(cluster[1], grants[1].channel);
  EXPECT_EQ(a.gpu_index(), 1U);
  auto shared = share(a, b);
  ASSERT_TRUE(shared) << shared.error().to_string();
  Session outsider = open_session(cluster[1]);  // channel 0
  EXPECT_EQ(outsider.import_memory(shared->exported.handle()).error().code,
            Errc::kPermissionDenied);
}

TEST(DaemonGrants, OutliveACrashAndEndWithTheirRelease) {
  Cluster cluster(1);
  cluster.start();
  const std::string control_path = cluster[0].run_directory() + "/control.sock";
  domain::GrantRequestOptions wanted;
  wanted.workload = "job-7";
  auto granted = domain::ControlClient::connect(control_path)->grant(wanted);
  ASSERT_TRUE(granted) << granted.error().to_string();
  cluster[0].kill(SIGKILL);
  ASSERT_EQ(cluster[0].wait_exit(), 128 + SIGKILL);
  cluster[0].spawn();
  ASSERT_TRUE(cluster[0].wait_ready()) << cluster[0].log();
  Session a = open_session(cluster[0], granted->channel);
  auto control = domain::ControlClient::connect(control_path);
  ASSERT_TRUE(control);
  const auto listed = control->list();
  ASSERT_TRUE(listed && listed->size() == 1);
  EXPECT_EQ(listed->front().channel, granted->channel);
  ASSERT_TRUE(control->release("job-7"));
  ASSERT_TRUE(control->release("job-7"));  // idempotent
  struct stat facts{};
  EXPECT_NE(::stat(granted->path.c_str(), &facts), 0);
  auto memory = Allocation::create(4096);
  ASSERT_TRUE(memory);
  EXPECT_FALSE(a.export_memory(*memory));
  // Channel 0 alone is left to be seen, once the last session of the other is over.
  EXPECT_TRUE(eventually([&] {
    const auto health = cluster[0].health();
    return health && health->channels.size() == 1 && health->channels.front().channel == 0;
  }));
}

}  // namespace
}  // namespace imex::test
