// A large fleet at rest: 100 domains of 18 machines, all GPUs in use. A GPU that somebody takes
// away, the cost of idling, of a pass, of memory.

#include <csignal>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api.hpp"
#include "json/json.hpp"
#include "measurements.hpp"

namespace imex::bench {
namespace {

using Value = nlohmann::json;
using std::chrono::steady_clock;

constexpr std::uint32_t kDomains = 100, kTrays = 18, kGpusOfTray = 4;
constexpr std::uint32_t kPartitions = 1000;
constexpr std::size_t kThefts = 20;
constexpr double kNoticedUs = 100'000, kMendedUs = 1'000'000, kIdlePercent = 1, kPassUs = 50'000;
constexpr double kResidentBytes = 150.0 * 1024 * 1024;
constexpr std::chrono::seconds kWatch{10}, kConvergePatience{300}, kSettle{3};

/// Every domain full: a partition of all its GPUs.
Result<void> fill(const ControlPlane& plane, std::uint32_t domains) {
  IMEX_TRY(auto client, plane.tenant());
  IMEX_TRY(const auto vpc, client->create_vpc({.name = "fleet", .site = plane.site()}));
  partition::client::NewInstance wanted;
  IMEX_TRY(wanted.tenant, client->tenant());
  wanted.vpc = vpc.id;
  wanted.instance_type = plane.type();
  wanted.domain = partition::client::OneDomain::kRequire;
  for (std::uint32_t i = 0; i != domains; ++i) {
    wanted.name = fmt::format("rack-{}", i);
    IMEX_TRY(const auto made,
             client->create_partition({.name = wanted.name, .site = plane.site()}));
    wanted.gpus.emplace();
    for (std::uint32_t gpu = 0; gpu != kGpusOfTray; ++gpu) wanted.gpus->push_back({gpu, made.id});
    IMEX_CHECK_OK(client->create_instances(wanted, kTrays));
  }
  // Those without GPUs count, too: their rows are read in each pass.
  for (std::uint32_t i = domains; i < kPartitions * domains / kDomains; ++i) {
    IMEX_CHECK_OK(
        client->create_partition({.name = fmt::format("spare-{}", i), .site = plane.site()}));
  }
  return {};
}

Result<void> wait_converged(Api& api, std::uint64_t instances) {
  const auto deadline = steady_clock::now() + kConvergePatience;
  for (;;) {
    IMEX_TRY(const std::uint64_t ready, api.count("/instance", "status=Ready"));
    if (ready == instances) return {};
    if (steady_clock::now() > deadline) {
      return fail(Errc::kDeadlineExceeded, fmt::format("{} of {} instances Ready after {} s", ready,
                                                       instances, kConvergePatience.count()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

/// Whether a GPU is in a partition of its domain, from the rack itself.
Result<bool> is_bound(rack::ControlClient& rack, const std::string& domain, std::uint64_t uid) {
  IMEX_TRY(const std::string answer,
           rack.call(Value{{"op", "partitions"}, {"domain", domain}}.dump()));
  IMEX_TRY(const Value list, json::parse(answer, "partitions of the rack"));
  const Value* const partitions = json::find(list, "partitions");
  if (partitions == nullptr) return fail(Errc::kDataLoss, "the rack names no partitions");
  for (const Value& partition : *partitions) {
    for (const Value& member : partition.value("members", Value::array())) {
      if (member.value("uid", std::uint64_t{0}) == uid) return true;
    }
  }
  return false;
}

Result<std::uint64_t> uid_of(rack::ControlClient& rack, const std::string& domain,
                             std::uint32_t tray, std::uint32_t module) {
  IMEX_TRY(const std::string answer,
           rack.call(Value{{"op", "nvml"}, {"domain", domain}, {"tray", tray}}.dump()));
  IMEX_TRY(const Value tray_json, json::parse(answer, "a tray of the rack"));
  for (const Value& gpu : tray_json.value("gpus", Value::array())) {
    if (gpu.value("module", 0U) == module) return json::required_u64(gpu, "uid");
  }
  return fail(Errc::kNotFound, fmt::format("no GPU {} in tray {} of {}", module, tray, domain));
}

struct Theft {
  std::int64_t noticed_ns = 0, mended_ns = 0;
};

/// Takes one GPU out of its partition and waits until it is back.
Result<Theft> steal(Api& api, rack::ControlClient& rack, std::set<std::string>& known,
                    std::uint32_t number, std::uint32_t domains) {
  rack::FaultRequest fault;
  fault.kind = "no-partition";
  fault.domain = fmt::format("rack-{}", number * 7 % domains);
  fault.tray = number % kTrays;
  fault.gpu = 1 + number % kGpusOfTray;
  IMEX_TRY(const std::uint64_t uid, uid_of(rack, fault.domain, *fault.tray, *fault.gpu));
  const std::int64_t begin = wall_ns();
  IMEX_CHECK_OK(rack.set_fault(fault));
  const auto deadline = steady_clock::now() + kConvergePatience;
  for (;;) {
    IMEX_TRY(const bool bound, is_bound(rack, fault.domain, uid));
    if (bound) break;
    if (steady_clock::now() > deadline)
      return fail(Errc::kDeadlineExceeded, fmt::format("GPU {} stays lost", uid));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Theft theft{.noticed_ns = 0, .mended_ns = wall_ns() - begin};
  // When the controller noticed: it began to mend.
  IMEX_TRY(const auto operations, new_operations(api, known));
  for (const FabricOperation& each : operations) {
    if (each.begun_ns >= begin &&
        (theft.noticed_ns == 0 || each.begun_ns - begin < theft.noticed_ns))
      theft.noticed_ns = each.begun_ns - begin;
  }
  if (theft.noticed_ns == 0) return fail(Errc::kInternal, "mended without an operation");
  return theft;
}

Result<std::vector<ControlRow>> measure_thefts(const ControlPlane& plane, Api& api,
                                               const ControlOptions& options,
                                               std::uint32_t domains) {
  IMEX_TRY(auto rack, plane.rack());
  std::set<std::string> known;
  IMEX_CHECK_OK(new_operations(api, known));
  Samples noticed, mended;
  for (std::uint32_t i = 0; i != options.scaled(kThefts); ++i) {
    IMEX_TRY(const Theft theft, steal(api, rack, known, i, domains));
    noticed.push_back(theft.noticed_ns);
    mended.push_back(theft.mended_ns);
  }
  const std::string setting = fmt::format("{} domains, {} machines", domains, plane.machines());
  ControlRow first{.operation = "stolen_gpu_noticed", .setting = setting};
  first.time = summarize(std::move(noticed));
  first.marks = {{"all under 100 ms", first.time.max_us, kNoticedUs}};
  ControlRow second{.operation = "stolen_gpu_mended", .setting = setting};
  second.time = summarize(std::move(mended));
  second.marks = {{"all under 1 s", second.time.max_us, kMendedUs}};
  return std::vector{std::move(first), std::move(second)};
}

/// Microseconds of a core that the controller runs in `kWatch`.
Result<double> watch_cpu_us(const ControlPlane& plane) {
  IMEX_TRY(const std::uint64_t before, cpu_ns(plane.controller_pid()));
  std::this_thread::sleep_for(kWatch);
  IMEX_TRY(const std::uint64_t after, cpu_ns(plane.controller_pid()));
  return static_cast<double>(after - before) / 1e3;
}

}  // namespace

Result<std::vector<ControlRow>> measure_fleet(const ControlOptions& options) {
  const auto domains = static_cast<std::uint32_t>(options.scaled(kDomains));
  IMEX_TRY(auto plane, ControlPlane::start(plane_options(options, domains)));
  IMEX_TRY(Api api, Api::connect(plane));
  IMEX_CHECK_OK(fill(plane, domains));
  IMEX_CHECK_OK(wait_converged(api, plane.machines()));
  IMEX_TRY(auto rows, measure_thefts(plane, api, options, domains));
  IMEX_CHECK_OK(wait_converged(api, plane.machines()));

  std::this_thread::sleep_for(kSettle);
  const std::string setting = fmt::format("{} GPUs in sync", plane.machines() * kGpusOfTray);
  IMEX_TRY(const double idle_us, watch_cpu_us(plane));
  const double watched_us = std::chrono::duration<double, std::micro>(kWatch).count();
  IMEX_TRY(const std::uint64_t resident, resident_bytes(plane.controller_pid()));
  ControlRow idle{.operation = "controller_idle", .setting = setting};
  const double idle_percent = 100 * idle_us / watched_us;
  idle.figures = {{"core_percent", idle_percent},
                  {"resident_bytes", static_cast<double>(resident)}};
  idle.marks = {{"under 1 % of a core", idle_percent, kIdlePercent},
                {"under 150 MiB", static_cast<double>(resident), kResidentBytes}};
  rows.push_back(std::move(idle));

  // One pass a second: what is spent beyond idling is the passes'.
  IMEX_CHECK_OK(plane.restart_controller(SIGTERM, "1s"));
  IMEX_TRY(Api again, Api::connect(plane));
  IMEX_CHECK_OK(wait_converged(again, plane.machines()));
  std::this_thread::sleep_for(kSettle);
  IMEX_TRY(const double passes_us, watch_cpu_us(plane));
  ControlRow pass{.operation = "reconciler_pass", .setting = setting};
  const double each_us = passes_us / static_cast<double>(kWatch.count());
  pass.figures = {{"cpu_us", each_us}, {"passes", static_cast<double>(kWatch.count())}};
  pass.marks = {{"CPU under 50 ms", each_us, kPassUs}};
  rows.push_back(std::move(pass));
  return rows;
}

}  // namespace imex::bench
