// From what was decided to what the store is told: interfaces, instances, machines, rows of
// partitions. Facts that are stored already are left out, so that a pass without news writes
// nothing.
#include <algorithm>
#include <map>

#include "translate.hpp"

namespace imex::partition {
namespace {

using reconciler::GpuStatus;
using reconciler::Reason;
using reconciler::Report;
using reconciler::State;

class Comparison {
 public:
  Comparison(const DesiredDomain& wanted, const Report& report, WriteBack& out)
      : wanted_(wanted), report_(report), out_(out) {
    for (const GpuStatus& gpu : report.decision.gpus) gpus_[gpu.uid] = &gpu;
    for (const auto& machine : report.decision.machines) machines_[machine.id] = &machine;
  }

  void run() {
    for (const DesiredMachine& machine : wanted_.machines) {
      for (const DesiredGpu& gpu : machine.gpus) compare_gpu(machine, gpu);
      if (machine.instance) {
        compare_instance(machine);
      } else {
        compare_machine(machine);
      }
    }
    compare_rows();
    clear_errors();
  }

 private:
  [[nodiscard]] const GpuStatus* status_of(const DesiredGpu& gpu) const {
    const auto at = gpus_.find(gpu.uid);
    return at == gpus_.end() ? nullptr : at->second;
  }

  void compare_gpu(const DesiredMachine& machine, const DesiredGpu& gpu) {
    const GpuStatus* seen = status_of(gpu);
    if (seen == nullptr) return;
    const bool settled = seen->state == State::kReady || seen->state == State::kIdle;
    const bool left = settled || seen->reason == Reason::kNotInPartition;
    for (const InterfaceId& leaving : gpu.leaving) {
      // With the instance's own end its interfaces go together with it.
      if (left && machine.instance_status != Status::kTerminating) {
        out_.interfaces.push_back({.id = leaving, .gone = true});
      }
    }
    if (!gpu.interface) return;
    InterfaceStatus status{.id = *gpu.interface};
    status.status = seen->state == State::kReady ? Status::kReady : Status::kPending;
    if (seen->state == State::kReady) {
      status.domain = wanted_.domain.id;
      status.gpu_uid = gpu.uid;
    }
    if (status.status == gpu.interface_status) return;
    out_.interfaces.push_back(std::move(status));
  }

  void compare_instance(const DesiredMachine& machine) {
    InstanceStatus status{.id = *machine.instance, .version = machine.instance_version};
    if (machine.instance_status == Status::kTerminating) {
      const auto at = machines_.find(machine.id.text);
      if (at == machines_.end() || !at->second->clear ||
          at->second->epoch != machine.instance_version) {
        return;
      }
      status.gone = true;
      out_.instances.push_back(std::move(status));
      return;
    }
    Reason reason = Reason::kNone;
    for (const DesiredGpu& gpu : machine.gpus) {
      const GpuStatus* seen = status_of(gpu);
      const bool settled =
          seen != nullptr && (seen->state == State::kReady || seen->state == State::kIdle);
      if (!settled) reason = seen == nullptr ? Reason::kGpuMissing : seen->reason;
    }
    if (reason == Reason::kNone) {
      status.status = Status::kReady;
    } else {
      status.status = machine.instance_provisioned ? Status::kConfiguring : Status::kProvisioning;
      status.message = reconciler::explain(reason);
    }
    if (status.status != machine.instance_status) out_.instances.push_back(std::move(status));
  }

  void compare_machine(const DesiredMachine& machine) {
    const auto at = machines_.find(machine.id.text);
    if (at == machines_.end()) return;
    MachineStatus status{.id = machine.id};
    if (at->second->clear) {
      if (machine.status == Status::kReady || machine.status == Status::kMaintenance) return;
      status.status = Status::kReady;
      status.message = "seen outside all tenants' partitions";
    } else {
      // What was offered is withdrawn, unless it was only not seen twice since the start.
      if (machine.status != Status::kReady || at->second->reason == Reason::kSeenOnce) return;
      status.status = Status::kReset;
      status.message = reconciler::explain(at->second->reason);
    }
    out_.machines.push_back(std::move(status));
  }

  /// Rows of partitions, both ways: what the manager has no more, and what it has without a row.
  void compare_rows() {
    std::map<std::uint32_t, const reconciler::PartitionStatus*> seen;
    for (const auto& status : report_.decision.partitions) {
      if (status.partition_id != 0) seen[status.partition_id] = &status;
    }
    for (const PhysicalPartition& row : wanted_.physical) {
      const auto at = seen.find(row.fabric_id);
      const bool same = at != seen.end() && at->second->logical_partition == row.partition.uuid;
      if (!same) {
        out_.lost.push_back(row.fabric_id);
      } else if (at->second->name == row.name) {
        seen.erase(at);
      }
    }
    for (const auto& [id, status] : seen) {
      if (status->state == State::kUnknown) continue;
      PhysicalPartition row;
      row.fabric_id = id;
      row.partition = {status->logical_partition};
      row.name = status->name;
      row.multicast_groups = status->multicast_groups;
      for (const GpuStatus& gpu : report_.decision.gpus) {
        if (gpu.partition_id == id) row.gpu_uids.push_back(gpu.uid);
      }
      out_.adopted.push_back(std::move(row));
    }
  }

  /// What converged has no last error any more.
  void clear_errors() {
    for (const LogicalPartition& partition : wanted_.partitions) {
      if (!partition.last_error || partition.status == Status::kDeleting) continue;
      for (const auto& status : report_.decision.partitions) {
        if (status.logical_partition == partition.id.uuid && status.state == State::kReady) {
          out_.partitions.push_back({.id = partition.id, .status = Status::kReady});
        }
      }
    }
  }

  const DesiredDomain& wanted_;
  const Report& report_;
  WriteBack& out_;
  std::map<std::uint64_t, const GpuStatus*> gpus_;
  std::map<std::string, const reconciler::MachineStatus*> machines_;
};

}  // namespace

WriteBack write_back_of(const DesiredDomain& wanted, const Report& report, WallTime at) {
  WriteBack out;
  out.domain = wanted.domain.id;
  out.at = at;
  Comparison(wanted, report, out).run();
  return out;
}

DomainCounts counts_of(const DesiredDomain& wanted, const fabric::Snapshot& snapshot,
                       const Report& report) {
  DomainCounts counts;
  for (const char* health : {"healthy", "degraded_bw", "degraded", "unhealthy", "unknown"}) {
    counts.partitions[health] = 0;
  }
  for (const char* health : {"healthy", "degraded", "no_nvlink", "degraded_bw", "unknown"}) {
    counts.gpus[health] = 0;
  }
  for (const char* health : {"healthy", "degraded", "unhealthy", "unknown"})
    counts.nodes[health] = 0;
  for (const auto& partition : snapshot.partitions) {
    counts.partitions[std::string(fabric::to_text(partition.health))] += 1;
  }
  for (const auto& gpu : snapshot.gpus) counts.gpus[std::string(fabric::to_text(gpu.health))] += 1;
  for (const auto& node : snapshot.nodes)
    counts.nodes[std::string(fabric::to_text(node.health))] += 1;
  counts.logical_partitions = static_cast<double>(wanted.partitions.size());
  counts.physical_partitions = static_cast<double>(
      std::count_if(report.decision.partitions.begin(), report.decision.partitions.end(),
                    [](const auto& status) { return status.partition_id != 0; }));
  counts.machine_updates = static_cast<double>(wanted.machines.size());
  counts.drift = static_cast<double>(report.decision.drift.size());
  counts.mismatches = static_cast<double>(std::count_if(
      wanted.machines.begin(), wanted.machines.end(), [&](const DesiredMachine& machine) {
        return std::any_of(machine.gpus.begin(), machine.gpus.end(), [&](const DesiredGpu& gpu) {
          return gpu.uid != 0 && snapshot.find_gpu(gpu.uid) == nullptr;
        });
      }));
  return counts;
}

}  // namespace imex::partition
