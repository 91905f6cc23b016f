#include <array>

#include "partition/service/service.hpp"

namespace imex::partition {

std::span<const Operation> Service::operations() {
  using S = Service;
  static constexpr auto kOperations = std::to_array<Operation>({
      {"POST", "/nvlink-logical-partition", "create-nvlink-logical-partition",
       &S::create_partition},
      {"GET", "/nvlink-logical-partition", "get-all-nvlink-logical-partition", &S::list_partitions},
      {"GET", "/nvlink-logical-partition/{id}", "get-nvlink-logical-partition", &S::get_partition},
      {"PATCH", "/nvlink-logical-partition/{id}", "update-nvlink-logical-partition",
       &S::update_partition},
      {"DELETE", "/nvlink-logical-partition/{id}", "delete-nvlink-logical-partition",
       &S::delete_partition},
      {"GET", "/nvlink-logical-partition/{id}/sharing-group", "get-all-sharing-group",
       &S::list_sharing_groups},
      {"GET", "/nvlink-interface", "get-all-nvlink-interface", &S::list_interfaces},

      {"POST", "/vpc", "create-vpc", &S::create_vpc},
      {"GET", "/vpc", "get-all-vpc", &S::list_vpcs},
      {"GET", "/vpc/{id}", "get-vpc", &S::get_vpc},
      {"PATCH", "/vpc/{id}", "update-vpc", &S::update_vpc},
      {"PATCH", "/vpc/{id}/virtualization", "update-vpc-virtualization",
       &S::update_vpc_virtualization},
      {"DELETE", "/vpc/{id}", "delete-vpc", &S::delete_vpc},

      {"POST", "/instance", "create-instance", &S::create_instance},
      {"POST", "/instance/batch", "batch-create-instances", &S::create_instance_batch},
      {"GET", "/instance", "get-all-instance", &S::list_instances},
      // Types lie below /instance: before /instance/{id}.
      {"POST", "/instance/type", "create-instance-type", &S::create_instance_type},
      {"GET", "/instance/type", "get-all-instance-type", &S::list_instance_types},
      {"GET", "/instance/type/{id}", "get-instance-type", &S::get_instance_type},
      {"PATCH", "/instance/type/{id}", "update-instance-type", &S::update_instance_type},
      {"DELETE", "/instance/type/{id}", "delete-instance-type", &S::delete_instance_type},
      {"POST", "/instance/type/{id}/machine", "create-instance-type-machine-association",
       &S::add_type_machines},
      {"GET", "/instance/type/{id}/machine", "get-all-instance-type-machine-association",
       &S::list_type_machines},
      {"DELETE", "/instance/type/{id}/machine/{machineId}",
       "delete-instance-type-machine-association", &S::remove_type_machine},
      {"GET", "/instance/{id}", "get-instance", &S::get_instance},
      {"PATCH", "/instance/{id}", "update-instance", &S::update_instance},
      {"DELETE", "/instance/{id}", "delete-instance", &S::delete_instance},
      {"GET", "/instance/{id}/status-history", "get-instance-status-history",
       &S::get_instance_history},
      {"GET", "/instance/{instanceId}/nvlink-interface", "get-instance-nvlink-interface",
       &S::list_instance_interfaces},

      {"GET", "/metadata", "get-metadata", &S::get_metadata},
      {"GET", "/user/current", "get-current-user", &S::get_user},
      {"GET", "/tenant/current", "get-current-tenant", &S::get_tenant},
      {"GET", "/tenant/current/stats", "get-current-tenant-stats", &S::get_tenant_stats},
      {"GET", "/infrastructure-provider/current", "get-current-infrastructure-provider",
       &S::get_provider},
      {"GET", "/infrastructure-provider/current/stats", "get-current-infrastructure-provider-stats",
       &S::get_provider_stats},
      {"GET", "/service-account/current", "get-current-service-account", &S::get_service_account},

      {"POST", "/site", "create-site", &S::create_site},
      {"GET", "/site", "get-all-site", &S::list_sites},
      {"GET", "/site/{id}", "get-site", &S::get_site},
      {"PATCH", "/site/{id}", "update-site", &S::update_site},
      {"DELETE", "/site/{id}", "delete-site", &S::delete_site},
      {"GET", "/site/{id}/status-history", "get-site-status-history", &S::get_site_history},

      {"GET", "/machine", "get-all-machine", &S::list_machines},
      {"GET", "/machine/gpu/stats", "get-machine-gpu-stats", &S::get_gpu_stats},
      {"GET", "/machine/{id}", "get-machine", &S::get_machine},
      {"PATCH", "/machine/{id}", "update-machine", &S::update_machine},
      {"DELETE", "/machine/{id}", "delete-machine", &S::delete_machine},
      {"GET", "/machine/{id}/status-history", "get-machine-status-history",
       &S::get_machine_history},

      {"POST", "/allocation", "create-allocation", &S::create_allocation},
      {"GET", "/allocation", "get-all-allocation", &S::list_allocations},
      {"GET", "/allocation/{id}", "get-allocation", &S::get_allocation},
      {"PATCH", "/allocation/{id}", "update-allocation", &S::update_allocation},
      {"DELETE", "/allocation/{id}", "delete-allocation", &S::delete_allocation},

      {"GET", "/subnet", "get-all-subnet", &S::list_nothing},
      {"GET", "/vpc-prefix", "get-all-vpc-prefix", &S::list_nothing},
      {"GET", "/ipblock", "get-all-ipblock", &S::list_nothing},
      {"GET", "/operating-system", "get-all-operating-system", &S::list_nothing},
      {"GET", "/sshkeygroup", "get-all-ssh-key-group", &S::list_nothing},

      {"POST", "/nvlink-endpoint", "create-nvlink-endpoint", &S::create_endpoint},
      {"GET", "/nvlink-endpoint", "get-all-nvlink-endpoint", &S::list_endpoints},
      {"GET", "/nvlink-endpoint/{id}", "get-nvlink-endpoint", &S::get_endpoint},
      {"PATCH", "/nvlink-endpoint/{id}", "update-nvlink-endpoint", &S::update_endpoint},
      {"DELETE", "/nvlink-endpoint/{id}", "delete-nvlink-endpoint", &S::delete_endpoint},
      {"GET", "/nvlink-domain", "get-all-nvlink-domain", &S::list_domains},
      {"GET", "/nvlink-domain/{id}", "get-nvlink-domain", &S::get_domain},
      {"GET", "/nvlink-physical-partition", "get-all-nvlink-physical-partition",
       &S::list_physical_partitions},
      {"GET", "/nvlink-operation", "get-all-nvlink-operation", &S::list_operations},
      {"GET", "/nvlink-operation/{id}", "get-nvlink-operation", &S::get_operation},
      {"POST", "/nvlink-reservation", "create-nvlink-reservation", &S::create_reservation},
      {"GET", "/nvlink-reservation", "get-all-nvlink-reservation", &S::list_reservations},
      {"GET", "/nvlink-reservation/{id}", "get-nvlink-reservation", &S::get_reservation},
      {"DELETE", "/nvlink-reservation/{id}", "delete-nvlink-reservation", &S::delete_reservation},
      {"GET", "/nvlink-health", "get-nvlink-health", &S::get_health},
      {"GET", "/audit-record", "get-all-audit-record", &S::list_audit_records},
  });
  return kOperations;
}

}  // namespace imex::partition
