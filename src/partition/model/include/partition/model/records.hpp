/// The controller's objects as they are stored. Plain data; who may change what stands in
/// partition/service, how in partition/store.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "partition/model/ids.hpp"
#include "partition/model/status.hpp"

namespace imex::partition {

using Labels = std::map<std::string, std::string>;

/// An organisation that consumes; made by its first `GET tenant/current`.
struct Tenant {
  TenantId id{};
  std::string org{};
  std::string display_name{};
  bool targeted_instance_creation = false;
  WallTime created{}, updated{};
};

/// An organisation that owns sites and machines.
struct Provider {
  ProviderId id{};
  std::string org{};
  std::string display_name{};
  WallTime created{}, updated{};
};

struct SiteCapabilities {
  bool native_networking = false;
  bool network_security_group = false;
  bool nvlink_partition = true;
  bool flow = false;
  bool image_based_operating_system = false;
  friend bool operator==(const SiteCapabilities&, const SiteCapabilities&) = default;
};

struct Site {
  SiteId id{};
  ProviderId provider{};
  std::string name{};
  std::optional<std::string> description{};
  SiteCapabilities capabilities{};
  Status status = Status::kRegistered;
  /// JSON object of what is only kept and echoed (location, contact, serial console).
  std::string extra_json = "{}";
  WallTime created{}, updated{};
};

/// Machines that can stand for one another.
struct InstanceType {
  InstanceTypeId id{};
  ProviderId provider{};
  SiteId site{};
  std::string name{};
  std::optional<std::string> description{};
  Labels labels{};
  /// GPUs behind NVLink of each machine: the count of the capability {GPU, NVLink}; 0 if none.
  std::uint32_t nvlink_gpus = 0;
  /// JSON array of capabilities as given.
  std::string capabilities_json = "[]";
  Status status = Status::kReady;
  WallTime created{}, updated{};
};

/// So many machines of a type, granted to a tenant at a site.
struct Allocation {
  AllocationId id{};
  std::string name{};
  std::optional<std::string> description{};
  ProviderId provider{};
  TenantId tenant{};
  SiteId site{};
  InstanceTypeId instance_type{};
  std::uint32_t machines = 0;
  Status status = Status::kRegistered;
  WallTime created{}, updated{};
};

struct Vpc {
  VpcId id{};
  TenantId tenant{};
  SiteId site{};
  std::string name{};
  std::optional<std::string> description{};
  Labels labels{};
  /// The VPC default: new instances without nvLinkInterfaces get all their GPUs put there.
  std::optional<LogicalPartitionId> default_partition{};
  std::string network_virtualization_type{};
  Status status = Status::kReady;
  std::string extra_json = "{}";  ///< adjacent keys, kept and echoed
  WallTime created{}, updated{};
};

/// The last failure of what was done for an object.
struct LastError {
  std::string message{};
  WallTime at{};
  std::uint64_t count = 0;  ///< failures since the object last converged
};

/// What a tenant asks for; becomes one physical partition in each domain it touches.
struct LogicalPartition {
  LogicalPartitionId id{};
  TenantId tenant{};
  SiteId site{};
  std::string name{};
  std::optional<std::string> description{};
  /// kDeleting: accepts no members, goes once its physical partitions are gone.
  Status status = Status::kReady;
  /// Grows with each write; a compare of versions is the optimistic lock.
  std::uint64_t version = 1;
  ResiliencyMode resiliency = ResiliencyMode::kUnset;
  std::uint32_t multicast_groups = 16;  ///< wanted per physical partition; a multiple of 4
  std::optional<LastError> last_error{};
  WallTime created{}, updated{};
};

/// A tenant's hold on one machine.
struct Instance {
  InstanceId id{};
  TenantId tenant{};
  SiteId site{};
  VpcId vpc{};
  std::optional<InstanceTypeId> instance_type{};
  MachineId machine{};
  std::string name{};
  std::optional<std::string> description{};
  Labels labels{};
  Status status = Status::kPending;
  /// Grows with each change of its NVLink configuration; `config_changed` is when it last did.
  std::uint64_t version = 1;
  WallTime config_changed{};
  /// Whether it has been Ready once: then a change is Configuring, before it is Provisioning.
  bool provisioned = false;
  std::string extra_json = "{}";  ///< adjacent keys, kept and echoed
  WallTime created{}, updated{};
};

/// Binds one GPU of an instance to a logical partition.
struct NvlinkInterface {
  InterfaceId id{};
  InstanceId instance{};
  TenantId tenant{};
  SiteId site{};
  LogicalPartitionId partition{};
  std::uint32_t device_instance = 0;
  /// kPending: written, not observed. kReady: observed where it should be. kDeleting: replaced,
  /// row goes once the GPU is seen elsewhere.
  Status status = Status::kPending;
  std::optional<DomainId> domain{};        ///< as observed
  std::optional<std::uint64_t> gpu_uid{};  ///< as observed
  std::optional<LastError> last_error{};
  WallTime created{}, updated{};
};

/// One entry of an object's history: newest first in answers.
struct StatusDetail {
  Status status = Status::kPending;
  std::string message{};  ///< why; empty: null in answers
  WallTime created{}, updated{};
};

/// So many trays of a domain, kept free for a logical partition until `expires`.
struct Reservation {
  ReservationId id{};
  TenantId tenant{};
  SiteId site{};
  LogicalPartitionId partition{};
  DomainId domain{};
  InstanceTypeId instance_type{};
  std::uint32_t trays = 0;
  WallTime expires{};
  WallTime created{}, updated{};
};

/// One line of the audit log; written in the transaction of the change.
struct AuditRecord {
  std::uint64_t sequence = 0;
  WallTime at{};
  std::string actor{};   ///< subject of the token, or "reconciler"
  std::string org{};     ///< of the caller; empty for the controller itself
  std::string action{};  ///< "create", "update", "delete", "observe"
  Kind kind = Kind::kTenant;
  std::string object{};     ///< its id
  std::string from_json{};  ///< the former values of what changed; "null" for a creation
  std::string to_json{};    ///< the new ones; "null" for a deletion
};

}  // namespace imex::partition
