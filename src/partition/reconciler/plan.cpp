// Plans on a copy of what was seen: each step changes the copy as it will change the fabric, so
// that later units start from where earlier ones lead. If an earlier one fails, later ones are
// refused by the manager, because they name their target by id and name, and the next pass plans
// anew.
#include <algorithm>
#include <set>

#include "model.hpp"
#include "partition/reconciler/name.hpp"

namespace imex::partition::reconciler {
namespace {

struct Draft {
  PartitionFacts facts;
  std::uint32_t id = 0;
  std::string name;
  std::set<GpuUid> members;
  bool gone = false;
};

class Planner {
 public:
  explicit Planner(const Model& model) : model_(model) {
    for (const PartitionFacts& facts : model.partitions()) {
      Draft draft{facts, facts.seen->id, facts.seen->name, {}, false};
      draft.members.insert(facts.seen->members.begin(), facts.seen->members.end());
      drafts_.push_back(std::move(draft));
    }
  }

  std::vector<Unit> run() {
    dissolve_default();
    delete_permitted();
    take_back();
    for (Draft& draft : drafts_) {
      if (is_unwanted(draft) && nobody_moves(draft)) add_unit(draft, {delete_step(draft)});
    }
    for (std::size_t i = 0; i < model_.desired().partitions.size(); ++i) fill(i);
    for (Draft& draft : drafts_) {
      if (is_unwanted(draft) && draft.members.empty()) add_unit(draft, {delete_step(draft)});
    }
    return std::move(units_);
  }

 private:
  void add_unit(const Draft& draft, std::vector<Step> steps) {
    units_.push_back({draft.facts.logical_partition, std::move(steps)});
  }

  [[nodiscard]] Operation operation(OperationKind kind, const Draft& draft,
                                    std::vector<GpuUid> gpus) const {
    Operation made{.kind = kind,
                   .logical_partition = draft.facts.logical_partition,
                   .partition_id = draft.id,
                   .name = draft.name,
                   .gpus = std::move(gpus)};
    std::sort(made.gpus.begin(), made.gpus.end());
    return made;
  }

  [[nodiscard]] Operation create(const WantedPartition& wanted, std::vector<GpuUid> gpus) const {
    Operation made{.kind = OperationKind::kCreate,
                   .logical_partition = wanted.logical_partition,
                   .name = partition_name(model_.desired().mark, wanted.logical_partition),
                   .gpus = std::move(gpus),
                   .multicast_groups = std::min(wanted.multicast_groups, 1024U) / 4 * 4,
                   .resiliency_mode = wanted.resiliency_mode};
    std::sort(made.gpus.begin(), made.gpus.end());
    return made;
  }

  [[nodiscard]] Step delete_step(Draft& draft) {
    Step step{
        operation(OperationKind::kDelete, draft, {draft.members.begin(), draft.members.end()}),
        std::nullopt, false};
    draft.members.clear();
    draft.gone = true;
    return step;
  }

  /// Takes `gpus` out. A partition of ours that is left with nobody is deleted instead: managers
  /// differ in what an empty one means. What is not ours is never deleted.
  [[nodiscard]] Step leave_step(Draft& draft, const std::vector<GpuUid>& gpus) {
    const bool ours = draft.facts.role != Role::kForeign && draft.facts.role != Role::kDefault;
    if (ours && gpus.size() == draft.members.size()) return delete_step(draft);
    for (const GpuUid uid : gpus) draft.members.erase(uid);
    return {operation(OperationKind::kRemove, draft, gpus), std::nullopt, false};
  }

  [[nodiscard]] const WantedPartition& wanted_of(const Draft& draft) const {
    return model_.desired().partitions[draft.facts.wanted];
  }

  /// The GPU may be put where it is wanted, as far as can be known: its machine is held by the
  /// right tenant, the manager lists it, and both lists agree on where it is.
  [[nodiscard]] static bool may_join(const GpuFacts& gpu) {
    return gpu.wanted != kNowhere && gpu.entitled && gpu.listed && gpu.agreed;
  }

  /// Leaves `draft` for another partition of the same tenant: that one's unit takes it out.
  [[nodiscard]] bool moves(const Draft& draft, GpuUid uid) const {
    const GpuFacts& gpu = *model_.find(uid);
    return may_join(gpu) && gpu.wanted != draft.facts.wanted &&
           model_.desired().partitions[gpu.wanted].tenant == draft.facts.tenant;
  }

  [[nodiscard]] bool nobody_moves(const Draft& draft) const {
    return std::none_of(draft.members.begin(), draft.members.end(),
                        [&](GpuUid uid) { return moves(draft, uid) || stays(draft, uid); });
  }

  /// Wanted by the logical partition of which `draft` is a spare: taken over by fill().
  [[nodiscard]] bool stays(const Draft& draft, GpuUid uid) const {
    return draft.facts.role == Role::kSpare && model_.find(uid)->wanted == draft.facts.wanted;
  }

  [[nodiscard]] bool is_unwanted(const Draft& draft) const {
    if (draft.gone) return false;
    if (draft.facts.role == Role::kSpare || draft.facts.role == Role::kRetired) return true;
    return draft.facts.role == Role::kOurs && wanted_of(draft).members.empty();
  }

  void dissolve_default() {
    if (model_.desired().default_partition != DefaultPartitionPolicy::kDissolve) return;
    for (Draft& draft : drafts_) {
      if (draft.facts.role != Role::kDefault) continue;
      std::vector<GpuUid> known;
      for (const GpuUid uid : draft.members) {
        if (model_.find(uid)->machine != kNowhere) known.push_back(uid);
      }
      if (known.size() == draft.members.size()) {
        Step step = delete_step(draft);
        step.operation.kind = OperationKind::kDeleteDefault;
        add_unit(draft, {std::move(step)});
      } else if (!known.empty()) {
        add_unit(draft, {leave_step(draft, known)});
      }
    }
  }

  void delete_permitted() {
    for (Draft& draft : drafts_) {
      if (draft.facts.role != Role::kForeign) continue;
      for (const Permit& permit : model_.desired().permits) {
        if (permit.id != draft.id || permit.name != draft.name) continue;
        add_unit(draft, {delete_step(draft)});
        break;
      }
    }
  }

  /// GPUs that nobody wants and that were ours before; those that are wanted are taken by fill().
  void take_back() {
    if (model_.desired().stolen_gpus != StolenGpuPolicy::kTakeBack) return;
    for (Draft& draft : drafts_) {
      if (draft.facts.role != Role::kForeign || draft.gone) continue;
      std::vector<GpuUid> stolen;
      for (const GpuUid uid : draft.members) {
        const GpuFacts& gpu = *model_.find(uid);
        if (gpu.wanted == kNowhere && gpu.agreed && gpu.machine != kNowhere &&
            model_.desired().machines[gpu.machine].was_clear) {
          stolen.push_back(uid);
        }
      }
      if (!stolen.empty()) add_unit(draft, {leave_step(draft, stolen)});
    }
  }

  [[nodiscard]] Draft* draft_of(std::size_t wanted) {
    for (Draft& draft : drafts_) {
      if (!draft.gone && draft.facts.role == Role::kOurs && draft.facts.wanted == wanted)
        return &draft;
    }
    return nullptr;
  }

  /// Somebody else than the partition's tenant uses the GPU, or may: a machine that is being given
  /// up still runs. One that is not even listed cannot reach anything, and must not keep a
  /// partition from growing if the manager refuses to take it out.
  [[nodiscard]] bool is_alien(const Draft& draft, const GpuFacts& gpu) const {
    const Uuid holder = model_.holder(gpu);
    if (gpu.machine == kNowhere || holder == draft.facts.tenant) return false;
    return !holder.is_nil() || gpu.listed;
  }

  /// Takes out of the partition who is not wanted in it. Another tenant's GPU goes first and guards
  /// all that follows.
  void evict(Draft& draft, std::vector<Step>& steps) {
    std::vector<GpuUid> aliens;
    std::vector<GpuUid> others;
    for (const GpuUid uid : draft.members) {
      const GpuFacts& gpu = *model_.find(uid);
      if (gpu.wanted == draft.facts.wanted && gpu.entitled) continue;
      if (moves(draft, uid)) continue;
      (is_alien(draft, gpu) ? aliens : others).push_back(uid);
    }
    if (!aliens.empty()) {
      steps.push_back(leave_step(draft, aliens));
      steps.back().guard = true;
    }
    if (!others.empty()) steps.push_back(leave_step(draft, others));
  }

  /// Where GPU `uid` is now in the drafts; nullptr: in none.
  [[nodiscard]] Draft* place_of(GpuUid uid) {
    for (Draft& draft : drafts_) {
      if (!draft.gone && draft.members.contains(uid)) return &draft;
    }
    return nullptr;
  }

  [[nodiscard]] bool may_take_from(const Draft* source) const {
    return source == nullptr || source->facts.role != Role::kForeign ||
           model_.desired().stolen_gpus == StolenGpuPolicy::kTakeBack;
  }

  /// What puts `gpus` back into `source`, if that still is a home for them: a live partition of
  /// ours of the same tenant.
  [[nodiscard]] std::optional<Operation> way_back(const Draft& source, bool deleted,
                                                  const Uuid& tenant,
                                                  const std::vector<GpuUid>& gpus) const {
    if (source.facts.role != Role::kOurs || source.facts.tenant != tenant) return std::nullopt;
    if (deleted) return create(wanted_of(source), gpus);
    return operation(OperationKind::kAdd, source, gpus);
  }

  void fill(std::size_t index) {
    const WantedPartition& wanted = model_.desired().partitions[index];
    Unit unit{wanted.logical_partition, {}};
    Draft* target = draft_of(index);
    if (target != nullptr) evict(*target, unit.steps);
    if (target != nullptr && target->gone) target = nullptr;

    std::vector<GpuUid> joining;
    std::vector<std::pair<Draft*, std::vector<GpuUid>>> sources;
    for (const GpuUid uid : wanted.members) {
      const GpuFacts& gpu = *model_.find(uid);
      if (gpu.wanted != index || !may_join(gpu)) continue;
      Draft* source = place_of(uid);
      if ((source != nullptr && source == target) || !may_take_from(source)) continue;
      joining.push_back(uid);
      if (source == nullptr) continue;
      auto at =
          std::find_if(sources.begin(), sources.end(), [&](auto& s) { return s.first == source; });
      if (at == sources.end()) at = sources.insert(at, {source, {}});
      at->second.push_back(uid);
    }
    if (!joining.empty()) {
      for (auto& [source, gpus] : sources) {
        std::sort(gpus.begin(), gpus.end());
        const Draft before = *source;
        Step step = leave_step(*source, gpus);
        step.undo = way_back(before, source->gone, wanted.tenant, gpus);
        unit.steps.push_back(std::move(step));
      }
      join(index, target, std::move(joining), unit.steps);
    }
    if (!unit.steps.empty()) units_.push_back(std::move(unit));
  }

  void join(std::size_t index, Draft* target, std::vector<GpuUid> joining,
            std::vector<Step>& steps) {
    const WantedPartition& wanted = model_.desired().partitions[index];
    if (target != nullptr) {
      target->members.insert(joining.begin(), joining.end());
      steps.push_back(
          {operation(OperationKind::kAdd, *target, std::move(joining)), std::nullopt, false});
    } else {
      steps.push_back({create(wanted, std::move(joining)), std::nullopt, false});
    }
  }

  const Model& model_;
  std::vector<Draft> drafts_;
  std::vector<Unit> units_;
};

}  // namespace

std::vector<Unit> plan(const Model& model) { return Planner(model).run(); }

}  // namespace imex::partition::reconciler
