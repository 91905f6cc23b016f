// What faults do to the rack and the controller.
#include <algorithm>

#include <fmt/format.h>

#include "rack/domain.hpp"

namespace imex::rack {

namespace {

/// Whether a fault's scope lies in the rack. Empty: yes; otherwise the field at fault.
std::string_view misplaced(const Topology& shape, const Fault& fault) {
  if (fault.tray && *fault.tray >= shape.tray_count()) return "tray";
  if (fault.gpu && (*fault.gpu == 0 || *fault.gpu > shape.gpus_per_tray || !fault.tray))
    return "gpu";
  if (fault.link && (*fault.link == 0 || *fault.link > shape.links_per_gpu())) return "link";
  if (fault.chip && *fault.chip >= shape.chip_count()) return "chip";
  if (fault.switch_tray && *fault.switch_tray >= shape.switch_tray_count()) return "switch_tray";
  if (fault.trunk && *fault.trunk >= shape.trunk_count()) return "trunk";
  if (fault.partition && *fault.partition > kPartitionIdMax) return "partition";
  return {};
}

/// Faults that would take the whole rack when nothing is named, and never mean that.
bool needs_scope(const Fault& fault) {
  if (fault.kind == FaultKind::kGpuSwapped) return !fault.tray;
  if (fault.kind == FaultKind::kSwitchDegraded) return !fault.chip && !fault.switch_tray;
  return false;
}

}  // namespace

Result<void> Domain::check_fault(const Fault& fault) const {
  const std::string_view name = facts_of(fault.kind).name;
  if (facts_of(fault.kind).manager) {
    return fail(Errc::kInvalidArgument,
                fmt::format("{}: a fault of the manager, not of a domain", name));
  }
  if (const std::string_view field = misplaced(shape(), fault); !field.empty()) {
    return fail(Errc::kInvalidArgument, fmt::format("{}: {}: not in this rack", name, field));
  }
  if (needs_scope(fault)) {
    return fail(Errc::kInvalidArgument,
                fmt::format("{}: say where: tray, switch_tray or chip", name));
  }
  return {};
}

Result<std::uint64_t> Domain::inject(Fault fault, Time now) {
  advance(now);
  IMEX_CHECK_OK(check_fault(fault));
  IMEX_TRY(const std::uint64_t id, faults_.add(std::move(fault)));
  ++revision_;
  advance(now);
  return id;
}

bool Domain::clear_fault(std::uint64_t id, Time now) {
  advance(now);
  const bool was_moved = faults_.holds(FaultKind::kFailover) != nullptr;
  if (!faults_.remove(id)) return false;
  if (was_moved && faults_.holds(FaultKind::kFailover) == nullptr) restart(now, Nanos(0));
  ++revision_;
  derive_physical(now);
  return true;
}

std::size_t Domain::clear_faults(std::optional<FaultKind> kind, Time now) {
  advance(now);
  const bool was_moved = faults_.holds(FaultKind::kFailover) != nullptr;
  const std::size_t count = kind ? faults_.remove_if_kind(*kind) : faults_.remove_all();
  if (was_moved && faults_.holds(FaultKind::kFailover) == nullptr) restart(now, Nanos(0));
  if (!kind || *kind == FaultKind::kAppliedButHidden) hidden_until_.clear();
  if (!kind || *kind == FaultKind::kStillListed) lingering_.clear();
  if (!kind || *kind == FaultKind::kStillBound) bound_until_.clear();
  ++revision_;
  derive_physical(now);
  return count;
}

std::optional<Fault> Domain::befalls(FaultKind kind, const CallFacts& call, Time now) {
  return faults_.befalls(kind, call, now, random_);
}

void Domain::derive_physical(Time now) {
  Physical derived(shape());
  for (const auto& [id, fault] : faults_.all()) {
    if (!fault.begun) continue;
    if (fault.kind == FaultKind::kLinkFlap) {
      const auto phase = (now - fault.starts) / half_flap(fault);
      const bool flaps = !fault.count || phase < 2 * std::int64_t{*fault.count};
      if (!flaps || phase % 2 != 0) continue;
    }
    derived.apply(shape(), fault);
  }
  for (const unsigned key : cages_down_) {
    for (unsigned trunk = 0; trunk < shape().trunk_count(); ++trunk) {
      const unsigned chip = trunk / shape().trunks_per_chip;
      const unsigned tray = shape().tray_of_chip(chip);
      const bool here = key / 64 % shape().switch_trays == tray;  // either end of the cable
      if (here && cage_of_trunk(trunk) == key % 64) derived.trunks[trunk] = false;
    }
  }
  if (derived == physical_) return;
  const bool complete = physical_.switches_complete();
  physical_ = std::move(derived);
  drivers_follow();
  emit(Event::Kind::kTopology);
  emit(Event::Kind::kHealth);
  if (physical_.switches_complete() != complete) emit(Event::Kind::kControlPlane);
}

void Domain::happen(const Fault& event, Time now) {
  switch (event.kind) {
    case FaultKind::kGpuSwapped:
      swap_tray(*event.tray);
      break;
    case FaultKind::kTrayPartitionLost:
    case FaultKind::kNoPartition:
      lose_partitions(event);
      break;
    case FaultKind::kAmnesia: {
      table_.clear();
      lingering_.clear();
      hidden_until_.clear();
      if (event.text != "nothing-left" && personality().default_partition) make_default_partition();
      restart(now, event.delay);
      break;
    }
    case FaultKind::kEmptyPartition:
      invent_partition(event, true);
      break;
    case FaultKind::kForeignPartition:
      invent_partition(event, false);
      break;
    case FaultKind::kControllerRestart:
    case FaultKind::kControllerBlip:
      restart(now, event.delay_or_default());
      break;
    default:
      return;
  }
  drivers_follow();
  ++revision_;
}

void Domain::swap_tray(unsigned tray) {
  for (unsigned i = 0; i < shape().gpus_per_tray; ++i) {
    const std::uint64_t old = uid_of(tray * shape().gpus_per_tray + i);
    uids_.erase(old);
    cliques_.erase(old);
  }
  ++generations_[tray];
  for (unsigned i = 0; i < shape().gpus_per_tray; ++i) {
    const unsigned gpu = tray * shape().gpus_per_tray + i;
    uids_.emplace(uid_of(gpu), gpu);
  }
  emit(Event::Kind::kTopology);
}

/// tray-partition-lost drops whole partitions: the one named, or all that have a GPU of the tray.
/// no-partition takes only the GPUs named out of theirs.
void Domain::lose_partitions(const Fault& event) {
  const auto named = [&](const Member& member) {
    const auto index = uids_.find(member.uid);
    if (event.tray && (index == uids_.end() || shape().tray_of_gpu(index->second) != *event.tray))
      return false;
    return !event.gpu || *event.gpu == member.place.module;
  };
  std::vector<std::uint32_t> lost;
  std::vector<std::pair<std::uint32_t, std::vector<std::uint64_t>>> leaving;
  for (const auto& [id, partition] : table_.all()) {
    if (event.partition && *event.partition != id) continue;
    if (!event.partition && !event.tray && id == kDefaultPartitionId) continue;
    if (event.tray && std::ranges::none_of(partition.members, named)) continue;
    lost.push_back(id);
    std::vector<std::uint64_t> uids;
    for (const Member& member : partition.members) {
      if (named(member)) uids.push_back(member.uid);
    }
    leaving.emplace_back(id, std::move(uids));
  }
  if (event.kind == FaultKind::kTrayPartitionLost) {
    for (const std::uint32_t id : lost) table_.remove(id);
  } else {
    for (const auto& [id, uids] : leaving) table_.remove_members(id, uids);
  }
  for (const std::uint32_t id : lost) emit(Event::Kind::kPartition, id);
}

/// A partition that no client of ours made: empty, or with the free GPUs that the fault names.
void Domain::invent_partition(const Fault& event, bool empty) {
  CreatePartition request;
  request.name = event.text;
  request.id = event.partition.value_or(0);
  for (unsigned gpu = 0; !empty && gpu < shape().gpu_count(); ++gpu) {
    if (event.tray && shape().tray_of_gpu(gpu) != *event.tray) continue;
    if (event.gpu && shape().module_of_gpu(gpu) != *event.gpu) continue;
    const std::uint64_t uid = uid_of(gpu);
    if (const std::uint32_t owner = table_.owner(uid); owner != 0) {
      if (owner != kDefaultPartitionId || !event.tray)
        continue;  // whoever made it took them out first
      table_.remove_members(owner, {uid});
    }
    request.gpus.emplace_back(uid);
  }
  if (check(request) == ReturnCode::kSuccess) static_cast<void>(apply(request, now_));
}

}  // namespace imex::rack
