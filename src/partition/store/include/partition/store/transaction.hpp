/// Reading and writing records in one transaction of the store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "partition/model/inventory.hpp"
#include "partition/model/reconciliation.hpp"
#include "partition/model/records.hpp"
#include "partition/store/reconciler_store.hpp"

namespace imex::partition {

namespace sql {
class Connection;
}

/// What records can be found and ordered by. Not each record has each; naming one that it has not
/// is our own mistake.
enum class Field : std::uint8_t {
  kId,
  kName,
  kOrg,
  kStatus,
  kCreated,
  kUpdated,
  kProvider,
  kTenant,
  kSite,
  kVpc,
  kInstanceType,
  kInstance,
  kMachine,
  kPartition,  ///< logical; of a VPC its default
  kDomain,
  kDevice,
  kChassis,
  kUrl,
  kState,
  kExpires,
};

/// The field is one of the values (given as text), or, with `negated`, none of them. An empty list
/// of values means "is null" ("is not null").
struct Filter {
  Field field = Field::kId;
  std::vector<std::string> values{};
  bool negated = false;
};

/// All filters must hold.
struct ListQuery {
  std::vector<Filter> filters{};
  /// Case-insensitive part of one of the record's texts (name, description, status).
  std::string text{};
  Field order = Field::kCreated;
  bool descending = false;
  std::uint64_t offset = 0;
  std::uint64_t limit = kNoLimit;

  static constexpr std::uint64_t kNoLimit = 1'000'000;
};

template <class T>
struct Page {
  std::vector<T> rows{};
  std::uint64_t total = 0;  ///< without offset and limit
};

/// The key of a record's table.
template <class T>
struct KeyOf {
  using Type = decltype(T::id);
};

struct PartitionUsage {
  std::uint32_t gpus = 0;
  std::uint32_t instances = 0;
};
struct DomainMembers {
  DomainId domain;
  std::uint32_t gpus = 0;
};
/// A snapshot of the database. T: Tenant, Provider, Site, InstanceType, Allocation, Vpc,
/// LogicalPartition, Instance, NvlinkInterface, Machine, Domain, Endpoint, PhysicalPartition,
/// OperationRecord, Reservation. Errors of all: kUnavailable, kDeadlineExceeded, kDataLoss.
class ReadTransaction {
 public:
  ReadTransaction(sql::Connection& connection, WallTime now) noexcept
      : connection_(connection), now_(now) {}

  /// One time for all that this transaction writes.
  [[nodiscard]] WallTime now() const noexcept { return now_; }

  template <class T>
  [[nodiscard]] Result<std::optional<T>> find(const typename KeyOf<T>::Type& id);
  /// Ordered by the field, then by id.
  template <class T>
  [[nodiscard]] Result<std::vector<T>> list(const ListQuery& query);
  template <class T>
  [[nodiscard]] Result<Page<T>> page(const ListQuery& query);
  template <class T>
  [[nodiscard]] Result<std::uint64_t> count(const ListQuery& query);

  [[nodiscard]] Result<std::optional<Tenant>> tenant_of(const std::string& org);
  [[nodiscard]] Result<std::optional<Provider>> provider_of(const std::string& org);

  /// Newest first.
  [[nodiscard]] Result<std::vector<StatusDetail>> history(Kind kind, const std::string& id,
                                                          std::uint64_t limit);
  /// Interfaces in the partition that are not being deleted.
  [[nodiscard]] Result<PartitionUsage> usage(const LogicalPartitionId& partition);
  /// Where GPUs of these partitions were observed.
  [[nodiscard]] Result<std::vector<DomainMembers>> members(
      const std::vector<LogicalPartitionId>& partitions);
  /// Trays of a domain that instances with a GPU in the partition got since `since`.
  [[nodiscard]] Result<std::uint32_t> trays_in(const LogicalPartitionId& partition,
                                               const DomainId& domain, WallTime since);
  [[nodiscard]] Result<std::uint64_t> allocated_machines(const TenantId& tenant,
                                                         const InstanceTypeId& type);
  /// All that the fabric manager listed, ours or not.
  [[nodiscard]] Result<std::vector<ObservedPartition>> observed_partitions(const DomainId& domain);
  [[nodiscard]] Result<std::optional<OperationRecord>> operation_by_key(const std::string& key);
  /// The term of leadership that has begun last; see ReconcilerStore.
  [[nodiscard]] Result<std::uint64_t> leader_term();
  /// What stands sealed beside an endpoint; empty if nothing does.
  [[nodiscard]] Result<std::string> sealed_credentials(const EndpointId& endpoint);
  /// Newest first, older than `before` (0: from the newest).
  [[nodiscard]] Result<std::vector<AuditRecord>> audit_log(std::uint64_t before,
                                                           std::uint64_t limit);

 protected:
  sql::Connection& connection_;
  WallTime now_;
};

/// All that is wanted of a domain, as ReconcilerStore::desired() gives it, in this snapshot.
[[nodiscard]] Result<DesiredDomain> read_desired(ReadTransaction& t, const DomainId& domain);

/// Who writes; stands in the audit log.
struct Actor {
  std::string subject{};
  std::string org{};
};

/// All of it or nothing. Each write puts a line in the audit log, a change of status one in the
/// object's history; a write that changes nothing does neither. Errors beside those of reading:
/// kAlreadyExists (unique name, number or machine), kFailedPrecondition (something still refers to
/// it, or what it refers to is gone).
class WriteTransaction : public ReadTransaction {
 public:
  WriteTransaction(sql::Connection& connection, WallTime now, const Actor& actor) noexcept
      : ReadTransaction(connection, now), actor_(actor) {}

  /// `created` and `updated` are set by the store unless `created` is set already.
  template <class T>
  [[nodiscard]] Result<void> insert(T& record, std::string_view message = {});
  /// Whether anything differed; only then is `updated` set. Errors: kNotFound.
  template <class T>
  [[nodiscard]] Result<bool> update(T& record, std::string_view message = {});
  /// Errors: kNotFound.
  template <class T>
  [[nodiscard]] Result<void> remove(const typename KeyOf<T>::Type& id);
  /// Adds to an object's history without a change of status.
  [[nodiscard]] Result<void> note(Kind kind, const std::string& id, Status status,
                                  std::string_view message);

  /// Text that Store has sealed; empty: removes what is there.
  [[nodiscard]] Result<void> put_credentials(const EndpointId& endpoint, const std::string& sealed);

  [[nodiscard]] Result<void> replace_observed_partitions(
      const DomainId& domain, const std::vector<ObservedPartition>& partitions);

  /// Inserts, or updates the row of the same (domain, logical partition) or (domain, fabric id).
  [[nodiscard]] Result<void> put_physical(PhysicalPartition row);
  /// Removes a logical partition that is kDeleting once nothing of it is left: no interfaces, no
  /// physical partitions. False: something is.
  [[nodiscard]] Result<bool> remove_if_free(const LogicalPartitionId& partition);

  /// The reconciler has something to do once this commits.
  void wake_reconciler() noexcept { wakes_ = true; }
  [[nodiscard]] bool wakes_reconciler() const noexcept { return wakes_; }

 private:
  Result<void> audit(std::string_view action, Kind kind, const std::string& object,
                     const std::string& from_json, const std::string& to_json);

  const Actor& actor_;
  bool wakes_ = false;
};

}  // namespace imex::partition
