/// The metrics of NICo's partition monitor, by its names, and ours.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.hpp"
#include "base/time.hpp"
#include "metrics/registry.hpp"
#include "partition/model/ids.hpp"

namespace imex::partition {

/// Prefix of names that are ours alone is imex_controller_.
inline constexpr std::string_view kNicoPrefix = "nico_nvlink_partition_monitor_";
/// What NICo's code says where its manuals say the above.
inline constexpr std::string_view kCarbidePrefix = "carbide_nvlink_partition_monitor_";

/// What one domain last showed; gauges are sums over domains.
struct DomainCounts {
  /// By health, as labels say it.
  std::map<std::string, double> partitions, gpus, nodes;
  double logical_partitions = 0;
  double physical_partitions = 0;
  double machine_updates = 0;
  double drift = 0;
  double operations_in_doubt = 0;
  /// Machines of which GPUs are not where the store has them.
  double mismatches = 0;
};

/// Thread-safe. Every metric exists from the start, so that a missing series means a stopped
/// process.
class ControllerMetrics {
 public:
  /// Borrows the registry. `alias`: every metric also under kCarbidePrefix.
  ControllerMetrics(metrics::Registry& registry, bool alias);

  void pass(Nanos duration);
  /// `operation` and `status` as in NICo's labels.
  void operation(std::string_view operation, std::string_view status, Nanos duration);
  /// For an instance whose GPUs are not where they are wanted: how long ago that was asked for.
  void config_pending(Nanos age);
  /// An empty error: the endpoint answers.
  void contact(const EndpointId& endpoint, const std::string& error, std::string_view reason);
  void domain(const DomainId& domain, const DomainCounts& counts);
  void forget(const DomainId& domain);
  /// Rows of partitions that the manager no longer had; counted up.
  void stale_partitions(std::uint32_t count);
  /// Of the whole store; until it is told, the sum over domains is shown.
  void logical_partitions(std::uint64_t count);
  void woken(std::string_view cause);
  void leading(bool leads);

 private:
  void set_gauge(const std::string& suffix, const std::string& help, double value,
                 const metrics::Labels& labels = {});
  void sum_up() IMEX_REQUIRES(mutex_);

  metrics::Registry& registry_;
  std::vector<std::string> prefixes_;
  Mutex mutex_;
  std::map<DomainId, DomainCounts> domains_ IMEX_GUARDED_BY(mutex_);
  /// Endpoints that do not answer: reason.
  std::map<EndpointId, std::string> unreachable_ IMEX_GUARDED_BY(mutex_);
  std::optional<double> logical_partitions_ IMEX_GUARDED_BY(mutex_);
  double stale_ IMEX_GUARDED_BY(mutex_) = 0;
};

}  // namespace imex::partition
