#include "model.hpp"

#include <algorithm>

#include "partition/reconciler/name.hpp"

namespace imex::partition::reconciler {
namespace {

// A name may be cut or rewritten on the way. Evidence that such a partition is ours: it has exactly
// the GPUs of a create of ours, and the id that was answered or a name that was ours. Equal
// membership alone is none, since somebody else may have made the partition.
bool bears_witness(const Trace& trace, const ObservedPartition& seen) {
  if (trace.operation.kind != OperationKind::kCreate) return false;
  if (trace.partition_id != 0) return trace.partition_id == seen.id;
  const std::string owner = trace.operation.logical_partition.to_string();
  const bool is_cut = seen.name.size() > trace.operation.name.size() / 2 &&
                      trace.operation.name.starts_with(seen.name);
  return is_cut || seen.name.find(owner) != std::string::npos;
}

}  // namespace

bool is_default(const ObservedPartition& partition) noexcept {
  return partition.id == kDefaultPartitionId || partition.name == "Default Partition" ||
         partition.name == "Default";
}

Model::Model(const Desired& desired, const Observed& observed, const Memory& memory)
    : desired_(desired) {
  collect_gpus(observed);
  join_desired();
  join_observed(observed);
  give_roles(memory);
}

void Model::collect_gpus(const Observed& observed) {
  std::vector<GpuUid> uids;
  uids.reserve(observed.gpus.size() + 8);
  for (const Machine& machine : desired_.machines) {
    uids.insert(uids.end(), machine.gpus.begin(), machine.gpus.end());
  }
  for (const WantedPartition& wanted : desired_.partitions) {
    uids.insert(uids.end(), wanted.members.begin(), wanted.members.end());
  }
  for (const ObservedGpu& gpu : observed.gpus) uids.push_back(gpu.uid);
  for (const ObservedPartition& partition : observed.partitions) {
    uids.insert(uids.end(), partition.members.begin(), partition.members.end());
  }
  std::sort(uids.begin(), uids.end());
  uids.erase(std::unique(uids.begin(), uids.end()), uids.end());
  gpus_.reserve(uids.size());
  for (const GpuUid uid : uids) gpus_.emplace_back().uid = uid;
}

const GpuFacts* Model::find(GpuUid uid) const noexcept {
  const auto at = std::lower_bound(gpus_.begin(), gpus_.end(), uid,
                                   [](const GpuFacts& gpu, GpuUid key) { return gpu.uid < key; });
  return at != gpus_.end() && at->uid == uid ? &*at : nullptr;
}

GpuFacts* Model::find(GpuUid uid) noexcept {
  return const_cast<GpuFacts*>(std::as_const(*this).find(uid));  // NOLINT: one search for both
}

Uuid Model::holder(const GpuFacts& gpu) const noexcept {
  return gpu.machine == kNowhere ? Uuid{} : desired_.machines[gpu.machine].holder;
}

void Model::join_desired() {
  for (std::size_t i = 0; i < desired_.machines.size(); ++i) {
    for (const GpuUid uid : desired_.machines[i].gpus) find(uid)->machine = i;
  }
  for (std::size_t i = 0; i < desired_.partitions.size(); ++i) {
    for (const GpuUid uid : desired_.partitions[i].members) {
      GpuFacts& gpu = *find(uid);
      gpu.wanted = i;
      gpu.entitled = gpu.machine != kNowhere && holder(gpu) == desired_.partitions[i].tenant;
    }
  }
}

void Model::join_observed(const Observed& observed) {
  partitions_.reserve(observed.partitions.size());
  std::vector<bool> twice(gpus_.size(), false);
  for (const ObservedPartition& partition : observed.partitions) {
    partitions_.emplace_back().seen = &partition;
    for (const GpuUid uid : partition.members) {
      GpuFacts& gpu = *find(uid);
      const std::size_t here = partitions_.size() - 1;
      if (gpu.seen_in != kNowhere && gpu.seen_in != here) {
        twice[static_cast<std::size_t>(&gpu - gpus_.data())] = true;
      }
      gpu.seen_in = here;
    }
  }
  for (const ObservedGpu& listed : observed.gpus) {
    GpuFacts& gpu = *find(listed.uid);
    gpu.listed = true;
    gpu.health = listed.health;
    const std::uint32_t id = gpu.seen_in == kNowhere ? 0 : partitions_[gpu.seen_in].seen->id;
    gpu.agreed = listed.partition_id == id && !twice[static_cast<std::size_t>(&gpu - gpus_.data())];
  }
}

void Model::name_role(PartitionFacts& facts) const {
  const ObservedPartition& seen = *facts.seen;
  if (is_default(seen)) {
    facts.role = Role::kDefault;
    return;
  }
  std::optional<Uuid> owner = owner_of(desired_.mark, seen.name);
  for (const OwnedPartition& owned : desired_.owned) {
    if (owned.id == seen.id && owned.name == seen.name) owner = owned.logical_partition;
  }
  if (!owner) return;
  for (std::size_t i = 0; i < desired_.partitions.size(); ++i) {
    const WantedPartition& wanted = desired_.partitions[i];
    if (wanted.logical_partition != *owner) continue;
    facts.role = Role::kOurs;
    facts.wanted = i;
    facts.logical_partition = *owner;
    facts.tenant = wanted.tenant;
    return;
  }
  for (const RetiredPartition& retired : desired_.retired) {
    if (retired.logical_partition != *owner) continue;
    facts.role = Role::kRetired;
    facts.logical_partition = *owner;
    facts.tenant = retired.tenant;
    return;
  }
}

bool Model::has_partition(std::size_t wanted) const noexcept {
  return std::any_of(partitions_.begin(), partitions_.end(), [&](const PartitionFacts& facts) {
    return facts.role == Role::kOurs && facts.wanted == wanted;
  });
}

void Model::adopt(PartitionFacts& facts, const Memory& memory) {
  std::vector<GpuUid> members = facts.seen->members;
  std::sort(members.begin(), members.end());
  for (const Trace& trace : memory.traces) {
    if (!bears_witness(trace, *facts.seen) || trace.operation.gpus != members) continue;
    const OwnedPartition owned{trace.operation.logical_partition, facts.seen->id, facts.seen->name};
    for (std::size_t i = 0; i < desired_.partitions.size(); ++i) {
      if (desired_.partitions[i].logical_partition != owned.logical_partition) continue;
      facts.role = Role::kOurs;
      facts.wanted = i;
      facts.tenant = desired_.partitions[i].tenant;
    }
    for (const RetiredPartition& retired : desired_.retired) {
      if (retired.logical_partition != owned.logical_partition) continue;
      facts.role = Role::kRetired;
      facts.tenant = retired.tenant;
    }
    if (facts.role == Role::kForeign) continue;
    facts.logical_partition = owned.logical_partition;
    adopted_.push_back(owned);
    return;
  }
}

void Model::settle_spares() {
  for (PartitionFacts& one : partitions_) {
    if (one.role != Role::kOurs) continue;
    for (PartitionFacts& other : partitions_) {
      if (&one == &other || other.role != Role::kOurs || other.wanted != one.wanted) continue;
      const bool stays = one.seen->members.size() != other.seen->members.size()
                             ? one.seen->members.size() > other.seen->members.size()
                             : one.seen->id < other.seen->id;
      (stays ? other : one).role = Role::kSpare;
      if (!stays) break;
    }
  }
}

void Model::give_roles(const Memory& memory) {
  for (PartitionFacts& facts : partitions_) name_role(facts);
  for (PartitionFacts& facts : partitions_) {
    if (facts.role == Role::kForeign && !facts.seen->members.empty()) adopt(facts, memory);
  }
  settle_spares();
}

}  // namespace imex::partition::reconciler
