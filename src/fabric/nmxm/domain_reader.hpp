/// One domain out of the lists of an NMX-M, which are of all domains. Pure, but for the ids it
/// remembers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "answer.hpp"

namespace imex::fabric::nmxm {

struct DomainLists {
  std::vector<GpuEntry> gpus;
  std::vector<PartitionEntry> partitions;
  std::vector<NodeEntry> nodes;
  std::vector<ServiceEntry> services;
};

/// A partition of the domain, with its members as the NMX-M names them.
struct OwnPartition {
  PartitionEntry entry;  ///< partition.gpu_uids filled
  bool complete = true;  ///< every member is known by its uid
};

struct DomainView {
  Snapshot snapshot;
  std::vector<OwnPartition> partitions;
  std::map<std::uint64_t, GpuEntry> gpus;  ///< by uid
  std::string version;

  [[nodiscard]] const OwnPartition* find(const PartitionTarget& target) const;
};

/// Threads: the caller's lock.
class DomainReader {
 public:
  explicit DomainReader(Uuid domain) : domain_(domain) {}

  /// A partition belongs to the domain when one of its members does. One without members tells no
  /// domain: it is taken only where the NMX-M serves no other. A member that is in no list is known
  /// from former lists (its tray is off); where it is not, the partition's other GPUs are disputed.
  /// Errors: kDataLoss.
  [[nodiscard]] Result<DomainView> read(DomainLists lists);

 private:
  const Uuid domain_;
  std::map<std::string, std::uint64_t>
      uid_of_;  ///< by entity id; of all that were ever listed, bounded
};

}  // namespace imex::fabric::nmxm
