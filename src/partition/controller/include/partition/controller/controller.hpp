/// The reconciler at work: one worker per fabric endpoint group, while this replica leads.
///
///     Controller controller(settings, store, open_manager, {log, metrics});
///     controller.start();
///     ...
///     controller.stop();      // or the destructor: ends calls, joins all threads
///
/// A worker reads what is wanted from the store, observes its domain, carries out what
/// reconciler::DomainReconciler says, and writes back. It is wakened by writes of the store that
/// concern its domain and by events of its fabric manager. A failure stays with its endpoint.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "fabric/manager.hpp"
#include "log/log.hpp"
#include "partition/controller/metrics.hpp"
#include "partition/controller/settings.hpp"
#include "partition/store/reconciler_store.hpp"

namespace imex::partition {

/// Endpoints that serve one domain, equivalent to each other.
struct EndpointGroup {
  std::vector<Endpoint> endpoints;
  /// Of the endpoint at the same place.
  std::vector<EndpointCredentials> credentials;
};

/// Makes the client of a fabric manager; connects to nobody yet.
using ManagerFactory =
    std::function<Result<std::unique_ptr<fabric::FabricManager>>(const EndpointGroup&)>;

struct ControllerParts {
  log::Logger& log;
  ControllerMetrics& metrics;
  /// All logical partitions of the store, for the metric; absent: those that touch a domain.
  std::function<Result<std::uint64_t>()> count_logical_partitions{};
  /// Replaced in tests.
  std::function<std::chrono::system_clock::time_point()> wall_clock{};
};

class Controller {
 public:
  /// Borrows the store and the parts, which must outlive it.
  Controller(ControllerSettings settings, ReconcilerStore& store, ManagerFactory open_manager,
             ControllerParts parts);
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  /// Asks for leadership from now on, and works while it has it.
  void start();
  /// Ends within the time of a cancelled call; operations that had begun are in the journal.
  void stop();

  [[nodiscard]] bool leading() const;
  /// Workers that run: one per endpoint group.
  [[nodiscard]] std::size_t worker_count() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace imex::partition
