// imex-controller against a simulated rack over gRPC, with SQLite. The store belongs to one process
// at a time: wishes are written while the controller is down, as an operator's restart would find
// them.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cluster.hpp"
#include "fabric/nmxc.hpp"
#include "os/file.hpp"
#include "os/random.hpp"
#include "partition/store/store.hpp"

namespace imex::test {
namespace {

using namespace std::chrono_literals;
using partition::Instance;
using partition::LogicalPartition;
using partition::Machine;
using partition::NvlinkInterface;
using partition::ReadTransaction;
using partition::Status;
using partition::Store;
using partition::WriteTransaction;

const partition::Actor kTenantUser{"tester", "acme"};

template <class T>
T must(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().to_string();
    std::abort();
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// A program of ours that says in a file when it is ready.
class Program {
 public:
  Program(std::vector<std::string> arguments, const std::string& ready_file) {
    arguments[0] = std::string(IMEX_BIN_DIR) + "/" + arguments[0];
    static_cast<void>(os::replace_file(ready_file, {}));
    auto out = must(os::open_for_append(ready_file, true));
    os::Child::Options options;
    options.arguments = std::move(arguments);
    options.stdout_fd = out.get();
    child_.emplace(must(os::Child::start(options)));
    EXPECT_TRUE(eventually([&] {
      const auto text = os::read_file(ready_file);
      return text && text->find('\n') != std::string::npos;
    }));
    ready_ = nlohmann::json::parse(must(os::read_file(ready_file)), nullptr, false);
  }
  void end(int signal) {
    static_cast<void>(child_->kill(signal));
    EXPECT_TRUE(child_->wait(kPatience).has_value());
  }
  [[nodiscard]] const nlohmann::json& ready() const { return ready_; }

 private:
  std::optional<os::Child> child_;
  nlohmann::json ready_;
};

class ControllerE2eTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rack_.emplace(std::vector<std::string>{"imex-rack", "--topology",
                                           "custom:trays=4,gpus=4,switches=1,chips=2", "--listen",
                                           "127.0.0.1:0", "--log-level", "error"},
                  folder_.path() + "/rack.ready");
    const nlohmann::json& facts = rack_->ready().at("racks").at(0);
    endpoint_ = "http://" + facts.at("address").get<std::string>() + ":" +
                std::to_string(facts.at("port").get<int>());
    fabric::nmxc::Options options;
    options.endpoints = {endpoint_};
    options.gateway_id = "the test";
    fabric_ = must(fabric::nmxc::open(options));
  }

  Program start_controller() {
    return Program({"imex-controller", "--store", store_path(), "--endpoint", endpoint_, "--listen",
                    "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--log-level", "error"},
                   folder_.path() + "/controller.ready");
  }
  [[nodiscard]] std::string store_path() const { return folder_.path() + "/controller.db"; }
  std::unique_ptr<Store> open_store() { return must(Store::open({.url = store_path()})); }

  fabric::Snapshot look() {
    auto snapshot = fabric_->observe(fabric::CallOptions::within(10s));
    if (!snapshot) ADD_FAILURE() << snapshot.error().error.to_string();
    return snapshot.value_or(fabric::Snapshot{});
  }
  /// GPUs by the name of their partition.
  std::map<std::string, std::vector<std::uint64_t>> membership() {
    std::map<std::string, std::vector<std::uint64_t>> out;
    for (const auto& partition : look().partitions) out[partition.name] = partition.gpu_uids;
    return out;
  }

  template <class T>
  static std::vector<T> list(Store& store) {
    std::vector<T> found;
    must(store.read([&](ReadTransaction& t) -> Result<void> {
      IMEX_TRY(found, t.list<T>({}));
      return {};
    }));
    return found;
  }

  /// Runs the controller until all machines were found and seen clear.
  void discover() {
    for (int i = 0; i < 40; ++i) {
      Program controller = start_controller();
      EXPECT_TRUE(eventually([&] { return membership().empty(); })) << "the default partition";
      std::this_thread::sleep_for(200ms);
      controller.end(SIGTERM);
      const auto store = open_store();
      const auto machines = list<Machine>(*store);
      const bool all_ready = std::all_of(machines.begin(), machines.end(), [](const Machine& m) {
        return m.status == Status::kReady;
      });
      if (machines.size() == 4 && all_ready) return;
    }
    FAIL() << "machines were not found";
  }

  LogicalPartition make_partition(Store& store, const std::string& name) {
    LogicalPartition partition;
    must(store.write(kTenantUser, [&](WriteTransaction& t) -> Result<void> {
      IMEX_TRY(const auto sites, t.list<partition::Site>({}));
      IMEX_TRY(auto tenant, t.tenant_of("acme"));
      if (!tenant) {
        tenant =
            partition::Tenant{.id = {os::random_uuid()}, .org = "acme", .display_name = "Acme"};
        IMEX_CHECK_OK(t.insert(*tenant));
        partition::Vpc vpc{.id = {os::random_uuid()},
                           .tenant = tenant->id,
                           .site = sites.at(0).id,
                           .name = "net",
                           .network_virtualization_type = "FNN"};
        IMEX_CHECK_OK(t.insert(vpc));
      }
      partition = {
          .id = {os::random_uuid()}, .tenant = tenant->id, .site = sites.at(0).id, .name = name};
      return t.insert(partition);
    }));
    return partition;
  }

  /// An instance on the machine with all its GPUs in `partition`.
  void place(Store& store, const Machine& on, const LogicalPartition& partition) {
    must(store.write(kTenantUser, [&](WriteTransaction& t) -> Result<void> {
      IMEX_TRY(const auto vpcs, t.list<partition::Vpc>({}));
      Instance instance{.id = {os::random_uuid()},
                        .tenant = partition.tenant,
                        .site = partition.site,
                        .vpc = vpcs.at(0).id,
                        .machine = on.id,
                        .name = "on " + on.id.text};
      IMEX_CHECK_OK(t.insert(instance));
      IMEX_TRY(auto machine, t.find<Machine>(on.id));
      machine->instance = instance.id;
      machine->status = Status::kInUse;
      IMEX_TRY([[maybe_unused]] const bool changed, t.update(*machine));
      for (const partition::Gpu& gpu : machine->gpus) {
        NvlinkInterface interface{.id = {os::random_uuid()},
                                  .instance = instance.id,
                                  .tenant = partition.tenant,
                                  .site = partition.site,
                                  .partition = partition.id,
                                  .device_instance = gpu.device_instance};
        IMEX_CHECK_OK(t.insert(interface));
      }
      t.wake_reconciler();
      return {};
    }));
  }

  /// Interfaces of all instances go to the other of two partitions.
  static void swap_partitions(Store& store, const LogicalPartition& a, const LogicalPartition& b) {
    must(store.write(kTenantUser, [&](WriteTransaction& t) -> Result<void> {
      IMEX_TRY(auto interfaces, t.list<NvlinkInterface>({}));
      for (NvlinkInterface& interface : interfaces) {
        if (interface.status == Status::kDeleting) continue;
        NvlinkInterface next = interface;
        interface.status = Status::kDeleting;
        IMEX_TRY([[maybe_unused]] const bool changed, t.update(interface));
        next.id = {os::random_uuid()};
        next.partition = next.partition == a.id ? b.id : a.id;
        next.status = Status::kPending;
        IMEX_CHECK_OK(t.insert(next));
      }
      t.wake_reconciler();
      return {};
    }));
  }

  bool all_ready_in_store() {
    const auto store = open_store();
    const auto instances = list<Instance>(*store);
    const auto interfaces = list<NvlinkInterface>(*store);
    const auto is_ready = [](const auto& row) { return row.status == Status::kReady; };
    return !instances.empty() && std::all_of(instances.begin(), instances.end(), is_ready) &&
           std::all_of(interfaces.begin(), interfaces.end(), is_ready);
  }

  /// The stop may have come before the last pass had written what it saw: the next life does.
  bool comes_to_be_ready() {
    for (int life = 0; life < 20; ++life) {
      if (all_ready_in_store()) return true;
      Program again = start_controller();
      std::this_thread::sleep_for(500ms);
      again.end(SIGTERM);
    }
    return false;
  }

  TemporaryDirectory folder_;
  std::optional<Program> rack_;
  std::string endpoint_;
  std::unique_ptr<fabric::FabricManager> fabric_;
};

TEST_F(ControllerE2eTest, PartitionOfFourGpusStandsAndAStolenGpuComesBack) {
  discover();
  std::vector<std::uint64_t> wanted;
  LogicalPartition partition;
  {
    const auto store = open_store();
    partition = make_partition(*store, "training");
    const Machine machine = list<Machine>(*store).at(0);
    place(*store, machine, partition);
    for (const partition::Gpu& gpu : machine.gpus) wanted.push_back(gpu.uid);
    std::sort(wanted.begin(), wanted.end());
  }
  const std::string name = "imex." + partition.id.to_string();
  Program controller = start_controller();
  ASSERT_TRUE(eventually([&] { return membership()[name] == wanted; }));

  const fabric::Snapshot before = look();
  const fabric::ObservedPartition* standing = before.partition_of(wanted[0]);
  ASSERT_NE(standing, nullptr);
  const fabric::PartitionTarget target{standing->id, standing->name};
  ASSERT_TRUE(
      fabric_->update_partition(target, {.remove = {wanted[0]}}, fabric::CallOptions::within(10s)));
  const auto stolen = std::chrono::steady_clock::now();
  ASSERT_TRUE(eventually([&] { return membership()[name] == wanted; }));
  std::printf("mended %lld ms after the GPU was taken out\n",
              static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                         std::chrono::steady_clock::now() - stolen)
                                         .count()));
  controller.end(SIGTERM);
  EXPECT_TRUE(comes_to_be_ready());
}

TEST_F(ControllerE2eTest, KilledAnywhereNothingIsLostOrDoneTwice) {
  discover();
  std::map<std::string, std::vector<std::uint64_t>> wanted;
  LogicalPartition a, b;
  {
    const auto store = open_store();
    a = make_partition(*store, "a");
    b = make_partition(*store, "b");
    const auto machines = list<Machine>(*store);
    for (std::size_t i = 0; i < machines.size(); ++i)
      place(*store, machines[i], i % 2 == 0 ? a : b);
  }
  std::minstd_rand random(20'260'701);
  for (int round = 0; round < 8; ++round) {
    Program controller = start_controller();
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    controller.end(SIGKILL);
    const auto store = open_store();
    swap_partitions(*store, a, b);
  }
  {
    const auto store = open_store();
    std::map<std::string, std::map<std::uint32_t, std::uint64_t>> uids;
    std::map<partition::InstanceId, std::string> machine_of;
    for (const Machine& machine : list<Machine>(*store)) {
      for (const partition::Gpu& gpu : machine.gpus)
        uids[machine.id.text][gpu.device_instance] = gpu.uid;
    }
    for (const Instance& instance : list<Instance>(*store)) {
      machine_of[instance.id] = instance.machine.text;
    }
    for (const NvlinkInterface& interface : list<NvlinkInterface>(*store)) {
      if (interface.status == Status::kDeleting) continue;
      wanted["imex." + interface.partition.to_string()].push_back(
          uids[machine_of[interface.instance]][interface.device_instance]);
    }
    for (auto& [name, gpus] : wanted) std::sort(gpus.begin(), gpus.end());
  }
  ASSERT_EQ(wanted.size(), 2U);
  Program last = start_controller();
  // Exactly these partitions, with exactly these GPUs: nothing is left over, nothing twice.
  ASSERT_TRUE(eventually([&] { return membership() == wanted; }));
  last.end(SIGTERM);
  EXPECT_TRUE(comes_to_be_ready());
  EXPECT_EQ(membership(), wanted);
}

/// What `imex-admin` prints; the controller trusts whoever can open its socket.
std::string administer(const std::string& folder, std::vector<std::string> words) {
  words.insert(words.begin(), {std::string(IMEX_BIN_DIR) + "/imex-admin", "--api-url",
                               "unix:" + folder + "/admin.sock", "--format", "json"});
  const std::string out_path = folder + "/admin.out";
  auto out = must(os::open_for_append(out_path, true));
  os::Child::Options options;
  options.arguments = std::move(words);
  options.stdout_fd = out.get();
  auto child = must(os::Child::start(options));
  EXPECT_EQ(child.wait(kPatience), std::optional<int>(0));
  return must(os::read_file(out_path));
}

TEST_F(ControllerE2eTest, AnOperatorAdministersItOverGrpc) {
  Program controller({"imex-controller", "--store", store_path(), "--listen", "127.0.0.1:0",
                      "--metrics-listen", "127.0.0.1:0", "--admin-listen",
                      "unix:" + folder_.path() + "/admin.sock", "--log-level", "error"},
                     folder_.path() + "/controller.ready");
  ASSERT_TRUE(controller.ready().contains("administration"));
  const std::string serial =
      rack_->ready().at("racks").at(0).at("chassis_serials").at(0).get<std::string>();
  administer(folder_.path(), {"nvlink-nmxc-endpoints", "create", "--chassis-serial", serial,
                              "--endpoint", endpoint_});
  const auto shown = nlohmann::json::parse(
      administer(folder_.path(), {"nvlink-nmxc-endpoints", "show"}), nullptr, false);
  ASSERT_EQ(shown.size(), 1U) << shown.dump();
  EXPECT_EQ(shown[0].value("chassis_serial", ""), serial);
  // The reconciler takes the new endpoint to work: nothing stays in the default partition.
  EXPECT_TRUE(eventually([&] { return membership().empty(); }));
  administer(folder_.path(), {"logical-partition", "create", "-n", "ours", "-t", "acme"});
  EXPECT_NE(administer(folder_.path(), {"logical-partition", "show"}).find("ours"),
            std::string::npos);
  controller.end(SIGTERM);
}

}  // namespace
}  // namespace imex::test
