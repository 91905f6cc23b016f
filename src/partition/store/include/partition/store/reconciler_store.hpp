/// The reconciler's side of the store: who leads, what is wanted, what was seen and done.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "log/secret.hpp"
#include "partition/model/inventory.hpp"
#include "partition/model/reconciliation.hpp"

namespace imex::partition {

/// Proof of leadership. Grows with each change of the leader; every write of the reconciler carries
/// it and is refused once somebody else leads.
struct Term {
  std::uint64_t number = 0;
};

/// What an endpoint is spoken to with; all empty where none was given.
struct EndpointCredentials {
  std::string user{};
  log::Secret password{};
  std::string ca_certificate_path{};
  std::string client_certificate_path{};
  std::string client_key_path{};
};

/// What begin_operation() found. `fresh` false: this key was begun before; `record` says how it
/// stands, and the call must not be made again when it is finished.
struct BegunOperation {
  bool fresh = false;
  OperationRecord record{};
};

/// Thread-safe; calls block for a transaction. Errors of all: kUnavailable (database; retry later),
/// kDeadlineExceeded; of those that take a Term: kStale (another replica leads: stop at once, do
/// not touch the fabric).
class ReconcilerStore {
 public:
  virtual ~ReconcilerStore() = default;

  // ---- Leadership. SQLite: the one process that has the database. PostgreSQL: one replica; when
  // ---- it dies or stops, another leads within 5 s.
  /// The term while this replica leads, taking over if nobody does; nullopt: another leads. Cheap;
  /// call about once a second, since it also tells the others that the leader lives.
  [[nodiscard]] virtual Result<std::optional<Term>> lead() = 0;
  /// Lets another replica lead at once.
  virtual void resign() = 0;

  // ---- Inputs
  [[nodiscard]] virtual Result<std::vector<Endpoint>> endpoints() = 0;
  /// Opens the sealed credentials of an endpoint. Errors: kDataLoss (wrong key file).
  [[nodiscard]] virtual Result<EndpointCredentials> credentials(const EndpointId& endpoint) = 0;
  [[nodiscard]] virtual Result<std::vector<Domain>> domains() = 0;
  /// Everything wanted of a domain. A domain that was never observed is empty but for its id.
  [[nodiscard]] virtual Result<DesiredDomain> desired(const DomainId& domain) = 0;

  // ---- Observation
  /// Stores the observation unless a newer one is there (then nothing happens). Makes the domain
  /// with the endpoint's site, and machines for trays not known yet; refreshes GPUs, health and
  /// members of ours; machines whose GPUs are no longer listed become kUnknown.
  [[nodiscard]] virtual Result<void> write_observation(Term term, const EndpointId& endpoint,
                                                       const DomainObservation& observation) = 0;
  [[nodiscard]] virtual Result<void> report_endpoint(Term term, const EndpointReport& report) = 0;

  // ---- Journal
  /// Written (and on the disk) before the fabric is touched. `record.state` is taken as kBegun; a
  /// nil id is given by the store. kFailedPrecondition: its logical partition is deleted and the
  /// step would add members.
  [[nodiscard]] virtual Result<BegunOperation> begin_operation(Term term,
                                                               const OperationRecord& record) = 0;
  /// Settles a begun one; finishing it again the same way is fine. A kCreatePartition that
  /// completed also writes the PhysicalPartition row, a kDeletePartition removes it.
  [[nodiscard]] virtual Result<void> finish_operation(Term term, const std::string& key,
                                                      OperationState state, std::uint32_t fabric_id,
                                                      const std::string& detail) = 0;

  // ---- What the API shows
  [[nodiscard]] virtual Result<void> write_back(Term term, const WriteBack& changes) = 0;

  // ---- Waking
  /// Counts writes that change what is desired, by any replica.
  [[nodiscard]] virtual std::uint64_t change() const = 0;
  /// Returns as soon as change() differs from `seen`, at the deadline, or after interrupt(); the
  /// value then.
  [[nodiscard]] virtual std::uint64_t wait_for_change(
      std::uint64_t seen, std::chrono::steady_clock::time_point deadline) = 0;
  /// Called after each such write, on a thread of the store; keep it short, do not call the store.
  /// Empty: no more calls, and none is running when this returns. One callback.
  virtual void on_change(std::function<void()> callback) = 0;
  /// Ends all present and future wait_for_change(): for shutting down.
  virtual void interrupt() = 0;
};

}  // namespace imex::partition
