/// Changes to a fabric, as values: one call each, grouped into units that are undone together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.hpp"
#include "partition/reconciler/desired.hpp"

namespace imex::partition::reconciler {

enum class OperationKind : std::uint8_t { kCreate, kAdd, kRemove, kDelete, kDeleteDefault };

/// "create", "update", "update", "remove", "remove_default_partition": the label of NICo's metrics.
[[nodiscard]] std::string_view metric_label(OperationKind kind) noexcept;
[[nodiscard]] std::string_view to_string(OperationKind kind) noexcept;

/// One call. The target is named by id and name together: a manager refuses when both do not fit,
/// so an id that was handed out again is never changed by mistake.
struct Operation {
  OperationKind kind = OperationKind::kCreate;
  /// Whose partition it is; nil: nobody's of ours.
  Uuid logical_partition{};
  /// 0 for kCreate.
  std::uint32_t partition_id = 0;
  std::string name{};
  /// Sorted; who joins or leaves. For kDelete: who was in it when that was decided.
  std::vector<GpuUid> gpus{};
  std::uint32_t multicast_groups = 0;
  std::uint32_t resiliency_mode = 0;
  friend bool operator==(const Operation&, const Operation&) = default;
};

/// The GPUs of `operation` end up in a partition.
[[nodiscard]] bool joins(const Operation& operation) noexcept;

/// The same for the same change of the same domain, however often it is tried: 32 hexadecimal
/// digits.
[[nodiscard]] std::string idempotency_key(const Uuid& domain, const Operation& operation);

/// "create partition 'imex…' with 4 GPUs"
[[nodiscard]] std::string describe(const Operation& operation);

enum class Verdict : std::uint8_t {
  kDone,
  /// The manager refused: nothing was changed.
  kRefused,
  /// No answer, or an answer that says nothing about the effect: it may have happened, or happen
  /// yet.
  kInDoubt,
};

/// Why a manager refused, as far as it matters what is done next.
enum class Refusal : std::uint8_t {
  kNone,
  /// GPUs or names that are in use: also seconds after they were given up.
  kInUse,
  /// Not enough multicast groups.
  kExhausted,
  /// No such partition, or id and name do not fit: the observation is out of date.
  kNoSuchPartition,
  kNotReady,
  kOther,
};

struct Outcome {
  Verdict verdict = Verdict::kInDoubt;
  Refusal refusal = Refusal::kNone;
  /// Of the partition made by kCreate; 0: not told.
  std::uint32_t partition_id = 0;
  /// For a person; empty when done.
  std::string text{};
};

/// A change, what takes it back, and what its failure means for the steps behind it.
struct Step {
  Operation operation{};
  /// Puts the GPUs back; absent where being in no partition is better than being back.
  std::optional<Operation> undo{};
  /// Nothing behind it may run unless it was done: it takes another tenant's GPU out.
  bool guard = false;
};

/// Steps that make one change of one logical partition, as taking GPUs out of others and putting
/// them in. Carried out one after the other.
struct Unit {
  Uuid logical_partition{};
  std::vector<Step> steps{};
};

/// Carries a unit out, without doing anything itself. GPUs that could not be taken out of where
/// they are do not join; if the joining is refused, those that were taken out are put back where
/// that is allowed. A step in doubt ends the unit: the next observation decides.
class UnitRun {
 public:
  explicit UnitRun(Unit unit) : unit_(std::move(unit)) { settle(); }

  /// What to do now; nullptr: the unit has ended.
  [[nodiscard]] const Operation* next() const noexcept;
  void done(const Outcome& outcome);

  [[nodiscard]] const Uuid& logical_partition() const noexcept { return unit_.logical_partition; }
  /// Some step was refused or is in doubt.
  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  /// Skips steps that have nobody left.
  void settle();
  void undo();

  Unit unit_;
  std::size_t step_ = 0;
  std::vector<std::size_t> done_{};
  std::vector<Operation> undoing_{};
  bool failed_ = false;
};

enum class JournalState : std::uint8_t { kStarted, kDone, kRefused, kInDoubt };

/// One line of the journal: written as kStarted before the call, and again with what became of it.
/// What is read as kStarted or kInDoubt after a crash is in doubt. Each attempt has a line of its
/// own: the success of a second one says nothing about the effect of the first, which may still
/// come.
struct JournalEntry {
  std::string key{};
  Operation operation{};
  JournalState state = JournalState::kStarted;
  std::uint32_t partition_id = 0;
  std::string text{};
};

}  // namespace imex::partition::reconciler
