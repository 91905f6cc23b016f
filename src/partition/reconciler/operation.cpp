#include "partition/reconciler/operation.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "base/assert.hpp"

namespace imex::partition::reconciler {
namespace {

/// FNV-1a over 64 bits, from a given start: two starts make 128 bits. Collisions would join the
/// journal lines of two changes, nothing more, so no cryptographic hash is needed.
class KeyHash {
 public:
  explicit KeyHash(std::uint64_t start) : value_(start) {}
  void add(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8)
      add_byte(static_cast<std::uint8_t>(number >> shift));
  }
  void add(std::string_view text) {
    add(text.size());
    for (const char c : text) add_byte(static_cast<std::uint8_t>(c));
  }
  void add(const Uuid& id) {
    for (const std::byte b : id.bytes) add_byte(std::to_integer<std::uint8_t>(b));
  }
  [[nodiscard]] std::string digits() const {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string out;
    for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[(value_ >> shift) & 15U];
    return out;
  }

 private:
  void add_byte(std::uint8_t byte) { value_ = (value_ ^ byte) * 0x0000'0100'0000'01b3ULL; }
  std::uint64_t value_;
};

std::string hash_operation(std::uint64_t start, const Uuid& domain, const Operation& operation) {
  KeyHash hash(start);
  hash.add(domain);
  hash.add(static_cast<std::uint64_t>(operation.kind));
  hash.add(operation.logical_partition);
  hash.add(operation.partition_id);
  hash.add(operation.name);
  hash.add(operation.gpus.size());
  for (const GpuUid uid : operation.gpus) hash.add(uid);
  return hash.digits();
}

/// `gpus` less `gone`; both sorted.
void take_away(std::vector<GpuUid>& gpus, const std::vector<GpuUid>& gone) {
  std::vector<GpuUid> left;
  std::set_difference(gpus.begin(), gpus.end(), gone.begin(), gone.end(), std::back_inserter(left));
  gpus = std::move(left);
}

}  // namespace

std::string_view to_string(OperationKind kind) noexcept {
  switch (kind) {
    case OperationKind::kCreate:
      return "create";
    case OperationKind::kAdd:
      return "add";
    case OperationKind::kRemove:
      return "remove";
    case OperationKind::kDelete:
      return "delete";
    case OperationKind::kDeleteDefault:
      return "delete-default";
  }
  return "unknown";
}

std::string_view metric_label(OperationKind kind) noexcept {
  switch (kind) {
    case OperationKind::kCreate:
      return "create";
    case OperationKind::kAdd:
    case OperationKind::kRemove:
      return "update";
    case OperationKind::kDelete:
      return "remove";
    case OperationKind::kDeleteDefault:
      return "remove_default_partition";
  }
  return "unknown";
}

bool joins(const Operation& operation) noexcept {
  return operation.kind == OperationKind::kCreate || operation.kind == OperationKind::kAdd;
}

std::string idempotency_key(const Uuid& domain, const Operation& operation) {
  return hash_operation(0xcbf2'9ce4'8422'2325ULL, domain, operation) +
         hash_operation(0x6c62'272e'07bb'0142ULL, domain, operation);
}

std::string describe(const Operation& operation) {
  std::string text(to_string(operation.kind));
  text += " partition '" + operation.name + "'";
  if (operation.partition_id != 0) text += " (id " + std::to_string(operation.partition_id) + ")";
  const std::size_t count = operation.gpus.size();
  return text + ", " + std::to_string(count) + (count == 1 ? " GPU" : " GPUs");
}

const Operation* UnitRun::next() const noexcept {
  if (!undoing_.empty()) return &undoing_.back();
  return step_ < unit_.steps.size() ? &unit_.steps[step_].operation : nullptr;
}

void UnitRun::done(const Outcome& outcome) {
  IMEX_ASSERT(next() != nullptr, "an outcome without a step");
  if (outcome.verdict != Verdict::kDone) failed_ = true;
  if (!undoing_.empty()) {
    // What could not be put back is in no partition, which is safe; the next pass joins it again.
    undoing_.pop_back();
    if (outcome.verdict == Verdict::kInDoubt) undoing_.clear();
    return;
  }
  Step& step = unit_.steps[step_];
  if (outcome.verdict == Verdict::kDone) {
    done_.push_back(step_++);
    return settle();
  }
  if (outcome.verdict == Verdict::kInDoubt || step.guard) {
    step_ = unit_.steps.size();
    return;
  }
  if (joins(step.operation)) {
    if (outcome.refusal == Refusal::kExhausted && step.operation.kind == OperationKind::kCreate &&
        step.operation.multicast_groups != 0) {
      step.operation.multicast_groups = 0;  // a partition works without; in-switch sums do not
      return;
    }
    step_ = unit_.steps.size();
    // GPUs that were just taken out stay bound for seconds: putting them back would be refused too,
    // and joining succeeds a little later.
    if (outcome.refusal != Refusal::kInUse) undo();
    return;
  }
  const std::vector<GpuUid> stuck = step.operation.gpus;
  ++step_;
  for (std::size_t i = step_; i < unit_.steps.size(); ++i) {
    if (joins(unit_.steps[i].operation)) take_away(unit_.steps[i].operation.gpus, stuck);
  }
  settle();
}

void UnitRun::settle() {
  while (step_ < unit_.steps.size() && joins(unit_.steps[step_].operation) &&
         unit_.steps[step_].operation.gpus.empty()) {
    ++step_;
  }
}

void UnitRun::undo() {
  // Taken from the back: the first step done is put first, so it is undone last.
  for (const std::size_t step : done_) {
    if (unit_.steps[step].undo) undoing_.push_back(*unit_.steps[step].undo);
  }
}

}  // namespace imex::partition::reconciler
