#include "translate.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "partition/reconciler/name.hpp"

namespace imex::partition {
namespace {

/// No partition has it: a GPU listed with it agrees with nothing.
constexpr std::uint32_t kDisputed = 0xffff'ffff;

bool has_tenant(const DesiredMachine& machine) {
  return machine.instance && machine.instance_status != Status::kTerminating;
}

/// Who uses the machine: the tenant of the partitions that its GPUs are wanted in. An instance that
/// wants none stands for itself, so that its GPUs are nobody else's.
Uuid holder_of(const DesiredMachine& machine,
               const std::map<LogicalPartitionId, const LogicalPartition*>& partitions) {
  if (!has_tenant(machine)) return {};
  for (const DesiredGpu& gpu : machine.gpus) {
    if (!gpu.partition) continue;
    const auto at = partitions.find(*gpu.partition);
    if (at != partitions.end()) return at->second->tenant.uuid;
  }
  return machine.instance->uuid;
}

bool was_clear(const DesiredMachine& machine) {
  return machine.instance ||
         (machine.status != Status::kInitializing && machine.status != Status::kUnknown);
}

Health health_of(fabric::GpuHealth health) {
  switch (health) {
    case fabric::GpuHealth::kHealthy:
      return Health::kHealthy;
    case fabric::GpuHealth::kDegraded:
      return Health::kDegraded;
    case fabric::GpuHealth::kNoNvlink:
      return Health::kNoNvlink;
    case fabric::GpuHealth::kDegradedBandwidth:
      return Health::kDegradedBandwidth;
    case fabric::GpuHealth::kUnknown:
      break;
  }
  return Health::kUnknown;
}

Health health_of(fabric::PartitionHealth health) {
  switch (health) {
    case fabric::PartitionHealth::kHealthy:
      return Health::kHealthy;
    case fabric::PartitionHealth::kDegraded:
      return Health::kDegraded;
    case fabric::PartitionHealth::kDegradedBandwidth:
      return Health::kDegradedBandwidth;
    case fabric::PartitionHealth::kUnhealthy:
      return Health::kUnhealthy;
    case fabric::PartitionHealth::kUnknown:
    case fabric::PartitionHealth::kNew:
      break;
  }
  return Health::kUnknown;
}

std::uint32_t narrow(std::uint64_t number) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(number, 0xffff'ffffU));
}

OperationKind kind_of(reconciler::OperationKind kind) {
  switch (kind) {
    case reconciler::OperationKind::kCreate:
      return OperationKind::kCreatePartition;
    case reconciler::OperationKind::kAdd:
      return OperationKind::kAddGpus;
    case reconciler::OperationKind::kRemove:
      return OperationKind::kRemoveGpus;
    case reconciler::OperationKind::kDelete:
      return OperationKind::kDeletePartition;
    case reconciler::OperationKind::kDeleteDefault:
      return OperationKind::kDeleteDefaultPartition;
  }
  return OperationKind::kRemoveGpus;
}

reconciler::OperationKind kind_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::kCreatePartition:
      return reconciler::OperationKind::kCreate;
    case OperationKind::kAddGpus:
      return reconciler::OperationKind::kAdd;
    case OperationKind::kRemoveGpus:
      return reconciler::OperationKind::kRemove;
    case OperationKind::kDeletePartition:
      return reconciler::OperationKind::kDelete;
    case OperationKind::kDeleteDefaultPartition:
      return reconciler::OperationKind::kDeleteDefault;
  }
  return reconciler::OperationKind::kRemove;
}

/// A logical partition that is on its way out, with what is left of its tenant.
void retire(reconciler::Desired& desired, const Uuid& partition, const Uuid& tenant) {
  const auto same = [&](const auto& other) { return other.logical_partition == partition; };
  if (std::any_of(desired.partitions.begin(), desired.partitions.end(), same)) return;
  if (std::any_of(desired.retired.begin(), desired.retired.end(), same)) return;
  desired.retired.push_back({partition, tenant});
}

}  // namespace

reconciler::Desired desired_of(const DesiredDomain& wanted, const ControllerSettings& settings) {
  reconciler::Desired desired;
  desired.domain = wanted.domain.id.uuid;
  desired.revision = wanted.change;
  desired.mark = settings.mark;
  desired.default_partition = settings.default_partition;
  desired.stolen_gpus = settings.stolen_gpus;

  std::map<LogicalPartitionId, const LogicalPartition*> by_id;
  std::map<LogicalPartitionId, std::size_t> place;
  for (const LogicalPartition& partition : wanted.partitions) {
    by_id[partition.id] = &partition;
    if (partition.status == Status::kDeleting) continue;
    place[partition.id] = desired.partitions.size();
    desired.partitions.push_back(
        {.logical_partition = partition.id.uuid,
         .tenant = partition.tenant.uuid,
         .multicast_groups = partition.multicast_groups,
         .resiliency_mode = static_cast<std::uint32_t>(partition.resiliency)});
  }
  for (const LogicalPartition& partition : wanted.partitions) {
    if (partition.status == Status::kDeleting) {
      retire(desired, partition.id.uuid, partition.tenant.uuid);
    }
  }
  // The row may go while an operation for it has no answer: what shows late is still ours.
  for (const OperationRecord& record : wanted.unfinished) {
    if (record.partition && record.tenant) {
      retire(desired, record.partition->uuid, record.tenant->uuid);
    }
  }
  for (const PhysicalPartition& row : wanted.physical) {
    desired.owned.push_back({row.partition.uuid, row.fabric_id, row.name});
  }
  for (const DesiredMachine& machine : wanted.machines) {
    reconciler::Machine& out = desired.machines.emplace_back();
    out.id = machine.id.text;
    out.epoch = machine.instance ? machine.instance_version : 0;
    out.holder = holder_of(machine, by_id);
    out.was_clear = was_clear(machine);
    for (const DesiredGpu& gpu : machine.gpus) {
      if (gpu.uid == 0) continue;  // the tray has fewer GPUs than the instance asked for
      out.gpus.push_back(gpu.uid);
      if (!has_tenant(machine) || !gpu.partition) continue;
      const auto at = place.find(*gpu.partition);
      if (at != place.end()) desired.partitions[at->second].members.push_back(gpu.uid);
    }
  }
  return desired;
}

reconciler::Observed observed_of(const fabric::Snapshot& snapshot, Time begun) {
  reconciler::Observed observed;
  observed.domain = snapshot.domain_uuid;
  observed.begun = begun;
  observed.multicast_groups_free = snapshot.multicast_groups_free;
  for (const fabric::ObservedPartition& partition : snapshot.partitions) {
    observed.partitions.push_back(
        {.id = partition.id,
         .name = partition.name,
         .members = partition.gpu_uids,
         .health = static_cast<std::uint32_t>(partition.health),
         .multicast_groups = partition.multicast_groups_limit.value_or(0)});
  }
  for (const fabric::ObservedGpu& gpu : snapshot.gpus) {
    const bool disputed = std::find(snapshot.disputed.begin(), snapshot.disputed.end(), gpu.uid) !=
                          snapshot.disputed.end();
    observed.gpus.push_back({.uid = gpu.uid,
                             .partition_id = disputed ? kDisputed : gpu.partition_id.value_or(0),
                             .health = static_cast<std::uint32_t>(gpu.health)});
  }
  return observed;
}

DomainObservation observation_of(const fabric::Snapshot& snapshot, const DomainObservation& former,
                                 WallTime at) {
  DomainObservation out;
  out.domain = {snapshot.domain_uuid};
  out.at = at;
  out.manager = snapshot.instance;
  out.manager_version = former.manager_version;
  out.control_plane = std::string(fabric::to_text(snapshot.control_plane));
  out.limits = former.limits;
  out.limits.multicast_groups_free = snapshot.multicast_groups_free.value_or(0);
  for (const fabric::ObservedPartition& partition : snapshot.partitions) {
    out.partitions.push_back({partition.id, partition.name, partition.gpu_uids,
                              health_of(partition.health),
                              partition.multicast_groups_limit.value_or(0)});
  }
  for (const fabric::ObservedGpu& gpu : snapshot.gpus) {
    out.gpus.push_back({.uid = gpu.uid,
                        .chassis_serial = gpu.place.chassis_serial,
                        .tray_index = narrow(gpu.place.tray_index),
                        .slot_id = narrow(gpu.place.slot_id),
                        .host_id = narrow(gpu.place.host_id),
                        .device_instance = gpu.module_id == 0 ? 0 : gpu.module_id - 1,
                        .health = health_of(gpu.health),
                        .fabric_partition = gpu.partition_id.value_or(0)});
  }
  return out;
}

OperationRecord record_of(const Uuid& domain, const reconciler::Operation& operation,
                          const std::string& key) {
  OperationRecord record;
  record.idempotency_key = key;
  record.domain = {domain};
  record.kind = kind_of(operation.kind);
  if (!operation.logical_partition.is_nil()) {
    record.partition = LogicalPartitionId{operation.logical_partition};
  }
  record.fabric_id = operation.partition_id;
  record.gpu_uids = operation.gpus;
  record.detail = reconciler::describe(operation);
  return record;
}

reconciler::Operation operation_of(const OperationRecord& record,
                                   const ControllerSettings& settings) {
  reconciler::Operation operation;
  operation.kind = kind_of(record.kind);
  operation.partition_id = record.fabric_id;
  operation.gpus = record.gpu_uids;
  std::sort(operation.gpus.begin(), operation.gpus.end());
  if (record.partition) {
    operation.logical_partition = record.partition->uuid;
    operation.name = reconciler::partition_name(settings.mark, record.partition->uuid);
  }
  return operation;
}

reconciler::Outcome outcome_of(const fabric::Failure& failure) {
  reconciler::Outcome outcome;
  outcome.text = failure.error.to_string();
  if (failure.effect != fabric::Effect::kNone) return outcome;  // in doubt
  outcome.verdict = reconciler::Verdict::kRefused;
  outcome.refusal = reconciler::Refusal::kOther;
  if (failure.code == fabric::NmxCode::kUndefined) return outcome;
  switch (fabric::nmx_code_info(failure.code).sense) {
    case fabric::NmxSense::kDone:
    case fabric::NmxSense::kAlreadySo:
      outcome.verdict = reconciler::Verdict::kDone;
      break;
    case fabric::NmxSense::kConflict:
      outcome.refusal = failure.code == fabric::NmxCode::kPartitionIdNameMismatch
                            ? reconciler::Refusal::kNoSuchPartition
                            : reconciler::Refusal::kInUse;
      break;
    case fabric::NmxSense::kGone:
      outcome.refusal = reconciler::Refusal::kNoSuchPartition;
      break;
    case fabric::NmxSense::kExhausted:
      outcome.refusal = reconciler::Refusal::kExhausted;
      break;
    case fabric::NmxSense::kNotReady:
      outcome.refusal = reconciler::Refusal::kNotReady;
      break;
    case fabric::NmxSense::kBadRequest:
    case fabric::NmxSense::kNoSession:
    case fabric::NmxSense::kFabric:
    case fabric::NmxSense::kController:
      break;
  }
  return outcome;
}

}  // namespace imex::partition
