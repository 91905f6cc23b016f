/// The heart of the reconciler: from what is wanted and what was seen to what is to be done and
/// what may be said about it. A pure function: no clock, no I/O, no state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.hpp"
#include "partition/reconciler/desired.hpp"
#include "partition/reconciler/observed.hpp"
#include "partition/reconciler/operation.hpp"

namespace imex::partition::reconciler {

enum class State : std::uint8_t {
  /// Wanted nowhere and in no tenant's partition.
  kIdle,
  /// Seen as wanted.
  kReady,
  /// Seen otherwise than wanted; work is under way or refused.
  kPending,
  /// Not seen, or seen in two ways.
  kUnknown,
};
[[nodiscard]] std::string_view to_string(State state) noexcept;

/// Why a state is not kReady or kIdle.
enum class Reason : std::uint8_t {
  kNone,
  kNotObserved,
  kObservationTooOld,
  kWrongDomain,
  kGpuMissing,
  kAnswersDiffer,
  kMachineNotTenants,
  kInDefaultPartition,
  kInForeignPartition,
  kInOtherPartition,
  kNotInPartition,
  kIntruder,
  kLeaving,
  kOperationInDoubt,
  kSeenOnce,
};
/// A sentence for a person: what is so, and what happens next.
[[nodiscard]] std::string_view explain(Reason reason) noexcept;

struct GpuStatus {
  GpuUid uid = 0;
  /// Logical partitions; nil: none.
  Uuid wanted{};
  Uuid seen{};
  std::uint32_t partition_id = 0;
  std::uint32_t health = 0;
  State state = State::kUnknown;
  Reason reason = Reason::kNotObserved;
};

/// A wanted or retired logical partition in this domain.
struct PartitionStatus {
  Uuid logical_partition{};
  State state = State::kUnknown;
  Reason reason = Reason::kNotObserved;
  /// Of its partition in this domain; 0: there is none.
  std::uint32_t partition_id = 0;
  std::string name{};
  std::uint32_t members = 0;
  std::uint32_t health = 0;
  std::uint32_t multicast_groups = 0;
};

struct MachineStatus {
  std::string id{};
  std::uint64_t epoch = 0;
  /// No GPU of it is in a tenant's, a foreign or the default partition, seen twice, and no
  /// operation that could still put one there is in doubt. Only then may it be given to another
  /// tenant.
  bool clear = false;
  Reason reason = Reason::kNotObserved;
};

/// A partition that is not ours, with what it holds of ours. Reported, not deleted.
struct Drift {
  std::uint32_t partition_id = 0;
  std::string name{};
  std::vector<GpuUid> members{};
  bool is_default = false;
};

/// A change whose effect may show late, or under another name.
struct Trace {
  Operation operation{};
  /// 0: not told.
  std::uint32_t partition_id = 0;
  /// The answer is missing: its effect may come until then. Otherwise it was done.
  bool in_doubt = false;
  Time until{};
};

/// What is remembered from one decision to the next.
struct Memory {
  /// GPUs that the last observation saw in no partition but the system's, and that no operation of
  /// ours was to put into one since. Sorted.
  std::vector<GpuUid> seen_clear{};
  std::vector<Trace> traces{};
};

struct Decision {
  std::vector<Unit> units{};
  std::vector<GpuStatus> gpus{};
  std::vector<PartitionStatus> partitions{};
  std::vector<MachineStatus> machines{};
  std::vector<Drift> drift{};
  /// To be recorded: ours from now on although the name does not say so.
  std::vector<OwnedPartition> adopted{};
  /// For the next Memory.
  std::vector<GpuUid> seen_clear{};
};

/// Ages are judged at `now` against `interval`, the period of passes. An observation of another
/// domain, or one that is too old, leads to no operation and to unknown states.
[[nodiscard]] Decision decide(const Desired& desired, const Observed& observed,
                              const Memory& memory, Time now, Nanos interval);

}  // namespace imex::partition::reconciler
