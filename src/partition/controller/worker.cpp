#include "worker.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

#include "os/thread.hpp"
#include "translate.hpp"

namespace imex::partition {

using reconciler::Effect;
using reconciler::EffectKind;
using reconciler::JournalState;
using reconciler::Verdict;

Worker::Worker(WorkerParts parts, EndpointGroup group,
               std::unique_ptr<fabric::FabricManager> manager)
    : parts_(std::move(parts)),
      group_(std::move(group)),
      manager_(std::move(manager)),
      run_id_(os::random_uuid().to_string().substr(0, 8)),
      thread_([this] { run(); }) {}

Worker::~Worker() {
  stop();
  thread_.join();
}

void Worker::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_up_.notify_all();
  stop_.request_stop();
}

Time Worker::now() { return Time{std::chrono::steady_clock::now().time_since_epoch().count()}; }

WallTime Worker::wall_now() const {
  const auto at =
      parts_.common.wall_clock ? parts_.common.wall_clock() : std::chrono::system_clock::now();
  return std::chrono::time_point_cast<WallTime::duration>(at);
}

fabric::CallOptions Worker::within(Nanos timeout) const {
  return {std::chrono::steady_clock::now() + timeout, stop_.get_token()};
}

const EndpointId& Worker::endpoint_of(const std::string& url) const {
  for (const Endpoint& endpoint : group_.endpoints) {
    if (url.find(endpoint.url) != std::string::npos ||
        endpoint.url.find(url) != std::string::npos) {
      return endpoint.id;
    }
  }
  return group_.endpoints.front().id;
}

// ---- Waking

void Worker::store_changed() {
  {
    const MutexLock lock(mutex_);
    wakes_ |= kStore;
  }
  wake_up_.notify_all();
}

void Worker::fabric_event(const fabric::FabricEvent& event) {
  parts_.common.metrics.woken(fabric::to_text(event.kind));
  {
    const MutexLock lock(mutex_);
    wakes_ |= kFabric;
  }
  wake_up_.notify_all();
}

void Worker::sleep_until(Time until) {
  // Bounded, so that a deadline that never comes is no endless wait.
  const Time at = std::min(until, now() + std::chrono::hours(1));
  const std::chrono::steady_clock::time_point deadline{std::chrono::nanoseconds(at.ns)};
  const MutexLock lock(mutex_);
  while (wakes_ == 0 && !stopping_ && now() < at) {
    if (!wake_up_.wait_until(mutex_, deadline)) break;
  }
}

void Worker::take_wakes() {
  std::uint32_t wakes = 0;
  {
    const MutexLock lock(mutex_);
    wakes = std::exchange(wakes_, 0U);
  }
  if ((wakes & kFabric) != 0) reconciler_->wake(now());
  if ((wakes & kStore) != 0 && concerned()) {
    parts_.common.metrics.woken("write");
    reconciler_->wake(now());
  }
}

/// A write may be about another domain: then nothing here has changed.
bool Worker::concerned() {
  auto wanted = parts_.store.desired(domain_);
  if (!wanted) return true;  // the pass will say why
  reconciler::Desired desired = desired_of(*wanted, parts_.settings);
  desired.revision = desired_.revision;
  return desired != desired_ || wanted->machines.size() != wanted_.machines.size();
}

// ---- Life

void Worker::run() {
  os::name_this_thread("imex-domain");
  if (meet()) serve();
  manager_->watch({});
}

bool Worker::meet() {
  reconciler::Waker waker({.interval = parts_.settings.interval});
  while (!stop_.stop_requested()) {
    if (now() < waker.due()) {
      sleep_until(waker.due());
      const MutexLock lock(mutex_);
      wakes_ = 0;
      continue;
    }
    waker.begin(now());
    auto described = manager_->describe(within(parts_.settings.observation_timeout));
    if (described) {
      domain_ = {described->domain_uuid};
      facts_.manager_version = described->version;
      facts_.limits.partitions_max = described->limits.partitions;
      facts_.limits.multicast_groups_max = described->limits.multicast_groups;
      report_endpoint("reachable", "");
      return !deposed();
    }
    report_endpoint("hello_failed", described.error().error.to_string());
    if (deposed()) return false;
    waker.failed(now(), false, random_);
  }
  return false;
}

void Worker::serve() {
  reconciler::DomainConfig config;
  config.wake.interval = parts_.settings.interval;
  config.doubt_window = parts_.settings.doubt_window;
  reconciler_.emplace(domain_.uuid, config, random_);
  // What an earlier life began and did not finish may still take effect.
  for (;;) {
    auto wanted = parts_.store.desired(domain_);
    if (wanted) {
      std::vector<reconciler::Operation> begun;
      for (const OperationRecord& record : wanted->unfinished) {
        begun.push_back(operation_of(record, parts_.settings));
        doubts_[record.idempotency_key] = now() + parts_.settings.doubt_window;
      }
      reconciler_->recover(begun, now());
      break;
    }
    parts_.common.log.limited(log::Level::kWarn, "state cannot be read",
                              {{"error", wanted.error().to_string()}});
    sleep_until(now() + std::chrono::seconds(1));
    if (stop_.stop_requested()) return;
  }
  manager_->watch([this](const fabric::FabricEvent& event) { fabric_event(event); });
  while (!stop_.stop_requested() && !deposed()) drive();
}

void Worker::drive() {
  if (reconciler_->idle()) {
    take_wakes();
    settle_doubts();
    if (deposed()) return;
  }
  const Effect effect = reconciler_->next(now());
  switch (effect.kind) {
    case EffectKind::kSleep:
      return sleep_until(effect.until);
    case EffectKind::kReadDesired:
      return read_desired();
    case EffectKind::kObserve:
      return observe();
    case EffectKind::kJournal:
      return journal(*effect.entry);
    case EffectKind::kExecute:
      return execute(effect.entry->operation);
    case EffectKind::kReport:
      return report(*effect.report);
  }
}

void Worker::store_failed(const Error& error) {
  if (error.code == Errc::kStale) {
    parts_.common.log.warn("another replica leads: stopping",
                           {{"domain", domain_.to_string()}, {"error", error.to_string()}});
    deposed_.store(true, std::memory_order_release);
  } else {
    parts_.common.log.limited(log::Level::kError, "state cannot be written",
                              {{"domain", domain_.to_string()}, {"error", error.to_string()}});
  }
  if (reconciler_) reconciler_->stopped(now());
}

// ---- Effects

void Worker::read_desired() {
  auto wanted = parts_.store.desired(domain_);
  if (!wanted) return store_failed(wanted.error());
  wanted_ = std::move(*wanted);
  wanted_.domain.id = domain_;
  desired_ = desired_of(wanted_, parts_.settings);
  reconciler_->desired(desired_, now());
}

void Worker::observe() {
  const Time begun = now();
  const WallTime at = wall_now();
  auto snapshot = manager_->observe(within(parts_.settings.observation_timeout));
  if (!snapshot) return reconciler_->unobserved(snapshot.error().error.to_string(), now());
  if (!snapshot->can_change()) {
    return reconciler_->unobserved("control plane is " +
                                       std::string(fabric::to_text(snapshot->control_plane)) +
                                       ": " + snapshot->status_text,
                                   now());
  }
  snapshot_ = std::move(*snapshot);
  observed_at_ = at;
  reconciler_->observed(observed_of(snapshot_, begun), now());
}

void Worker::journal(const reconciler::JournalEntry& entry) {
  if (entry.state == JournalState::kStarted) return begin(entry);
  finish(entry);
}

void Worker::begin(const reconciler::JournalEntry& entry) {
  // The same change may be needed again later: each attempt has a line of its own.
  key_ = entry.key + "-" + run_id_ + "-" + std::to_string(++keys_made_);
  auto begun =
      parts_.store.begin_operation(parts_.term, record_of(domain_.uuid, entry.operation, key_));
  if (begun) return reconciler_->journalled(now());
  if (begun.error().code == Errc::kFailedPrecondition) {
    return reconciler_->refused(begun.error().to_string(), now());
  }
  store_failed(begun.error());
}

void Worker::finish(const reconciler::JournalEntry& entry) {
  if (entry.state == JournalState::kInDoubt) {
    // Stays begun while it may still take effect: a later life must know of it.
    doubts_[key_] = now() + parts_.settings.doubt_window;
    return reconciler_->journalled(now());
  }
  const OperationState state =
      entry.state == JournalState::kDone ? OperationState::kCompleted : OperationState::kFailed;
  auto finished =
      parts_.store.finish_operation(parts_.term, key_, state, entry.partition_id, entry.text);
  if (!finished) return store_failed(finished.error());
  reconciler_->journalled(now());
}

void Worker::settle_doubts() {
  for (auto at = doubts_.begin(); at != doubts_.end();) {
    if (at->second > now()) {
      ++at;
      continue;
    }
    auto finished = parts_.store.finish_operation(parts_.term, at->first, OperationState::kTimedOut,
                                                  0, "no answer came");
    if (!finished && finished.error().code != Errc::kNotFound)
      return store_failed(finished.error());
    at = doubts_.erase(at);
  }
}

reconciler::Outcome Worker::call(const reconciler::Operation& operation) {
  const fabric::CallOptions options = within(parts_.settings.operation_timeout);
  const fabric::PartitionTarget target{operation.partition_id, operation.name};
  fabric::Outcome<void> changed{};
  std::uint32_t id = operation.partition_id;
  switch (operation.kind) {
    case reconciler::OperationKind::kCreate: {
      fabric::CreatePartition wanted;
      wanted.name = operation.name;
      wanted.gpu_uids = operation.gpus;
      wanted.resiliency = static_cast<fabric::ResiliencyMode>(operation.resiliency_mode);
      wanted.multicast_groups = operation.multicast_groups;
      auto created = manager_->create_partition(wanted, options);
      if (!created) return outcome_of(created.error());
      return {.verdict = Verdict::kDone, .partition_id = created->id};
    }
    case reconciler::OperationKind::kAdd:
      changed = manager_->update_partition(target, {.add = operation.gpus}, options);
      break;
    case reconciler::OperationKind::kRemove:
      changed = manager_->update_partition(target, {.remove = operation.gpus}, options);
      break;
    case reconciler::OperationKind::kDelete:
    case reconciler::OperationKind::kDeleteDefault:
      changed = manager_->delete_partition(target, options);
      break;
  }
  if (!changed) return outcome_of(changed.error());
  return {.verdict = Verdict::kDone, .partition_id = id};
}

void Worker::execute(const reconciler::Operation& operation) {
  const Time begun = now();
  const reconciler::Outcome outcome = call(operation);
  const Nanos took = now() - begun;
  const char* status = outcome.verdict == Verdict::kDone      ? "completed"
                       : outcome.verdict == Verdict::kRefused ? "failed"
                                                              : "timedout";
  parts_.common.metrics.operation(reconciler::metric_label(operation.kind), status, took);
  const log::Level level =
      outcome.verdict == Verdict::kDone ? log::Level::kInfo : log::Level::kWarn;
  parts_.common.log.log(
      level, reconciler::describe(operation),
      {{"domain", domain_.to_string()},
       {"status", status},
       {"ms", std::chrono::duration_cast<std::chrono::milliseconds>(took).count()},
       {"detail", outcome.text}});
  reconciler_->executed(outcome, now());
}

// ---- Reporting

void Worker::report_endpoint(const std::string& state, const std::string& message) {
  for (const Endpoint& endpoint : group_.endpoints) {
    parts_.common.metrics.contact(endpoint.id, message, state);
  }
  if (said_of_endpoint_ == state + message) return;
  parts_.common.log.log(message.empty() ? log::Level::kInfo : log::Level::kWarn,
                        "fabric manager is " + state,
                        {{"endpoint", group_.endpoints.front().url}, {"error", message}});
  for (const Endpoint& endpoint : group_.endpoints) {
    EndpointReport said{endpoint.id, {}, state, message, wall_now()};
    if (!domain_.is_nil()) said.domain = domain_;
    auto written = parts_.store.report_endpoint(parts_.term, said);
    if (!written) return store_failed(written.error());
  }
  said_of_endpoint_ = state + message;
}

void Worker::report(const reconciler::Report& report) {
  if (!report.observed) {
    report_endpoint("partition_monitor_work_failed", report.failure);
    if (!reconciler_->idle()) reconciler_->reported(now());
    return;
  }
  publish(report);
}

void Worker::publish(const reconciler::Report& report) {
  report_endpoint("reachable", "");
  if (reconciler_->idle()) return;  // the store failed
  auto observed = parts_.store.write_observation(parts_.term, endpoint_of(snapshot_.endpoint),
                                                 observation_of(snapshot_, facts_, observed_at_));
  if (!observed) return store_failed(observed.error());
  const WriteBack changes = write_back_of(wanted_, report, observed_at_);
  const bool news = !changes.interfaces.empty() || !changes.instances.empty() ||
                    !changes.partitions.empty() || !changes.machines.empty() ||
                    !changes.adopted.empty() || !changes.lost.empty() ||
                    std::any_of(wanted_.partitions.begin(), wanted_.partitions.end(),
                                [](const auto& p) { return p.status == Status::kDeleting; });
  if (news) {
    auto written = parts_.store.write_back(parts_.term, changes);
    if (!written) return store_failed(written.error());
  }
  parts_.common.metrics.stale_partitions(static_cast<std::uint32_t>(changes.lost.size()));
  measure(report, wanted_);
  const bool found_more = std::any_of(
      snapshot_.gpus.begin(), snapshot_.gpus.end(), [&](const fabric::ObservedGpu& gpu) {
        return std::none_of(desired_.machines.begin(), desired_.machines.end(), [&](const auto& m) {
          return std::find(m.gpus.begin(), m.gpus.end(), gpu.uid) != m.gpus.end();
        });
      });
  // Machines that were just found are judged by the next pass.
  if (found_more) reconciler_->wake(now());
  reconciler_->reported(now());
}

void Worker::measure(const reconciler::Report& report, const DesiredDomain& wanted) {
  DomainCounts counts = counts_of(wanted, snapshot_, report);
  counts.operations_in_doubt = static_cast<double>(doubts_.size());
  parts_.common.metrics.domain(domain_, counts);
  if (report.final) parts_.common.metrics.pass(report.duration);
  for (const DesiredMachine& machine : wanted.machines) {
    if (!machine.instance || machine.instance_status == Status::kReady ||
        machine.instance_status == Status::kTerminating) {
      continue;
    }
    parts_.common.metrics.config_pending(
        std::max(Nanos(0), Nanos(wall_now() - machine.config_changed)));
  }
}

}  // namespace imex::partition
