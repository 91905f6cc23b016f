/// Both sides of a decision joined by GPU: what is wanted of it, whose it is, where it was seen.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "partition/reconciler/decide.hpp"

namespace imex::partition::reconciler {

inline constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

enum class Role : std::uint8_t {
  kDefault,
  /// The one of a wanted logical partition.
  kOurs,
  /// A second one of a wanted logical partition.
  kSpare,
  kRetired,
  kForeign,
};

struct PartitionFacts {
  const ObservedPartition* seen = nullptr;
  Role role = Role::kForeign;
  /// Of kOurs and kSpare: in Desired::partitions.
  std::size_t wanted = kNowhere;
  /// Of kOurs, kSpare and kRetired.
  Uuid logical_partition;
  Uuid tenant;
};

struct GpuFacts {
  GpuUid uid = 0;
  /// In Desired::machines, Desired::partitions, Model::partitions.
  std::size_t machine = kNowhere;
  std::size_t wanted = kNowhere;
  std::size_t seen_in = kNowhere;
  /// The wanted partition's tenant holds the machine.
  bool entitled = false;
  /// In the list of GPUs.
  bool listed = false;
  /// Both lists say the same.
  bool agreed = false;
  std::uint32_t health = 0;
};

class Model {
 public:
  Model(const Desired& desired, const Observed& observed, const Memory& memory);

  [[nodiscard]] const Desired& desired() const noexcept { return desired_; }
  [[nodiscard]] const std::vector<PartitionFacts>& partitions() const noexcept {
    return partitions_;
  }
  /// Sorted by uid; every GPU that is wanted, known or seen.
  [[nodiscard]] const std::vector<GpuFacts>& gpus() const noexcept { return gpus_; }
  /// nullptr: never heard of.
  [[nodiscard]] const GpuFacts* find(GpuUid uid) const noexcept;
  /// Whose instance has the GPU; nil: nobody's, or the GPU is not known.
  [[nodiscard]] Uuid holder(const GpuFacts& gpu) const noexcept;
  [[nodiscard]] const std::vector<OwnedPartition>& adopted() const noexcept { return adopted_; }

 private:
  GpuFacts* find(GpuUid uid) noexcept;
  void collect_gpus(const Observed& observed);
  void join_desired();
  void join_observed(const Observed& observed);
  void give_roles(const Memory& memory);
  void name_role(PartitionFacts& facts) const;
  void adopt(PartitionFacts& facts, const Memory& memory);
  [[nodiscard]] bool has_partition(std::size_t wanted) const noexcept;
  /// A second partition of one logical partition is a spare: the one with most members stays.
  void settle_spares();

  const Desired& desired_;
  std::vector<PartitionFacts> partitions_;
  std::vector<GpuFacts> gpus_;
  std::vector<OwnedPartition> adopted_;
};

[[nodiscard]] bool is_default(const ObservedPartition& partition) noexcept;

/// The units that lead from `model` to what is wanted, in the order in which they are to run.
[[nodiscard]] std::vector<Unit> plan(const Model& model);

/// Fills all of `decision` but the units.
void judge(const Model& model, const Memory& memory, Time now, Decision& decision);

}  // namespace imex::partition::reconciler
