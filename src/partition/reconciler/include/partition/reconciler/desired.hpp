/// What the store wants of one NVLink domain: plain values, a snapshot of one read transaction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/uuid.hpp"

namespace imex::partition::reconciler {

/// A GPU's identity in its fabric; never 0.
using GpuUid = std::uint64_t;

/// One logical partition as far as it touches this domain.
struct WantedPartition {
  Uuid logical_partition{};
  /// Nil: the system's own, as the home of idle trays.
  Uuid tenant{};
  /// GPUs that are to be in it. Only those of machines that `tenant` holds are ever put in.
  std::vector<GpuUid> members{};
  /// Rounded down to a multiple of 4. Fixed when the partition is made; 0 is asked for instead when
  /// the domain has fewer left.
  std::uint32_t multicast_groups = 16;
  /// As on the wire; 0 leaves the choice to the manager.
  std::uint32_t resiliency_mode = 0;
  friend bool operator==(const WantedPartition&, const WantedPartition&) = default;
};

/// A logical partition that was deleted. Its id never comes back, so what still bears its mark is
/// ours to delete; a mark that is neither wanted nor retired is somebody else's.
struct RetiredPartition {
  Uuid logical_partition{};
  Uuid tenant{};
  friend bool operator==(const RetiredPartition&, const RetiredPartition&) = default;
};

/// A host of this domain.
struct Machine {
  std::string id{};
  /// Counts holders: each time the machine is taken or given up. A verdict that the machine is
  /// clear holds only for the epoch it was made for.
  std::uint64_t epoch = 0;
  /// Whose instance is on it; nil: nobody's, so all its GPUs are to leave tenants' partitions.
  Uuid holder{};
  std::vector<GpuUid> gpus{};
  /// It was clear once: whoever put its GPUs into a partition that is not ours did so behind our
  /// back. GPUs of other machines nobody wants are left where they are found, and reported.
  bool was_clear = false;
  friend bool operator==(const Machine&, const Machine&) = default;
};

/// A partition of the fabric that is known to be ours although its name does not say so: taken
/// over, or renamed by the manager. Identified by both values, because ids are used again.
struct OwnedPartition {
  Uuid logical_partition{};
  std::uint32_t id = 0;
  std::string name{};
  friend bool operator==(const OwnedPartition&, const OwnedPartition&) = default;
};

/// An operator's word that one partition which is not ours may be deleted.
struct Permit {
  std::uint32_t id = 0;
  std::string name{};
  friend bool operator==(const Permit&, const Permit&) = default;
};

enum class DefaultPartitionPolicy : std::uint8_t {
  /// Deleted where all its GPUs are those of known machines, else those are taken out. The default:
  /// its members share memory across tenants, and it holds all multicast groups.
  kDissolve,
  /// GPUs are only taken out when a tenant wants them, and machines are offered out of it.
  kLend,
};

enum class StolenGpuPolicy : std::uint8_t {
  /// A GPU that is wanted, or that was clear once, is taken out of a partition that is not ours.
  /// The
  /// partition itself stays.
  kTakeBack,
  kReport,
};

struct Desired {
  /// The NVLink domain; nothing is done to a manager that serves another one.
  Uuid domain{};
  /// Of the snapshot: handed back with each report.
  std::uint64_t revision = 0;
  /// Begins the name of each partition that this installation makes; see name.hpp.
  std::string mark{};
  std::vector<WantedPartition> partitions{};
  std::vector<RetiredPartition> retired{};
  std::vector<Machine> machines{};
  std::vector<OwnedPartition> owned{};
  std::vector<Permit> permits{};
  DefaultPartitionPolicy default_partition = DefaultPartitionPolicy::kDissolve;
  StolenGpuPolicy stolen_gpus = StolenGpuPolicy::kTakeBack;
  friend bool operator==(const Desired&, const Desired&) = default;
};

}  // namespace imex::partition::reconciler
