#include "partition/controller/metrics.hpp"

namespace imex::partition {
namespace {

const std::vector<double> kMilliseconds{1,    2,    5,    10,    20,    50,    100,    200,   500,
                                        1000, 2000, 5000, 10000, 30000, 60000, 120000, 300000};
constexpr std::string_view kOperations[] = {"create", "update", "remove",
                                            "remove_default_partition"};
constexpr std::string_view kStatuses[] = {"completed", "failed", "timedout"};
constexpr std::string_view kReasons[] = {
    "no_endpoint",  "invalid_endpoint_uri",     "client_create_failed",
    "hello_failed", "domain_uuid_parse_failed", "partition_monitor_work_failed"};

double milliseconds(Nanos duration) { return static_cast<double>(duration.count()) / 1e6; }

constexpr const char* kIterationHelp = "Duration of a whole pass over a domain.";
constexpr const char* kOperationHelp = "One fabric operation, from call to answer.";
constexpr const char* kApplyHelp =
    "For instances whose configuration is not in effect yet: how long ago it was asked for.";
constexpr const char* kChangesHelp = "Fabric operations by result.";
constexpr const char* kErrorsHelp = "Attempts to reach a fabric manager that failed.";

}  // namespace

ControllerMetrics::ControllerMetrics(metrics::Registry& registry, bool alias)
    : registry_(registry) {
  prefixes_.emplace_back(kNicoPrefix);
  if (alias) prefixes_.emplace_back(kCarbidePrefix);
  for (const std::string& prefix : prefixes_) {
    static_cast<void>(registry_.histogram(prefix + "iteration_latency_milliseconds", kIterationHelp,
                                          kMilliseconds));
    static_cast<void>(registry_.histogram(prefix + "nvlink_config_apply_latency_milliseconds",
                                          kApplyHelp, kMilliseconds));
    static_cast<void>(registry_.counter(prefix + "nmxc_connect_errors_total", kErrorsHelp));
    for (const std::string_view operation : kOperations) {
      for (const std::string_view status : kStatuses) {
        static_cast<void>(registry_.counter(
            prefix + "nmxc_changes_applied_total", kChangesHelp,
            {{"operation", std::string(operation)}, {"status", std::string(status)}}));
      }
    }
  }
  leading(false);
  const MutexLock lock(mutex_);
  sum_up();
}

void ControllerMetrics::set_gauge(const std::string& suffix, const std::string& help, double value,
                                  const metrics::Labels& labels) {
  for (const std::string& prefix : prefixes_)
    registry_.gauge(prefix + suffix, help, labels).set(value);
}

void ControllerMetrics::pass(Nanos duration) {
  for (const std::string& prefix : prefixes_) {
    registry_.histogram(prefix + "iteration_latency_milliseconds", kIterationHelp, kMilliseconds)
        .observe(milliseconds(duration));
  }
}

void ControllerMetrics::operation(std::string_view operation, std::string_view status,
                                  Nanos duration) {
  const metrics::Labels labels{{"operation", std::string(operation)},
                               {"status", std::string(status)}};
  for (const std::string& prefix : prefixes_) {
    registry_.counter(prefix + "nmxc_changes_applied_total", kChangesHelp, labels).add();
    registry_
        .histogram(prefix + "nmxc_op_latency_milliseconds", kOperationHelp, kMilliseconds, labels)
        .observe(milliseconds(duration));
  }
}

void ControllerMetrics::config_pending(Nanos age) {
  for (const std::string& prefix : prefixes_) {
    registry_
        .histogram(prefix + "nvlink_config_apply_latency_milliseconds", kApplyHelp, kMilliseconds)
        .observe(milliseconds(age));
  }
}

void ControllerMetrics::contact(const EndpointId& endpoint, const std::string& error,
                                std::string_view reason) {
  const MutexLock lock(mutex_);
  if (error.empty()) {
    if (unreachable_.erase(endpoint) != 0) sum_up();
    return;
  }
  for (const std::string& prefix : prefixes_) {
    registry_.counter(prefix + "nmxc_connect_errors_total", kErrorsHelp).add();
  }
  unreachable_[endpoint] = reason;
  sum_up();
}

void ControllerMetrics::domain(const DomainId& domain, const DomainCounts& counts) {
  const MutexLock lock(mutex_);
  domains_[domain] = counts;
  const std::string id = domain.to_string();
  const auto by_health = [&](const std::string& suffix, const std::string& help,
                             const auto& values) {
    for (const auto& [health, count] : values) {
      set_gauge(suffix, help, count, {{"nvlink_domain_uuid", id}, {"health", health}});
    }
  };
  by_health("nmxc_partition_count", "Partitions that the fabric managers list.", counts.partitions);
  by_health("nmxc_gpu_count", "GPUs that the fabric managers list.", counts.gpus);
  by_health("nmxc_compute_node_count", "Compute nodes that the fabric managers list.",
            counts.nodes);
  sum_up();
}

void ControllerMetrics::forget(const DomainId& domain) {
  const MutexLock lock(mutex_);
  const auto at = domains_.find(domain);
  if (at == domains_.end()) return;
  const std::string id = domain.to_string();
  const auto remove = [&](const std::string& suffix, const auto& values) {
    for (const std::string& prefix : prefixes_) {
      for (const auto& [health, count] : values) {
        registry_.remove(prefix + suffix, {{"nvlink_domain_uuid", id}, {"health", health}});
      }
    }
  };
  remove("nmxc_partition_count", at->second.partitions);
  remove("nmxc_gpu_count", at->second.gpus);
  remove("nmxc_compute_node_count", at->second.nodes);
  domains_.erase(at);
  sum_up();
}

void ControllerMetrics::stale_partitions(std::uint32_t count) {
  const MutexLock lock(mutex_);
  stale_ += count;
  sum_up();
}

void ControllerMetrics::logical_partitions(std::uint64_t count) {
  const MutexLock lock(mutex_);
  logical_partitions_ = static_cast<double>(count);
  sum_up();
}

void ControllerMetrics::woken(std::string_view cause) {
  registry_
      .counter("imex_controller_wakes_total", "What made the reconciler look.",
               {{"cause", std::string(cause)}})
      .add();
}

void ControllerMetrics::leading(bool leads) {
  registry_.gauge("imex_controller_leading", "1 while this replica leads.").set(leads ? 1 : 0);
}

void ControllerMetrics::sum_up() {
  DomainCounts sum;
  for (const auto& [id, counts] : domains_) {
    sum.logical_partitions += counts.logical_partitions;
    sum.physical_partitions += counts.physical_partitions;
    sum.machine_updates += counts.machine_updates;
    sum.drift += counts.drift;
    sum.operations_in_doubt += counts.operations_in_doubt;
    sum.mismatches += counts.mismatches;
  }
  set_gauge("num_logical_partitions", "Logical partitions that tenants have.",
            logical_partitions_.value_or(sum.logical_partitions));
  set_gauge("num_physical_partitions", "Physical partitions that are ours.",
            sum.physical_partitions);
  set_gauge("machine_status_updates_count", "Machine observations written in the last passes.",
            sum.machine_updates);
  set_gauge("nvlink_info_mismatches", "Machines whose stored GPUs differed from the manager's.",
            sum.mismatches);
  set_gauge("stale_partitions_deleted", "Rows of partitions that the managers no longer had.",
            stale_);
  set_gauge("nmxc_connect_error_count", "Endpoints that could not be reached when last tried.",
            static_cast<double>(unreachable_.size()));
  std::map<std::string, double> reasons;
  for (const std::string_view reason : kReasons) reasons[std::string(reason)] = 0;
  for (const auto& [endpoint, reason] : unreachable_) reasons[reason] += 1;
  for (const auto& [reason, count] : reasons) {
    set_gauge("nmx_c_unreachable_chassis_count", "Groups not served in the last pass.", count,
              {{"reason", reason}});
  }
  registry_.gauge("imex_controller_drift_partitions", "Partitions on the fabric that are not ours.")
      .set(sum.drift);
  registry_
      .gauge("imex_controller_operations_in_doubt",
             "Operations without an answer that may still take effect.")
      .set(sum.operations_in_doubt);
}

}  // namespace imex::partition
