/// What the fabric consists of: endpoints, domains, trays with their machines, GPUs, and the
/// physical partitions that are ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partition/model/ids.hpp"
#include "partition/model/records.hpp"
#include "partition/model/status.hpp"

namespace imex::partition {

/// How to reach a fabric manager.
enum class FabricProtocol : std::uint8_t { kNmxC, kNmxM };

/// Where a fabric manager listens. Several endpoints may serve one domain (two chassis, or one
/// manager behind two addresses): they are equivalent, the reconciler fails over between them.
/// Credentials lie sealed beside it and come only through ReconcilerStore::credentials().
struct Endpoint {
  EndpointId id{};
  SiteId site{};
  FabricProtocol protocol = FabricProtocol::kNmxC;
  std::string url{};             ///< http://host:port is plaintext, https:// is TLS
  std::string chassis_serial{};  ///< may be empty: then only `domain` groups it
  std::string tls_authority{};   ///< name for SNI and verification; empty: host of the url
  bool verify_server = true;
  bool has_credentials = false;
  std::optional<DomainId> domain{};  ///< learned from Hello
  std::string state{};               ///< last word of the reconciler: "reachable", or what is wrong
  std::optional<WallTime> last_contact{};
  WallTime created{}, updated{};
};

/// Numbers of a domain that placement and limits need; 0: the manager did not say.
struct DomainLimits {
  std::uint32_t partitions_max = 0;
  std::uint32_t multicast_groups_max = 0;
  std::uint32_t multicast_groups_free = 0;
};

/// All GPUs that one set of NVLink switches connects.
struct Domain {
  DomainId id{};
  SiteId site{};
  std::string manager{};  ///< app_uuid of the fabric manager: a change means failover
  std::string manager_version{};
  std::string control_plane{};  ///< "configured", "offline", ...
  DomainLimits limits{};
  std::optional<WallTime> observed_at{};  ///< of the last complete observation
  WallTime created{}, updated{};
};

struct Gpu {
  std::uint64_t uid = 0;
  std::uint32_t device_instance = 0;  ///< zero-based index in its machine
  Health health = Health::kUnknown;
  /// Physical partition as last observed; 0: none.
  std::uint32_t fabric_partition = 0;
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

/// A compute tray and the host in it. Found through the fabric managers' GPU lists.
struct Machine {
  MachineId id{};
  SiteId site{};
  std::optional<InstanceTypeId> instance_type{};
  std::optional<InstanceId> instance{};
  Labels labels{};
  /// kReady: may be offered. kReset: released, its GPUs not yet seen outside tenants' partitions.
  /// kInUse, kMaintenance, kUnknown (no longer listed), kInitializing (not yet seen free).
  Status status = Status::kInitializing;
  std::string maintenance_message{};
  std::string product_name{};

  std::optional<DomainId> domain{};
  std::string chassis_serial{};
  std::uint32_t tray_index = 0;
  std::uint32_t slot_id = 0;
  std::uint32_t host_id = 0;
  std::vector<Gpu> gpus{};  ///< by device_instance
  std::optional<WallTime> observed_at{};
  WallTime created{}, updated{};
};

/// A partition of the fabric manager that is ours: it serves one logical partition in one domain.
/// (domain, fabric_id) and (domain, logical partition) are unique.
struct PhysicalPartition {
  PhysicalPartitionId id{};
  DomainId domain{};
  std::uint32_t fabric_id = 0;
  LogicalPartitionId partition{};
  TenantId tenant{};
  std::string name{};  ///< in the fabric manager; carries the logical partition's id
  std::vector<std::uint64_t> gpu_uids{};  ///< as last observed, sorted
  Health health = Health::kUnknown;
  std::uint32_t multicast_groups = 0;
  WallTime created{}, updated{};
};

}  // namespace imex::partition
