// Creating, changing and deleting partitions: which request is refused how, in which order, and
// what is done. nmx-c.md, sections 8.2 to 8.4.
#include <algorithm>

#include <fmt/format.h>

#include "rack/domain.hpp"

namespace imex::rack {

namespace {

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

bool mixed_kinds(const std::vector<GpuRef>& gpus) {
  return std::ranges::any_of(
      gpus, [&](const GpuRef& gpu) { return gpu.index() != gpus.front().index(); });
}

PartitionKind kind_of(const std::vector<GpuRef>& gpus) {
  if (gpus.empty()) return PartitionKind::kUndefined;
  return std::holds_alternative<GpuPlace>(gpus.front()) ? PartitionKind::kByLocation
                                                        : PartitionKind::kByUid;
}

bool same_gpus(const Partition& partition, const std::vector<Member>& members) {
  return partition.members == members;
}

/// A prefix of the GPUs, at least one less.
void halve(Change& change) {
  if (auto* create = std::get_if<CreatePartition>(&change))
    create->gpus.resize(create->gpus.size() / 2);
  if (auto* update = std::get_if<UpdatePartition>(&change))
    update->gpus.resize(update->gpus.size() / 2);
}

CallFacts facts(const Change& change) {
  if (const auto* create = std::get_if<CreatePartition>(&change))
    return {"CreatePartition", create->id};
  if (const auto* gone = std::get_if<DeletePartition>(&change))
    return {"DeletePartition", gone->id};
  const auto& update = std::get<UpdatePartition>(change);
  return {update.add ? "AddGpusToPartition" : "RemoveGpusFromPartition", update.id};
}

}  // namespace

std::string Domain::fitted_name(const std::string& name) const {
  const Fault* cut = faults_.holds(FaultKind::kNameCollision);
  return cut == nullptr ? name : name.substr(0, cut->number.value_or(240));
}

std::uint32_t Domain::groups_left() const {
  return faults_.holds(FaultKind::kGroupsExhausted) != nullptr ? 0 : table_.groups_left();
}

std::pair<ReturnCode, const Partition*> Domain::target(std::uint32_t id,
                                                       const std::string& name) const {
  if (id == 0 && name.empty()) return {ReturnCode::kBadParam, nullptr};
  const Partition* by_id = id == 0 ? nullptr : table_.find(id);
  const Partition* by_name = name.empty() ? nullptr : table_.find_name(fitted_name(name));
  if (id != 0 && by_id == nullptr) return {ReturnCode::kPartitionIdNotInUse, nullptr};
  if (!name.empty() && by_name == nullptr) return {ReturnCode::kPartitionNameNotInUse, nullptr};
  if (by_id != nullptr && by_name != nullptr && by_id != by_name) {
    return {ReturnCode::kPartitionIdNameMismatch, nullptr};
  }
  return {ReturnCode::kSuccess, by_id != nullptr ? by_id : by_name};
}

Domain::Resolved Domain::resolve(const std::vector<GpuRef>& gpus) const {
  Resolved found;
  found.kind = kind_of(gpus);
  for (const GpuRef& gpu : gpus) {
    const auto* uid = std::get_if<std::uint64_t>(&gpu);
    const auto index = uid != nullptr ? find_uid(*uid) : find_place(std::get<GpuPlace>(gpu));
    if (index) found.members.push_back({shape().place_of_gpu(*index), uid_of(*index)});
  }
  std::ranges::sort(found.members);
  const auto twice = std::ranges::unique(found.members);
  found.members.erase(twice.begin(), twice.end());
  return found;
}

/// GPUs that are to enter a partition; `target` 0: one that is yet to be made.
ReturnCode Domain::check_gpus(const std::vector<GpuRef>& gpus, std::uint32_t target,
                              bool add) const {
  ReturnCode bound = ReturnCode::kSuccess;
  for (const GpuRef& gpu : gpus) {
    const auto* uid = std::get_if<std::uint64_t>(&gpu);
    const auto index = uid != nullptr ? find_uid(*uid) : find_place(std::get<GpuPlace>(gpu));
    if (!index) return personality().unknown_gpu;
    if (physical_.gpus[*index].registering) return ReturnCode::kResourceNotReady;
    if (add &&
        physical_.gpu_health(shape(), *index, personality().strict_links) == GpuHealth::kNoNvlink) {
      return ReturnCode::kNvlinkError;
    }
    const std::uint32_t owner = table_.owner(uid_of(*index));
    if (owner != 0 && owner == target) {
      if (personality().codes_1_3) bound = ReturnCode::kUsedInThisPartition;
    } else if (owner != 0) {
      return personality().codes_1_3 ? ReturnCode::kUsedInAnotherPartition
                                     : ReturnCode::kResourceInUse;
    } else if (bound_until_.contains(uid_of(*index))) {
      return ReturnCode::kResourceInUse;
    }
  }
  return bound;
}

ReturnCode Domain::check(const CreatePartition& request) const {
  const std::string name = fitted_name(request.name);
  if (request.name.size() > kNameBytesMax || !is_ascii(request.name)) return ReturnCode::kBadParam;
  if (request.name == "Default Partition" && request.id != kDefaultPartitionId)
    return ReturnCode::kBadParam;
  if (request.id > kPartitionIdMax) return ReturnCode::kBadParam;
  if (mixed_kinds(request.gpus)) return ReturnCode::kBadParam;
  const bool unchecked = faults_.holds(FaultKind::kBadLimit) != nullptr;
  if ((request.groups % 4 != 0 && !unchecked) || request.groups > kGroupsMax)
    return ReturnCode::kBadParam;
  if (request.mode > ResiliencyMode::kUserActionRequired) return ReturnCode::kBadParam;

  const Partition* by_id = request.id == 0 ? nullptr : table_.find(request.id);
  const Partition* by_name = name.empty() ? nullptr : table_.find_name(name);
  if (by_id != nullptr && by_id == by_name && same_gpus(*by_id, resolve(request.gpus).members)) {
    return ReturnCode::kPartitionExists;
  }
  if (by_name != nullptr) return ReturnCode::kPartitionNameInUse;
  if (by_id != nullptr) return ReturnCode::kPartitionIdInUse;
  if (const ReturnCode code = check_gpus(request.gpus, 0, true); code != ReturnCode::kSuccess)
    return code;
  if (request.groups > groups_left()) return ReturnCode::kResourceExhausted;
  if (request.id == 0 && table_.next_id(id_allocation()) == 0)
    return ReturnCode::kResourceExhausted;
  if (personality().codes_1_3 && !physical_.switches_complete())
    return ReturnCode::kMissingSwitches;
  return ReturnCode::kSuccess;
}

ReturnCode Domain::check(const DeletePartition& request) const {
  const auto [code, partition] = target(request.id, request.name);
  const bool forgiven = code == ReturnCode::kPartitionIdNotInUse && !personality().strict;
  return forgiven ? ReturnCode::kSuccess : code;
}

ReturnCode Domain::check(const UpdatePartition& request) const {
  const auto [code, partition] = target(request.id, request.name);
  if (code != ReturnCode::kSuccess) return code;
  if (mixed_kinds(request.gpus)) return ReturnCode::kBadParam;
  const PartitionKind kind = kind_of(request.gpus);
  if (partition->id != kDefaultPartitionId && partition->kind != PartitionKind::kUndefined &&
      kind != PartitionKind::kUndefined && partition->kind != kind) {
    return ReturnCode::kBadParam;
  }
  if (request.add) return check_gpus(request.gpus, partition->id, true);
  for (const GpuRef& gpu : request.gpus) {
    const auto* uid = std::get_if<std::uint64_t>(&gpu);
    const bool member = std::ranges::any_of(partition->members, [&](const Member& m) {
      return uid != nullptr ? m.uid == *uid : m.place == std::get<GpuPlace>(gpu);
    });
    if (member) continue;  // also when the GPU is not there at present
    const bool known = uid != nullptr ? find_uid(*uid).has_value()
                                      : find_place(std::get<GpuPlace>(gpu)).has_value();
    if (!known) return personality().unknown_gpu;
    if (personality().strict) return ReturnCode::kResourceNotInUse;
  }
  return ReturnCode::kSuccess;
}

IdAllocation Domain::id_allocation() const {
  return faults_.holds(FaultKind::kIdReuse) != nullptr ? IdAllocation::kReuseLowest
                                                       : personality().ids;
}

ChangeResult Domain::apply(const CreatePartition& request, Time /*now*/) {
  Resolved found = resolve(request.gpus);
  Partition partition;
  partition.id = request.id != 0 ? request.id : table_.next_id(id_allocation());
  partition.name = fitted_name(request.name);
  if (partition.name.empty() && partition.id == kDefaultPartitionId)
    partition.name = personality().default_name;
  for (unsigned n = 0; partition.name.empty() || table_.find_name(partition.name) != nullptr; ++n) {
    partition.name = n == 0 ? fmt::format("partition-{}", partition.id)
                            : fmt::format("partition-{}-{}", partition.id, n);
  }
  partition.kind = found.kind;
  partition.members = std::move(found.members);
  partition.mode = request.mode;
  partition.groups = request.groups;
  const std::uint32_t id = partition.id;
  table_.add(std::move(partition));
  drivers_follow();
  emit(Event::Kind::kPartition, id);
  return {ReturnCode::kSuccess, id};
}

void Domain::hold_bound(std::uint64_t uid, Time now) {
  const Fault* fault = faults_.holds(FaultKind::kStillBound);
  const Nanos delay = fault != nullptr ? fault->delay_or_default() : personality().still_bound;
  if (delay.count() != 0) bound_until_[uid] = now + delay;
}

void Domain::drop_partition(std::uint32_t id, Time now) {
  const Partition* partition = table_.find(id);
  if (partition == nullptr) return;
  for (const Member& member : partition->members) hold_bound(member.uid, now);
  const Fault* fault = faults_.holds(FaultKind::kStillListed);
  const Nanos delay = fault != nullptr ? fault->delay_or_default() : personality().still_listed;
  if (delay.count() != 0) {
    constexpr std::size_t kLingeringMax = 1024;
    if (lingering_.size() >= kLingeringMax) lingering_.erase(lingering_.begin());
    lingering_.emplace_back(*partition, now + delay);
  }
  hidden_until_.erase(id);
  table_.remove(id);
}

ChangeResult Domain::apply(const DeletePartition& request, Time now) {
  const Partition* partition = target(request.id, request.name).second;
  const std::uint32_t id = partition == nullptr ? request.id : partition->id;
  if (partition == nullptr) return {ReturnCode::kSuccess, id};
  drop_partition(id, now);
  drivers_follow();
  emit(Event::Kind::kPartition, id);
  return {ReturnCode::kSuccess, id};
}

ChangeResult Domain::apply(const UpdatePartition& request, Time now) {
  const Partition* partition = target(request.id, request.name).second;
  if (partition == nullptr) return {ReturnCode::kPartitionIdNotInUse, 0};
  const std::uint32_t id = partition->id;
  if (request.add) {
    const Resolved found = resolve(request.gpus);
    table_.add_members(id, found.kind, found.members);
  } else {
    std::vector<std::uint64_t> gone;
    for (const Member& member : partition->members) {
      const bool named = std::ranges::any_of(request.gpus, [&](const GpuRef& gpu) {
        const auto* uid = std::get_if<std::uint64_t>(&gpu);
        return uid != nullptr ? *uid == member.uid : std::get<GpuPlace>(gpu) == member.place;
      });
      if (named) gone.push_back(member.uid);
    }
    for (const std::uint64_t uid : gone) hold_bound(uid, now);
    table_.remove_members(id, gone);
  }
  drivers_follow();
  emit(Event::Kind::kPartition, id);
  return {ReturnCode::kSuccess, id};
}

ChangeResult Domain::apply_change(const Change& change, Time now) {
  return std::visit(
      [&](const auto& request) -> ChangeResult {
        const ReturnCode code = check(request);
        return code == ReturnCode::kSuccess ? apply(request, now) : ChangeResult{code, 0};
      },
      change);
}

ChangeResult Domain::change(const Change& change, Time now) {
  advance(now);
  const ReturnCode verdict =
      std::visit([&](const auto& request) { return check(request); }, change);
  if (verdict != ReturnCode::kSuccess) return {verdict, 0};
  const CallFacts call = facts(change);
  if (faults_.befalls(FaultKind::kSuccessNotApplied, call, now, random_)) {
    return {ReturnCode::kSuccess,
            call.partition != 0 ? call.partition : table_.next_id(id_allocation())};
  }
  if (const auto late = faults_.befalls(FaultKind::kLateApply, call, now, random_)) {
    late_.push_back({now + late->delay_or_default(), change});
    return {ReturnCode::kTimeout, 0};
  }
  if (const auto partial = faults_.befalls(FaultKind::kPartialApply, call, now, random_)) {
    Change half = change;
    halve(half);
    const ChangeResult done = apply_change(half, now);
    if (partial->text == "success") return done;
    return {ReturnCode::kGenericError, 0};
  }
  const ChangeResult result = apply_change(change, now);
  if (const auto lie = faults_.befalls(FaultKind::kErrorButApplied, call, now, random_)) {
    const auto fallback = static_cast<std::uint32_t>(ReturnCode::kGenericError);
    return {static_cast<ReturnCode>(lie->number.value_or(fallback)), 0};
  }
  if (std::holds_alternative<CreatePartition>(change)) {
    if (const auto hidden = faults_.befalls(FaultKind::kAppliedButHidden, call, now, random_)) {
      hidden_until_[result.partition] = now + hidden->delay_or_default();
    }
  }
  return result;
}

void Domain::make_default_partition() {
  if (table_.find(kDefaultPartitionId) != nullptr) return;
  Partition partition{.id = kDefaultPartitionId,
                      .name = personality().default_name,
                      .kind = PartitionKind::kByUid,
                      .members = {},
                      .mode = ResiliencyMode::kDefault,
                      .groups = table_.groups_left()};
  for (unsigned gpu = 0; gpu < shape().gpu_count(); ++gpu) {
    if (table_.owner(uid_of(gpu)) == 0)
      partition.members.push_back({shape().place_of_gpu(gpu), uid_of(gpu)});
  }
  table_.add(std::move(partition));
}

std::vector<const Partition*> Domain::partitions() const {
  std::vector<const Partition*> listed;
  for (const auto& [id, partition] : table_.all()) {
    if (!hidden_until_.contains(id)) listed.push_back(&partition);
  }
  for (const auto& [partition, until] : lingering_) {
    if (table_.find(partition.id) == nullptr) listed.push_back(&partition);
  }
  std::ranges::stable_sort(listed, {}, &Partition::id);
  const auto twice = std::ranges::unique(listed, {}, &Partition::id);
  listed.erase(twice.begin(), twice.end());
  return listed;
}

PartitionHealth Domain::partition_health(const Partition& partition) const {
  if (starting_until_) return PartitionHealth::kUnknown;
  if (partition.members.empty()) return PartitionHealth::kHealthy;
  if (!physical_.switches_complete()) return PartitionHealth::kUnhealthy;
  bool parked = false, missing = false;
  std::set<std::uint64_t> chassis;
  for (const Member& member : partition.members) {
    chassis.insert(member.place.location.chassis);
    const auto index = find_uid(member.uid);
    missing = missing || !index;
    if (index && physical_.gpus[*index].down != 0) parked = true;
  }
  const bool full = partition.mode == ResiliencyMode::kFullBandwidth;
  if (missing || (parked && full)) return PartitionHealth::kDegraded;
  if (chassis.size() > 1 && !physical_.trunks_complete(shape())) {
    return full ? PartitionHealth::kDegraded : PartitionHealth::kDegradedBandwidth;
  }
  return PartitionHealth::kHealthy;
}

}  // namespace imex::rack
