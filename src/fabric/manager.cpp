#include "fabric/manager.hpp"

#include <algorithm>
#include <array>

namespace imex::fabric {
namespace {

template <std::size_t N, class Enum>
std::string_view text_of(const std::array<std::string_view, N>& names, Enum value) noexcept {
  const auto index = static_cast<std::size_t>(value);
  return index < N ? names[index] : std::string_view("unknown");
}

}  // namespace

std::string_view to_text(GpuHealth health) noexcept {
  static constexpr std::array<std::string_view, 5> kNames{"unknown", "healthy", "degraded",
                                                          "no_nvlink", "degraded_bw"};
  return text_of(kNames, health);
}

std::string_view to_text(NodeHealth health) noexcept {
  static constexpr std::array<std::string_view, 4> kNames{"unknown", "healthy", "degraded",
                                                          "unhealthy"};
  return text_of(kNames, health);
}

std::string_view to_text(PartitionHealth health) noexcept {
  static constexpr std::array<std::string_view, 5> kNames{"unknown", "healthy", "degraded_bw",
                                                          "degraded", "unhealthy"};
  return health == PartitionHealth::kNew ? std::string_view("new") : text_of(kNames, health);
}

std::string_view to_text(PartitionKind kind) noexcept {
  static constexpr std::array<std::string_view, 3> kNames{"undefined", "by_location", "by_uid"};
  return text_of(kNames, kind);
}

std::string_view to_text(ResiliencyMode mode) noexcept {
  static constexpr std::array<std::string_view, 4> kNames{
      "default", "full_bandwidth", "adaptive_bandwidth", "user_action_required"};
  return text_of(kNames, mode);
}

std::string_view to_text(ControlPlaneState state) noexcept {
  static constexpr std::array<std::string_view, 8> kNames{"undefined",    "offline", "standby",
                                                          "configured",   "timeout", "error",
                                                          "unconfigured", "degraded"};
  return text_of(kNames, state);
}

std::string_view to_text(ControllerHealth health) noexcept {
  static constexpr std::array<std::string_view, 5> kNames{"unknown", "healthy", "degraded",
                                                          "unhealthy", "corrupt_database"};
  return text_of(kNames, health);
}

std::string_view to_text(FabricEvent::Kind kind) noexcept {
  static constexpr std::array<std::string_view, 8> kNames{
      "topology",      "partition", "control_plane", "health",
      "configuration", "gap",       "unreachable",   "split"};
  return text_of(kNames, kind);
}

bool ObservedPartition::is_default() const noexcept {
  return id == kDefaultPartitionId || name.find("Default") != std::string::npos;
}

const ObservedGpu* Snapshot::find_gpu(std::uint64_t uid) const noexcept {
  const auto at =
      std::lower_bound(gpus.begin(), gpus.end(), uid,
                       [](const ObservedGpu& gpu, std::uint64_t key) { return gpu.uid < key; });
  return at != gpus.end() && at->uid == uid ? &*at : nullptr;
}

const ObservedPartition* Snapshot::find_partition(std::uint32_t id) const noexcept {
  const auto at = std::lower_bound(
      partitions.begin(), partitions.end(), id,
      [](const ObservedPartition& partition, std::uint32_t key) { return partition.id < key; });
  return at != partitions.end() && at->id == id ? &*at : nullptr;
}

const ObservedPartition* Snapshot::partition_of(std::uint64_t uid) const noexcept {
  for (const ObservedPartition& partition : partitions)
    if (std::binary_search(partition.gpu_uids.begin(), partition.gpu_uids.end(), uid))
      return &partition;
  return nullptr;
}

const ObservedPartition* Snapshot::default_partition() const noexcept {
  if (const ObservedPartition* by_id = find_partition(kDefaultPartitionId)) return by_id;
  for (const ObservedPartition& partition : partitions)
    if (partition.is_default()) return &partition;
  return nullptr;
}

bool Snapshot::can_change() const noexcept {
  return control_plane == ControlPlaneState::kConfigured ||
         control_plane == ControlPlaneState::kDegraded;
}

}  // namespace imex::fabric
