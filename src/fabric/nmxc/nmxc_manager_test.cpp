// The interface over a scripted controller: what is read, what is sent, what a failure says.
#include <algorithm>

#include "testing/kit.hpp"

namespace imex::fabric::nmxc {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the kit of this room

class NmxcManagerTest : public ::testing::Test {
 protected:
  NmxcManagerTest() : manager_(open_or_die(options_for({controller_.url()}))) {}

  FakeController controller_;
  std::unique_ptr<FabricManager> manager_;
};

std::vector<std::uint64_t> uids_from(std::uint32_t first, std::uint32_t count) {
  std::vector<std::uint64_t> uids;
  for (std::uint32_t i = 0; i < count; ++i) uids.push_back(kFirstUid + first + i);
  return uids;
}

TEST_F(NmxcManagerTest, DescribesDomainLimitsAndProfile) {
  const auto description = manager_->describe(patient());
  ASSERT_TRUE(description) << description.error().error.to_string();
  EXPECT_EQ(description->domain_uuid.to_string(), kDomain);
  EXPECT_EQ(description->instance, "instance-1");
  EXPECT_EQ(description->version, "1.2.3");
  EXPECT_EQ(description->endpoint, controller_.url());
  EXPECT_EQ(description->control_plane, ControlPlaneState::kConfigured);
  EXPECT_EQ(description->limits.compute_nodes, 18U);
  EXPECT_EQ(description->limits.multicast_groups, 1'024U);
  EXPECT_EQ(description->profile.protocol, "nmx-c 2.20");
  EXPECT_EQ(description->profile.name_bytes_max, 255U);
}

TEST_F(NmxcManagerTest, ObservesOneOrderedSnapshot) {
  const auto snapshot = manager_->observe(patient());
  ASSERT_TRUE(snapshot) << snapshot.error().error.to_string();
  ASSERT_EQ(snapshot->gpus.size(), 8U);
  const ObservedGpu* gpu = snapshot->find_gpu(kFirstUid + 5);
  ASSERT_NE(gpu, nullptr);
  EXPECT_EQ(gpu->module_id, 2U);
  EXPECT_EQ(gpu->place.tray_index, 1U);
  EXPECT_EQ(gpu->place.slot_id, 22U);
  EXPECT_EQ(gpu->place.chassis_serial, "1821220000000");
  EXPECT_EQ(gpu->partition_id, std::nullopt);
  ASSERT_NE(snapshot->default_partition(), nullptr);
  EXPECT_EQ(snapshot->default_partition()->gpu_uids, uids_from(0, 4));
  EXPECT_EQ(snapshot->nodes.size(), 2U);
  EXPECT_EQ(snapshot->multicast_groups_free, 1'008U);
  EXPECT_TRUE(snapshot->can_change());
  EXPECT_TRUE(snapshot->disputed.empty());
}

TEST_F(NmxcManagerTest, ARefusedReadIsNoSnapshotAlthoughGrpcSaysOk) {
  controller_.fail_next("GetPartitionInfoList", {.code = NmxCode::kControllerDbError});
  const auto snapshot = manager_->observe(patient());
  ASSERT_FALSE(snapshot);
  EXPECT_EQ(snapshot.error().code, NmxCode::kControllerDbError);
  EXPECT_EQ(snapshot.error().effect, Effect::kNone);
}

TEST_F(NmxcManagerTest, AnswersThatBreakTheRulesAreErrors) {
  const auto refused = [&](const std::string& method, Fault fault) {
    controller_.fail_next(method, std::move(fault));
    const auto snapshot = manager_->observe(patient());
    return snapshot ? Errc::kOk : snapshot.error().error.code;
  };
  EXPECT_EQ(refused("GetGpuInfoList", {.no_header = true}), Errc::kDataLoss);
  EXPECT_EQ(refused("GetGpuInfoList", {.code = NmxCode::kUndefined, .apply = true}),
            Errc::kInternal);
  EXPECT_EQ(
      refused("GetPartitionInfoList",
              {.spoil =
                   [](google::protobuf::Message& message) {
                     auto& answer = dynamic_cast<pb::GetPartitionInfoListResponse&>(message);
                     answer.mutable_partition_info_list(0)->mutable_gpu_uid_list()->RemoveLast();
                   }}),
      Errc::kDataLoss)
      << "claims more members than it lists";
  EXPECT_EQ(refused("GetGpuInfoList", {.spoil =
                                           [](google::protobuf::Message& message) {
                                             auto& answer =
                                                 dynamic_cast<pb::GetGpuInfoListResponse&>(message);
                                             *answer.add_gpu_info_list() = answer.gpu_info_list(0);
                                           }}),
            Errc::kDataLoss)
      << "a GPU twice";
  EXPECT_TRUE(manager_->observe(patient())) << "a bad answer leaves the session in order";
}

TEST_F(NmxcManagerTest, UnknownNumbersAreCarriedThrough) {
  controller_.fail_next(
      "GetGpuInfoList", {.spoil = [](google::protobuf::Message& message) {
        auto& answer = dynamic_cast<pb::GetGpuInfoListResponse&>(message);
        answer.mutable_gpu_info_list(0)->set_gpu_health(static_cast<pb::GpuHealth>(77));
      }});
  const auto snapshot = manager_->observe(patient());
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->gpus[0].health, GpuHealth{77});
}

TEST_F(NmxcManagerTest, ALaggingListIsReadAgainAndALastingDisputeIsNamed) {
  const Fault stale{.spoil = [](google::protobuf::Message& message) {
    auto& answer = dynamic_cast<pb::GetGpuInfoListResponse&>(message);
    answer.mutable_gpu_info_list(0)->mutable_partition_id()->set_partition_id(9);
  }};
  controller_.fail_next("GetGpuInfoList", stale);
  auto snapshot = manager_->observe(patient());
  ASSERT_TRUE(snapshot);
  EXPECT_TRUE(snapshot->disputed.empty());
  EXPECT_EQ(controller_.calls("GetGpuInfoList"), 2);

  controller_.fail_always("GetGpuInfoList", stale);
  snapshot = manager_->observe(patient());
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->disputed, uids_from(0, 1));
}

TEST_F(NmxcManagerTest, AMissingNodeListIsNoLoss) {
  controller_.fail_always("GetComputeNodeInfoList",
                          Fault{.status = grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "")});
  const auto snapshot = manager_->observe(patient());
  ASSERT_TRUE(snapshot);
  EXPECT_TRUE(snapshot->nodes.empty());
  EXPECT_EQ(snapshot->gpus.size(), 8U);
}

TEST_F(NmxcManagerTest, CreatesByUidAndReturnsTheId) {
  const auto created = manager_->create_partition({.name = "lp-7",
                                                   .gpu_uids = uids_from(4, 2),
                                                   .resiliency = ResiliencyMode::kFullBandwidth,
                                                   .multicast_groups = 18},
                                                  patient());
  ASSERT_TRUE(created) << created.error().error.to_string();
  EXPECT_EQ(created->id, 1U);
  EXPECT_FALSE(created->already_there);
  const pb::CreatePartitionRequest sent = controller_.last_create();
  EXPECT_EQ(sent.gateway_id(), "test");
  EXPECT_EQ(sent.attr().multicast_groups_limit(), 16U) << "rounded down to a multiple of 4";
  EXPECT_EQ(sent.attr().resiliency_mode(), pb::RESILIENCY_MODE_FULL_BANDWIDTH);
  EXPECT_EQ(controller_.members(1), uids_from(4, 2));
}

TEST_F(NmxcManagerTest, WithoutAttributesNoneAreSent) {
  ASSERT_TRUE(manager_->create_partition({.name = "lp-7", .gpu_uids = uids_from(4, 1), .id = 44},
                                         patient()));
  EXPECT_FALSE(controller_.last_create().has_attr());
  EXPECT_EQ(controller_.members(44), uids_from(4, 1));
}

TEST_F(NmxcManagerTest, TheSamePartitionAgainIsFound) {
  ASSERT_TRUE(manager_->create_partition({.name = "lp-7", .gpu_uids = uids_from(4, 2)}, patient()));
  const auto again =
      manager_->create_partition({.name = "lp-7", .gpu_uids = uids_from(4, 2)}, patient());
  ASSERT_TRUE(again) << again.error().error.to_string();
  EXPECT_TRUE(again->already_there);
  EXPECT_EQ(again->id, 1U);
}

TEST_F(NmxcManagerTest, ARefusalIsCertainAndSaysWhenToTryAgain) {
  const auto created =
      manager_->create_partition({.name = "lp-7", .gpu_uids = uids_from(0, 1)}, patient());
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().code, NmxCode::kResourceInUse);
  EXPECT_EQ(created.error().effect, Effect::kNone);
  EXPECT_EQ(created.error().retry, NmxRetry::kSoon);
  EXPECT_NE(created.error().error.message.find("lp-7"), std::string::npos);
}

TEST_F(NmxcManagerTest, AnErrorThatWasAppliedIsOfUnknownEffect) {
  controller_.fail_next("CreatePartition", {.code = NmxCode::kGenericError, .apply = true});
  const auto created =
      manager_->create_partition({.name = "lp-7", .gpu_uids = uids_from(4, 2)}, patient());
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().effect, Effect::kUnknown);
  EXPECT_EQ(controller_.calls("CreatePartition"), 1)
      << "nothing that may have happened is sent again";
  const auto snapshot = manager_->observe(patient());
  ASSERT_TRUE(snapshot);
  EXPECT_NE(snapshot->partition_of(kFirstUid + 4), nullptr);
}

TEST_F(NmxcManagerTest, AChangeWithoutAnAnswerIsOfUnknownEffect) {
  controller_.fail_next("CreatePartition", {.apply = true, .hang = true});
  const auto created = manager_->create_partition({.name = "lp-7", .gpu_uids = uids_from(4, 2)},
                                                  CallOptions::within(milliseconds(300)));
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().error.code, Errc::kDeadlineExceeded);
  EXPECT_EQ(created.error().effect, Effect::kUnknown);
  EXPECT_EQ(controller_.members(1), uids_from(4, 2));
}

TEST_F(NmxcManagerTest, SuccessWithoutAnIdIsNotTrusted) {
  controller_.fail_next("CreatePartition", {.spoil = [](google::protobuf::Message& message) {
                          dynamic_cast<pb::CreatePartitionResponse&>(message).clear_partition_id();
                        }});
  const auto created =
      manager_->create_partition({.name = "lp-7", .gpu_uids = uids_from(4, 2)}, patient());
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().effect, Effect::kUnknown);
}

TEST_F(NmxcManagerTest, AnUpdateRemovesFirstAndSendsOnlyWhatIsMissing) {
  controller_.put_partition(7, "a", uids_from(4, 2));
  const auto updated = manager_->update_partition(
      {.id = 7, .name = "a"},
      {.remove = {kFirstUid + 4, kFirstUid + 7}, .add = {kFirstUid + 5, kFirstUid + 6}}, patient());
  ASSERT_TRUE(updated) << updated.error().error.to_string();
  EXPECT_EQ(controller_.change_log(), (std::vector<std::string>{"remove 1 7", "add 1 7"}));
  EXPECT_EQ(controller_.members(7), uids_from(5, 2));
  for (const pb::UpdatePartitionRequest& sent : controller_.updates()) EXPECT_TRUE(sent.reroute());
  ASSERT_TRUE(manager_->update_partition({.id = 7}, {.add = uids_from(5, 2)}, patient()));
  EXPECT_EQ(controller_.updates().size(), 2U) << "nothing to do, nothing sent";
}

TEST_F(NmxcManagerTest, ARefusedAdditionAfterARemovalIsPartial) {
  controller_.put_partition(7, "a", uids_from(4, 2));
  const auto updated = manager_->update_partition(
      {.id = 7}, {.remove = {kFirstUid + 4}, .add = {kFirstUid}}, patient());
  ASSERT_FALSE(updated);
  EXPECT_EQ(updated.error().effect, Effect::kPartial);
  EXPECT_EQ(updated.error().code, NmxCode::kResourceInUse);
  EXPECT_EQ(controller_.members(7), uids_from(5, 1));
}

TEST_F(NmxcManagerTest, AnAdditionIsNotTriedAfterAFailedRemoval) {
  controller_.put_partition(7, "a", uids_from(4, 2));
  controller_.fail_next("RemoveGpusFromPartition", {.code = NmxCode::kResourceNotReady});
  const auto updated = manager_->update_partition(
      {.id = 7}, {.remove = {kFirstUid + 4}, .add = {kFirstUid + 6}}, patient());
  ASSERT_FALSE(updated);
  EXPECT_EQ(updated.error().effect, Effect::kNone);
  EXPECT_EQ(controller_.calls("AddGpusToPartition"), 0);
}

TEST_F(NmxcManagerTest, APartitionOfLocationsIsChangedByLocation) {
  controller_.put_partition(7, "a", uids_from(4, 1), pb::PARTITION_TYPE_LOCATION_BASED);
  ASSERT_TRUE(manager_->update_partition(
      {.id = 7}, {.remove = {kFirstUid + 4}, .add = {kFirstUid + 6}}, patient()));
  ASSERT_EQ(controller_.updates().size(), 2U);
  EXPECT_TRUE(controller_.updates()[1].gpu_uid().empty());
  EXPECT_EQ(controller_.updates()[1].location_list(0).gpu_id(), 3U);
  EXPECT_EQ(controller_.members(7), (std::vector<std::uint64_t>{kFirstUid + 6}));
  // The default partition takes uids, whatever its kind.
  ASSERT_TRUE(manager_->update_partition({.id = 32'766}, {.remove = {kFirstUid}}, patient()));
  EXPECT_EQ(controller_.updates()[2].gpu_uid(0), kFirstUid);
}

TEST_F(NmxcManagerTest, AnIdThatWasHandedOutAgainIsNotTouched) {
  controller_.put_partition(7, "somebody else's", uids_from(4, 2));
  const auto updated =
      manager_->update_partition({.id = 7, .name = "mine"}, {.remove = {kFirstUid + 4}}, patient());
  ASSERT_FALSE(updated);
  EXPECT_EQ(updated.error().code, NmxCode::kPartitionIdNameMismatch);
  const auto deleted = manager_->delete_partition({.id = 7, .name = "mine"}, patient());
  ASSERT_FALSE(deleted);
  EXPECT_EQ(deleted.error().code, NmxCode::kPartitionIdNameMismatch);
  EXPECT_TRUE(controller_.change_log().empty());
}

TEST_F(NmxcManagerTest, DeletesAndSaysWhatIsGone) {
  ASSERT_TRUE(manager_->delete_partition({.id = 32'766}, patient()));
  const auto again = manager_->delete_partition({.id = 32'766}, patient());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().error.code, Errc::kNotFound);
  const auto missing =
      manager_->update_partition({.name = "nobody"}, {.add = uids_from(0, 1)}, patient());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, NmxCode::kPartitionNameNotInUse);
}

TEST_F(NmxcManagerTest, NothingWrongIsSent) {
  EXPECT_FALSE(manager_->create_partition({.name = ""}, patient()));
  EXPECT_FALSE(manager_->update_partition({}, {}, patient()));
  EXPECT_FALSE(manager_->delete_partition({}, patient()));
  EXPECT_EQ(controller_.calls("Hello"), 0);
}

TEST_F(NmxcManagerTest, ChangesWaitForEachOther) {
  std::vector<std::thread> threads;
  std::atomic<int> done{0};
  for (std::uint32_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const auto created = manager_->create_partition(
          {.name = "p" + std::to_string(i), .gpu_uids = uids_from(4 + i, 1)}, patient());
      if (created) ++done;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 4);
  EXPECT_EQ(controller_.change_log().size(), 4U);
}

TEST_F(NmxcManagerTest, ACallEndsWhenItIsCancelled) {
  controller_.fail_always("GetDomainStateInfo", Fault{.hang = true});
  std::stop_source stop;
  std::thread canceller([&] {
    EXPECT_TRUE(eventually([&] { return controller_.calls("GetDomainStateInfo") > 0; }));
    stop.request_stop();
  });
  const auto snapshot = manager_->observe(CallOptions::within(seconds(60), stop.get_token()));
  canceller.join();
  ASSERT_FALSE(snapshot);
  EXPECT_EQ(snapshot.error().error.code, Errc::kAborted);
}

TEST_F(NmxcManagerTest, APassedDeadlineSendsNothing) {
  const auto snapshot = manager_->observe(CallOptions::within(milliseconds(-1)));
  ASSERT_FALSE(snapshot);
  EXPECT_EQ(snapshot.error().error.code, Errc::kDeadlineExceeded);
  EXPECT_EQ(controller_.calls("Hello"), 0);
}

TEST(NmxcDialectTest, TheDraftIsFoundWhereTheCurrentServiceIsNot) {
  FakeController controller({.current = false, .draft = true});
  const auto manager = open_or_die(options_for({controller.url()}));
  const auto description = manager->describe(patient());
  ASSERT_TRUE(description) << description.error().error.to_string();
  EXPECT_EQ(description->profile.protocol, "nmx-c 1.4 (draft)");
  ASSERT_TRUE(manager->create_partition({.name = "lp-7", .gpu_uids = {kFirstUid + 4}}, patient()));
  const auto snapshot = manager->observe(patient());
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->partitions.size(), 2U);
}

TEST(NmxcDialectTest, AnotherMajorVersionNamesBoth) {
  FakeController controller({.current = false, .draft = true});
  Options options = options_for({controller.url()});
  options.dialect = Dialect::kCurrent;
  const auto manager = open_or_die(options);
  const auto description = manager->describe(patient());
  ASSERT_FALSE(description);
  EXPECT_EQ(description.error().error.code, Errc::kVersionMismatch);
  EXPECT_NE(description.error().error.message.find("2.20"), std::string::npos)
      << description.error().error.message;

  FakeController other({.draft = false});
  other.fail_always("Hello", Fault{.code = NmxCode::kVersionMismatch});
  const auto refused = open_or_die(options_for({other.url()}))->describe(patient());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().error.code, Errc::kVersionMismatch);
  EXPECT_NE(refused.error().error.message.find("1.4"), std::string::npos)
      << refused.error().error.message;
}

TEST(NmxcOptionsTest, EverythingThatIsWrongIsSaidAtOnce) {
  Options options;
  options.endpoints = {"ftp://a", "http://a:99999"};
  options.gateway_id = "";
  options.tls.key_file = "key.pem";
  const auto refused = validate(options);
  ASSERT_FALSE(refused);
  for (const char* part : {"ftp://a", "99999", "gateway id", "without its certificate"})
    EXPECT_NE(refused.error().message.find(part), std::string::npos)
        << part << ": " << refused.error().message;
  EXPECT_FALSE(validate({}));
  EXPECT_TRUE(validate(options_for({"http://a"})));
  EXPECT_FALSE(validate(options_for({"http://a", "http://a"})));
}

}  // namespace
}  // namespace imex::fabric::nmxc
