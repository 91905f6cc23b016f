/// One endpoint group: a thread that drives the reconciliation of its domain.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "os/random.hpp"
#include "partition/controller/controller.hpp"
#include "partition/reconciler/domain_reconciler.hpp"

namespace imex::partition {

struct WorkerParts {
  const ControllerSettings& settings;
  ReconcilerStore& store;
  ControllerParts common;
  Term term;
};

class Worker {
 public:
  Worker(WorkerParts parts, EndpointGroup group, std::unique_ptr<fabric::FabricManager> manager);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// The store was written; whether it concerns this domain is found out on the worker's thread.
  void store_changed();
  /// Ends calls and sleeps; the destructor waits for it.
  void stop();
  /// It found that another replica leads, and has stopped.
  [[nodiscard]] bool deposed() const noexcept { return deposed_.load(std::memory_order_acquire); }

 private:
  enum Wake : std::uint32_t { kStore = 1, kFabric = 2 };

  void run();
  /// Learns which domain is served; false: stopped.
  bool meet();
  void serve();
  void drive();
  void sleep_until(Time until);
  void take_wakes();
  [[nodiscard]] bool concerned();
  void fabric_event(const fabric::FabricEvent& event);

  void read_desired();
  void observe();
  void journal(const reconciler::JournalEntry& entry);
  void begin(const reconciler::JournalEntry& entry);
  void finish(const reconciler::JournalEntry& entry);
  void execute(const reconciler::Operation& operation);
  [[nodiscard]] reconciler::Outcome call(const reconciler::Operation& operation);
  void report(const reconciler::Report& report);
  void publish(const reconciler::Report& report);
  void measure(const reconciler::Report& report, const DesiredDomain& wanted);
  /// Operations that were in doubt and no longer can take effect.
  void settle_doubts();
  void report_endpoint(const std::string& state, const std::string& message);
  /// The store said no: ends the pass, and the worker if somebody else leads.
  void store_failed(const Error& error);

  [[nodiscard]] static Time now();
  [[nodiscard]] WallTime wall_now() const;
  [[nodiscard]] fabric::CallOptions within(Nanos timeout) const;
  [[nodiscard]] const EndpointId& endpoint_of(const std::string& url) const;

  WorkerParts parts_;
  EndpointGroup group_;
  std::unique_ptr<fabric::FabricManager> manager_;
  os::SystemRandom random_;
  std::atomic<bool> deposed_ = false;
  std::stop_source stop_;

  // ---- The worker's thread only
  DomainId domain_{};
  std::optional<reconciler::DomainReconciler> reconciler_;
  DesiredDomain wanted_;
  reconciler::Desired desired_;
  fabric::Snapshot snapshot_;
  DomainObservation facts_;  // version and limits, from describe()
  WallTime observed_at_{};
  std::string said_of_endpoint_;
  std::string run_id_;
  std::uint64_t keys_made_ = 0;
  std::string key_;
  /// Journal keys of operations in doubt, with the time from which they no longer are.
  std::map<std::string, Time> doubts_;

  Mutex mutex_;
  CondVar wake_up_;
  std::uint32_t wakes_ IMEX_GUARDED_BY(mutex_) = 0;
  bool stopping_ IMEX_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace imex::partition
