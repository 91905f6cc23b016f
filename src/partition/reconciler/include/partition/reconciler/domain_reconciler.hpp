/// The reconciliation of one NVLink domain as a state machine: it says what to do next, the driver
/// does it and says what came of it. The controller drives it against a store and a fabric manager,
/// the simulation against its own; neither adds a decision.
///
///     for (;;) {
///       const Effect effect = domain.next(clock.now());
///       switch (effect.kind) {
///         case EffectKind::kSleep: wait until effect.until or a wake-up; break;
///         case EffectKind::kReadDesired: domain.desired(store.read(), now); break;
///         ...
///
/// A pass: read what is wanted, observe, decide; if there is something to do, journal each
/// operation, carry it out, journal what became of it; then read and observe again and report the
/// second look. Not thread-safe: one driver.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "base/result.hpp"
#include "partition/reconciler/decide.hpp"
#include "partition/reconciler/waker.hpp"

namespace imex::partition::reconciler {

struct DomainConfig {
  WakeTimes wake{};
  /// How long after its call an operation without an answer may still take effect. Until then no
  /// machine that it names is clear.
  Nanos doubt_window = std::chrono::seconds(120);
};

enum class EffectKind : std::uint8_t {
  /// Nothing to do until `until`, or until wake().
  kSleep,
  /// Answer with desired().
  kReadDesired,
  /// Ask the manager; answer with observed() or unobserved().
  kObserve,
  /// Write `entry` to the journal, on the disk; answer with journalled(), refused() or stopped().
  kJournal,
  /// Do entry.operation; answer with executed().
  kExecute,
  /// Publish `report`; answer with reported() or stopped().
  kReport,
};

/// What one pass came to.
struct Report {
  Uuid domain{};
  /// Of the Desired that it compares with.
  std::uint64_t revision = 0;
  /// False: the manager could not be asked; only `failure` says something, what was reported before
  /// grows old.
  bool observed = false;
  /// False: what was reported as ready is seen not to be; work begins now, and another report
  /// follows in the same pass.
  bool final = true;
  /// When the observation was begun.
  Time at{};
  std::string failure{};
  Decision decision{};
  /// What was refused or left in doubt, by logical partition.
  struct FailedStep {
    Uuid logical_partition{};
    OperationKind kind = OperationKind::kCreate;
    Verdict verdict = Verdict::kRefused;
    std::string text{};
  };
  std::vector<FailedStep> failed_steps{};
  std::uint32_t operations = 0;
  /// From the beginning of the pass to its report.
  Nanos duration{0};
};

struct Effect {
  EffectKind kind = EffectKind::kSleep;
  Time until = kNever;
  /// kJournal: the line to write. kExecute: the one written before it.
  const JournalEntry* entry = nullptr;
  const Report* report = nullptr;
};

/// decide() with another name in its place, as simulations that break it do.
using Decide = Decision (*)(const Desired&, const Observed&, const Memory&, Time, Nanos);

class DomainReconciler {
 public:
  /// Borrows `random`, which only spreads waiting times. The first pass is due at once.
  DomainReconciler(const Uuid& domain, const DomainConfig& config, Random& random,
                   Decide decide = &reconciler::decide);

  /// After a start: operations that the journal shows as begun. Their effect may still come.
  void recover(std::span<const Operation> begun, Time now);
  /// A write, a fabric event, or an operator's word. May come at any time between effects.
  void wake(Time now) { waker_.wake(now); }

  /// The same until it is answered.
  [[nodiscard]] Effect next(Time now);

  void desired(Desired desired, Time now);
  void observed(Observed observed, Time now);
  void unobserved(std::string why, Time now);
  void journalled(Time now);
  /// The store will not have the operation begun: its logical partition was deleted meanwhile.
  void refused(std::string why, Time now);
  void executed(const Outcome& outcome, Time now);
  void reported(Time now);
  /// The store is away, or another replica leads: the pass ends here, nothing more is done in it.
  void stopped(Time now);

  [[nodiscard]] std::uint32_t failures() const noexcept { return waker_.failures(); }
  [[nodiscard]] bool idle() const noexcept { return phase_ == Phase::kIdle; }

 private:
  enum class Phase : std::uint8_t {
    kIdle,
    kReading,
    kObserving,
    kBeginning,  // journal, before the call
    kExecuting,
    kEnding,  // journal, after it
    kReporting,
  };

  void begin_pass(Time now);
  void decide_now(Time now);
  /// The next operation of the next unit; none left: look again.
  void step();
  void finish_step(const Outcome& outcome);
  void end_pass(Time now);
  void prepare_report(Decision decision, Time now);
  /// Something that may have been reported as ready is not.
  [[nodiscard]] bool takes_back(const Decision& decision) const;
  [[nodiscard]] bool wants_done_again(const Decision& decision) const;
  void remember(const Outcome& outcome, Time now);
  void forget_traces(Time now);

  Uuid domain_{};
  DomainConfig config_;
  Random& random_;
  Decide decide_;
  Waker waker_;
  Memory memory_;

  Phase phase_ = Phase::kIdle;
  bool acted_ = false;
  bool failed_ = false;
  Time begun_{};
  Desired desired_;
  Observed observed_;
  std::deque<Unit> units_;
  std::optional<UnitRun> run_{};
  JournalEntry entry_;
  std::vector<std::string> done_keys_{};
  /// What the last report said is ready: GPU and logical partition, sorted. Not known before the
  /// first report, when those of an earlier life still stand.
  std::optional<std::vector<std::pair<GpuUid, Uuid>>> said_ready_{};
  Report report_;
};

}  // namespace imex::partition::reconciler
