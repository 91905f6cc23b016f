#include "partition_checker.hpp"

#include <algorithm>
#include <set>

namespace imex::partition_sim {
namespace {

using Tenants = std::map<std::uint64_t, std::string>;

Tenants tenants_of(const Answers& answers) {
  Tenants tenants;
  for (const MachineAnswer& machine : answers.machines) {
    for (const std::uint64_t gpu : machine.gpus) tenants[gpu] = machine.tenant;
  }
  return tenants;
}

std::string tenant_of(const Tenants& tenants, std::uint64_t gpu) {
  const auto at = tenants.find(gpu);
  return at == tenants.end() ? std::string() : at->second;
}

/// The partition that the GPU is in was made for this logical partition.
bool is_in(const Truth& truth, std::uint64_t gpu, const std::string& logical_partition) {
  const std::uint32_t id = place_of(truth, gpu);
  if (id == 0) return false;
  const TruthPartition& partition = truth.at(id);
  return !partition.foreign && partition.label.find(logical_partition) != std::string::npos;
}

const Look* look_of(const Fabric& fabric, std::int64_t begun_ns) {
  for (const Look& look : fabric.looks()) {
    if (look.begun_ns == begun_ns) return &look;
  }
  return nullptr;
}

}  // namespace

// No GPU is in a partition with another tenant's GPU, nor in one that was made for another tenant,
// but for what somebody else put there.
std::string Checker::isolation(const Fabric& fabric, const Answers& answers) {
  const Tenants tenants = tenants_of(answers);
  for (const auto& [id, partition] : fabric.truth()) {
    std::string owner;
    std::set<std::string> sharing;
    for (const PartitionAnswer& made_for : answers.partitions) {
      if (partition.label.find(made_for.id) != std::string::npos) owner = made_for.tenant;
    }
    for (const auto& [gpu, member] : partition.members) {
      const std::string tenant = tenant_of(tenants, gpu);
      if (member.planted || tenant.empty()) continue;
      sharing.insert(tenant);
      if (!owner.empty() && tenant != owner) {
        return "isolation: GPU " + std::to_string(gpu) + " of " + tenant +
               " is in a partition of " + owner;
      }
    }
    if (sharing.size() > 1) {
      return "isolation: partition " + std::to_string(id) + " is shared by tenants " +
             *sharing.begin() + " and " + *sharing.rbegin();
    }
  }
  return {};
}

std::string Checker::readiness(const Fabric& fabric, const Answers& answers) {
  for (const InterfaceAnswer& interface : answers.interfaces) {
    if (interface.shown != Shown::kReady) continue;
    const std::string gpu = "GPU " + std::to_string(interface.gpu);
    if (answers.now_ns - interface.observed_ns > 3 * answers.interval_ns) {
      return "readiness: " + gpu + " is Ready from an observation that is too old";
    }
    const Look* look = look_of(fabric, interface.observed_ns);
    if (look == nullptr || look->lied_deeply) continue;  // nobody could know better
    if (!is_in(look->at_partitions, interface.gpu, interface.partition) &&
        !is_in(look->at_gpus, interface.gpu, interface.partition)) {
      return "readiness: " + gpu + " is Ready but was not where it is wanted when it was looked at";
    }
    if (fabric.moved_by_controller(interface.gpu) > interface.observed_ns &&
        !is_in(fabric.truth(), interface.gpu, interface.partition)) {
      return "readiness: " + gpu + " is still Ready after the controller itself moved it";
    }
  }
  return {};
}

// A machine is offered only when seen without a partition: what was there when it was looked at,
// and what the controller itself put there since, is its fault.
std::string Checker::offers(const Fabric& fabric, const Answers& answers) {
  for (const MachineAnswer& machine : answers.machines) {
    bool& before = offered_[machine.id];
    const bool now_offered = machine.offered && !before;
    before = machine.offered;
    if (!now_offered) continue;
    const auto& looks = fabric.looks();
    if (looks.size() < 2)
      return "release: " + machine.id + " is offered without having been seen twice";
    const Look& last = looks.back().lied_deeply ? looks[looks.size() - 2] : looks.back();
    for (const std::uint64_t gpu : machine.gpus) {
      const std::uint32_t place = place_of(fabric.truth(), gpu);
      if (place == 0) continue;
      const TruthMember& member = fabric.truth().at(place).members.at(gpu);
      if (member.planted && member.since_ns >= last.begun_ns) continue;
      return "release: " + machine.id + " is offered while GPU " + std::to_string(gpu) +
             " is in partition " + std::to_string(place);
    }
  }
  return {};
}

std::string Checker::after_step(const Fabric& fabric, const Answers& answers) {
  if (!fabric.trespasses().empty()) return "trespass: " + fabric.trespasses().front();
  if (std::string broken = isolation(fabric, answers); !broken.empty()) return broken;
  if (std::string broken = offers(fabric, answers); !broken.empty()) return broken;
  return readiness(fabric, answers);
}

std::string Checker::at_rest(const Fabric& fabric, const Answers& answers) {
  std::map<std::string, std::set<std::uint64_t>> wanted;
  for (const InterfaceAnswer& interface : answers.interfaces) {
    const std::string gpu = "GPU " + std::to_string(interface.gpu);
    wanted[interface.partition].insert(interface.gpu);
    if (!is_in(fabric.truth(), interface.gpu, interface.partition)) {
      return "convergence: " + gpu + " is not where it is wanted";
    }
    if (interface.shown != Shown::kReady) return "convergence: " + gpu + " is not Ready";
  }
  for (const auto& [id, partition] : fabric.truth()) {
    if (id == kDefaultId && !partition.members.empty()) {
      // Strangers may stay in it; machines that the controller knows may not.
      const bool only_strangers =
          std::all_of(partition.members.begin(), partition.members.end(), [&](const auto& entry) {
            const auto& strangers = fabric.strangers();
            return std::find(strangers.begin(), strangers.end(), entry.first) != strangers.end();
          });
      if (!only_strangers) return "convergence: the default partition is not empty";
    }
    if (partition.foreign) continue;
    // Renamed by the manager while the controller crashed: nobody can know any more whose it was.
    // Its GPUs are taken back; the shell is reported, and stays until an operator says otherwise.
    const bool only_planted = std::all_of(partition.members.begin(), partition.members.end(),
                                          [](const auto& entry) { return entry.second.planted; });
    if (partition.name != partition.label && only_planted) continue;
    std::set<std::uint64_t> members;
    for (const auto& [gpu, member] : partition.members) members.insert(gpu);
    const bool as_wanted = std::any_of(wanted.begin(), wanted.end(), [&](const auto& entry) {
      return partition.label.find(entry.first) != std::string::npos && entry.second == members;
    });
    if (!as_wanted) return "convergence: partition " + partition.label + " has the wrong members";
  }
  for (const PartitionAnswer& partition : answers.partitions) {
    if (partition.deleted && !partition.gone)
      return "convergence: " + partition.id + " does not go";
  }
  for (const MachineAnswer& machine : answers.machines) {
    const bool foreign_held =
        std::any_of(machine.gpus.begin(), machine.gpus.end(), [&](std::uint64_t gpu) {
          const std::uint32_t place = place_of(fabric.truth(), gpu);
          if (place == 0) return false;
          const TruthPartition& in = fabric.truth().at(place);
          return in.foreign || in.name != in.label;  // renamed: for all that is known, foreign
        });
    const bool free = machine.tenant.empty() || machine.releasing;
    // What was found in somebody else's partition at first is left there.
    if (free && !machine.offered && (machine.known || !foreign_held)) {
      return "convergence: " + machine.id + " is not offered";
    }
  }
  return {};
}

}  // namespace imex::partition_sim
