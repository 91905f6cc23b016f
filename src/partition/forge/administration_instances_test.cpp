#include "administration_kit.hpp"
#include "os/random.hpp"

namespace imex::partition::forge {
namespace {

using partition::testing::must;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class InstanceAdministrationTest : public AdministrationTest {
 protected:
  void SetUp() override {
    AdministrationTest::SetUp();
    first_ = partition("first");
    second_ = partition("second");
    instance_ = ready_instance(first_, "i");
  }
  static std::vector<GpuWish> all_in(const LogicalPartition& partition) {
    std::vector<GpuWish> wishes;
    for (std::uint32_t device = 0; device < 4; ++device) wishes.push_back({device, partition.id});
    return wishes;
  }
  Result<InstanceView> wish(std::vector<GpuWish> gpus) {
    return admin().update_instance(kOperator, {.id = instance_.id, .gpus = std::move(gpus)});
  }
  /// Devices whose live interface is in the partition.
  std::vector<std::uint32_t> devices_in(const LogicalPartition& partition) {
    std::vector<std::uint32_t> devices;
    const auto views = must(admin().instances({instance_.id}));
    for (const auto& interface : views.at(0).interfaces) {
      if (interface.status != Status::kDeleting && interface.partition == partition.id)
        devices.push_back(interface.device_instance);
    }
    return devices;
  }

  LogicalPartition first_, second_;
  Instance instance_;
};

TEST_F(InstanceAdministrationTest, AreShownWithTheirInterfaces) {
  const auto views = must(admin().instances({instance_.id, {os::random_uuid()}}));
  ASSERT_THAT(views, SizeIs(1));
  EXPECT_EQ(views[0].org, "acme");
  EXPECT_THAT(views[0].interfaces, SizeIs(4));
  EXPECT_TRUE(views[0].configs_synced());
}

TEST_F(InstanceAdministrationTest, ChangeOnlyWhatDiffers) {
  auto wishes = all_in(first_);
  wishes[3].partition = second_.id;
  const std::uint64_t change = store().change();
  const auto view = must(wish(wishes));
  EXPECT_EQ(view.record.status, Status::kConfiguring);
  EXPECT_EQ(view.record.version, instance_.version + 1);
  EXPECT_FALSE(view.configs_synced());
  EXPECT_GT(store().change(), change);
  EXPECT_EQ(devices_in(first_), (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(devices_in(second_), (std::vector<std::uint32_t>{3}));
  for (const auto& interface : view.interfaces) {
    if (interface.device_instance == 3) continue;
    EXPECT_EQ(interface.status, Status::kReady) << "unchanged GPUs are left alone";
  }
}

TEST_F(InstanceAdministrationTest, ChangeNothingWithTheSameSet) {
  const std::uint64_t change = store().change();
  const auto view = must(wish(all_in(first_)));
  EXPECT_EQ(view.record.version, instance_.version);
  EXPECT_EQ(view.record.status, Status::kReady);
  EXPECT_EQ(store().change(), change);
}

TEST_F(InstanceAdministrationTest, ShrinkAndClear) {
  must(wish({{0, first_.id}, {1, std::nullopt}}));
  EXPECT_EQ(devices_in(first_), (std::vector<std::uint32_t>{0}));
  must(wish({}));
  EXPECT_THAT(devices_in(first_), IsEmpty());
}

TEST_F(InstanceAdministrationTest, WithoutAConfigurationKeepTheirGpus) {
  const auto view = must(admin().update_instance(
      kOperator, {.id = instance_.id, .name = "renamed", .description = "d"}));
  EXPECT_EQ(view.record.name, "renamed");
  EXPECT_EQ(view.record.description, "d");
  EXPECT_EQ(view.record.version, instance_.version);
  EXPECT_THAT(devices_in(first_), SizeIs(4));
}

TEST_F(InstanceAdministrationTest, RefuseConfigurationsThatCannotBe) {
  EXPECT_THAT(
      wish({{4, first_.id}}),
      FailsWith(Errc::kInvalidArgument, "device_instance 4 is given, machine CH1.1.1 has 4"));
  EXPECT_THAT(wish({{0, first_.id}, {0, second_.id}}),
              FailsWith(Errc::kInvalidArgument, "given twice"));
  EXPECT_THAT(wish({{0, LogicalPartitionId{os::random_uuid()}}}),
              FailsWith(Errc::kInvalidArgument, "does not exist"));
  EXPECT_THAT(wish({{0, partition("foreign", "umbrella").id}}),
              FailsWith(Errc::kInvalidArgument, "another tenant"));
  second_.status = Status::kDeleting;
  must(update(second_));
  EXPECT_THAT(wish({{0, second_.id}}), FailsWith(Errc::kInvalidArgument, "is Deleting, not Ready"));
  EXPECT_THAT(devices_in(first_), SizeIs(4)) << "a refused change changes nothing";
}

TEST_F(InstanceAdministrationTest, RefuseAnotherVersion) {
  const std::string version = version_text(instance_.version, instance_.updated);
  const InstanceUpdate update{.id = instance_.id, .gpus = all_in(second_), .if_version = version};
  EXPECT_THAT(admin().update_instance(kOperator, update), Succeeds());
  EXPECT_THAT(admin().update_instance(kOperator, update),
              FailsWith(Errc::kFailedPrecondition, "has version"));
}

TEST_F(InstanceAdministrationTest, RefuseChangesBeforeTheyAreReadyAndAfterRelease) {
  instance_.status = Status::kProvisioning;
  must(update(instance_));
  EXPECT_THAT(wish(all_in(second_)), FailsWith(Errc::kInvalidArgument, "not assigned and ready"));
  instance_.status = Status::kReady;
  must(update(instance_));
  must(admin().release_instance(kOperator, instance_.id, ""));
  EXPECT_THAT(wish(all_in(second_)), FailsWith(Errc::kInvalidArgument, "deletion"));
  EXPECT_THAT(
      admin().update_instance(kOperator, {.id = {os::random_uuid()}, .gpus = all_in(second_)}),
      FailsWith(Errc::kNotFound, "no instance"));
}

TEST_F(InstanceAdministrationTest, AreReleasedOnceHoweverOftenAsked) {
  must(admin().release_instance(kOperator, instance_.id, "HARDWARE: a fan is loud"));
  const auto released = *find<Instance>(instance_.id);
  EXPECT_EQ(released.status, Status::kTerminating);
  EXPECT_THAT(devices_in(first_), IsEmpty());
  EXPECT_EQ(history(Kind::kInstance, instance_.id.to_string()).at(0).message,
            "release requested: HARDWARE: a fan is loud");
  must(admin().release_instance(kOperator, instance_.id, ""));
  EXPECT_EQ(find<Instance>(instance_.id)->version, released.version);
  EXPECT_THAT(admin().release_instance(kOperator, {os::random_uuid()}, ""),
              FailsWith(Errc::kNotFound, "no instance"));
}

TEST_F(InstanceAdministrationTest, OfAPartitionBlockItsDeletionOnlyWhileTheyHoldIt) {
  EXPECT_THAT(admin().delete_partition(kOperator, first_.id),
              FailsWith(Errc::kInvalidArgument, "1 instances"));
  must(wish({}));
  EXPECT_THAT(admin().delete_partition(kOperator, first_.id), Succeeds());
  EXPECT_EQ(find<LogicalPartition>(first_.id)->status, Status::kDeleting)
      << "it stays until its GPUs have left";
}

}  // namespace
}  // namespace imex::partition::forge
