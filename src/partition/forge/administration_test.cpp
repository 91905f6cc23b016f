// Logical and physical partitions and machines, on a real store.
#include "administration_kit.hpp"

namespace imex::partition::forge {
namespace {

using partition::testing::must;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class PartitionAdministrationTest : public AdministrationTest {
 protected:
  PhysicalPartition physical(const LogicalPartition& of, std::uint32_t fabric_id,
                             std::vector<std::uint64_t> uids) {
    PhysicalPartition row{.domain = world_.domain,
                          .fabric_id = fabric_id,
                          .partition = of.id,
                          .tenant = of.tenant,
                          .name = of.id.to_string() + ",1000",
                          .gpu_uids = std::move(uids)};
    must(store().write(kOperator, [&](WriteTransaction& t) { return t.put_physical(row); }));
    ListQuery query;
    query.filters.push_back({Field::kPartition, {of.id.to_string()}});
    return list<PhysicalPartition>(query).at(0);
  }
};

TEST_F(PartitionAdministrationTest, CreatesForATenantThatIsKnown) {
  const auto made = must(admin().create_partition(
      kOperator, {.org = "acme", .name = "training", .description = "of the vision team"}));
  EXPECT_EQ(made.org, "acme");
  EXPECT_EQ(made.record.tenant, world_.tenant.id);
  EXPECT_EQ(made.record.site, world_.site.id);
  EXPECT_EQ(made.record.status, Status::kReady);
  EXPECT_EQ(find<LogicalPartition>(made.record.id)->description, "of the vision team");
  EXPECT_EQ(audit().front().actor, "cn:alice");
}

TEST_F(PartitionAdministrationTest, CreatesTheTenantOfANewOrganisation) {
  const auto made = must(admin().create_partition(kOperator, {.org = "initech", .name = "p"}));
  EXPECT_EQ(find<Tenant>(made.record.tenant)->org, "initech");
  EXPECT_EQ(
      must(admin().create_partition(kOperator, {.org = "initech", .name = "q"})).record.tenant,
      made.record.tenant);
}

TEST_F(PartitionAdministrationTest, TakesTheCallersIdOnce) {
  const LogicalPartitionId id{must(Uuid::parse("11111111-2222-3333-4444-555555555555"))};
  EXPECT_EQ(
      must(admin().create_partition(kOperator, {.id = id, .org = "acme", .name = "a"})).record.id,
      id);
  EXPECT_THAT(admin().create_partition(kOperator, {.id = id, .org = "acme", .name = "b"}),
              FailsWith(Errc::kAlreadyExists, "11111111-2222"));
}

TEST_F(PartitionAdministrationTest, RefusesNamesThatAreMissingOrTaken) {
  EXPECT_THAT(admin().create_partition(kOperator, {.org = "acme"}),
              FailsWith(Errc::kInvalidArgument, "name is missing"));
  EXPECT_THAT(admin().create_partition(kOperator, {.name = "p"}),
              FailsWith(Errc::kInvalidArgument, "tenant_organization_id is missing"));
  EXPECT_THAT(admin().create_partition(kOperator, {.org = "acme", .name = " p"}),
              FailsWith(Errc::kInvalidArgument, "white space"));
  EXPECT_THAT(admin().create_partition(kOperator, {.org = "acme", .name = std::string(257, 'n')}),
              FailsWith(Errc::kInvalidArgument, "257 bytes"));
  partition("p");
  EXPECT_THAT(admin().create_partition(kOperator, {.org = "acme", .name = "p"}),
              FailsWith(Errc::kAlreadyExists, "'acme' has a logical partition 'p'"));
  EXPECT_THAT(admin().create_partition(kOperator, {.org = "umbrella", .name = "p"}), Succeeds());
}

TEST_F(PartitionAdministrationTest, UpdateBumpsTheVersionThatItsCallerMayDemand) {
  const auto made = partition("p");
  const std::string version = version_text(made.version, made.updated);
  const PartitionUpdate update{
      .id = made.id, .org = "acme", .name = "q", .description = "d", .if_version = version};
  EXPECT_THAT(admin().update_partition(kOperator, update), Succeeds());
  const auto now = *find<LogicalPartition>(made.id);
  EXPECT_EQ(now.name, "q");
  EXPECT_EQ(now.version, made.version + 1);
  EXPECT_THAT(admin().update_partition(kOperator, update),
              FailsWith(Errc::kFailedPrecondition, "has version 2, not 1"));
  // Without a demand the last one wins, and an update that changes nothing leaves the version.
  EXPECT_THAT(admin().update_partition(
                  kOperator, {.id = made.id, .org = "acme", .name = "q", .description = "d"}),
              Succeeds());
  EXPECT_EQ(find<LogicalPartition>(made.id)->version, made.version + 1);
}

TEST_F(PartitionAdministrationTest, UpdateRefusesWhatItCannotDo) {
  const auto made = partition("p");
  partition("taken");
  const LogicalPartitionId unknown{must(Uuid::parse("99999999-0000-0000-0000-000000000000"))};
  EXPECT_THAT(admin().update_partition(kOperator, {.id = unknown, .org = "acme", .name = "q"}),
              FailsWith(Errc::kNotFound, "99999999"));
  EXPECT_THAT(admin().update_partition(kOperator, {.id = made.id, .org = "umbrella", .name = "q"}),
              FailsWith(Errc::kInvalidArgument, "not of organisation 'umbrella'"));
  EXPECT_THAT(admin().update_partition(kOperator, {.id = made.id, .org = "acme"}),
              FailsWith(Errc::kInvalidArgument, "name is missing"));
  EXPECT_THAT(admin().update_partition(kOperator, {.id = made.id, .org = "acme", .name = "taken"}),
              FailsWith(Errc::kAlreadyExists, "'taken'"));
  EXPECT_THAT(
      admin().update_partition(
          kOperator, {.id = made.id, .org = "acme", .name = "q", .if_version = "yesterday"}),
      FailsWith(Errc::kInvalidArgument, "'yesterday' is no version"));
}

TEST_F(PartitionAdministrationTest, DeleteRemovesWhatHasNothingOnTheFabric) {
  const auto made = partition("p");
  EXPECT_THAT(admin().delete_partition(kOperator, made.id), Succeeds());
  EXPECT_FALSE(find<LogicalPartition>(made.id));
  EXPECT_THAT(admin().delete_partition(kOperator, made.id),
              FailsWith(Errc::kNotFound, "no logical"));
}

TEST_F(PartitionAdministrationTest, DeleteWaitsForThePhysicalPartitionsAndCanBeAskedAgain) {
  const auto made = partition("p");
  physical(made, 7, {1000});
  const std::uint64_t change = store().change();
  EXPECT_THAT(admin().delete_partition(kOperator, made.id), Succeeds());
  EXPECT_EQ(find<LogicalPartition>(made.id)->status, Status::kDeleting);
  EXPECT_GT(store().change(), change);
  EXPECT_THAT(admin().delete_partition(kOperator, made.id), Succeeds());
  // It is still told of, but accepts no changes.
  EXPECT_THAT(must(admin().partitions({made.id})), SizeIs(1));
  EXPECT_THAT(admin().update_partition(kOperator, {.id = made.id, .org = "acme", .name = "q"}),
              FailsWith(Errc::kNotFound, "is being deleted"));
}

TEST_F(PartitionAdministrationTest, DeleteIsRefusedWhileAnInstanceOrAVpcUsesIt) {
  const auto used = partition("used");
  ready_instance(used, "i");
  EXPECT_THAT(admin().delete_partition(kOperator, used.id),
              FailsWith(Errc::kInvalidArgument, "holds 4 GPUs of 1 instances"));
  const auto standard = partition("standard");
  auto vpc = partition::testing::new_vpc(world_, "v");
  vpc.default_partition = standard.id;
  must(insert(vpc));
  EXPECT_THAT(admin().delete_partition(kOperator, standard.id),
              FailsWith(Errc::kInvalidArgument, "default of 1 VPCs"));
}

TEST_F(PartitionAdministrationTest, FindsByNameIdAndTenant) {
  const auto a = partition("a"), b = partition("b");
  const auto foreign = partition("a", "umbrella");
  EXPECT_THAT(must(admin().partition_ids({})), UnorderedElementsAre(a.id, b.id, foreign.id));
  EXPECT_THAT(must(admin().partition_ids("a")), UnorderedElementsAre(a.id, foreign.id));
  EXPECT_THAT(must(admin().partition_ids("c")), IsEmpty());
  const LogicalPartitionId unknown{must(Uuid::parse("99999999-0000-0000-0000-000000000000"))};
  const auto found = must(admin().partitions({foreign.id, unknown}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found.front().org, "umbrella");
  EXPECT_THAT(must(admin().partitions_of("umbrella")), SizeIs(1));
  EXPECT_THAT(must(admin().partitions_of("nobody")), IsEmpty());
  EXPECT_THAT(admin().partitions_of(""), FailsWith(Errc::kInvalidArgument, "missing"));
}

TEST_F(PartitionAdministrationTest, RefusesToLookUpNoneOrTooMany) {
  EXPECT_THAT(admin().partitions({}), FailsWith(Errc::kInvalidArgument, "no ids"));
  EXPECT_THAT(admin().partitions(std::vector<LogicalPartitionId>(101)),
              FailsWith(Errc::kInvalidArgument, "at most 100"));
  EXPECT_THAT(admin().physical(std::vector<PhysicalPartitionId>(101)),
              FailsWith(Errc::kInvalidArgument, "at most 100"));
  EXPECT_THAT(admin().machines({}), FailsWith(Errc::kInvalidArgument, "no ids"));
  EXPECT_THAT(admin().instances({}), FailsWith(Errc::kInvalidArgument, "no ids"));
}

TEST_F(PartitionAdministrationTest, FindsPhysicalPartitionsByTenantNameAndId) {
  const auto mine = physical(partition("p"), 7, {1000});
  const auto foreign = physical(partition("p", "umbrella"), 8, {1001});
  EXPECT_THAT(must(admin().physical_ids({}, {})), UnorderedElementsAre(mine.id, foreign.id));
  EXPECT_THAT(must(admin().physical_ids("acme", {})), ElementsAre(mine.id));
  EXPECT_THAT(must(admin().physical_ids("acme", foreign.name)), IsEmpty());
  EXPECT_THAT(must(admin().physical_ids({}, foreign.name)), ElementsAre(foreign.id));
  EXPECT_THAT(must(admin().physical_ids("nobody", {})), IsEmpty());
  EXPECT_EQ(must(admin().physical({foreign.id})).at(0).fabric_id, 8U);
  EXPECT_EQ(must(admin().physical_of("umbrella")).at(0).id, foreign.id);
}

TEST(ConfigVersions, AreReadBackAsTheyAreWritten) {
  const std::string text =
      version_text(12, WallTime(std::chrono::microseconds(1'764'000'000'000'001)));
  EXPECT_EQ(text, "V12-T1764000000000001");
  EXPECT_EQ(parse_version(text).value(), 12U);
  EXPECT_EQ(parse_version("7").value(), 7U);
  for (const char* wrong : {"", "V", "V-T1", "V1 ", "V1-X", "-1", "V18446744073709551616"})
    EXPECT_FALSE(parse_version(wrong)) << wrong;
}

// ---- Machines

TEST_F(PartitionAdministrationTest, MachinesShowWhichPartitionHasTheirGpus) {
  const auto row = physical(partition("p"), 7, {1000, 1001});
  auto machine = *find<Machine>(partition::testing::machine_of(0));
  machine.gpus.at(0).fabric_partition = 7;
  must(update(machine));
  const auto views = must(admin().machines({machine.id, {"unknown"}}));
  ASSERT_THAT(views, SizeIs(1));
  EXPECT_EQ(views[0].partition_of(views[0].record.gpus.at(0))->id, row.id);
  EXPECT_EQ(views[0].partition_of(views[0].record.gpus.at(1)), nullptr);
}

NvlinkInfo info_of_tray(std::int64_t tray, std::uint64_t first_uid) {
  NvlinkInfo info{.chassis_serial = "CH9"};
  for (std::int64_t gpu = 0; gpu < 4; ++gpu)
    info.gpus.push_back({tray, tray + 1, gpu + 1, first_uid + static_cast<std::uint64_t>(gpu)});
  return info;
}

TEST_F(PartitionAdministrationTest, NvlinkInfoIsEntered) {
  const MachineId id = partition::testing::machine_of(0);
  NvlinkInfo info = info_of_tray(5, 9000);
  info.domain = DomainId{must(Uuid::parse("aaaaaaaa-0000-0000-0000-000000000001"))};
  std::swap(info.gpus.at(0), info.gpus.at(3));
  EXPECT_THAT(admin().set_nvlink_info(kOperator, id, info), Succeeds());
  const auto machine = *find<Machine>(id);
  EXPECT_EQ(machine.domain, info.domain);
  EXPECT_EQ(machine.chassis_serial, "CH9");
  EXPECT_EQ(machine.tray_index, 5U);
  EXPECT_EQ(machine.slot_id, 6U);
  ASSERT_THAT(machine.gpus, SizeIs(4));
  EXPECT_EQ(machine.gpus.at(0).uid, 9000U);
  EXPECT_EQ(machine.gpus.at(0).device_instance, 0U);
  EXPECT_EQ(machine.gpus.at(3).uid, 9003U);
}

TEST_F(PartitionAdministrationTest, NvlinkInfoThatCannotBeIsRefused) {
  const MachineId id = partition::testing::machine_of(0);
  const auto refused = [&](const char* part, const std::function<void(NvlinkInfo&)>& spoil) {
    NvlinkInfo info = info_of_tray(0, 9000);
    spoil(info);
    EXPECT_THAT(admin().set_nvlink_info(kOperator, id, info),
                FailsWith(Errc::kInvalidArgument, part));
  };
  refused("chassis_serial is missing", [](NvlinkInfo& info) { info.chassis_serial.clear(); });
  refused("no GPUs", [](NvlinkInfo& info) { info.gpus.clear(); });
  refused("65 GPUs", [](NvlinkInfo& info) { info.gpus.resize(65); });
  refused("guid is missing", [](NvlinkInfo& info) { info.gpus[1].uid = 0; });
  refused("guid is there twice", [](NvlinkInfo& info) { info.gpus[1].uid = 9000; });
  refused("count from 1", [](NvlinkInfo& info) { info.gpus[0].device_id = 0; });
  refused("device id is there twice", [](NvlinkInfo& info) { info.gpus[0].device_id = 2; });
  refused("share its tray", [](NvlinkInfo& info) { info.gpus[3].tray_index = 1; });
  refused("no tray", [](NvlinkInfo& info) { info.gpus[0].slot_id = -1; });
  // The other tray's GPU.
  NvlinkInfo stolen = info_of_tray(0, 1000);
  stolen.chassis_serial = "CH1";
  stolen.gpus[2].uid = 1004;
  EXPECT_THAT(admin().set_nvlink_info(kOperator, id, stolen),
              FailsWith(Errc::kInvalidArgument, "GPU 1004 is in machine CH1.2.1"));
  EXPECT_THAT(admin().set_nvlink_info(kOperator, {"unknown"}, info_of_tray(0, 9000)),
              FailsWith(Errc::kNotFound, "no machine unknown"));
}

TEST_F(PartitionAdministrationTest, NvlinkInfoCannotTakeGpusFromAnInstance) {
  ready_instance(partition("p"), "i");
  const MachineId id = partition::testing::machine_of(0);
  EXPECT_THAT(admin().set_nvlink_info(kOperator, id, info_of_tray(0, 9000)),
              FailsWith(Errc::kFailedPrecondition, "release the instance first"));
  NvlinkInfo same = info_of_tray(0, 1000);
  same.domain = world_.domain;
  EXPECT_THAT(admin().set_nvlink_info(kOperator, id, same), Succeeds());
}

TEST_F(PartitionAdministrationTest, ForceDeleteWantsTheInstanceTypeGoneFirst) {
  auto machine = *find<Machine>(partition::testing::machine_of(0));
  machine.instance_type = world_.type.id;
  must(update(machine));
  EXPECT_THAT(admin().force_delete(kOperator, machine.id, false),
              FailsWith(Errc::kFailedPrecondition, "associated with instance type"));
  EXPECT_TRUE(find<Machine>(machine.id));
  EXPECT_THAT(admin().force_delete(kOperator, machine.id, true), Succeeds());
  EXPECT_FALSE(find<Machine>(machine.id));
}

TEST_F(PartitionAdministrationTest, ForceDeleteRemovesTheInstanceAndWakesTheReconciler) {
  const auto instance = ready_instance(partition("p"), "i");
  auto machine = *find<Machine>(instance.machine);
  machine.instance_type.reset();
  must(update(machine));
  const std::uint64_t change = store().change();
  const auto gone = must(admin().force_delete(kOperator, instance.machine, false));
  EXPECT_EQ(gone.machine, instance.machine);
  EXPECT_EQ(gone.instance, instance.id);
  EXPECT_FALSE(find<Machine>(instance.machine));
  EXPECT_FALSE(find<Instance>(instance.id));
  EXPECT_THAT(list<NvlinkInterface>(), IsEmpty());
  EXPECT_GT(store().change(), change);
  // The tray is found again, as one that must first be seen free of tenants' partitions.
  observe_rack();
  EXPECT_NE(find<Machine>(instance.machine)->status, Status::kInUse);
}

TEST_F(PartitionAdministrationTest, ForceDeleteOfNothingIsDoneAlready) {
  const auto gone = must(admin().force_delete(kOperator, {"unknown"}, false));
  EXPECT_TRUE(gone.machine.text.empty());
  EXPECT_THAT(admin().force_delete(kOperator, {""}, false),
              FailsWith(Errc::kInvalidArgument, "host_query is missing"));
}

}  // namespace
}  // namespace imex::partition::forge
