#include "partition_store.hpp"

#include <algorithm>

namespace imex::partition_sim {

using partition::reconciler::Desired;
using partition::reconciler::JournalEntry;
using partition::reconciler::JournalState;
using partition::reconciler::Reason;
using partition::reconciler::Report;
using partition::reconciler::State;

namespace {

Uuid numbered(std::uint8_t kind, std::uint64_t number) {
  Uuid id;
  id.bytes[0] = std::byte{kind};
  for (std::size_t i = 0; i < 8; ++i) id.bytes[15 - i] = std::byte(number >> (8 * i) & 0xffU);
  return id;
}
Uuid tenant_id(std::uint8_t tenant) { return tenant == 0 ? Uuid{} : numbered(0x7e, tenant); }

}  // namespace

Store::Store(const Uuid& domain, std::size_t machines, std::size_t gpus_per_machine,
             std::int64_t interval_ns)
    : domain_(domain), interval_ns_(interval_ns) {
  for (std::size_t m = 1; m <= machines; ++m) {
    Machine machine;
    machine.id = "machine-" + std::to_string(m);
    for (std::size_t g = 1; g <= gpus_per_machine; ++g) machine.gpus.push_back({10 * m + g});
    machines_.push_back(std::move(machine));
  }
}

std::vector<std::uint64_t> Store::gpus() const {
  std::vector<std::uint64_t> all;
  for (const Machine& machine : machines_) {
    for (const Gpu& gpu : machine.gpus) all.push_back(gpu.uid);
  }
  return all;
}

void Store::create_partition(std::uint8_t tenant) {
  ++revision_;
  partitions_.push_back({numbered(0x19, partitions_.size() + 1), tenant});
}

bool Store::delete_partition(std::size_t index) {
  LogicalPartition& partition = partitions_[index];
  if (partition.deleted) return false;
  for (const Machine& machine : machines_) {
    for (const Gpu& gpu : machine.gpus) {
      if (gpu.wanted == index) return false;
    }
  }
  ++revision_;
  return partition.deleted = true;
}

bool Store::take(std::size_t machine, std::uint8_t tenant) {
  Machine& m = machines_[machine];
  if (!m.offered) return false;
  m.offered = false;
  m.tenant = tenant;
  m.changed = ++revision_;
  return true;
}

bool Store::give_up(std::size_t machine) {
  Machine& m = machines_[machine];
  if (m.tenant == 0 || m.releasing) return false;
  m.releasing = true;
  m.changed = ++revision_;
  for (Gpu& gpu : m.gpus) {
    gpu.wanted = kNone;
    gpu.shown = Shown::kPending;
  }
  return true;
}

bool Store::put(std::size_t machine, std::size_t gpu, std::uint64_t choice) {
  Machine& m = machines_[machine];
  if (m.tenant == 0 || m.releasing) return false;
  std::vector<std::size_t> homes{kNone};
  for (std::size_t i = 0; i < partitions_.size(); ++i) {
    if (!partitions_[i].deleted && partitions_[i].tenant == m.tenant) homes.push_back(i);
  }
  Gpu& g = m.gpus[gpu];
  const std::size_t home = homes[choice % homes.size()];
  if (g.wanted == home) return true;  // the same again changes nothing
  g.wanted = home;
  g.shown = Shown::kPending;
  m.changed = ++revision_;
  return true;
}

Desired Store::desired() const {
  Desired desired;
  desired.domain = domain_;
  desired.revision = revision_;
  desired.mark = "imex-sim";
  desired.owned = owned_;
  std::vector<std::size_t> place(partitions_.size(), kNone);
  for (std::size_t i = 0; i < partitions_.size(); ++i) {
    const LogicalPartition& partition = partitions_[i];
    if (partition.deleted) {
      desired.retired.push_back({partition.id, tenant_id(partition.tenant)});
      continue;
    }
    place[i] = desired.partitions.size();
    desired.partitions.push_back(
        {.logical_partition = partition.id, .tenant = tenant_id(partition.tenant)});
  }
  for (const Machine& machine : machines_) {
    desired.machines.push_back({machine.id,
                                machine.changed,
                                machine.releasing ? Uuid{} : tenant_id(machine.tenant),
                                {},
                                machine.known});
    for (const Gpu& gpu : machine.gpus) {
      desired.machines.back().gpus.push_back(gpu.uid);
      if (gpu.wanted != kNone) desired.partitions[place[gpu.wanted]].members.push_back(gpu.uid);
    }
  }
  return desired;
}

bool Store::journal(const JournalEntry& entry, std::int64_t now_ns) {
  if (entry.state == JournalState::kStarted && joins(entry.operation)) {
    for (const LogicalPartition& partition : partitions_) {
      if (partition.id == entry.operation.logical_partition && partition.deleted) return false;
    }
  }
  if (entry.state == JournalState::kStarted) {
    journal_.push_back({entry, now_ns});
    return true;
  }
  const auto last = std::find_if(journal_.rbegin(), journal_.rend(),
                                 [&](const Line& line) { return line.entry.key == entry.key; });
  if (last != journal_.rend()) *last = {entry, now_ns};
  return true;
}

std::vector<partition::reconciler::Operation> Store::in_doubt(std::int64_t now_ns,
                                                              std::int64_t window_ns) const {
  std::vector<partition::reconciler::Operation> operations;
  for (const Line& line : journal_) {
    const bool open =
        line.entry.state == JournalState::kStarted || line.entry.state == JournalState::kInDoubt;
    if (open && now_ns - line.at_ns <= window_ns) operations.push_back(line.entry.operation);
  }
  return operations;
}

void Store::report_gpu(Machine& machine, const partition::reconciler::GpuStatus& status,
                       const Report& report) {
  for (Gpu& gpu : machine.gpus) {
    // What was seen of a GPU holds for the wish that it was compared with, and for no other.
    const Uuid wanted = gpu.wanted == kNone ? Uuid{} : partitions_[gpu.wanted].id;
    if (gpu.uid != status.uid || wanted != status.wanted) continue;
    gpu.shown = status.state == State::kReady     ? Shown::kReady
                : status.state == State::kUnknown ? Shown::kUnknown
                                                  : Shown::kPending;
    gpu.observed_ns = report.at.ns;
  }
}

void Store::report(const Report& report) {
  if (!report.observed) return;
  for (const auto& status : report.decision.gpus) {
    for (Machine& machine : machines_) report_gpu(machine, status, report);
  }
  for (const auto& owned : report.decision.adopted) {
    if (std::find(owned_.begin(), owned_.end(), owned) == owned_.end()) owned_.push_back(owned);
  }
  for (const auto& status : report.decision.partitions) {
    for (LogicalPartition& partition : partitions_) {
      if (partition.id == status.logical_partition && partition.deleted) {
        partition.gone = status.state == State::kIdle;
      }
    }
  }
  for (const auto& status : report.decision.machines) {
    for (Machine& machine : machines_) {
      if (machine.id != status.id || machine.changed != status.epoch) continue;
      if (machine.tenant != 0 && !machine.releasing) continue;
      if (!status.clear) {
        // What was offered is withdrawn, unless it was only not seen twice since the last start.
        if (status.reason != Reason::kSeenOnce) machine.offered = false;
        continue;
      }
      machine.offered = true;
      machine.known = true;
      machine.releasing = false;
      machine.tenant = 0;
    }
  }
}

Answers Store::answers(std::int64_t now_ns) const {
  Answers answers;
  answers.now_ns = now_ns;
  answers.interval_ns = interval_ns_;
  for (const Machine& machine : machines_) {
    const std::string tenant =
        machine.tenant == 0 ? "" : "tenant-" + std::to_string(machine.tenant);
    MachineAnswer shown{machine.id, {}, tenant, machine.releasing, machine.offered, machine.known};
    for (const Gpu& gpu : machine.gpus) {
      shown.gpus.push_back(gpu.uid);
      if (gpu.wanted == kNone) continue;
      InterfaceAnswer interface{gpu.uid, partitions_[gpu.wanted].id.to_string(), tenant, gpu.shown,
                                gpu.observed_ns};
      // As the API does: what is old is not known.
      if (now_ns - gpu.observed_ns > 3 * interval_ns_) interface.shown = Shown::kUnknown;
      answers.interfaces.push_back(std::move(interface));
    }
    answers.machines.push_back(std::move(shown));
  }
  for (const LogicalPartition& partition : partitions_) {
    answers.partitions.push_back({partition.id.to_string(),
                                  "tenant-" + std::to_string(partition.tenant), partition.deleted,
                                  partition.gone});
  }
  return answers;
}

}  // namespace imex::partition_sim
