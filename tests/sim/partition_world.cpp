#include "partition_world.hpp"

#include <algorithm>
#include <utility>

namespace imex::partition_sim {

using partition::reconciler::Effect;
using partition::reconciler::EffectKind;
using partition::reconciler::JournalState;
using partition::reconciler::Observed;
using partition::reconciler::Operation;
using partition::reconciler::OperationKind;
using partition::reconciler::Outcome;
using partition::reconciler::Refusal;
using partition::reconciler::Verdict;

namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kSecond = 1'000 * kMs;
constexpr std::int64_t kInterval = 10 * kSecond;
constexpr std::int64_t kDeadline = 2 * kSecond;
constexpr std::int64_t kDoubt = 20 * kSecond;
constexpr std::uint8_t kTenants = 3;
constexpr std::size_t kPartitionsMax = 12;

Uuid domain_id() {
  Uuid id;
  id.bytes[0] = std::byte{0xd0};
  return id;
}

const char* name_of(Fault fault) {
  constexpr const char* kNames[kFaults] = {
      "none",      "refused",           "lost",    "silent",   "late", "half done", "half refused",
      "pretended", "error but applied", "renamed", "exhausted"};
  return kNames[static_cast<std::size_t>(fault)];
}

Call call_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::kCreate:
      return Call::kCreate;
    case OperationKind::kAdd:
      return Call::kAdd;
    case OperationKind::kRemove:
      return Call::kRemove;
    case OperationKind::kDelete:
    case OperationKind::kDeleteDefault:
      break;
  }
  return Call::kDelete;
}

Outcome outcome_of(const Answer& answer) {
  Outcome outcome;
  outcome.partition_id = answer.id;
  outcome.verdict = Verdict::kRefused;
  switch (answer.said) {
    case Said::kDone:
      outcome.verdict = Verdict::kDone;
      break;
    case Said::kNothing:
      outcome.verdict = Verdict::kInDoubt;
      break;
    case Said::kInUse:
      outcome.refusal = Refusal::kInUse;
      break;
    case Said::kExhausted:
      outcome.refusal = Refusal::kExhausted;
      break;
    case Said::kNoSuchPartition:
      outcome.refusal = Refusal::kNoSuchPartition;
      break;
    case Said::kError:
      outcome.refusal = Refusal::kOther;
      break;
  }
  return outcome;
}

}  // namespace

void World::QuietRandom::fill(std::span<std::byte> out) {
  for (std::byte& b : out) b = std::byte(dice_.below(256));
}

World::World(const WorldConfig& config)
    : config_(config),
      dice_(config.seed),
      random_(config.seed ^ 0x5eed),
      faults_(config.random_faults),
      id_reuse_(dice_.percent(30)),
      store_(domain_id(), config.machines, config.gpus_per_machine, kInterval),
      fabric_(store_.gpus(), id_reuse_, dice_.percent(50) ? 5 * kSecond : 0) {
  domain_config_.wake.interval = Nanos(kInterval);
  domain_config_.doubt_window = Nanos(kDoubt);
  if (dice_.percent(50)) fabric_.add_stranger(991);
  start_controller();
}

void World::start_controller() {
  controller_.emplace(domain_id(), domain_config_, random_, config_.decide);
  controller_->recover(store_.in_doubt(now_.ns, kDoubt), now_);
  half_observed_.reset();
  answer_.reset();
}

void World::mark(const std::string& what) { ++marks_[what]; }

void World::note(const std::string& what) {
  if (config_.keep_history) history_ += std::to_string(now_.ns / kMs) + " ms: " + what + '\n';
}

void World::pass_time(std::int64_t ns) {
  now_.ns += ns;
  fabric_.tick(now_.ns);
}

void World::wake() { controller_->wake(now_); }

/// What changed by others is told, or not, or twice.
void World::event() {
  const std::uint64_t roll = faults_ ? dice_.below(10) : 9;
  if (roll < 3) return mark("event lost");
  if (roll == 3) {
    mark("event doubled");
    controller_->wake(now_);
  }
  controller_->wake(now_);
}

std::string World::check() { return checker_.after_step(fabric_, store_.answers(now_.ns)); }

Fault World::next_fault() {
  const std::size_t call = calls_made_++;
  if (const auto at = armed_.find(call); at != armed_.end()) return at->second;
  if (!faults_ || !dice_.percent(25)) return Fault::kNone;
  return static_cast<Fault>(1 + dice_.below(kFaults - 1));
}

void World::observe() {
  if (!reachable_) {
    pass_time(kDeadline);
    mark("manager not reachable");
    return controller_->unobserved("no answer", now_);
  }
  pass_time(2 * kMs);
  if (!half_observed_) {
    // One answer may lie at any time, both together never twice in a row. With ids used again a
    // stale list and a true one can agree by chance, so there only both lie.
    std::size_t partitions_stale_by = 0;
    gpus_stale_by_ = 0;
    const std::uint64_t roll = faults_ ? dice_.below(20) : 19;
    if (roll == 0 && !lied_deeply_) partitions_stale_by = gpus_stale_by_ = 1 + dice_.below(4);
    if (roll == 1 && !id_reuse_) partitions_stale_by = 1 + dice_.below(4);
    if (roll == 2 && !id_reuse_) gpus_stale_by_ = 1 + dice_.below(4);
    lied_deeply_ = partitions_stale_by != 0 && gpus_stale_by_ != 0;
    if (partitions_stale_by != 0 || gpus_stale_by_ != 0) {
      mark(lied_deeply_ ? "both lists stale" : "one list stale");
      note("stale answers");
    }
    half_observed_.emplace();
    half_observed_->domain = domain_id();
    half_observed_->begun = now_;
    for (const ListedPartition& listed : fabric_.list_partitions(now_.ns, partitions_stale_by)) {
      half_observed_->partitions.push_back(
          {.id = listed.id, .name = listed.name, .members = listed.gpus, .health = 1});
    }
    return;
  }
  for (const ListedGpu& listed : fabric_.list_gpus(gpus_stale_by_, lied_deeply_)) {
    half_observed_->gpus.push_back(
        {.uid = listed.uid, .partition_id = listed.partition, .health = 1});
  }
  half_observed_->manager.bytes[15] = std::byte(fabric_.life());
  Observed observed = std::move(*half_observed_);
  half_observed_.reset();
  note("observed");
  controller_->observed(std::move(observed), now_);
}

void World::execute(const Operation& operation) {
  if (answer_) {
    note(std::string("answer ") + std::to_string(static_cast<int>(answer_->verdict)));
    const Outcome outcome = *answer_;
    answer_.reset();
    return controller_->executed(outcome, now_);
  }
  const Fault fault = next_fault();
  if (fault != Fault::kNone) mark(std::string("fault: ") + name_of(fault));
  std::string text = describe(operation) + ":";
  for (const std::uint64_t gpu : operation.gpus) text += " " + std::to_string(gpu);
  note(text + ", fault: " + name_of(fault));
  Request request{call_of(operation.kind), operation.partition_id, operation.name, operation.gpus,
                  operation.multicast_groups};
  const auto late = static_cast<std::int64_t>(
      dice_.below(static_cast<std::uint64_t>(config_.late_max_ns - kDeadline)));
  const Answer answer = fabric_.call(request, fault, now_.ns, kDeadline + late);
  mark(std::string("operation: ") + std::string(to_string(operation.kind)));
  pass_time(answer.said == Said::kNothing ? kDeadline : 5 * kMs);
  answer_ = outcome_of(answer);
}

std::string World::drive() {
  const Effect effect = controller_->next(now_);
  switch (effect.kind) {
    case EffectKind::kSleep:
      pass_time(std::clamp<std::int64_t>((effect.until - now_).count(), 0, kSecond));
      break;
    case EffectKind::kReadDesired:
      pass_time(kMs);
      controller_->desired(store_.desired(), now_);
      break;
    case EffectKind::kObserve:
      observe();
      break;
    case EffectKind::kJournal:
      pass_time(kMs);
      if (faults_ && dice_.percent(2)) {
        mark("store away");
        controller_->stopped(now_);
      } else if (store_.journal(*effect.entry, now_.ns)) {
        controller_->journalled(now_);
      } else {
        mark("journal refuses a deleted partition");
        controller_->refused("deleted", now_);
      }
      break;
    case EffectKind::kExecute:
      execute(effect.entry->operation);
      break;
    case EffectKind::kReport:
      pass_time(kMs);
      note("report");
      store_.report(*effect.report);
      for (const auto& machine : effect.report->decision.machines) {
        if (machine.clear) mark("machine clear");
      }
      if (!effect.report->decision.adopted.empty()) mark("partition adopted");
      controller_->reported(now_);
      break;
  }
  return check();
}

std::string World::crash() {
  note("crash");
  mark(answer_               ? "crash before the answer"
       : controller_->idle() ? "crash at rest"
                             : "crash in a pass");
  start_controller();
  return check();
}

void World::request() {
  const std::size_t machine = dice_.below(store_.machine_count());
  const auto tenant = static_cast<std::uint8_t>(1 + dice_.below(kTenants));
  switch (dice_.below(8)) {
    case 0:
      if (store_.partition_count() < kPartitionsMax) store_.create_partition(tenant);
      break;
    case 1:
      if (store_.partition_count() == 0) break;
      if (store_.delete_partition(dice_.below(store_.partition_count()))) mark("partition deleted");
      break;
    case 2:
      if (store_.give_up(machine)) mark("machine given up");
      note("give up " + std::to_string(machine + 1));
      break;
    case 3:
    case 4:
      if (store_.take(machine, tenant)) {
        mark("machine taken");
        note("taken " + std::to_string(machine + 1) + " by tenant " + std::to_string(tenant));
      }
      break;
    default:
      for (std::size_t g = 0; g < config_.gpus_per_machine; ++g) {
        if (dice_.percent(70)) static_cast<void>(store_.put(machine, g, dice_.next()));
      }
      note("put " + std::to_string(machine + 1));
      break;
  }
  if (!dice_.percent(10)) wake();
}

void World::interfere_with_partition() {
  if (fabric_.truth().empty()) return;
  auto at = fabric_.truth().begin();
  std::advance(at, static_cast<std::ptrdiff_t>(dice_.below(fabric_.truth().size())));
  const std::vector<std::uint64_t> gpus = store_.gpus();
  if (dice_.percent(40)) {
    note("dropped " + std::to_string(at->first));
    mark("partition dropped");
    fabric_.drop(at->first);
  } else {
    const std::uint64_t gpu = gpus[dice_.below(gpus.size())];
    note("stolen " + std::to_string(gpu) + " into " + std::to_string(at->first));
    mark("GPU stolen");
    fabric_.plant(gpu, at->first, now_.ns);
  }
}

void World::interfere() {
  const std::vector<std::uint64_t> gpus = store_.gpus();
  const std::uint64_t gpu = gpus[dice_.below(gpus.size())];
  switch (dice_.below(12)) {
    case 0: {
      const std::uint32_t id = fabric_.make_foreign("foreign-" + std::to_string(++foreign_made_));
      if (!fabric_.strangers().empty()) fabric_.plant(991, id, now_.ns);
      if (dice_.percent(70)) fabric_.plant(gpu, id, now_.ns);
      mark("foreign partition");
      note("foreign partition " + std::to_string(id) + " with " + std::to_string(gpu));
      break;
    }
    case 1:
      fabric_.show(gpu, !fabric_.is_listed(gpu));
      mark("GPU missing or back");
      note("listing of " + std::to_string(gpu) + " toggled");
      break;
    case 2:
      if (!dice_.percent(20)) break;
      fabric_.forget_all(dice_.percent(50), now_.ns);
      mark("manager forgot everything");
      note("amnesia");
      break;
    case 3:
    case 4:
      reachable_ = !reachable_;
      note(reachable_ ? "reachable" : "unreachable");
      break;
    case 5:
      fabric_.plant(gpu, 0, now_.ns);
      mark("GPU taken out");
      note("out: " + std::to_string(gpu));
      break;
    case 6:
      fabric_.restart();
      break;
    default:
      interfere_with_partition();
      break;
  }
  event();
}

std::string World::step_randomly() {
  const std::uint64_t roll = dice_.below(100);
  if (roll < 78) return drive();
  if (roll < 90) {
    request();
  } else if (roll < 95) {
    interfere();
  } else if (roll < 97) {
    return crash();
  } else {
    pass_time(static_cast<std::int64_t>(dice_.below(static_cast<std::uint64_t>(5 * kSecond))));
  }
  return check();
}

std::string World::settle() {
  const bool faults = std::exchange(faults_, false);
  std::string broken;
  for (int i = 0; i < 5'000 && broken.empty(); ++i) {
    const Effect effect = controller_->next(now_);
    if (effect.kind == EffectKind::kSleep && effect.until - now_ > Nanos(kSecond)) break;
    broken = drive();
  }
  faults_ = faults;
  return broken;
}

std::string World::come_to_rest() {
  note("faults stop");
  faults_ = false;
  reachable_ = true;
  armed_.clear();
  for (const std::uint64_t gpu : store_.gpus()) fabric_.show(gpu, true);
  const std::int64_t until = now_.ns + config_.late_max_ns + kDoubt + 6 * kInterval;
  for (int i = 0; now_.ns < until; ++i) {
    if (i > 20'000) return "convergence: the controller does not come to rest";
    if (std::string broken = drive(); !broken.empty()) return broken;
  }
  return Checker::at_rest(fabric_, store_.answers(now_.ns));
}

HistoryResult run_history(const WorldConfig& config, std::size_t steps) {
  World world(config);
  std::string broken;
  for (std::size_t i = 0; i < steps && broken.empty(); ++i) broken = world.step_randomly();
  if (broken.empty()) broken = world.come_to_rest();
  return {broken, world.history(), world.marks()};
}

}  // namespace imex::partition_sim
