#include "partition/controller/controller.hpp"

#include <chrono>
#include <functional>
#include <thread>

#include "testing/fake_manager.hpp"
#include "testing/store_kit.hpp"

namespace imex::partition::testing {
namespace {

using namespace std::chrono_literals;

/// One endpoint, one domain of three trays, one tenant.
class ControllerTest : public StoreTest {
 protected:
  static constexpr std::uint32_t kTrays = 3;

  void SetUp() override {
    StoreTest::SetUp();
    world_ = make_world(store());
    fabric_ = std::make_unique<FakeFabric>(world_.domain.uuid, "CH1", 1000, kTrays);
    log::Options options;
    options.threshold = log::Level::kOff;
    options.headline = false;
    log_ = std::make_unique<log::Logger>(options);
    metrics_ = std::make_unique<ControllerMetrics>(registry_, true);
    settings_.interval = 30s;
    settings_.doubt_window = 300ms;
  }
  void TearDown() override {
    controller_.reset();
    StoreTest::TearDown();
  }

  void start() {
    controller_ = std::make_unique<Controller>(
        settings_, store(),
        [this](const EndpointGroup& group) -> Result<std::unique_ptr<fabric::FabricManager>> {
          if (group.endpoints.front().url != world_.endpoint.url) {
            return fail(Errc::kInvalidArgument, "no such endpoint");
          }
          return speak_for(*fabric_);
        },
        ControllerParts{*log_, *metrics_});
    controller_->start();
  }
  void start_and_wait_for_machines() {
    start();
    ASSERT_TRUE(eventually([&] { return machines_in(Status::kReady) == kTrays; }));
  }

  static bool eventually(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }
  std::size_t machines_in(Status status) {
    const auto machines = list<Machine>();
    return static_cast<std::size_t>(std::count_if(
        machines.begin(), machines.end(), [&](const Machine& m) { return m.status == status; }));
  }
  Status instance_status(const Placed& placed) {
    const auto instance = find<Instance>(placed.instance.id);
    return instance ? instance->status : Status::kTerminated;
  }
  LogicalPartition make_partition(const std::string& name) {
    LogicalPartition partition = new_partition(world_, name);
    must(insert(partition));
    return partition;
  }
  Placed place(const LogicalPartition& partition, std::uint32_t tray) {
    if (!vpc_) {
      vpc_ = new_vpc(world_, "net");
      must(insert(*vpc_));
    }
    return place_instance(store(), world_, *vpc_, partition, tray, "i" + std::to_string(tray));
  }
  void release(const Placed& placed) {
    must(store().write(kTester, [&](WriteTransaction& t) -> Result<void> {
      IMEX_TRY(auto instance, t.find<Instance>(placed.instance.id));
      instance->status = Status::kTerminating;
      IMEX_TRY([[maybe_unused]] const bool changed, t.update(*instance));
      for (const NvlinkInterface& row : placed.interfaces) {
        IMEX_TRY(auto interface, t.find<NvlinkInterface>(row.id));
        interface->status = Status::kDeleting;
        IMEX_TRY([[maybe_unused]] const bool too, t.update(*interface));
      }
      t.wake_reconciler();
      return {};
    }));
  }
  double metric(const std::string& line) {
    const std::string text = registry_.text();
    const auto at = text.find("\n" + line + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + line.size() + 2));
  }

  World world_;
  std::optional<Vpc> vpc_;
  std::unique_ptr<FakeFabric> fabric_;
  std::unique_ptr<log::Logger> log_;
  metrics::Registry registry_;
  std::unique_ptr<ControllerMetrics> metrics_;
  ControllerSettings settings_;
  std::unique_ptr<Controller> controller_;
};

TEST_F(ControllerTest, MachinesAreFoundTakenOutOfTheDefaultPartitionAndOffered) {
  start_and_wait_for_machines();
  EXPECT_EQ(fabric_->partition_count(), 0U);
  EXPECT_TRUE(controller_->leading());
  const auto domain = find<Domain>(world_.domain);
  ASSERT_TRUE(domain);
  EXPECT_TRUE(domain->observed_at.has_value());
  EXPECT_EQ(find<Endpoint>(world_.endpoint.id)->state, "reachable");
}

TEST_F(ControllerTest, InstanceBecomesReadyWithItsInterfaces) {
  start_and_wait_for_machines();
  const LogicalPartition partition = make_partition("training");
  const Placed placed = place(partition, 0);
  ASSERT_TRUE(eventually([&] { return instance_status(placed) == Status::kReady; }));
  const std::string name = fabric_->partition_name_of(1000);
  EXPECT_NE(name.find(partition.id.to_string()), std::string::npos);
  for (const NvlinkInterface& row : placed.interfaces) {
    const auto interface = find<NvlinkInterface>(row.id);
    EXPECT_EQ(interface->status, Status::kReady);
    EXPECT_EQ(interface->domain, world_.domain);
    EXPECT_EQ(interface->gpu_uid, 1000 + interface->device_instance);
  }
  const auto rows = list<PhysicalPartition>();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].partition, partition.id);
}

TEST_F(ControllerTest, ReleasedMachineIsOfferedOnlyAfterItsGpusHaveLeft) {
  start_and_wait_for_machines();
  const LogicalPartition partition = make_partition("training");
  const Placed placed = place(partition, 1);
  ASSERT_TRUE(eventually([&] { return instance_status(placed) == Status::kReady; }));
  fabric_->set_trouble(FakeFabric::Trouble::kRefuse);
  release(placed);
  const std::uint64_t before = fabric_->operations();
  ASSERT_TRUE(eventually([&] { return fabric_->operations() >= before + 2; }));
  EXPECT_EQ(instance_status(placed), Status::kTerminating);
  fabric_->set_trouble(FakeFabric::Trouble::kNone);
  ASSERT_TRUE(eventually([&] { return machines_in(Status::kReady) == kTrays; }));
  EXPECT_EQ(instance_status(placed), Status::kTerminated);
  EXPECT_EQ(fabric_->partition_count(), 0U);
  EXPECT_TRUE(list<NvlinkInterface>().empty());
  EXPECT_TRUE(list<PhysicalPartition>().empty());
}

TEST_F(ControllerTest, StolenGpuIsTakenBackOnTheEvent) {
  start_and_wait_for_machines();
  const LogicalPartition partition = make_partition("training");
  const Placed placed = place(partition, 0);
  ASSERT_TRUE(eventually([&] { return instance_status(placed) == Status::kReady; }));
  fabric_->steal(1002);
  ASSERT_TRUE(eventually([&] {
    return fabric_->partition_name_of(1002).find(partition.id.to_string()) != std::string::npos;
  }));
  ASSERT_TRUE(eventually([&] { return instance_status(placed) == Status::kReady; }));
  EXPECT_EQ(fabric_->partition_count(), 2U) << "the thief's own partition is not ours to delete";
}

TEST_F(ControllerTest, RefusalsAreShownAndTriedAgain) {
  start_and_wait_for_machines();
  const LogicalPartition partition = make_partition("training");
  fabric_->set_trouble(FakeFabric::Trouble::kRefuse);
  const Placed placed = place(partition, 0);
  ASSERT_TRUE(eventually([&] {
    const auto row = find<LogicalPartition>(partition.id);
    return row->last_error.has_value() && row->last_error->count >= 2;
  }));
  EXPECT_NE(instance_status(placed), Status::kReady);
  fabric_->set_trouble(FakeFabric::Trouble::kNone);
  ASSERT_TRUE(eventually([&] { return instance_status(placed) == Status::kReady; }));
  EXPECT_TRUE(eventually([&] { return !find<LogicalPartition>(partition.id)->last_error; }));
}

TEST_F(ControllerTest, OperationWithoutAnAnswerIsInTheJournalUntilItNoLongerMatters) {
  start_and_wait_for_machines();
  const LogicalPartition partition = make_partition("training");
  fabric_->set_trouble(FakeFabric::Trouble::kHangWithEffect);
  const Placed placed = place(partition, 0);
  ASSERT_TRUE(eventually([&] { return instance_status(placed) == Status::kReady; }))
      << "what was done shows, whatever was answered";
  // A restart must know of it: the line stays begun.
  controller_.reset();
  const auto begun = must(store().desired(world_.domain)).unfinished;
  ASSERT_EQ(begun.size(), 1U);
  EXPECT_EQ(begun[0].kind, OperationKind::kCreatePartition);
  fabric_->set_trouble(FakeFabric::Trouble::kNone);
  const std::uint64_t operations = fabric_->operations();
  start();
  // Pass by pass is woken by writes of others too.
  ASSERT_TRUE(eventually([&] { return must(store().desired(world_.domain)).unfinished.empty(); }));
  EXPECT_EQ(fabric_->operations(), operations) << "nothing was lost, so nothing is done again";
}

TEST_F(ControllerTest, ManagerThatCannotBeReachedIsReportedAndFoundAgain) {
  fabric_->set_trouble(FakeFabric::Trouble::kUnreachable);
  start();
  ASSERT_TRUE(eventually(
      [&] { return find<Endpoint>(world_.endpoint.id)->state.find("hello_failed") == 0; }));
  EXPECT_EQ(metric("nico_nvlink_partition_monitor_nmxc_connect_error_count"), 1);
  EXPECT_EQ(metric("nico_nvlink_partition_monitor_nmx_c_unreachable_chassis_count"
                   "{reason=\"hello_failed\"}"),
            1);
  fabric_->set_trouble(FakeFabric::Trouble::kNone);
  ASSERT_TRUE(eventually([&] { return machines_in(Status::kReady) == kTrays; }));
  EXPECT_EQ(metric("nico_nvlink_partition_monitor_nmxc_connect_error_count"), 0);
}

TEST_F(ControllerTest, EndpointThatIsTakenOutIsServedNoMore) {
  start_and_wait_for_machines();
  EXPECT_EQ(controller_->worker_count(), 1U);
  must(store().write(kTester, [&](WriteTransaction& t) -> Result<void> {
    IMEX_CHECK_OK(t.remove<Endpoint>(world_.endpoint.id));
    t.wake_reconciler();
    return {};
  }));
  EXPECT_TRUE(eventually([&] { return controller_->worker_count() == 0; }));
}

TEST_F(ControllerTest, WritesThatConcernNoGpuCauseNoObservation) {
  start_and_wait_for_machines();
  ASSERT_TRUE(eventually([&] { return metric("imex_controller_leading") == 1; }));
  std::this_thread::sleep_for(200ms);
  const std::uint64_t before = fabric_->observations();
  for (int i = 0; i < 20; ++i) make_partition("lp" + std::to_string(i));
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(fabric_->observations(), before);
}

TEST_F(ControllerTest, SlowOperationIsCutShortByTheStop) {
  start_and_wait_for_machines();
  fabric_->set_latency(60s);
  place(make_partition("training"), 0);
  const std::uint64_t before = fabric_->operations();
  ASSERT_TRUE(eventually([&] { return fabric_->operations() > before; }));
  controller_->stop();
  EXPECT_FALSE(controller_->leading());
}

// Each metric that NICo documents exists from the start and moves with what it counts.
TEST_F(ControllerTest, EveryDocumentedMetricMoves) {
  const std::string prefix(kNicoPrefix);
  EXPECT_EQ(metric(prefix + "iteration_latency_milliseconds_count"), 0);
  start_and_wait_for_machines();
  EXPECT_GT(metric(prefix + "iteration_latency_milliseconds_count"), 0);
  EXPECT_EQ(metric(prefix + "num_physical_partitions"), 0);
  EXPECT_EQ(metric(prefix + "machine_status_updates_count"), kTrays);
  const std::string domain = "nvlink_domain_uuid=\"" + world_.domain.to_string() + "\"";
  EXPECT_EQ(metric(prefix + "nmxc_gpu_count{health=\"healthy\"," + domain + "}"), 4 * kTrays);
  EXPECT_EQ(metric(prefix + "nmxc_compute_node_count{health=\"healthy\"," + domain + "}"), kTrays);
  const auto changes = [&](const std::string& operation, const std::string& status) {
    return metric(prefix + "nmxc_changes_applied_total{operation=\"" + operation + "\",status=\"" +
                  status + "\"}");
  };
  EXPECT_EQ(changes("remove_default_partition", "completed"), 1);
  EXPECT_EQ(changes("create", "completed"), 0);

  const Placed placed = place(make_partition("training"), 0);
  ASSERT_TRUE(eventually([&] { return instance_status(placed) == Status::kReady; }));
  ASSERT_TRUE(eventually([&] { return metric(prefix + "num_physical_partitions") == 1; }));
  EXPECT_EQ(metric(prefix + "num_logical_partitions"), 1);
  EXPECT_EQ(metric(prefix + "nmxc_partition_count{health=\"healthy\"," + domain + "}"), 1);
  EXPECT_EQ(changes("create", "completed"), 1);
  EXPECT_EQ(metric(prefix + "nmxc_op_latency_milliseconds_count"
                            "{operation=\"create\",status=\"completed\"}"),
            1);
  EXPECT_GT(metric(prefix + "nvlink_config_apply_latency_milliseconds_count"), 0);

  fabric_->steal(1001);
  ASSERT_TRUE(eventually([&] { return changes("update", "completed") >= 2; }));
  ASSERT_TRUE(eventually([&] { return metric("imex_controller_drift_partitions") == 1; }));
  fabric_->drop_partition_of(1000);
  ASSERT_TRUE(eventually([&] { return metric(prefix + "stale_partitions_deleted") == 1; }));
  fabric_->power_off_from(2);
  ASSERT_TRUE(eventually([&] { return metric(prefix + "nvlink_info_mismatches") == 1; }));
  fabric_->power_off_from(kTrays);
  ASSERT_TRUE(eventually([&] { return changes("create", "completed") == 2; }));
  fabric_->set_trouble(FakeFabric::Trouble::kRefuse);
  release(placed);
  ASSERT_TRUE(eventually([&] { return changes("remove", "failed") >= 1; }));
  fabric_->set_trouble(FakeFabric::Trouble::kHangWithEffect);
  ASSERT_TRUE(eventually([&] { return changes("remove", "timedout") >= 1; }));
  fabric_->set_trouble(FakeFabric::Trouble::kNone);
  ASSERT_TRUE(eventually([&] { return machines_in(Status::kReady) == kTrays; }));
  // The alias shows the same.
  EXPECT_EQ(metric(std::string(kCarbidePrefix) +
                   "nmxc_changes_applied_total{operation=\"create\",status=\"completed\"}"),
            2);
}

}  // namespace
}  // namespace imex::partition::testing
