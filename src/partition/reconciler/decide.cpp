#include "partition/reconciler/decide.hpp"

#include <algorithm>

#include "model.hpp"

namespace imex::partition::reconciler {
namespace {

/// Everything unknown, for one reason.
Decision know_nothing(const Desired& desired, Reason reason) {
  Decision decision;
  for (const WantedPartition& wanted : desired.partitions) {
    for (const GpuUid uid : wanted.members) {
      decision.gpus.push_back({.uid = uid, .wanted = wanted.logical_partition, .reason = reason});
    }
    decision.partitions.push_back(
        {.logical_partition = wanted.logical_partition, .reason = reason});
  }
  for (const RetiredPartition& retired : desired.retired) {
    decision.partitions.push_back(
        {.logical_partition = retired.logical_partition, .reason = reason});
  }
  for (const Machine& machine : desired.machines) {
    if (!machine.holder.is_nil()) continue;
    decision.machines.push_back({.id = machine.id, .epoch = machine.epoch, .reason = reason});
  }
  return decision;
}

class Judge {
 public:
  Judge(const Model& model, const Memory& memory, Time now, Decision& out)
      : model_(model), memory_(memory), now_(now), out_(out) {}

  void run() {
    for (const GpuFacts& gpu : model_.gpus()) {
      if (is_clear(gpu)) out_.seen_clear.push_back(gpu.uid);
    }
    for (const GpuFacts& gpu : model_.gpus()) judge_gpu(gpu);
    for (std::size_t i = 0; i < model_.desired().partitions.size(); ++i) judge_wanted(i);
    for (const RetiredPartition& retired : model_.desired().retired) judge_retired(retired);
    for (const Machine& machine : model_.desired().machines) judge_machine(machine);
    for (const PartitionFacts& facts : model_.partitions()) report_drift(facts);
    out_.adopted = model_.adopted();
  }

 private:
  [[nodiscard]] const PartitionFacts* place(const GpuFacts& gpu) const {
    return gpu.seen_in == kNowhere ? nullptr : &model_.partitions()[gpu.seen_in];
  }

  /// In no partition, or in one of the system's own.
  [[nodiscard]] bool is_clear(const GpuFacts& gpu) const {
    if (!gpu.listed || !gpu.agreed) return false;
    const PartitionFacts* in = place(gpu);
    if (in == nullptr) return true;
    if (in->role == Role::kDefault) {
      return model_.desired().default_partition == DefaultPartitionPolicy::kLend;
    }
    return in->role != Role::kForeign && in->tenant.is_nil();
  }

  /// Another tenant's GPU is in the partition, as far as any list says so.
  [[nodiscard]] bool has_intruder(const PartitionFacts& facts) const {
    return std::any_of(facts.seen->members.begin(), facts.seen->members.end(), [&](GpuUid uid) {
      const GpuFacts* gpu = model_.find(uid);
      return gpu != nullptr && gpu->machine != kNowhere && model_.holder(*gpu) != facts.tenant &&
             !model_.holder(*gpu).is_nil();
    });
  }

  void judge_gpu(const GpuFacts& gpu) {
    const bool of_ours = gpu.machine != kNowhere || gpu.wanted != kNowhere;
    if (!of_ours) return;
    GpuStatus status{.uid = gpu.uid, .health = gpu.health};
    const PartitionFacts* in = place(gpu);
    if (gpu.wanted != kNowhere) {
      status.wanted = model_.desired().partitions[gpu.wanted].logical_partition;
    }
    if (in != nullptr) {
      status.seen = in->logical_partition;
      status.partition_id = in->seen->id;
    }
    std::tie(status.state, status.reason) = verdict(gpu, in);
    out_.gpus.push_back(status);
  }

  [[nodiscard]] std::pair<State, Reason> verdict(const GpuFacts& gpu,
                                                 const PartitionFacts* in) const {
    if (!gpu.listed) return {State::kUnknown, Reason::kGpuMissing};
    if (!gpu.agreed) return {State::kUnknown, Reason::kAnswersDiffer};
    if (gpu.wanted == kNowhere) {
      if (is_clear(gpu)) return {State::kIdle, Reason::kNone};
      if (in->role == Role::kDefault) return {State::kPending, Reason::kInDefaultPartition};
      if (in->role == Role::kForeign) return {State::kPending, Reason::kInForeignPartition};
      return {State::kPending, Reason::kLeaving};
    }
    if (!gpu.entitled) return {State::kPending, Reason::kMachineNotTenants};
    if (in == nullptr) return {State::kPending, Reason::kNotInPartition};
    if (in->role == Role::kDefault) return {State::kPending, Reason::kInDefaultPartition};
    if (in->role == Role::kForeign) return {State::kPending, Reason::kInForeignPartition};
    if (in->role != Role::kOurs || in->wanted != gpu.wanted) {
      return {State::kPending, Reason::kInOtherPartition};
    }
    if (has_intruder(*in)) return {State::kPending, Reason::kIntruder};
    return {State::kReady, Reason::kNone};
  }

  void describe(const PartitionFacts& facts, PartitionStatus& status) const {
    status.partition_id = facts.seen->id;
    status.name = facts.seen->name;
    status.members = static_cast<std::uint32_t>(facts.seen->members.size());
    status.health = facts.seen->health;
    status.multicast_groups = facts.seen->multicast_groups;
  }

  void judge_wanted(std::size_t index) {
    const WantedPartition& wanted = model_.desired().partitions[index];
    PartitionStatus status{.logical_partition = wanted.logical_partition};
    for (const PartitionFacts& facts : model_.partitions()) {
      if (facts.role == Role::kOurs && facts.wanted == index) describe(facts, status);
    }
    status.state = State::kReady;
    status.reason = Reason::kNone;
    for (const GpuUid uid : wanted.members) {
      const GpuFacts& gpu = *model_.find(uid);
      const auto [state, reason] = verdict(gpu, place(gpu));
      if (state == State::kReady || status.state == State::kUnknown) continue;
      if (state == State::kUnknown || status.state == State::kReady) {
        status.state = state;
        status.reason = reason;
      }
    }
    const bool excess = status.members != wanted.members.size();
    if (status.state == State::kReady && excess) {
      status.state = State::kPending;
      status.reason = Reason::kLeaving;
    }
    out_.partitions.push_back(status);
  }

  void judge_retired(const RetiredPartition& retired) {
    PartitionStatus status{.logical_partition = retired.logical_partition,
                           .state = State::kIdle,
                           .reason = Reason::kNone};
    for (const PartitionFacts& facts : model_.partitions()) {
      if (facts.role != Role::kRetired || facts.logical_partition != retired.logical_partition)
        continue;
      describe(facts, status);
      status.state = State::kPending;
      status.reason = Reason::kLeaving;
    }
    out_.partitions.push_back(status);
  }

  /// An operation whose effect may still come would put the GPU into a partition.
  [[nodiscard]] bool may_yet_join(GpuUid uid) const {
    return std::any_of(memory_.traces.begin(), memory_.traces.end(), [&](const Trace& trace) {
      return trace.in_doubt && trace.until > now_ && joins(trace.operation) &&
             std::binary_search(trace.operation.gpus.begin(), trace.operation.gpus.end(), uid);
    });
  }

  [[nodiscard]] Reason why_not_clear(const Machine& machine) const {
    if (machine.gpus.empty()) return Reason::kGpuMissing;
    for (const GpuUid uid : machine.gpus) {
      const GpuFacts& gpu = *model_.find(uid);
      if (!is_clear(gpu)) {
        const Reason reason = verdict(gpu, place(gpu)).second;
        return reason == Reason::kNone ? Reason::kLeaving : reason;
      }
      if (may_yet_join(uid)) return Reason::kOperationInDoubt;
      // One answer may be late; two in a row that agree with the GPU's own are taken as true.
      if (!std::binary_search(memory_.seen_clear.begin(), memory_.seen_clear.end(), uid)) {
        return Reason::kSeenOnce;
      }
    }
    return Reason::kNone;
  }

  void judge_machine(const Machine& machine) {
    if (!machine.holder.is_nil()) return;
    const Reason reason = why_not_clear(machine);
    out_.machines.push_back({machine.id, machine.epoch, reason == Reason::kNone, reason});
  }

  void report_drift(const PartitionFacts& facts) {
    if (facts.role != Role::kForeign && facts.role != Role::kDefault) return;
    Drift drift{facts.seen->id, facts.seen->name, {}, facts.role == Role::kDefault};
    for (const GpuUid uid : facts.seen->members) {
      if (model_.find(uid)->machine != kNowhere) drift.members.push_back(uid);
    }
    std::sort(drift.members.begin(), drift.members.end());
    out_.drift.push_back(std::move(drift));
  }

  const Model& model_;
  const Memory& memory_;
  Time now_;
  Decision& out_;
};

}  // namespace

std::string_view to_string(State state) noexcept {
  switch (state) {
    case State::kIdle:
      return "idle";
    case State::kReady:
      return "ready";
    case State::kPending:
      return "pending";
    case State::kUnknown:
      return "unknown";
  }
  return "unknown";
}

std::string_view explain(Reason reason) noexcept {
  switch (reason) {
    case Reason::kNone:
      return "";
    case Reason::kNotObserved:
      return "the fabric manager has not been asked yet";
    case Reason::kObservationTooOld:
      return "the fabric manager was last heard longer ago than three intervals: check its "
             "endpoint";
    case Reason::kWrongDomain:
      return "the endpoint serves another NVLink domain: correct its address";
    case Reason::kGpuMissing:
      return "the fabric manager does not list the GPU: check power and links of its tray";
    case Reason::kAnswersDiffer:
      return "the fabric manager's lists of GPUs and of partitions disagree: waiting for them to "
             "agree";
    case Reason::kMachineNotTenants:
      return "the GPU's machine is not held by the tenant of the logical partition";
    case Reason::kInDefaultPartition:
      return "the GPU is in the default partition and will be taken out";
    case Reason::kInForeignPartition:
      return "the GPU is in a partition that is not ours: see the domain's drift";
    case Reason::kInOtherPartition:
      return "the GPU is in another partition and will be moved";
    case Reason::kNotInPartition:
      return "the GPU is not in the partition yet";
    case Reason::kIntruder:
      return "another tenant's GPU is in the partition and will be taken out";
    case Reason::kLeaving:
      return "GPUs are still to leave the partition";
    case Reason::kOperationInDoubt:
      return "an operation without an answer may still take effect: waiting until it no longer can";
    case Reason::kSeenOnce:
      return "seen clear once: waiting for the second look";
  }
  return "";
}

void judge(const Model& model, const Memory& memory, Time now, Decision& decision) {
  Judge(model, memory, now, decision).run();
}

Decision decide(const Desired& desired, const Observed& observed, const Memory& memory, Time now,
                Nanos interval) {
  if (observed.domain != desired.domain) return know_nothing(desired, Reason::kWrongDomain);
  if (!is_fresh(observed.begun, now, interval)) {
    return know_nothing(desired, Reason::kObservationTooOld);
  }
  const Model model(desired, observed, memory);
  Decision decision;
  judge(model, memory, now, decision);
  decision.units = plan(model);
  return decision;
}

}  // namespace imex::partition::reconciler
