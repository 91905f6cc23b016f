// From a request to Ready, as a tenant sees it: one instance, one on a slow fabric manager, a
// batch.

#include <algorithm>

#include <fmt/format.h>

#include "api.hpp"
#include "measurements.hpp"
#include "partition/client/wait.hpp"

namespace imex::bench {
namespace {

using partition::client::InstanceView;
using std::chrono::steady_clock;

constexpr std::size_t kReadyTrials = 50, kSlowTrials = 5, kBatchTrials = 5;
constexpr std::uint32_t kBatch = 18, kGpus = 4;
constexpr double kReadyP50Us = 100'000, kReadyP99Us = 1'000'000, kBatchUs = 2'000'000;
/// What the controller may take beside the fabric's own time.
constexpr double kOverheadUs = 200'000;
constexpr std::uint64_t kSlowMs = 500;
constexpr std::chrono::seconds kPatience{60};

/// Looks every millisecond: the wait of the command line would round up what is measured.
partition::client::WaitOptions closely() {
  return {.deadline = steady_clock::now() + kPatience,
          .pause = std::chrono::milliseconds(1),
          .pause_max = std::chrono::milliseconds(1)};
}

Result<partition::client::NewInstance> wanted(const ControlPlane& plane,
                                              partition::client::Client& client,
                                              const partition::LogicalPartitionId& partition,
                                              const partition::VpcId& vpc) {
  partition::client::NewInstance instance;
  instance.name = "node";
  IMEX_TRY(instance.tenant, client.tenant());
  instance.vpc = vpc;
  instance.instance_type = plane.type();
  instance.gpus.emplace();
  for (std::uint32_t gpu = 0; gpu != kGpus; ++gpu) instance.gpus->push_back({gpu, partition});
  return instance;
}

/// A tenant with one partition and one VPC.
struct Tenant {
  std::unique_ptr<partition::client::Client> client;
  partition::client::NewInstance instance;
};
Result<Tenant> make_tenant(const ControlPlane& plane) {
  Tenant tenant;
  IMEX_TRY(tenant.client, plane.tenant());
  IMEX_TRY(const auto partition,
           tenant.client->create_partition({.name = "bench", .site = plane.site()}));
  IMEX_TRY(const auto vpc, tenant.client->create_vpc({.name = "bench", .site = plane.site()}));
  IMEX_TRY(tenant.instance, wanted(plane, *tenant.client, partition.id, vpc.id));
  return tenant;
}

Result<void> remove(partition::client::Client& client, const std::vector<InstanceView>& all) {
  for (const InstanceView& each : all) IMEX_CHECK_OK(client.delete_instance(each.id));
  for (const InstanceView& each : all)
    IMEX_CHECK_OK(partition::client::wait_gone(client, each.id, closely()));
  return {};
}

/// One instance from POST to Ready, then it goes.
Result<std::int64_t> time_one(Tenant& tenant) {
  const auto begin = steady_clock::now();
  IMEX_TRY(const InstanceView made, tenant.client->create_instance(tenant.instance));
  IMEX_TRY(const InstanceView ready,
           partition::client::wait_ready(*tenant.client, made.id, closely()));
  const auto took = steady_clock::now() - begin;
  if (ready.interfaces.size() != kGpus)
    return fail(Errc::kDataLoss, fmt::format("Ready with {} GPUs", ready.interfaces.size()));
  IMEX_CHECK_OK(remove(*tenant.client, {made}));
  return std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
}

Result<void> slow_down(const ControlPlane& plane) {
  IMEX_TRY(auto rack, plane.rack());
  for (const char* method :
       {"CreatePartition", "DeletePartition", "AddGpusToPartition", "RemoveGpusFromPartition"}) {
    rack::FaultRequest fault;
    fault.kind = "slow";
    fault.domain = "rack-0";
    fault.method = method;
    fault.delay_ms = kSlowMs;
    IMEX_CHECK_OK(rack.set_fault(fault));
  }
  return {};
}

}  // namespace

Result<std::vector<ControlRow>> measure_ready(const ControlOptions& options) {
  IMEX_TRY(auto plane, ControlPlane::start(plane_options(options, 1)));
  IMEX_TRY(Tenant tenant, make_tenant(plane));
  Samples samples;
  for (std::size_t i = 0; i != options.scaled(kReadyTrials); ++i) {
    IMEX_TRY(const std::int64_t took, time_one(tenant));
    samples.push_back(took);
  }
  ControlRow row{.operation = "instance_ready", .setting = "4 GPUs, 1 domain"};
  row.time = summarize(std::move(samples));
  row.marks = {{"p50 under 100 ms", row.time.median_us, kReadyP50Us},
               {"p99 under 1 s", row.time.p99_us, kReadyP99Us}};
  return std::vector{std::move(row)};
}

Result<std::vector<ControlRow>> measure_ready_slow(const ControlOptions& options) {
  IMEX_TRY(auto plane, ControlPlane::start(plane_options(options, 1)));
  IMEX_TRY(Tenant tenant, make_tenant(plane));
  IMEX_TRY(Api api, Api::connect(plane));
  std::set<std::string> known;
  IMEX_CHECK_OK(new_operations(api, known));
  IMEX_CHECK_OK(slow_down(plane));
  Samples samples;
  double overhead_us = 0, own_us = 0;
  for (std::size_t i = 0; i != options.scaled(kSlowTrials); ++i) {
    const auto begin = steady_clock::now();
    const std::int64_t begin_wall = wall_ns();
    IMEX_TRY(const InstanceView made, tenant.client->create_instance(tenant.instance));
    IMEX_CHECK_OK(partition::client::wait_ready(*tenant.client, made.id, closely()));
    const auto took =
        std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock::now() - begin).count();
    // The fabric's own time, from the controller's journal of what it had to do for this.
    IMEX_TRY(const auto operations, new_operations(api, known));
    std::int64_t own = 0;
    for (const FabricOperation& each : operations) {
      if (each.begun_ns >= begin_wall && each.finished_ns != 0)
        own += each.finished_ns - each.begun_ns;
    }
    own_us = std::max(own_us, static_cast<double>(own) / 1e3);
    overhead_us = std::max(overhead_us, static_cast<double>(took - own) / 1e3);
    samples.push_back(took);
    IMEX_CHECK_OK(remove(*tenant.client, {made}));
    IMEX_CHECK_OK(new_operations(api, known));
  }
  ControlRow row{.operation = "instance_ready", .setting = "operations of 500 ms each"};
  row.time = summarize(std::move(samples));
  row.figures = {{"operations_max_us", own_us}, {"overhead_max_us", overhead_us}};
  row.marks = {{"operations' own time + 200 ms", overhead_us, kOverheadUs}};
  return std::vector{std::move(row)};
}

Result<std::vector<ControlRow>> measure_batch(const ControlOptions& options) {
  IMEX_TRY(auto plane, ControlPlane::start(plane_options(options, 1)));
  IMEX_TRY(Tenant tenant, make_tenant(plane));
  tenant.instance.domain = partition::client::OneDomain::kRequire;
  Samples samples;
  for (std::size_t i = 0; i != options.scaled(kBatchTrials); ++i) {
    const auto begin = steady_clock::now();
    IMEX_TRY(const auto made, tenant.client->create_instances(tenant.instance, kBatch));
    for (const InstanceView& each : made)
      IMEX_CHECK_OK(partition::client::wait_ready(*tenant.client, each.id, closely()));
    samples.push_back(
        std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock::now() - begin).count());
    IMEX_CHECK_OK(remove(*tenant.client, made));
  }
  ControlRow row{.operation = "batch_ready", .setting = "18 trays of one domain"};
  row.time = summarize(std::move(samples));
  row.marks = {{"all under 2 s", row.time.max_us, kBatchUs}};
  return std::vector{std::move(row)};
}

}  // namespace imex::bench
