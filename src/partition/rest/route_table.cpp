#include "route_table.hpp"

#include <algorithm>
#include <array>

namespace imex::partition {

namespace {

constexpr std::string_view kBasic = "NAME STATUS CREATED UPDATED";
constexpr std::string_view kNone = "";
constexpr std::string_view kDeleted = "text";

// Grouped as in partition-api.md 2.5 to 2.10; what NICo has not, comes last.
constexpr auto kRows = std::to_array<RouteRow>({
    // Logical partitions
    {"create-nvlink-logical-partition", kTenantAdmin, "Create a logical partition", kNone, kNone,
     "@NVLinkLogicalPartitionCreate", 201, "@NVLinkLogicalPartition", "404 409 412 501"},
    {"get-all-nvlink-logical-partition", kTenantAdmin, "List the tenant's logical partitions",
     "siteId:uuid status:#LogicalPartitionStatus query:string includeInterfaces:bool "
     "includeStats:bool includeVpcs:bool includeRelation:[#RelationSiteTenant]",
     kBasic, kNone, 200, "[@NVLinkLogicalPartition]", "404"},
    {"get-nvlink-logical-partition", kTenantAdmin, "Get a logical partition",
     "includeInterfaces:bool includeStats:bool includeVpcs:bool "
     "includeRelation:[#RelationSiteTenant]",
     kNone, kNone, 200, "@NVLinkLogicalPartition", "404"},
    {"update-nvlink-logical-partition", kTenantAdmin, "Rename or describe a logical partition",
     kNone, kNone, "@NVLinkLogicalPartitionUpdate", 200, "@NVLinkLogicalPartition",
     "404 409 412 501"},
    {"delete-nvlink-logical-partition", kTenantAdmin, "Delete a logical partition", kNone, kNone,
     kNone, 202, kDeleted, "404 409 412 501"},
    {"get-all-sharing-group", kTenantAdmin,
     "Which instances of a logical partition can share memory now", kNone, kNone, kNone, 200,
     "[object]", "404"},

    // NVLink interfaces
    {"get-all-nvlink-interface", kTenantAdmin, "List the tenant's NVLink interfaces",
     "siteId:[uuid] instanceId:[uuid] nvLinkLogicalPartitionId:[uuid] nvLinkDomainId:[uuid] "
     "status:[#InterfaceStatus] includeRelation:[#RelationInterface]",
     "STATUS CREATED UPDATED", kNone, 200, "[@NVLinkInterface]", "404"},
    {"get-instance-nvlink-interface", kTenantAdmin, "List the NVLink interfaces of an instance",
     "status:[#InterfaceStatus] includeRelation:[#RelationInterface]", "STATUS CREATED UPDATED",
     kNone, 200, "[@NVLinkInterface]", "404"},

    // VPCs
    {"create-vpc", kTenantAdmin, "Create a VPC", kNone, kNone, "@VpcCreate", 201, "@Vpc",
     "404 409 412 501"},
    {"get-all-vpc", kTenantAdmin, "List the tenant's VPCs",
     "siteId:uuid status:#VpcStatus networkSecurityGroupId:string "
     "nvLinkLogicalPartitionId:string query:string includeRelation:[#RelationVpc]",
     kBasic, kNone, 200, "[@Vpc]", "404"},
    {"get-vpc", kTenantAdmin, "Get a VPC", "includeRelation:[#RelationVpc]", kNone, kNone, 200,
     "@Vpc", "404"},
    {"update-vpc", kTenantAdmin, "Change a VPC", kNone, kNone, "@VpcUpdate", 200, "@Vpc",
     "404 409 412 501"},
    {"update-vpc-virtualization", kTenantAdmin, "Change how a VPC's network is made", kNone, kNone,
     "@VpcVirtualizationUpdate", 200, "@Vpc", "404 409 412 501"},
    {"delete-vpc", kTenantAdmin, "Delete a VPC", kNone, kNone, kNone, 202, kDeleted,
     "404 409 412 501"},

    // Instances
    {"create-instance", kTenantAdmin, "Create an instance", kNone, kNone, "@InstanceCreate", 201,
     "@Instance", "404 409 412 501"},
    {"batch-create-instances", kTenantAdmin, "Create several instances, or none", kNone, kNone,
     "@BatchInstanceCreate", 201, "[@Instance]", "404 409 412 501"},
    {"get-all-instance", kTenantAdmin, "List the tenant's instances",
     "infrastructureProviderId:uuid siteId:[uuid] vpcId:[uuid] instanceTypeId:[uuid] "
     "operatingSystemId:[string] machineId:[string] name:string status:[#InstanceStatus] "
     "ipAddress:[string] networkSecurityGroupId:[string] query:string "
     "includeRelation:[#RelationInstance]",
     kBasic, kNone, 200, "[@Instance]", "404"},
    {"get-instance", kTenantAdmin, "Get an instance", "includeRelation:[#RelationInstance]", kNone,
     kNone, 200, "@Instance", "404"},
    {"get-instance-status-history", kTenantAdmin, "What became of an instance", kNone, kNone, kNone,
     200, "[@StatusDetail]", "404"},
    {"update-instance", kTenantAdmin, "Change an instance, or reboot it", kNone, kNone,
     "@InstanceUpdate", 200, "@Instance", "404 409 412 501"},
    {"delete-instance", kTenantAdmin, "Delete an instance", kNone, kNone, "@InstanceDelete?", 202,
     kDeleted, "404 409 412 501"},

    // Who is asking
    {"get-metadata", kMember, "Version of the service", kNone, kNone, kNone, 200, "@Metadata", ""},
    {"get-current-user", kMember, "Who the token is of", kNone, kNone, kNone, 200, "@User", ""},
    {"get-current-tenant", kTenantAdmin, "The org as a tenant; made at first use", kNone, kNone,
     kNone, 200, "@Tenant", ""},
    {"get-current-tenant-stats", kTenantAdmin, "Counts of the tenant's objects", kNone, kNone,
     kNone, 200, "object", "404"},
    {"get-current-infrastructure-provider", kProvider, "The org as a provider; made at first use",
     kNone, kNone, kNone, 200, "@InfrastructureProvider", ""},
    {"get-current-infrastructure-provider-stats", kProvider, "Counts of the provider's objects",
     kNone, kNone, kNone, 200, "object", "404"},
    {"get-current-service-account", kAnyRole, "Whether the token is a service account's", kNone,
     kNone, kNone, 200, "@ServiceAccount", ""},

    // Sites, machines, types, allocations
    {"create-site", kProviderAdmin, "Create a site", kNone, kNone, "@SiteCreate", 201, "@Site",
     "409"},
    {"get-all-site", kAnyRole, "List sites",
     "infrastructureProviderId:uuid tenantId:uuid status:[#SiteStatus] "
     "isNativeNetworkingEnabled:bool isNetworkSecurityGroupEnabled:bool "
     "isNVLinkPartitionEnabled:bool isFlowEnabled:bool includeMachineStats:bool query:string "
     "includeRelation:[#RelationProvider]",
     kBasic, kNone, 200, "[@Site]", "404"},
    {"get-site", kAnyRole, "Get a site", "includeRelation:[#RelationProvider]", kNone, kNone, 200,
     "@Site", "404"},
    {"get-site-status-history", kAnyRole, "What became of a site", kNone, kNone, kNone, 200,
     "[@StatusDetail]", "404"},
    {"update-site", kProviderAdmin, "Change a site", kNone, kNone, "@SiteUpdate", 200, "@Site",
     "404 409"},
    {"delete-site", kProviderAdmin, "Delete a site", kNone, kNone, kNone, 202, kDeleted,
     "404 409 412"},
    {"get-all-machine", kAnyRole, "List machines",
     "siteId:uuid id:[string] hasInstanceType:bool instanceTypeId:[uuid] tenantId:[uuid] "
     "hasInstance:bool isMissingOnSite:bool nvLinkDomainId:[uuid] includeMetadata:bool "
     "status:[#MachineStatus] "
     "capabilityType:string capabilityName:[string] hwSkuDeviceType:[string] query:string "
     "includeRelation:[#RelationMachine]",
     "ID STATUS CREATED UPDATED", kNone, 200, "[@Machine]", "404"},
    {"get-machine", kAnyRole, "Get a machine",
     "includeMetadata:bool includeRelation:[#RelationMachine]", kNone, kNone, 200, "@Machine",
     "404"},
    {"get-machine-status-history", kAnyRole, "What became of a machine", kNone, kNone, kNone, 200,
     "[@StatusDetail]", "404"},
    {"update-machine", kProviderAdmin, "Change a machine", kNone, kNone, "@MachineUpdate", 200,
     "@Machine", "404 409"},
    {"delete-machine", kProviderAdmin, "Forget a machine", kNone, kNone, kNone, 202, kDeleted,
     "404 409 412"},
    {"get-machine-gpu-stats", kProvider, "GPUs of a site by name", "siteId:uuid!", kNone, kNone,
     200, "[@GpuStats]", "404"},
    {"create-instance-type", kProviderAdmin, "Create an instance type", kNone, kNone,
     "@InstanceTypeCreate", 201, "@InstanceType", "404 409"},
    {"get-all-instance-type", kAnyRole, "List instance types",
     "infrastructureProviderId:uuid tenantId:uuid siteId:uuid status:#InstanceTypeStatus "
     "includeMachineAssignment:bool includeAllocationStats:bool excludeUnallocated:bool "
     "query:string includeRelation:[#RelationProviderSite]",
     kBasic, kNone, 200, "[@InstanceType]", "404"},
    {"get-instance-type", kAnyRole, "Get an instance type",
     "includeMachineAssignment:bool includeAllocationStats:bool "
     "includeRelation:[#RelationProviderSite]",
     kNone, kNone, 200, "@InstanceType", "404"},
    {"update-instance-type", kProviderAdmin, "Change an instance type", kNone, kNone,
     "@InstanceTypeUpdate", 200, "@InstanceType", "404 409"},
    {"delete-instance-type", kProviderAdmin, "Delete an instance type", kNone, kNone, kNone, 202,
     kDeleted, "404 409 412"},
    {"create-instance-type-machine-association", kProviderAdmin, "Give machines a type", kNone,
     kNone, "@MachineAssociation", 201, "[object]", "404 409"},
    {"get-all-instance-type-machine-association", kProvider, "Machines of a type", kNone,
     "CREATED UPDATED", kNone, 200, "[object]", "404"},
    {"delete-instance-type-machine-association", kProviderAdmin, "Take a machine's type", kNone,
     kNone, kNone, 202, kDeleted, "404 409 412"},
    {"create-allocation", kProviderAdmin, "Grant machines to a tenant", kNone, kNone,
     "@AllocationCreate", 201, "@Allocation", "404 409"},
    {"get-all-allocation", kAnyRole, "List allocations",
     "infrastructureProviderId:uuid tenantId:[uuid] siteId:[uuid] status:[#AllocationStatus] "
     "query:string includeRelation:[#RelationAllocation]",
     kBasic, kNone, 200, "[@Allocation]", "404"},
    {"get-allocation", kAnyRole, "Get an allocation", "includeRelation:[#RelationAllocation]",
     kNone, kNone, 200, "@Allocation", "404"},
    {"update-allocation", kProviderAdmin, "Change an allocation", kNone, kNone, "@AllocationUpdate",
     200, "@Allocation", "404 409"},
    {"delete-allocation", kProviderAdmin, "Withdraw an allocation", kNone, kNone, kNone, 202,
     kDeleted, "404 409 412"},
    // Kinds that this controller has none of
    {"get-all-subnet", kAnyRole, "List subnets: always none", "siteId:uuid vpcId:uuid", kBasic,
     kNone, 200, "[object]", "404"},
    {"get-all-vpc-prefix", kAnyRole, "List VPC prefixes: always none", "siteId:uuid vpcId:uuid",
     kBasic, kNone, 200, "[object]", "404"},
    {"get-all-ipblock", kAnyRole, "List IP blocks: always none", "siteId:uuid", kBasic, kNone, 200,
     "[object]", "404"},
    {"get-all-operating-system", kAnyRole, "List operating systems: always none", "siteId:uuid",
     kBasic, kNone, 200, "[object]", "404"},
    {"get-all-ssh-key-group", kAnyRole, "List SSH key groups: always none", "siteId:uuid", kBasic,
     kNone, 200, "[object]", "404"},

    // Insight and control that NICo has not
    {"create-nvlink-endpoint", kProviderAdmin, "Make a fabric manager known", kNone, kNone,
     "object", 201, "object", "404 409"},
    {"get-all-nvlink-endpoint", kProvider, "List fabric managers", "siteId:uuid", "CREATED", kNone,
     200, "[object]", "404"},
    {"get-nvlink-endpoint", kProvider, "Get a fabric manager", kNone, kNone, kNone, 200, "object",
     "404"},
    {"update-nvlink-endpoint", kProviderAdmin, "Change a fabric manager's address or identity",
     kNone, kNone, "object", 200, "object", "404 409"},
    {"delete-nvlink-endpoint", kProviderAdmin, "Forget a fabric manager", kNone, kNone, kNone, 202,
     kDeleted, "404 409"},
    {"get-all-nvlink-domain", kProvider, "List NVLink domains", "siteId:uuid", "CREATED", kNone,
     200, "[object]", "404"},
    {"get-nvlink-domain", kProvider, "Get a domain with its trays and GPUs", kNone, kNone, kNone,
     200, "object", "404"},
    {"get-all-nvlink-physical-partition", kAnyRole, "List physical partitions as observed",
     "nvLinkDomainId:[uuid]", "CREATED", kNone, 200, "[object]", "404"},
    {"get-all-nvlink-operation", kAnyRole, "List operations on fabric managers",
     "nvLinkDomainId:[uuid] state:[string]", "CREATED", kNone, 200, "[object]", "404"},
    {"get-nvlink-operation", kAnyRole, "Get an operation with its result", kNone, kNone, kNone, 200,
     "object", "404"},
    {"create-nvlink-reservation", kTenantAdmin, "Keep trays of a domain for a logical partition",
     kNone, kNone, "object", 201, "object", "404 409"},
    {"get-all-nvlink-reservation", kTenantAdmin, "List the tenant's reservations",
     "nvLinkDomainId:[uuid] nvLinkLogicalPartitionId:[uuid]", "CREATED", kNone, 200, "[object]",
     "404"},
    {"get-nvlink-reservation", kTenantAdmin, "Get a reservation", kNone, kNone, kNone, 200,
     "object", "404"},
    {"delete-nvlink-reservation", kTenantAdmin, "End a reservation", kNone, kNone, kNone, 202,
     kDeleted, "404"},
    {"get-nvlink-health", kProvider, "The chain from fabric manager to convergence, link by link",
     "siteId:uuid", kNone, kNone, 200, "object", "404"},
    {"get-all-audit-record", kProviderAdmin, "Who changed what", "before:int pageSize:int", kNone,
     kNone, 200, "[object]", "404"},
});

}  // namespace

bool may_call(RoleSet needed, const Roles& held) noexcept {
  if (needed == kMember) return true;
  const unsigned bits = (held.provider_admin ? kProviderAdmin : 0U) |
                        (held.provider_viewer ? kProviderViewer : 0U) |
                        (held.tenant_admin ? kTenantAdmin : 0U);
  return (bits & needed) != 0;
}

std::span<const RouteRow> route_rows() noexcept { return kRows; }

const RouteRow* find_row(std::string_view name) noexcept {
  const auto found = std::ranges::find(kRows, name, &RouteRow::name);
  return found == kRows.end() ? nullptr : &*found;
}

}  // namespace imex::partition
