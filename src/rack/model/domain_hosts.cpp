// The lists, and what the drivers on the trays see.
#include <algorithm>

#include "rack/domain.hpp"

namespace imex::rack {

namespace {

// NVML's health mask: two bits each, 1 true, 2 false; the last field has four.
constexpr std::uint32_t kTrue = 1, kFalse = 2;
constexpr unsigned kDegradedBandwidthShift = 0, kRouteRecoveryShift = 2, kRouteUnhealthyShift = 4,
                   kAccessTimeoutShift = 6, kConfigurationShift = 8;
constexpr std::uint32_t kConfigurationRight = 1, kNoPartition = 4, kTooFewLinks = 5;

std::uint32_t flag(bool set, unsigned shift) { return (set ? kTrue : kFalse) << shift; }

}  // namespace

ControlPlane Domain::control_plane() const {
  if (starting_until_) return ControlPlane::kUnconfigured;
  return physical_.switches_complete() ? ControlPlane::kConfigured : ControlPlane::kDegraded;
}

ControllerHealth Domain::controller_health() const {
  if (faults_.holds(FaultKind::kDbCorrupt) != nullptr) return ControllerHealth::kCorruptDatabase;
  return faults_.holds(FaultKind::kDbError) != nullptr ? ControllerHealth::kDegraded
                                                       : ControllerHealth::kHealthy;
}

std::vector<GpuView> Domain::gpus() const {
  std::vector<GpuView> listed;
  for (unsigned gpu = 0; gpu < shape().gpu_count(); ++gpu) {
    if (!physical_.gpus[gpu].present) continue;
    const TrayPlace tray = shape().compute_tray(shape().tray_of_gpu(gpu));
    GpuView view{.index = gpu,
                 .uid = uid_of(gpu),
                 .place = shape().place_of_gpu(gpu),
                 .tray_index = tray.index,
                 .chassis = tray.chassis,
                 .health = physical_.gpu_health(shape(), gpu, personality().strict_links),
                 .partition = table_.owner(uid_of(gpu))};
    if (hidden_until_.contains(view.partition)) view.partition = 0;
    listed.push_back(view);
  }
  return listed;
}

std::vector<TrayView> Domain::compute_trays() const {
  std::vector<TrayView> trays;
  for (const GpuView& gpu : gpus()) {
    const unsigned tray = shape().tray_of_gpu(gpu.index);
    if (trays.empty() || trays.back().tray != tray) {
      trays.push_back({tray,
                       shape().compute_tray(tray),
                       0,
                       0,
                       physical_.compute_tray_health(shape(), tray, personality().strict_links),
                       {}});
    }
    TrayView& view = trays.back();
    ++view.gpus;
    if (gpu.partition == 0) continue;
    ++view.allocated;
    const auto at = std::ranges::lower_bound(view.partitions, gpu.partition);
    if (at == view.partitions.end() || *at != gpu.partition)
      view.partitions.insert(at, gpu.partition);
  }
  return trays;
}

/// Drivers take up the partition of their GPU: from none at once, another one as the personality
/// has it.
void Domain::drivers_follow() {
  const bool at_once = personality().clique_change == CliqueChange::kImmediate &&
                       faults_.holds(FaultKind::kStaleClique) == nullptr;
  for (unsigned gpu = 0; gpu < shape().gpu_count(); ++gpu) {
    if (!physical_.gpus[gpu].present) continue;
    const std::uint64_t uid = uid_of(gpu);
    const std::uint32_t owner = table_.owner(uid);
    if (owner != 0 && (at_once || !cliques_.contains(uid))) cliques_[uid] = owner;
    if (owner == 0 && at_once) cliques_.erase(uid);
  }
}

void Domain::reset_gpu(unsigned tray, std::uint32_t module) {
  if (faults_.holds(FaultKind::kStaleClique) != nullptr || tray >= shape().tray_count()) return;
  for (unsigned i = 0; i < shape().gpus_per_tray; ++i) {
    if (module == 0 || module == i + 1) cliques_.erase(uid_of(tray * shape().gpus_per_tray + i));
  }
  drivers_follow();
  ++revision_;
}

NvmlGpu Domain::nvml_gpu(unsigned gpu) const {
  const std::uint64_t uid = uid_of(gpu);
  const std::uint32_t owner = table_.owner(uid);
  const GpuHealth health = physical_.gpu_health(shape(), gpu, personality().strict_links);
  const bool contained = physical_.gpus[gpu].contained != 0;
  NvmlGpu seen;
  seen.module = shape().module_of_gpu(gpu);
  seen.uid = uid;
  const unsigned pair = (seen.module - 1) ^ 1U;  // NVML 0, 1, 2, 3 are modules 2, 1, 4, 3
  seen.nvml_index = pair < shape().gpus_per_tray ? pair : seen.module - 1;
  if (faults_.holds(FaultKind::kIndexConfusion) != nullptr)
    seen.nvml_index = shape().gpus_per_tray - seen.module;

  const auto held = cliques_.find(uid);
  if (held != cliques_.end()) {
    seen.state = NvmlGpu::State::kCompleted;
    seen.cluster = ids_.domain_uuid();
    seen.clique = held->second;
    if (const Fault* same = faults_.holds(FaultKind::kSameCliqueElsewhere)) {
      seen.clique = same->number.value_or(kDefaultPartitionId);
    }
  }
  const bool bandwidth = health == GpuHealth::kDegradedBandwidth || health == GpuHealth::kDegraded;
  const bool few_links = health == GpuHealth::kNoNvlink;
  std::uint32_t configuration = kConfigurationRight;
  if (few_links) configuration = kTooFewLinks;
  if (owner == 0) configuration = kNoPartition;
  seen.health_mask = flag(bandwidth, kDegradedBandwidthShift) | flag(false, kRouteRecoveryShift) |
                     flag(few_links, kRouteUnhealthyShift) | flag(contained, kAccessTimeoutShift);
  if (personality().nvml_last_field) seen.health_mask |= configuration << kConfigurationShift;
  seen.health_summary = few_links || contained || owner == 0 ? 2 : bandwidth ? 3 : 1;

  const Partition* partition = owner == 0 ? nullptr : table_.find(owner);
  seen.attached = partition != nullptr && held != cliques_.end() && held->second == owner &&
                  !few_links && !contained && physical_.switches_complete();
  return seen;
}

std::vector<NvmlGpu> Domain::nvml(unsigned tray) const {
  std::vector<NvmlGpu> seen;
  for (unsigned i = 0; i < shape().gpus_per_tray; ++i) {
    const unsigned gpu = tray * shape().gpus_per_tray + i;
    if (physical_.gpus[gpu].present) seen.push_back(nvml_gpu(gpu));
  }
  std::ranges::sort(seen, {}, &NvmlGpu::nvml_index);
  return seen;
}

}  // namespace imex::rack
