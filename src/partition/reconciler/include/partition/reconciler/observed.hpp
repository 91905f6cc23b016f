/// What a fabric manager said of one NVLink domain: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "base/uuid.hpp"
#include "partition/reconciler/desired.hpp"

namespace imex::partition::reconciler {

inline constexpr std::uint32_t kDefaultPartitionId = 32'766;

struct ObservedPartition {
  std::uint32_t id = 0;
  std::string name{};
  std::vector<GpuUid> members{};
  /// As on the wire: 1 healthy, 2 degraded bandwidth, 3 degraded, 4 unhealthy; 0 unknown.
  std::uint32_t health = 0;
  std::uint32_t multicast_groups = 0;
};

struct ObservedGpu {
  GpuUid uid = 0;
  /// 0: in none.
  std::uint32_t partition_id = 0;
  /// As on the wire: 1 healthy, 2 degraded, 3 no NVLink, 4 degraded bandwidth; 0 unknown.
  std::uint32_t health = 0;
};

/// Two answers of one manager, read one after the other: the list of partitions and the list of
/// GPUs. Where both say the same of a GPU it is taken as seen; where they differ, one of them is
/// late or wrong, and nothing is concluded.
struct Observed {
  Uuid domain{};
  /// New for each start of the manager.
  Uuid manager{};
  /// When the first answer was asked for: what is seen is not older.
  Time begun{};
  std::vector<ObservedPartition> partitions{};
  std::vector<ObservedGpu> gpus{};
  /// Multicast groups that no partition has; nullopt: not told.
  std::optional<std::uint32_t> multicast_groups_free{};
};

/// An observation counts as long as this: three times the interval of passes.
[[nodiscard]] inline bool is_fresh(Time begun, Time now, Nanos interval) noexcept {
  return now - begun <= 3 * interval;
}

}  // namespace imex::partition::reconciler
