// What both databases must do alike. Linked once with SQLite (label unit) and once with a real
// PostgreSQL (label integration).
#include "partition/store/store.hpp"

#include <algorithm>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/random.hpp"
#include "testing/store_kit.hpp"

namespace imex::partition::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names_of(const std::vector<LogicalPartition>& partitions) {
  std::vector<std::string> names;
  for (const LogicalPartition& partition : partitions) names.push_back(partition.name);
  return names;
}

TEST_F(StoreTest, EveryFieldOfARecordComesBack) {
  const World world = make_world(store());
  must(store().write_observation(term(), world.endpoint.id, rack_view(world, 1, at_second(100))));
  LogicalPartition partition = new_partition(world, "quote\" ' back\\slash ü \n");
  partition.description = "";
  partition.resiliency = ResiliencyMode::kAdaptiveBandwidth;
  partition.multicast_groups = 8;
  partition.last_error = LastError{"it failed", at_second(5), 3};
  must(insert(partition));
  const auto found = find<LogicalPartition>(partition.id);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, partition.name);
  EXPECT_EQ(found->description, std::optional<std::string>(""));
  EXPECT_EQ(found->resiliency, partition.resiliency);
  EXPECT_EQ(found->multicast_groups, 8U);
  ASSERT_TRUE(found->last_error);
  EXPECT_EQ(found->last_error->message, "it failed");
  EXPECT_EQ(found->last_error->at, at_second(5));
  EXPECT_EQ(found->last_error->count, 3U);
  EXPECT_NE(found->created, WallTime{});
  EXPECT_EQ(found->created, found->updated);

  Vpc vpc = new_vpc(world, "v");
  vpc.labels = {{"a", "1"}, {"", "\"x\""}};
  vpc.default_partition = partition.id;
  must(insert(vpc));
  EXPECT_EQ(find<Vpc>(vpc.id)->labels, vpc.labels);
  EXPECT_EQ(find<Vpc>(vpc.id)->default_partition, partition.id);

  auto placed = place_instance(store(), world, vpc, partition, 0, "i");
  NvlinkInterface interface = placed.interfaces[2];
  interface.gpu_uid = 0xffff'ffff'ffff'fff0ULL;  // beyond a signed number
  interface.domain = world.domain;
  must(update(interface));
  EXPECT_EQ(find<NvlinkInterface>(interface.id)->gpu_uid, interface.gpu_uid);
  EXPECT_EQ(find<NvlinkInterface>(interface.id)->domain, world.domain);

  const auto machine = find<Machine>(machine_of(0));
  ASSERT_TRUE(machine);
  EXPECT_EQ(machine->gpus.size(), 4U);
  EXPECT_EQ(machine->gpus[3], (Gpu{1003, 3, Health::kHealthy, 0}));
  EXPECT_EQ(machine->instance, placed.instance.id);
  EXPECT_FALSE(find<LogicalPartition>({os::random_uuid()}));
}

TEST_F(StoreTest, NamesAreUniquePerTenantAndTheLoserChangesNothing) {
  const World world = make_world(store());
  must(insert(new_partition(world, "a")));
  const auto again = insert(new_partition(world, "a"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::kAlreadyExists);
  LogicalPartition others = new_partition(world, "a");
  others.tenant = world.other_tenant.id;
  must(insert(others));
  must(insert(new_partition(world, "A")));
  EXPECT_EQ(list<LogicalPartition>().size(), 3U);
}

TEST_F(StoreTest, OfManyWhoWantOneNameExactlyOneGetsIt) {
  const World world = make_world(store());
  std::atomic<int> won{0}, lost{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      const auto result = insert(new_partition(world, "wanted"));
      if (result)
        ++won;
      else if (result.error().code == Errc::kAlreadyExists)
        ++lost;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(won, 1);
  EXPECT_EQ(lost, 7);
}

TEST_F(StoreTest, WritesOfManyThreadsAreAllThereAndAuditedOnce) {
  const World world = make_world(store());
  const std::size_t before = audit().size();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 10; ++i)
        must(insert(new_partition(world, std::to_string(thread) + "/" + std::to_string(i))));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(list<LogicalPartition>().size(), 80U);
  const auto log = audit();
  ASSERT_EQ(log.size(), before + 80);
  for (std::size_t i = 0; i + 1 < log.size(); ++i)
    EXPECT_EQ(log[i].sequence, log[i + 1].sequence + 1) << "no gap, newest first";
}

TEST_F(StoreTest, WorkThatFailsLeavesNothing) {
  const World world = make_world(store());
  const auto result = store().write(kTester, [&](WriteTransaction& t) -> Result<void> {
    LogicalPartition partition = new_partition(world, "half");
    IMEX_CHECK_OK(t.insert(partition));
    return fail(Errc::kFailedPrecondition, "changed my mind");
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "changed my mind");
  EXPECT_TRUE(list<LogicalPartition>().empty());
  for (const AuditRecord& record : audit()) EXPECT_NE(record.kind, Kind::kLogicalPartition);
}

TEST_F(StoreTest, ARehearsalSeesItsOwnWritesAndLeavesNothing) {
  const World world = make_world(store());
  bool seen = false;
  must(store().rehearse(kTester, [&](WriteTransaction& t) -> Result<void> {
    LogicalPartition partition = new_partition(world, "maybe");
    IMEX_CHECK_OK(t.insert(partition));
    IMEX_TRY(const auto found, t.find<LogicalPartition>(partition.id));
    seen = found.has_value();
    return {};
  }));
  EXPECT_TRUE(seen);
  EXPECT_TRUE(list<LogicalPartition>().empty());
}

TEST_F(StoreTest, TheAuditLogSaysWhoChangedWhatFromWhatToWhat) {
  const World world = make_world(store());
  LogicalPartition partition = new_partition(world, "a");
  must(insert(partition));
  partition = *find<LogicalPartition>(partition.id);
  const std::size_t before = audit().size();
  must(update(partition));
  EXPECT_EQ(audit().size(), before) << "nothing changed, nothing logged";
  partition.name = "b";
  partition.status = Status::kError;
  must(update(partition, "missing on Site"));
  const auto log = audit();
  ASSERT_EQ(log.size(), before + 1);
  EXPECT_EQ(log[0].actor, "tester");
  EXPECT_EQ(log[0].org, "acme");
  EXPECT_EQ(log[0].action, "update");
  EXPECT_EQ(log[0].kind, Kind::kLogicalPartition);
  EXPECT_EQ(log[0].object, partition.id.to_string());
  EXPECT_EQ(log[0].from_json, R"({"name":"a","status":"Ready"})");
  EXPECT_EQ(log[0].to_json, R"({"name":"b","status":"Error"})");
  must(store().write(
      kTester, [&](WriteTransaction& t) { return t.remove<LogicalPartition>(partition.id); }));
  EXPECT_EQ(audit()[0].action, "delete");
  EXPECT_EQ(audit()[0].to_json, "null");
  EXPECT_THAT(audit()[0].from_json, HasSubstr(R"("name":"b")"));
}

TEST_F(StoreTest, HistoryIsNewestFirstAndBounded) {
  const World world = make_world(store());
  LogicalPartition partition = new_partition(world, "a");
  must(insert(partition));
  const std::string id = partition.id.to_string();
  must(store().write(kTester, [&](WriteTransaction& t) -> Result<void> {
    for (int i = 0; i < 130; ++i)
      IMEX_CHECK_OK(t.note(Kind::kLogicalPartition, id, Status::kReady, std::to_string(i)));
    return {};
  }));
  EXPECT_EQ(history(Kind::kLogicalPartition, id, 1000).size(), 100U);
  const auto newest = history(Kind::kLogicalPartition, id, 20);
  ASSERT_EQ(newest.size(), 20U);
  EXPECT_EQ(newest[0].message, "129");
  EXPECT_EQ(newest[19].message, "110");
}

TEST_F(StoreTest, ListsFilterSearchOrderAndPage) {
  const World world = make_world(store());
  std::int64_t second = 1;
  for (const char* name : {"charlie", "alpha", "50% off", "Bravo"}) {
    LogicalPartition partition = new_partition(world, name);
    partition.created = at_second(second++);
    if (partition.name == "alpha") partition.status = Status::kError;
    must(insert(partition));
  }
  EXPECT_THAT(names_of(list<LogicalPartition>()),
              ElementsAre("charlie", "alpha", "50% off", "Bravo"));
  EXPECT_THAT(names_of(list<LogicalPartition>({.order = Field::kName})),
              ElementsAre("50% off", "Bravo", "alpha", "charlie"));
  EXPECT_THAT(names_of(list<LogicalPartition>({.text = "RAV"})), ElementsAre("Bravo"));
  EXPECT_THAT(names_of(list<LogicalPartition>({.text = "0% o"})), ElementsAre("50% off"));
  EXPECT_THAT(names_of(list<LogicalPartition>({.text = "_"})), ElementsAre());
  EXPECT_THAT(names_of(list<LogicalPartition>({.text = "'; DROP TABLE audit; --"})), ElementsAre());
  EXPECT_THAT(names_of(list<LogicalPartition>({.filters = {{Field::kStatus, {"Error"}}}})),
              ElementsAre("alpha"));
  EXPECT_THAT(
      names_of(list<LogicalPartition>({.filters = {{Field::kStatus, {"Error", "Ready"}},
                                                   {Field::kName, {"alpha", "Bravo"}, true}}})),
      ElementsAre("charlie", "50% off"));
  must(store().read([&](ReadTransaction& t) -> Result<void> {
    IMEX_TRY(const auto page,
             t.page<LogicalPartition>({.descending = true, .offset = 1, .limit = 2}));
    EXPECT_THAT(names_of(page.rows), ElementsAre("50% off", "alpha"));
    EXPECT_EQ(page.total, 4U);
    IMEX_TRY(const auto beyond, t.page<LogicalPartition>({.offset = 40, .limit = 2}));
    EXPECT_TRUE(beyond.rows.empty());
    EXPECT_EQ(beyond.total, 4U);
    return {};
  }));
}

TEST_F(StoreTest, WhatIsReferredToCannotGo) {
  const World world = make_world(store());
  LogicalPartition partition = new_partition(world, "a");
  must(insert(partition));
  Vpc vpc = new_vpc(world, "v");
  vpc.default_partition = partition.id;
  must(insert(vpc));
  const auto removed = store().write(
      kTester, [&](WriteTransaction& t) { return t.remove<LogicalPartition>(partition.id); });
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, Errc::kFailedPrecondition);
  Vpc stray = new_vpc(world, "w");
  stray.default_partition = LogicalPartitionId{os::random_uuid()};
  EXPECT_EQ(insert(stray).error().code, Errc::kFailedPrecondition);
}

// ---- The reconciler's side ---------------------------------------------------------------------

TEST_F(StoreTest, AnObservationMakesTheRackAndAgesNever) {
  const World world = make_world(store());
  must(store().write_observation(term(), world.endpoint.id, rack_view(world, 3, at_second(100))));
  auto machines = list<Machine>({.order = Field::kId});
  ASSERT_EQ(machines.size(), 3U);
  EXPECT_EQ(machines[0].status, Status::kInitializing) << "not known to be clean";
  EXPECT_EQ(machines[0].instance_type, world.type.id) << "the only type with 4 GPUs";
  EXPECT_EQ(machines[0].site, world.site.id);
  EXPECT_EQ(find<Domain>(world.domain)->observed_at, at_second(100));

  auto older = rack_view(world, 1, at_second(50));
  must(store().write_observation(term(), world.endpoint.id, older));
  EXPECT_EQ(find<Domain>(world.domain)->observed_at, at_second(100));
  EXPECT_EQ(find<Machine>(machine_of(2))->status, Status::kInitializing);

  must(store().write_observation(term(), world.endpoint.id, rack_view(world, 2, at_second(200))));
  EXPECT_EQ(find<Machine>(machine_of(2))->status, Status::kUnknown) << "no longer listed";
  must(store().write_observation(term(), world.endpoint.id, rack_view(world, 3, at_second(300))));
  EXPECT_EQ(find<Machine>(machine_of(2))->status, Status::kInitializing);
}

TEST_F(StoreTest, ObservationsThatChangeNothingLeaveTheAuditLogAlone) {
  const World world = make_world(store());
  auto view = rack_view(world, 3, at_second(100));
  view.partitions.push_back({32'766, "Default", {1000, 1001}, Health::kHealthy, 0});
  must(store().write_observation(term(), world.endpoint.id, view));
  const std::size_t before = audit().size();
  view.at = at_second(160);
  must(store().write_observation(term(), world.endpoint.id, view));
  EXPECT_EQ(find<Domain>(world.domain)->observed_at, at_second(160));
  EXPECT_EQ(audit().size(), before);
  must(store().read([&](ReadTransaction& t) -> Result<void> {
    IMEX_TRY(const auto partitions, t.observed_partitions(world.domain));
    EXPECT_EQ(partitions, view.partitions);
    return {};
  }));
}

/// A rack of three trays, a partition, and an instance on tray 0.
class ReconcilerStoreTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) return;
    world_ = make_world(store());
    must(store().write_observation(term(), world_.endpoint.id,
                                   rack_view(world_, 3, at_second(100))));
    partition_ = new_partition(world_, "train");
    must(insert(partition_));
    vpc_ = new_vpc(world_, "net");
    must(insert(vpc_));
    placed_ = place_instance(store(), world_, vpc_, partition_, 0, "one");
  }
  OperationRecord create_operation(const std::string& key) const {
    return {.idempotency_key = key,
            .domain = world_.domain,
            .kind = OperationKind::kCreatePartition,
            .partition = partition_.id,
            .gpu_uids = {1000, 1001, 1002, 1003}};
  }
  void delete_partition() {
    auto partition = *find<LogicalPartition>(partition_.id);
    partition.status = Status::kDeleting;
    must(update(partition));
  }
  World world_;
  LogicalPartition partition_;
  Vpc vpc_;
  Placed placed_;
};

TEST_F(ReconcilerStoreTest, DesiredHasEveryMachineAndItsWishes) {
  auto leaving = placed_.interfaces[1];
  leaving.status = Status::kDeleting;
  must(update(leaving));
  const DesiredDomain desired = must(store().desired(world_.domain));
  ASSERT_EQ(desired.machines.size(), 3U);
  const DesiredMachine& machine = desired.machines[0];
  EXPECT_EQ(machine.instance, placed_.instance.id);
  EXPECT_EQ(machine.instance_version, 1U);
  ASSERT_EQ(machine.gpus.size(), 4U);
  EXPECT_EQ(machine.gpus[0].uid, 1000U);
  EXPECT_EQ(machine.gpus[0].partition, partition_.id);
  EXPECT_EQ(machine.gpus[0].interface, placed_.interfaces[0].id);
  EXPECT_EQ(machine.gpus[1].partition, std::nullopt);
  EXPECT_THAT(machine.gpus[1].leaving, ElementsAre(leaving.id));
  EXPECT_EQ(desired.machines[1].instance, std::nullopt);
  ASSERT_EQ(desired.partitions.size(), 1U);
  EXPECT_EQ(desired.partitions[0].name, "train");
  EXPECT_TRUE(desired.physical.empty());
  const DomainId unknown{os::random_uuid()};
  EXPECT_EQ(must(store().desired(unknown)).domain.id, unknown);
}

TEST_F(ReconcilerStoreTest, AnOperationIsBegunOnceAndSettlesThePhysicalPartition) {
  const auto begun = must(store().begin_operation(term(), create_operation("k1")));
  EXPECT_TRUE(begun.fresh);
  EXPECT_EQ(begun.record.tenant, world_.tenant.id);
  EXPECT_EQ(must(store().desired(world_.domain)).unfinished.size(), 1U);
  const auto again = must(store().begin_operation(term(), create_operation("k1")));
  EXPECT_FALSE(again.fresh);
  EXPECT_EQ(again.record.id, begun.record.id);
  EXPECT_EQ(again.record.state, OperationState::kBegun);

  must(store().finish_operation(term(), "k1", OperationState::kCompleted, 7, "ok"));
  must(store().finish_operation(term(), "k1", OperationState::kCompleted, 7, "ok"));
  auto desired = must(store().desired(world_.domain));
  EXPECT_TRUE(desired.unfinished.empty());
  ASSERT_EQ(desired.physical.size(), 1U);
  EXPECT_EQ(desired.physical[0].fabric_id, 7U);
  EXPECT_EQ(desired.physical[0].partition, partition_.id);
  EXPECT_THAT(desired.physical[0].gpu_uids, ElementsAre(1000, 1001, 1002, 1003));
  EXPECT_FALSE(store().finish_operation(term(), "k1", OperationState::kFailed, 0, ""));
  EXPECT_FALSE(store().finish_operation(term(), "never begun", OperationState::kFailed, 0, ""));

  OperationRecord shrink = create_operation("k2");
  shrink.kind = OperationKind::kRemoveGpus;
  shrink.fabric_id = 7;
  shrink.gpu_uids = {1001};
  must(store().begin_operation(term(), shrink));
  must(store().finish_operation(term(), "k2", OperationState::kCompleted, 7, ""));
  EXPECT_THAT(must(store().desired(world_.domain)).physical[0].gpu_uids,
              ElementsAre(1000, 1002, 1003));
  OperationRecord erase = create_operation("k3");
  erase.kind = OperationKind::kDeletePartition;
  erase.fabric_id = 7;
  must(store().begin_operation(term(), erase));
  must(store().finish_operation(term(), "k3", OperationState::kCompleted, 7, ""));
  EXPECT_TRUE(must(store().desired(world_.domain)).physical.empty());
}

TEST_F(ReconcilerStoreTest, FailuresShowOnThePartitionAndCount) {
  for (const char* key : {"k1", "k2"}) {
    must(store().begin_operation(term(), create_operation(key)));
    must(store().finish_operation(term(), key, OperationState::kFailed, 0, "resource exhausted"));
  }
  const auto partition = find<LogicalPartition>(partition_.id);
  ASSERT_TRUE(partition->last_error);
  EXPECT_EQ(partition->last_error->count, 2U);
  EXPECT_THAT(partition->last_error->message, HasSubstr("resource exhausted"));
  const auto details = history(Kind::kLogicalPartition, partition_.id.to_string());
  ASSERT_EQ(details.size(), 2U) << "created, and one line for equal failures";
  EXPECT_THAT(details[0].message, HasSubstr("CreatePartition"));
}

TEST_F(ReconcilerStoreTest, ADeletedPartitionTakesNoMembers) {
  delete_partition();
  const auto begun = store().begin_operation(term(), create_operation("k1"));
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().code, Errc::kFailedPrecondition);
  OperationRecord erase = create_operation("k2");
  erase.kind = OperationKind::kDeletePartition;
  EXPECT_TRUE(store().begin_operation(term(), erase));
}

TEST_F(ReconcilerStoreTest, WritesOfAFormerTermAreRefused) {
  const Term former{term().number - 1};
  EXPECT_EQ(store().begin_operation(former, create_operation("k")).error().code, Errc::kStale);
  EXPECT_EQ(store().write_back(former, {.domain = world_.domain}).error().code, Errc::kStale);
  EXPECT_EQ(store()
                .write_observation(former, world_.endpoint.id, rack_view(world_, 1, at_second(900)))
                .error()
                .code,
            Errc::kStale);
  EXPECT_TRUE(list<OperationRecord>().empty());
}

TEST_F(ReconcilerStoreTest, ReadyIsWrittenOnlyForTheVersionThatWasSeen) {
  WriteBack changes{.domain = world_.domain, .at = at_second(101)};
  for (const NvlinkInterface& interface : placed_.interfaces)
    changes.interfaces.push_back({.id = interface.id,
                                  .status = Status::kReady,
                                  .domain = world_.domain,
                                  .gpu_uid = 1000 + interface.device_instance,
                                  .error = {}});
  changes.instances.push_back(
      {.id = placed_.instance.id, .version = 1, .status = Status::kReady, .message = "converged"});
  must(store().write_back(term(), changes));
  auto instance = *find<Instance>(placed_.instance.id);
  EXPECT_EQ(instance.status, Status::kReady);
  EXPECT_TRUE(instance.provisioned);
  EXPECT_EQ(find<NvlinkInterface>(placed_.interfaces[3].id)->gpu_uid, 1003U);

  instance.version = 2;
  instance.status = Status::kConfiguring;
  must(update(instance));
  must(store().write_back(term(), changes));
  EXPECT_EQ(find<Instance>(instance.id)->status, Status::kConfiguring) << "version 1 is history";
}

TEST_F(ReconcilerStoreTest, AReleasedInstanceGoesWhenItsGpusHaveLeft) {
  WriteBack gone{.domain = world_.domain, .at = at_second(101)};
  gone.instances.push_back({.id = placed_.instance.id, .version = 2, .message = {}, .gone = true});
  must(store().write_back(term(), gone));
  EXPECT_TRUE(find<Instance>(placed_.instance.id)) << "nobody released it";

  Instance instance = *find<Instance>(placed_.instance.id);
  instance.status = Status::kTerminating;
  instance.version = 2;
  must(update(instance));
  must(store().write_back(term(), gone));
  EXPECT_FALSE(find<Instance>(placed_.instance.id));
  EXPECT_TRUE(list<NvlinkInterface>().empty());
  EXPECT_EQ(find<Machine>(machine_of(0))->status, Status::kReady);
  EXPECT_EQ(find<Machine>(machine_of(0))->instance, std::nullopt);
}

TEST_F(ReconcilerStoreTest, ADeletedPartitionGoesOnceNothingIsLeftOfIt) {
  must(store().begin_operation(term(), create_operation("k1")));
  must(store().finish_operation(term(), "k1", OperationState::kCompleted, 7, "ok"));
  delete_partition();
  WriteBack changes{.domain = world_.domain, .at = at_second(101)};
  for (NvlinkInterface interface : placed_.interfaces) {
    interface.status = Status::kDeleting;
    must(update(interface));
    changes.interfaces.push_back(
        {.id = interface.id, .domain = {}, .gpu_uid = {}, .error = {}, .gone = true});
  }
  must(store().write_back(term(), changes));
  EXPECT_TRUE(find<LogicalPartition>(partition_.id)) << "its physical partition is there";
  must(store().write_back(term(), {.domain = world_.domain, .lost = {7}}));
  EXPECT_FALSE(find<LogicalPartition>(partition_.id));
}

TEST_F(ReconcilerStoreTest, ALiveInterfaceIsNotTakenAway) {
  WriteBack changes{.domain = world_.domain};
  changes.interfaces.push_back(
      {.id = placed_.interfaces[0].id, .domain = {}, .gpu_uid = {}, .error = {}, .gone = true});
  must(store().write_back(term(), changes));
  EXPECT_TRUE(find<NvlinkInterface>(placed_.interfaces[0].id));
}

TEST_F(ReconcilerStoreTest, AnAdoptedPartitionTakesTheNumberOver) {
  WriteBack changes{.domain = world_.domain};
  changes.adopted.push_back({.domain = world_.domain,
                             .fabric_id = 9,
                             .partition = partition_.id,
                             .name = "found",
                             .gpu_uids = {1000}});
  must(store().write_back(term(), changes));
  must(store().write_back(term(), changes));
  changes.adopted[0].fabric_id = 11;
  must(store().write_back(term(), changes));
  const auto rows = list<PhysicalPartition>();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].fabric_id, 11U);
  EXPECT_EQ(rows[0].tenant, world_.tenant.id);
}

TEST_F(ReconcilerStoreTest, AWriteThatMattersWakesTheReconciler) {
  const std::uint64_t seen = store().change();
  std::thread writer([&] {
    must(store().write(kTester, [&](WriteTransaction& t) -> Result<void> {
      LogicalPartition partition = *must(t.find<LogicalPartition>(partition_.id));
      partition.version += 1;
      IMEX_TRY([[maybe_unused]] const bool changed, t.update(partition));
      t.wake_reconciler();
      return {};
    }));
  });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  EXPECT_NE(store().wait_for_change(seen, deadline), seen);
  EXPECT_LT(std::chrono::steady_clock::now(), deadline);
  writer.join();
  std::thread closer([&] { store().interrupt(); });
  static_cast<void>(store().wait_for_change(
      store().change(), std::chrono::steady_clock::now() + std::chrono::hours(1)));
  closer.join();
}

TEST_F(ReconcilerStoreTest, CredentialsComeBackOnlyWithTheirKey) {
  EndpointCredentials credentials;
  credentials.user = "rw-user";
  credentials.password = log::Secret("correct horse");
  credentials.client_key_path = "/etc/fabric/key.pem";
  must(store().put_credentials(kTester, world_.endpoint.id, credentials));
  EXPECT_TRUE(find<Endpoint>(world_.endpoint.id)->has_credentials);
  const auto opened = must(store().credentials(world_.endpoint.id));
  EXPECT_EQ(opened.user, "rw-user");
  EXPECT_EQ(opened.password.reveal(), "correct horse");
  EXPECT_EQ(opened.client_key_path, "/etc/fabric/key.pem");
  for (const AuditRecord& record : audit()) {
    EXPECT_THAT(record.to_json, Not(HasSubstr("correct horse")));
    EXPECT_THAT(record.to_json, Not(HasSubstr("rw-user")));
  }
  must(store().put_credentials(kTester, world_.endpoint.id, {}));
  EXPECT_FALSE(find<Endpoint>(world_.endpoint.id)->has_credentials);
  EXPECT_TRUE(must(store().credentials(world_.endpoint.id)).user.empty());
}

TEST_F(ReconcilerStoreTest, EverythingIsThereAfterARestartAndTheTermIsNew) {
  const Term before = term();
  const std::size_t lines = audit().size();
  reopen();
  EXPECT_TRUE(find<Instance>(placed_.instance.id));
  EXPECT_EQ(audit().size(), lines);
  EXPECT_GT(term().number, before.number);
}

}  // namespace
}  // namespace imex::partition::testing
