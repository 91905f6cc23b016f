#include "rack/partition_table.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace imex::rack {

const Partition* PartitionTable::find(std::uint32_t id) const {
  const auto it = partitions_.find(id);
  return it == partitions_.end() ? nullptr : &it->second;
}

const Partition* PartitionTable::find_name(std::string_view name) const {
  for (const auto& [id, partition] : partitions_) {
    if (partition.name == name) return &partition;
  }
  return nullptr;
}

std::uint32_t PartitionTable::owner(std::uint64_t uid) const {
  const auto it = owners_.find(uid);
  return it == owners_.end() ? 0 : it->second;
}

std::uint32_t PartitionTable::next_id(IdAllocation how) const {
  const std::uint32_t start = how == IdAllocation::kReuseLowest ? 0 : last_id_;
  constexpr std::uint32_t kLast =
      kPartitionIdMax - 1;  // the default partition's is never handed out
  for (std::uint32_t step = 0; step < kLast; ++step) {
    const std::uint32_t id = (start + step) % kLast + 1;
    if (!partitions_.contains(id)) return id;
  }
  return 0;
}

void PartitionTable::add(Partition partition) {
  IMEX_ASSERT(!partitions_.contains(partition.id), "ids are unique");
  IMEX_ASSERT(partition.groups <= groups_left(), "groups are within the budget");
  std::ranges::sort(partition.members);
  for (const Member& member : partition.members) {
    IMEX_ASSERT(owners_.emplace(member.uid, partition.id).second, "a GPU is in one partition");
  }
  groups_used_ += partition.groups;
  const std::uint32_t id = partition.id;
  if (id != kDefaultPartitionId) last_id_ = id;
  partitions_.emplace(id, std::move(partition));
}

void PartitionTable::remove(std::uint32_t id) {
  const auto it = partitions_.find(id);
  if (it == partitions_.end()) return;
  for (const Member& member : it->second.members) owners_.erase(member.uid);
  groups_used_ -= it->second.groups;
  partitions_.erase(it);
}

void PartitionTable::add_members(std::uint32_t id, PartitionKind kind,
                                 const std::vector<Member>& members) {
  const auto it = partitions_.find(id);
  if (it == partitions_.end() || members.empty()) return;
  Partition& partition = it->second;
  for (const Member& member : members) {
    if (!owners_.emplace(member.uid, id).second) continue;
    partition.members.push_back(member);
  }
  std::ranges::sort(partition.members);
  if (partition.kind == PartitionKind::kUndefined) partition.kind = kind;
}

void PartitionTable::remove_members(std::uint32_t id, const std::vector<std::uint64_t>& uids) {
  const auto it = partitions_.find(id);
  if (it == partitions_.end()) return;
  for (const std::uint64_t uid : uids) {
    if (owner(uid) != id) continue;
    owners_.erase(uid);
    std::erase_if(it->second.members, [uid](const Member& member) { return member.uid == uid; });
  }
}

void PartitionTable::clear() {
  partitions_.clear();
  owners_.clear();
  groups_used_ = 0;
}

}  // namespace imex::rack
