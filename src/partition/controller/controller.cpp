#include "partition/controller/controller.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "base/mutex.hpp"
#include "os/thread.hpp"
#include "worker.hpp"

namespace imex::partition {
namespace {

constexpr auto kLeadEvery = std::chrono::milliseconds(1'000);

/// Endpoints belong together when they are known to serve one domain, or stand in one chassis.
std::string group_key(const Endpoint& endpoint) {
  if (endpoint.domain) return "domain " + endpoint.domain->to_string();
  if (!endpoint.chassis_serial.empty()) return "chassis " + endpoint.chassis_serial;
  return "endpoint " + endpoint.id.to_string();
}

/// What a worker was started with; another one needs another worker.
std::string fingerprint(const std::vector<Endpoint>& endpoints) {
  std::string text;
  for (const Endpoint& endpoint : endpoints) {
    text += endpoint.id.to_string() + ' ' + endpoint.url + ' ' + endpoint.tls_authority +
            (endpoint.verify_server ? " v" : " -") + (endpoint.has_credentials ? " c\n" : " -\n");
  }
  return text;
}

}  // namespace

struct Controller::State {
  struct Served {
    std::string fingerprint;
    std::vector<EndpointId> endpoints;
    std::unique_ptr<Worker> worker;
  };

  State(ControllerSettings s, ReconcilerStore& reconciler_store, ManagerFactory factory,
        ControllerParts common)
      : settings(std::move(s)),
        store(reconciler_store),
        open_manager(std::move(factory)),
        parts(std::move(common)) {}

  void run();
  void follow_leadership();
  void follow_endpoints(Term term);
  void serve(const std::string& key, std::vector<Endpoint> endpoints, Term term);
  void end_workers();
  void wake_workers();
  void wait();

  const ControllerSettings settings;
  ReconcilerStore& store;
  const ManagerFactory open_manager;
  ControllerParts parts;

  Mutex mutex;
  CondVar wake_up;
  bool stopping IMEX_GUARDED_BY(mutex) = false;
  bool changed IMEX_GUARDED_BY(mutex) = false;
  std::map<std::string, Served> served IMEX_GUARDED_BY(mutex);

  std::atomic<bool> leads = false;
  std::uint64_t term_number = 0;  // the thread's own
  std::thread thread;
};

void Controller::State::wake_workers() {
  const MutexLock lock(mutex);
  changed = true;
  for (auto& [key, entry] : served) {
    if (entry.worker) entry.worker->store_changed();
  }
  wake_up.notify_all();
}

void Controller::State::end_workers() {
  std::map<std::string, Served> ending;
  {
    const MutexLock lock(mutex);
    ending.swap(served);
  }
  for (auto& [key, entry] : ending) {
    if (entry.worker) entry.worker->stop();
  }
  // Destroyed here, outside of the lock: each waits for its thread.
}

void Controller::State::serve(const std::string& key, std::vector<Endpoint> endpoints, Term term) {
  Served entry{fingerprint(endpoints), {}, nullptr};
  EndpointGroup group;
  group.endpoints = std::move(endpoints);
  for (const Endpoint& endpoint : group.endpoints) {
    entry.endpoints.push_back(endpoint.id);
    auto credentials = store.credentials(endpoint.id);
    if (!credentials) {
      parts.log.limited(log::Level::kError, "credentials of a fabric endpoint cannot be read",
                        {{"endpoint", endpoint.url}, {"error", credentials.error().to_string()}});
      return;
    }
    group.credentials.push_back(std::move(*credentials));
  }
  auto manager = open_manager(group);
  if (!manager) {
    parts.log.limited(
        log::Level::kError, "fabric endpoint cannot be used",
        {{"endpoint", group.endpoints.front().url}, {"error", manager.error().to_string()}});
    for (const EndpointId& id : entry.endpoints) {
      parts.metrics.contact(id, manager.error().to_string(), "client_create_failed");
    }
    return;
  }
  entry.worker = std::make_unique<Worker>(WorkerParts{settings, store, parts, term},
                                          std::move(group), std::move(*manager));
  const MutexLock lock(mutex);
  served[key] = std::move(entry);
}

void Controller::State::follow_endpoints(Term term) {
  auto endpoints = store.endpoints();
  if (!endpoints) return;
  std::sort(endpoints->begin(), endpoints->end(),
            [](const Endpoint& a, const Endpoint& b) { return a.id < b.id; });
  std::map<std::string, std::vector<Endpoint>> groups;
  {
    const MutexLock lock(mutex);
    for (Endpoint& endpoint : *endpoints) {
      // A worker keeps its endpoints when their domain becomes known, so that it is not restarted.
      std::string key = group_key(endpoint);
      for (const auto& [name, entry] : served) {
        const auto& ids = entry.endpoints;
        if (!served.contains(key) && std::find(ids.begin(), ids.end(), endpoint.id) != ids.end()) {
          key = name;
          break;
        }
      }
      groups[key].push_back(std::move(endpoint));
    }
  }
  std::vector<std::unique_ptr<Worker>> ending;
  std::vector<std::string> missing;
  {
    const MutexLock lock(mutex);
    for (auto at = served.begin(); at != served.end();) {
      const auto group = groups.find(at->first);
      if (group == groups.end() || fingerprint(group->second) != at->second.fingerprint) {
        ending.push_back(std::move(at->second.worker));
        at = served.erase(at);
      } else {
        ++at;
      }
    }
    for (const auto& [key, group] : groups) {
      if (!served.contains(key)) missing.push_back(key);
    }
  }
  for (auto& worker : ending) worker->stop();
  ending.clear();
  for (const std::string& key : missing) serve(key, std::move(groups[key]), term);
}

void Controller::State::follow_leadership() {
  auto term = store.lead();
  const bool lead_now = term && term->has_value();
  bool deposed = lead_now && (*term)->number != term_number;
  {
    const MutexLock lock(mutex);
    for (const auto& [key, entry] : served) deposed |= entry.worker && entry.worker->deposed();
  }
  if (!lead_now || deposed) {
    leads.store(false, std::memory_order_release);
    parts.metrics.leading(false);
    end_workers();
  }
  if (!lead_now) return;
  if (!leads.exchange(true, std::memory_order_acq_rel)) {
    parts.log.info("this replica leads", {{"term", (*term)->number}});
    parts.metrics.leading(true);
  }
  term_number = (*term)->number;
  if (parts.count_logical_partitions) {
    if (auto count = parts.count_logical_partitions()) parts.metrics.logical_partitions(*count);
  }
  follow_endpoints(**term);
}

void Controller::State::wait() {
  const auto deadline = std::chrono::steady_clock::now() + kLeadEvery;
  const MutexLock lock(mutex);
  // A change may be a new endpoint; workers know of it already.
  while (!stopping && !changed) {
    if (!wake_up.wait_until(mutex, deadline)) break;
  }
  changed = false;
}

void Controller::State::run() {
  os::name_this_thread("imex-leader");
  for (;;) {
    {
      const MutexLock lock(mutex);
      if (stopping) break;
    }
    follow_leadership();
    wait();
  }
  end_workers();
}

Controller::Controller(ControllerSettings settings, ReconcilerStore& store,
                       ManagerFactory open_manager, ControllerParts parts)
    : state_(std::make_unique<State>(std::move(settings), store, std::move(open_manager),
                                     std::move(parts))) {}

Controller::~Controller() { stop(); }

void Controller::start() {
  if (!state_->settings.enabled || state_->thread.joinable()) return;
  state_->store.on_change([state = state_.get()] { state->wake_workers(); });
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

void Controller::stop() {
  if (!state_->thread.joinable()) return;
  state_->store.on_change({});
  {
    const MutexLock lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake_up.notify_all();
  state_->thread.join();
  state_->store.resign();
  state_->leads.store(false, std::memory_order_release);
  state_->parts.metrics.leading(false);
}

bool Controller::leading() const { return state_->leads.load(std::memory_order_acquire); }

std::size_t Controller::worker_count() const {
  const MutexLock lock(state_->mutex);
  return state_->served.size();
}

}  // namespace imex::partition
