/// Wishes and sights in a few words, for tests of decide().
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "partition/reconciler/decide.hpp"
#include "partition/reconciler/name.hpp"

namespace imex::partition::reconciler::testing {

inline constexpr Nanos kInterval = std::chrono::seconds(60);
inline constexpr Time kNow{1'000'000'000'000};

[[nodiscard]] inline Uuid id_of(std::uint8_t number) {
  Uuid id;
  id.bytes[15] = std::byte{number};
  return id;
}

/// A domain of trays with 4 GPUs: tray t has 10*t+1 to 10*t+4. Tenants, logical partitions:
/// numbers.
struct World {
  Desired desired;
  Observed observed;
  Memory memory;

  World() {
    desired.domain = id_of(200);
    desired.mark = "imex-test";
    observed.domain = desired.domain;
    observed.begun = kNow;
  }

  World& tray(std::uint8_t number, std::uint8_t tenant = 0) {
    Machine machine{.id = "m" + std::to_string(number), .epoch = number};
    if (tenant != 0) machine.holder = id_of(tenant);
    for (std::uint8_t i = 1; i <= 4; ++i) {
      machine.gpus.push_back(number * 10U + i);
      observed.gpus.push_back({.uid = number * 10U + i, .health = 1});
    }
    desired.machines.push_back(std::move(machine));
    return *this;
  }
  World& want(std::uint8_t lp, std::uint8_t tenant, std::vector<GpuUid> members) {
    desired.partitions.push_back(
        {.logical_partition = id_of(lp), .tenant = id_of(tenant), .members = std::move(members)});
    return *this;
  }
  World& retire(std::uint8_t lp, std::uint8_t tenant) {
    desired.retired.push_back({id_of(lp), id_of(tenant)});
    return *this;
  }
  World& seen(std::uint32_t id, std::string name, std::vector<GpuUid> members) {
    for (ObservedGpu& gpu : observed.gpus) {
      if (std::find(members.begin(), members.end(), gpu.uid) != members.end())
        gpu.partition_id = id;
    }
    observed.partitions.push_back(
        {.id = id, .name = std::move(name), .members = std::move(members)});
    return *this;
  }
  World& seen_ours(std::uint32_t id, std::uint8_t lp, std::vector<GpuUid> members) {
    return seen(id, partition_name(desired.mark, id_of(lp)), std::move(members));
  }

  [[nodiscard]] Decision decide() const {
    return reconciler::decide(desired, observed, memory, kNow, kInterval);
  }
  /// "remove 3 11,12; create 0 21": steps of all units, "|" between units.
  [[nodiscard]] std::string plan() const {
    std::string text;
    for (const Unit& unit : decide().units) {
      if (!text.empty()) text += " | ";
      for (std::size_t i = 0; i < unit.steps.size(); ++i) {
        const Operation& operation = unit.steps[i].operation;
        if (i != 0) text += "; ";
        text +=
            std::string(to_string(operation.kind)) + " " + std::to_string(operation.partition_id);
        for (const GpuUid uid : operation.gpus) text += " " + std::to_string(uid);
      }
    }
    return text;
  }
  [[nodiscard]] GpuStatus gpu(GpuUid uid) const {
    for (const GpuStatus& status : decide().gpus) {
      if (status.uid == uid) return status;
    }
    return {};
  }
  [[nodiscard]] PartitionStatus partition(std::uint8_t lp) const {
    for (const PartitionStatus& status : decide().partitions) {
      if (status.logical_partition == id_of(lp)) return status;
    }
    return {};
  }
  [[nodiscard]] MachineStatus machine(std::uint8_t number) const {
    for (const MachineStatus& status : decide().machines) {
      if (status.id == "m" + std::to_string(number)) return status;
    }
    return {};
  }
};

}  // namespace imex::partition::reconciler::testing
