// How fast the controller is, against managers in memory that cost nothing: what is printed is the
// controller's own share. Bounds are asserted loosely, since machines are loaded and sanitized.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "partition/controller/controller.hpp"
#include "testing/fake_manager.hpp"
#include "testing/store_kit.hpp"

namespace imex::partition::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}
double cpu_ms() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}
double resident_mib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "VmRSS:") continue;
    double kib = 0;
    status >> kib;
    return kib / 1024;
  }
  return 0;
}

/// `domains` racks of 18 trays, each with an endpoint.
class MarksTest : public StoreTest {
 protected:
  void start(std::uint32_t domains) {
    world_ = make_world(store());
    must(store().write(kTester, [&](WriteTransaction& t) -> Result<void> {
      IMEX_CHECK_OK(t.remove<Endpoint>(world_.endpoint.id));
      for (std::uint32_t d = 0; d < domains; ++d) {
        Uuid id;
        id.bytes[0] = std::byte{0xd0};
        id.bytes[15] = std::byte(d);
        const std::string chassis = "R" + std::to_string(d);
        fabrics_.push_back(std::make_unique<FakeFabric>(id, chassis, 1'000'000 + 1'000 * d, 18));
        Endpoint endpoint{.id = {id},
                          .site = world_.site.id,
                          .url = "http://" + chassis + ":9370",
                          .chassis_serial = chassis};
        IMEX_CHECK_OK(t.insert(endpoint));
      }
      return {};
    }));
    log::Options options;
    options.threshold = log::Level::kOff;
    options.headline = false;
    log_ = std::make_unique<log::Logger>(options);
    metrics_ = std::make_unique<ControllerMetrics>(registry_, false);
    controller_ = std::make_unique<Controller>(
        ControllerSettings{}, store(),
        [this](const EndpointGroup& group) -> Result<std::unique_ptr<fabric::FabricManager>> {
          const std::string& chassis = group.endpoints.front().chassis_serial;
          return speak_for(*fabrics_.at(std::stoul(chassis.substr(1))));
        },
        ControllerParts{*log_, *metrics_});
    controller_->start();
    ASSERT_TRUE(eventually([&] { return ready_machines() == 18 * domains; }));
  }
  void TearDown() override {
    controller_.reset();
    StoreTest::TearDown();
  }

  static bool eventually(const std::function<bool()>& condition) {
    const auto deadline = Clock::now() + 60s;
    while (!condition()) {
      if (Clock::now() > deadline) return false;
      std::this_thread::sleep_for(500us);
    }
    return true;
  }
  std::size_t ready_machines() {
    std::uint64_t count = 0;
    ListQuery query;
    query.filters.push_back({Field::kStatus, {std::string(status_name(Status::kReady))}});
    must(store().read([&](ReadTransaction& t) -> Result<void> {
      IMEX_TRY(count, t.count<Machine>(query));
      return {};
    }));
    return count;
  }
  std::size_t ready_instances() {
    std::uint64_t count = 0;
    ListQuery query;
    query.filters.push_back({Field::kStatus, {std::string(status_name(Status::kReady))}});
    must(store().read([&](ReadTransaction& t) -> Result<void> {
      IMEX_TRY(count, t.count<Instance>(query));
      return {};
    }));
    return count;
  }
  /// One write: instances with all their GPUs in `partition` on trays of rack `rack`.
  std::vector<InstanceId> place(const LogicalPartition& partition, std::uint32_t rack,
                                std::uint32_t first, std::uint32_t count) {
    if (!vpc_) {
      vpc_ = new_vpc(world_, "net");
      must(insert(*vpc_));
    }
    std::vector<InstanceId> made;
    must(store().write(kTester, [&](WriteTransaction& t) -> Result<void> {
      made.clear();
      for (std::uint32_t tray = first; tray < first + count; ++tray) {
        const MachineId id{"R" + std::to_string(rack) + "." + std::to_string(tray + 1) + ".1"};
        IMEX_TRY(auto machine, t.find<Machine>(id));
        Instance instance{.id = {Uuid{}},
                          .tenant = world_.tenant.id,
                          .site = world_.site.id,
                          .vpc = vpc_->id,
                          .machine = id,
                          .name = "i" + std::to_string(++names_)};
        for (std::size_t i = 0; i < 8; ++i) {
          instance.id.uuid.bytes[15 - i] = std::byte(names_ >> (8 * i) & 0xffU);
        }
        IMEX_CHECK_OK(t.insert(instance));
        machine->instance = instance.id;
        machine->status = Status::kInUse;
        IMEX_TRY([[maybe_unused]] const bool changed, t.update(*machine));
        for (std::uint32_t device = 0; device < 4; ++device) {
          NvlinkInterface interface{.id = {instance.id.uuid},
                                    .instance = instance.id,
                                    .tenant = world_.tenant.id,
                                    .site = world_.site.id,
                                    .partition = partition.id,
                                    .device_instance = device};
          interface.id.uuid.bytes[0] = std::byte(device + 1);
          IMEX_CHECK_OK(t.insert(interface));
        }
        made.push_back(instance.id);
      }
      t.wake_reconciler();
      return {};
    }));
    return made;
  }
  void release(const std::vector<InstanceId>& instances) {
    must(store().write(kTester, [&](WriteTransaction& t) -> Result<void> {
      for (const InstanceId& id : instances) {
        IMEX_TRY(auto instance, t.find<Instance>(id));
        instance->status = Status::kTerminating;
        IMEX_TRY([[maybe_unused]] const bool changed, t.update(*instance));
      }
      t.wake_reconciler();
      return {};
    }));
  }

  World world_;
  std::optional<Vpc> vpc_;
  std::uint64_t names_ = 0;
  std::vector<std::unique_ptr<FakeFabric>> fabrics_;
  std::unique_ptr<log::Logger> log_;
  metrics::Registry registry_;
  std::unique_ptr<ControllerMetrics> metrics_;
  std::unique_ptr<Controller> controller_;
};

TEST_F(MarksTest, InstanceOfFourGpusIsReadySoon) {
  start(1);
  const LogicalPartition partition = new_partition(world_, "lp");
  must(insert(partition));
  std::vector<double> times;
  for (int i = 0; i < 15; ++i) {
    const auto begin = Clock::now();
    const auto placed = place(partition, 0, 0, 1);
    ASSERT_TRUE(eventually([&] { return ready_instances() == 1; }));
    times.push_back(ms_since(begin));
    release(placed);
    ASSERT_TRUE(eventually([&] { return ready_machines() == 18; }));
  }
  std::sort(times.begin(), times.end());
  std::printf("instance with 4 GPUs to Ready: p50 %.1f ms, max %.1f ms\n", times[times.size() / 2],
              times.back());

  fabrics_[0]->set_latency(500ms);
  const auto begin = Clock::now();
  static_cast<void>(place(partition, 0, 0, 1));
  ASSERT_TRUE(eventually([&] { return ready_instances() == 1; }));
  std::printf("with operations of 500 ms: %.1f ms\n", ms_since(begin));
  fabrics_[0]->set_latency(0ms);
}

TEST_F(MarksTest, BatchOfEighteenTraysIsReadySoon) {
  start(1);
  const LogicalPartition partition = new_partition(world_, "lp");
  must(insert(partition));
  const auto begin = Clock::now();
  static_cast<void>(place(partition, 0, 0, 18));
  ASSERT_TRUE(eventually([&] { return ready_instances() == 18; }));
  std::printf("18 trays to Ready: %.1f ms\n", ms_since(begin));
}

TEST_F(MarksTest, OneStolenGpuInAHundredDomainsIsMendedSoon) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a measurement";
#endif
  start(100);
  const LogicalPartition partition = new_partition(world_, "lp");
  must(insert(partition));
  for (std::uint32_t rack = 0; rack < 100; ++rack) static_cast<void>(place(partition, rack, 0, 18));
  ASSERT_TRUE(eventually([&] { return ready_instances() == 1'800; }));
  std::this_thread::sleep_for(2s);  // let what was woken settle

  const double cpu_before = cpu_ms();
  std::this_thread::sleep_for(5s);
  std::printf("idle: %.2f %% of a core\n", (cpu_ms() - cpu_before) / 5'000 * 100);
  std::printf("memory: %.0f MiB, the 100 managers in memory included\n", resident_mib());

  const std::uint64_t uid = 1'000'000 + 1'000 * 41 + 7;
  const std::uint64_t looks = fabrics_[41]->observations();
  const auto begin = Clock::now();
  fabrics_[41]->steal(uid);
  ASSERT_TRUE(eventually([&] { return fabrics_[41]->observations() > looks; }));
  const double noticed = ms_since(begin);
  ASSERT_TRUE(eventually([&] {
    return fabrics_[41]->partition_name_of(uid).find(partition.id.to_string()) != std::string::npos;
  }));
  std::printf("stolen GPU: noticed after %.1f ms, mended after %.1f ms\n", noticed,
              ms_since(begin));
  EXPECT_TRUE(eventually([&] { return ready_instances() == 1'800; }));
}

}  // namespace
}  // namespace imex::partition::testing
