/// The words between store and reconciler: what is wanted of a domain, what was seen of it, what
/// is done about the difference, and what the API is told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partition/model/ids.hpp"
#include "partition/model/inventory.hpp"
#include "partition/model/records.hpp"
#include "partition/model/status.hpp"

namespace imex::partition {

// ---- Observed ----------------------------------------------------------------------------------

/// A partition as the fabric manager lists it.
struct ObservedPartition {
  std::uint32_t fabric_id = 0;
  std::string name{};
  std::vector<std::uint64_t> gpu_uids{};  ///< sorted
  Health health = Health::kUnknown;
  std::uint32_t multicast_groups = 0;
  friend bool operator==(const ObservedPartition&, const ObservedPartition&) = default;
};

/// A GPU as the fabric manager lists it.
struct ObservedGpu {
  std::uint64_t uid = 0;
  std::string chassis_serial{};
  std::uint32_t tray_index = 0;
  std::uint32_t slot_id = 0;
  std::uint32_t host_id = 0;
  std::uint32_t device_instance = 0;  ///< zero-based, whatever the manager counts from
  Health health = Health::kUnknown;
  std::uint32_t fabric_partition = 0;  ///< 0: none
  friend bool operator==(const ObservedGpu&, const ObservedGpu&) = default;
};

/// Everything that one complete look at a domain showed. An observation that failed half way is
/// not one: it is reported as an EndpointReport, and the last one ages.
struct DomainObservation {
  DomainId domain{};
  WallTime at{};          ///< when the first of its requests was sent
  std::string manager{};  ///< app_uuid
  std::string manager_version{};
  std::string control_plane{};
  DomainLimits limits{};
  std::vector<ObservedPartition> partitions{};  ///< by fabric_id
  std::vector<ObservedGpu> gpus{};              ///< by uid
};

/// What came of talking to an endpoint.
struct EndpointReport {
  EndpointId endpoint{};
  std::optional<DomainId> domain{};  ///< when Hello told it
  std::string state{};               ///< "reachable", "no_endpoint", "hello_failed", ...
  std::string message{};             ///< for people; empty when reachable
  WallTime at{};
};

// ---- Desired -----------------------------------------------------------------------------------

/// What one GPU of a machine is wanted for.
struct DesiredGpu {
  std::uint32_t device_instance = 0;
  std::uint64_t uid = 0;  ///< from the inventory
  /// nullopt: wanted in no partition of a tenant.
  std::optional<LogicalPartitionId> partition{};
  /// The interfaces that the wish stems from: the live one, and those being replaced.
  std::optional<InterfaceId> interface{};
  Status interface_status = Status::kPending;
  std::vector<InterfaceId> leaving{};
};

struct DesiredMachine {
  MachineId id{};
  Status status = Status::kReady;
  std::optional<InstanceId> instance{};
  std::uint64_t instance_version = 0;
  Status instance_status = Status::kPending;
  bool instance_provisioned = false;
  WallTime config_changed{};
  std::string chassis_serial{};
  std::uint32_t tray_index = 0;
  std::uint32_t slot_id = 0;
  std::vector<DesiredGpu> gpus{};  ///< by device_instance
};

/// One step on the fabric. Its idempotency key makes a step that was begun before a crash known
/// after it.
enum class OperationKind : std::uint8_t {
  kCreatePartition,
  kDeletePartition,
  kAddGpus,
  kRemoveGpus,
  kDeleteDefaultPartition,
};
[[nodiscard]] std::string_view operation_kind_name(OperationKind kind) noexcept;
[[nodiscard]] std::optional<OperationKind> parse_operation_kind(std::string_view name) noexcept;

enum class OperationState : std::uint8_t {
  kBegun,       ///< written before the call; after a crash: outcome unknown, observe and settle
  kCompleted,   ///< the manager said so
  kFailed,      ///< the manager refused
  kTimedOut,    ///< no answer; may have taken effect
  kCancelled,   ///< given up before the call
  kRolledBack,  ///< taken back because a later step of the same move failed
};
[[nodiscard]] std::string_view operation_state_name(OperationState state) noexcept;
[[nodiscard]] std::optional<OperationState> parse_operation_state(std::string_view name) noexcept;

/// One line of the journal.
struct OperationRecord {
  OperationId id{};
  /// Chosen by the reconciler; beginning a key again returns the record that is there.
  std::string idempotency_key{};
  DomainId domain{};
  OperationKind kind = OperationKind::kCreatePartition;
  OperationState state = OperationState::kBegun;
  std::optional<LogicalPartitionId> partition{};
  std::optional<TenantId> tenant{};
  std::uint32_t fabric_id = 0;  ///< of a create: known when completed
  std::vector<std::uint64_t> gpu_uids{};
  /// Steps of one move share a group and count from 0.
  std::string group{};
  std::uint32_t step = 0;
  std::uint32_t attempt = 1;
  std::string detail{};  ///< the manager's word, for people
  WallTime begun{};
  std::optional<WallTime> finished{};
};

/// Everything wanted of one domain, read in one transaction.
struct DesiredDomain {
  Domain domain{};
  std::vector<DesiredMachine> machines{};      ///< all of the domain, by id
  std::vector<LogicalPartition> partitions{};  ///< those that touch it, kDeleting included
  std::vector<PhysicalPartition> physical{};   ///< ours in this domain, by fabric_id
  std::vector<OperationRecord> unfinished{};   ///< kBegun of this domain, oldest first
  std::uint64_t change = 0;  ///< counter of changes at the time of reading; see wait_for_change()
};

// ---- Written back ------------------------------------------------------------------------------

/// New state of an interface. `gone`: its GPU has left, the row goes.
struct InterfaceStatus {
  InterfaceId id{};
  Status status = Status::kPending;
  std::optional<DomainId> domain{};
  std::optional<std::uint64_t> gpu_uid{};
  std::string error{};  ///< not empty: becomes the last error, counted
  bool gone = false;
};

/// New state of an instance; skipped when its version is no longer `version`. `gone`: all its GPUs
/// are free of tenants' partitions, the row goes and its machine becomes kReady.
struct InstanceStatus {
  InstanceId id{};
  std::uint64_t version = 0;
  Status status = Status::kPending;
  std::string message{};
  bool gone = false;
};

/// New state of a logical partition. `error` as above. A kDeleting one goes by itself once it has
/// neither interfaces nor physical partitions.
struct PartitionStatus {
  LogicalPartitionId id{};
  std::optional<Status> status{};
  std::string message{};
  std::string error{};
};

/// New state of a machine without instance: kReady once it was seen clean.
struct MachineStatus {
  MachineId id{};
  Status status = Status::kReady;
  std::string message{};
};

/// The result of comparing desired with observed, in one transaction. All parts are idempotent;
/// only what differs is written, audited and put in histories.
struct WriteBack {
  DomainId domain{};
  WallTime at{};
  std::vector<InterfaceStatus> interfaces{};
  std::vector<InstanceStatus> instances{};
  std::vector<PartitionStatus> partitions{};
  std::vector<MachineStatus> machines{};
  std::vector<PhysicalPartition> adopted{};  ///< made or recognised; id nil: given by the store
  std::vector<std::uint32_t> lost{};         ///< fabric ids of ours that the manager has no more
};

}  // namespace imex::partition
