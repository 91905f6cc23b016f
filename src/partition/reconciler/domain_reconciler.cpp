#include "partition/reconciler/domain_reconciler.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace imex::partition::reconciler {

DomainReconciler::DomainReconciler(const Uuid& domain, const DomainConfig& config, Random& random,
                                   Decide decide)
    : domain_(domain), config_(config), random_(random), decide_(decide), waker_(config.wake) {}

void DomainReconciler::recover(std::span<const Operation> begun, Time now) {
  for (const Operation& operation : begun) {
    memory_.traces.push_back({operation, 0, true, now + config_.doubt_window});
  }
}

Effect DomainReconciler::next(Time now) {
  if (phase_ == Phase::kIdle) {
    if (now < waker_.due()) return {.kind = EffectKind::kSleep, .until = waker_.due()};
    begin_pass(now);
  }
  switch (phase_) {
    case Phase::kIdle:
      break;
    case Phase::kReading:
      return {.kind = EffectKind::kReadDesired};
    case Phase::kObserving:
      return {.kind = EffectKind::kObserve};
    case Phase::kBeginning:
    case Phase::kEnding:
      return {.kind = EffectKind::kJournal, .entry = &entry_};
    case Phase::kExecuting:
      return {.kind = EffectKind::kExecute, .entry = &entry_};
    case Phase::kReporting:
      return {.kind = EffectKind::kReport, .report = &report_};
  }
  return {.kind = EffectKind::kSleep, .until = waker_.due()};
}

void DomainReconciler::begin_pass(Time now) {
  waker_.begin(now);
  begun_ = now;
  acted_ = false;
  failed_ = false;
  done_keys_.clear();
  units_.clear();
  run_.reset();
  report_ = Report{.domain = domain_};
  phase_ = Phase::kReading;
}

void DomainReconciler::desired(Desired desired, Time /*now*/) {
  IMEX_ASSERT(phase_ == Phase::kReading, "desired state was not asked for");
  IMEX_ASSERT(desired.domain == domain_, "desired state of another domain");
  desired_ = std::move(desired);
  // Observed after it was read: what is seen is never older than what is wanted.
  phase_ = Phase::kObserving;
}

void DomainReconciler::observed(Observed observed, Time now) {
  IMEX_ASSERT(phase_ == Phase::kObserving, "no observation was asked for");
  observed_ = std::move(observed);
  decide_now(now);
}

void DomainReconciler::unobserved(std::string why, Time now) {
  IMEX_ASSERT(phase_ == Phase::kObserving, "no observation was asked for");
  report_.observed = false;
  report_.failure = std::move(why);
  report_.decision = {};
  report_.duration = now - begun_;
  memory_.seen_clear.clear();
  phase_ = Phase::kReporting;
}

void DomainReconciler::decide_now(Time now) {
  forget_traces(now);
  Decision decision = decide_(desired_, observed_, memory_, now, config_.wake.interval);
  memory_.seen_clear = decision.seen_clear;
  // What was done has shown now, or will be found by its name: ids are used again.
  std::erase_if(memory_.traces, [](const Trace& trace) { return !trace.in_doubt; });
  if (acted_ || decision.units.empty()) return prepare_report(std::move(decision), now);
  acted_ = true;
  units_.assign(decision.units.begin(), decision.units.end());
  if (!takes_back(decision)) return step();
  prepare_report(std::move(decision), now);
  report_.final = false;
}

void DomainReconciler::prepare_report(Decision decision, Time now) {
  report_.revision = desired_.revision;
  report_.observed = true;
  report_.final = true;
  report_.at = observed_.begun;
  report_.decision = std::move(decision);
  report_.duration = now - begun_;
  phase_ = Phase::kReporting;
}

bool DomainReconciler::takes_back(const Decision& decision) const {
  if (!said_ready_) return true;
  return std::any_of(decision.gpus.begin(), decision.gpus.end(), [&](const GpuStatus& gpu) {
    return gpu.state != State::kReady &&
           std::binary_search(said_ready_->begin(), said_ready_->end(),
                              std::pair(gpu.uid, gpu.wanted));
  });
}

void DomainReconciler::step() {
  for (;;) {
    if (run_ && run_->next() != nullptr) break;
    run_.reset();
    if (units_.empty()) {
      phase_ = Phase::kReading;  // the second look
      return;
    }
    run_.emplace(std::move(units_.front()));
    units_.pop_front();
  }
  entry_ = JournalEntry{.key = idempotency_key(domain_, *run_->next()), .operation = *run_->next()};
  phase_ = Phase::kBeginning;
}

void DomainReconciler::journalled(Time now) {
  if (phase_ == Phase::kEnding) return step();
  IMEX_ASSERT(phase_ == Phase::kBeginning, "nothing was to be journalled");
  // From here on the effect may come, whatever happens to us.
  memory_.traces.push_back({entry_.operation, 0, true, now + config_.doubt_window});
  if (joins(entry_.operation)) {
    std::erase_if(memory_.seen_clear, [&](GpuUid uid) {
      return std::binary_search(entry_.operation.gpus.begin(), entry_.operation.gpus.end(), uid);
    });
  }
  phase_ = Phase::kExecuting;
}

void DomainReconciler::refused(std::string why, Time /*now*/) {
  IMEX_ASSERT(phase_ == Phase::kBeginning, "nothing was to be journalled");
  finish_step({.verdict = Verdict::kRefused, .refusal = Refusal::kOther, .text = std::move(why)});
  step();
}

void DomainReconciler::executed(const Outcome& outcome, Time now) {
  IMEX_ASSERT(phase_ == Phase::kExecuting, "no operation was running");
  remember(outcome, now);
  finish_step(outcome);
  entry_.state = outcome.verdict == Verdict::kDone      ? JournalState::kDone
                 : outcome.verdict == Verdict::kRefused ? JournalState::kRefused
                                                        : JournalState::kInDoubt;
  entry_.partition_id = outcome.partition_id;
  entry_.text = outcome.text;
  phase_ = Phase::kEnding;
}

void DomainReconciler::remember(const Outcome& outcome, Time now) {
  Trace& trace = memory_.traces.back();
  trace.until = now + config_.doubt_window;
  trace.partition_id = outcome.partition_id;
  trace.in_doubt = outcome.verdict == Verdict::kInDoubt;
  if (outcome.verdict == Verdict::kRefused) memory_.traces.pop_back();
}

void DomainReconciler::finish_step(const Outcome& outcome) {
  ++report_.operations;
  if (outcome.verdict == Verdict::kDone) {
    done_keys_.push_back(entry_.key);
  } else {
    failed_ = true;
    report_.failed_steps.push_back({run_->logical_partition(), entry_.operation.kind,
                                    outcome.verdict,
                                    outcome.text.empty() ? "no reason given" : outcome.text});
  }
  run_->done(outcome);
}

void DomainReconciler::reported(Time now) {
  IMEX_ASSERT(phase_ == Phase::kReporting, "nothing was to be reported");
  if (report_.observed) {
    said_ready_.emplace();
    for (const GpuStatus& gpu : report_.decision.gpus) {
      if (gpu.state == State::kReady) said_ready_->emplace_back(gpu.uid, gpu.wanted);
    }
  }
  if (report_.observed && !report_.final) return step();
  phase_ = Phase::kIdle;
  end_pass(now);
}

void DomainReconciler::end_pass(Time now) {
  if (!report_.observed) return waker_.failed(now, false, random_);
  const Decision& decision = report_.decision;
  const auto differs = [](const GpuStatus& gpu) { return gpu.reason == Reason::kAnswersDiffer; };
  const auto seen_once = [](const MachineStatus& m) { return m.reason == Reason::kSeenOnce; };
  const bool unclear = std::any_of(decision.gpus.begin(), decision.gpus.end(), differs);
  if (failed_ || unclear || wants_done_again(decision)) {
    waker_.failed(now, true, random_);
  } else if (!decision.units.empty() ||
             std::any_of(decision.machines.begin(), decision.machines.end(), seen_once)) {
    waker_.again(now);
  } else {
    waker_.settled(now);
  }
  for (const Trace& trace : memory_.traces) {
    if (trace.in_doubt) waker_.not_later_than(trace.until);
  }
}

// The manager said that it was done, and it does not show: asking again at once would not help.
bool DomainReconciler::wants_done_again(const Decision& decision) const {
  for (const Unit& unit : decision.units) {
    for (const Step& wanted : unit.steps) {
      const std::string key = idempotency_key(domain_, wanted.operation);
      if (std::find(done_keys_.begin(), done_keys_.end(), key) != done_keys_.end()) return true;
    }
  }
  return false;
}

void DomainReconciler::forget_traces(Time now) {
  std::erase_if(memory_.traces, [&](const Trace& trace) { return trace.until <= now; });
}

void DomainReconciler::stopped(Time now) {
  phase_ = Phase::kIdle;
  units_.clear();
  run_.reset();
  memory_.seen_clear.clear();
  waker_.failed(now, true, random_);
}

}  // namespace imex::partition::reconciler
