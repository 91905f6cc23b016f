#include "schema.hpp"

#include <array>

#include "base/assert.hpp"

namespace imex::partition {

namespace {

using Json = nlohmann::json;

struct Named {
  std::string_view name, text;
};

// partition-api.md 1.3, and the relations of each list.
constexpr auto kEnumerations = std::to_array<Named>({
    {"LogicalPartitionStatus", "Pending Provisioning Configuring Ready Deleting Error"},
    {"InterfaceStatus", "Pending Provisioning Ready Deleting Error"},
    {"VpcStatus", "Pending Provisioning Ready Configuring Deleting Error"},
    {"InstanceStatus",
     "Pending Provisioning Configuring Ready Updating Repairing Rebooting Terminating Error "
     "Terminated BootCompleted"},
    {"MachineStatus", "Initializing Ready Reset Maintenance InUse Error Decommissioned Unknown"},
    {"InstanceTypeStatus", "Pending Registering Ready Deleting Error"},
    {"SiteStatus", "Pending Registered Error"},
    {"AllocationStatus", "Pending Registered Deleting Error"},
    {"NetworkVirtualizationType", "ETHERNET_VIRTUALIZER FNN"},
    {"RelationSiteTenant", "Site Tenant"},
    {"RelationInterface", "Instance NVLinkLogicalPartition Site"},
    {"RelationVpc",
     "InfrastructureProvider Site Tenant NetworkSecurityGroup NVLinkLogicalPartition"},
    {"RelationInstance",
     "InfrastructureProvider Site Tenant Vpc InstanceType Machine OperatingSystem "
     "NetworkSecurityGroup"},
    {"RelationProvider", "InfrastructureProvider"},
    {"RelationProviderSite", "InfrastructureProvider Site"},
    {"RelationMachine", "InfrastructureProvider Site InstanceType Instance Tenant"},
    {"RelationAllocation", "InfrastructureProvider Site Tenant"},
});

constexpr auto kObjects = std::to_array<Named>({
    {"Error", "source:string message:string data:object?"},
    {"StatusDetail", "status:string message:string? created:time updated:time"},
    {"SiteSummary", "id:uuid name:string status:#SiteStatus-"},
    {"TenantSummary", "id:uuid org:string orgDisplayName:string?-"},
    {"VpcSummary", "id:uuid name:string status:#VpcStatus-"},
    {"InstanceSummary", "id:uuid name:string status:#InstanceStatus-"},
    {"NVLinkLogicalPartitionSummary",
     "id:uuid name:string siteId:uuid status:#LogicalPartitionStatus"},
    {"NVLinkInterfaceSummary",
     "id:uuid instanceId:uuid nvLinkLogicalPartitionId:uuid deviceInstance:int "
     "status:#InterfaceStatus"},
    {"LastError", "message:string time:time count:int"},
    {"DryRun", "dryRun:bool status:int object:object?- operations:[object]-"},
    {"NVLinkLogicalPartitionStats", "totalGpus:int totalDistinctInstances:int"},

    {"NVLinkLogicalPartition",
     "id:uuid name:string description:string? siteId:uuid site:@SiteSummary- tenantId:uuid "
     "tenant:@TenantSummary- vpcs:[@VpcSummary]- nvLinkInterfaces:[@NVLinkInterfaceSummary]- "
     "nvLinkLogicalPartitionStats:@NVLinkLogicalPartitionStats? resiliencyMode:string? "
     "multicastGroups:int version:int lastError:@LastError? status:#LogicalPartitionStatus "
     "statusHistory:[@StatusDetail] created:time updated:time"},
    {"NVLinkLogicalPartitionCreate", "name:name description:string?- siteId:uuid"},
    {"NVLinkLogicalPartitionUpdate", "name:name?- description:string?-"},
    {"NVLinkInterface",
     "id:uuid instanceId:uuid instance:@InstanceSummary- nvLinkLogicalPartitionId:uuid "
     "nvLinklogicalPartitionId:uuid nvLinkLogicalPartition:@NVLinkLogicalPartitionSummary- "
     "nvLinkDomainId:uuid? deviceInstance:int gpuGuid:string? status:#InterfaceStatus "
     "lastError:@LastError? created:time updated:time deprecations:[object]-"},
    {"NVLinkInterfaceCreate", "nvLinkLogicalPartitionId:uuid deviceInstance:int-"},

    {"Vpc",
     "id:uuid name:string description:string? org:string infrastructureProviderId:uuid? "
     "tenantId:uuid? siteId:uuid? networkVirtualizationType:#NetworkVirtualizationType "
     "controllerVpcId:uuid? labels:labels? nvLinkLogicalPartitionId:uuid? "
     "nvLinkLogicalPartitionSummary:@NVLinkLogicalPartitionSummary- "
     "networkSecurityGroupId:string? routingProfile:string? requestedVni:int? vni:int? "
     "status:#VpcStatus statusHistory:[@StatusDetail] created:time updated:time"},
    {"VpcCreate",
     "id:uuid?- name:name siteId:uuid description:text?- "
     "networkVirtualizationType:#NetworkVirtualizationType?- routingProfile:string?- "
     "networkSecurityGroupId:string?- vni:int?- nvLinkLogicalPartitionId:uuid?- labels:labels?-"},
    {"VpcUpdate",
     "name:name?- description:text?- labels:labels?- networkSecurityGroupId:string?- "
     "nvLinkLogicalPartitionId:string?-"},
    {"VpcVirtualizationUpdate", "networkVirtualizationType:#NetworkVirtualizationType"},

    {"Instance",
     "id:uuid name:string description:string? controllerInstanceId:string tenantId:uuid "
     "infrastructureProviderId:uuid siteId:uuid vpcId:uuid instanceTypeId:uuid? "
     "secondaryVpcIds:[uuid] machineId:string? operatingSystemId:string? ipxeScript:string? "
     "userData:string? serialConsoleUrl:string? networkSecurityGroupId:string? "
     "tpmEkCertificate:string? alwaysBootWithCustomIpxe:bool phoneHomeEnabled:bool "
     "isUpdatePending:bool networkSecurityGroupInherited:bool labels:labels? "
     "status:#InstanceStatus interfaces:[object] infinibandInterfaces:[object] "
     "dpuExtensionServiceDeployments:[object] nvLinkInterfaces:[@NVLinkInterface] "
     "sshKeyGroupIds:[string] sshKeyGroups:[object] version:int statusHistory:[@StatusDetail] "
     "created:time "
     "updated:time"},
    {"InstanceCreate",
     "name:name tenantId:uuid vpcId:uuid instanceTypeId:uuid?- machineId:string?- "
     "interfaces:[object] operatingSystemId:string?- ipxeScript:string?- "
     "nvLinkInterfaces:[@NVLinkInterfaceCreate]?- description:text?- userData:string?- "
     "labels:labels?-"},
    {"BatchInstanceCreate",
     "namePrefix:string count:int tenantId:uuid vpcId:uuid instanceTypeId:uuid "
     "interfaces:[object] operatingSystemId:string?- ipxeScript:string?- "
     "nvLinkInterfaces:[@NVLinkInterfaceCreate]?- topologyOptimized:bool?- description:text?- "
     "userData:string?- labels:labels?-"},
    {"InstanceUpdate",
     "name:name?- description:text?- labels:labels?- operatingSystemId:string?- "
     "ipxeScript:string?- userData:string?- alwaysBootWithCustomIpxe:bool?- "
     "phoneHomeEnabled:bool?- networkSecurityGroupId:string?- sshKeyGroupIds:[string]?- "
     "interfaces:[object]?- infinibandInterfaces:[object]?- "
     "nvLinkInterfaces:[@NVLinkInterfaceCreate]?- triggerReboot:bool?- "
     "rebootWithCustomIpxe:bool?- applyUpdatesOnReboot:bool?-"},
    {"InstanceDelete", "machineHealthIssue:object?- isRepairTenant:bool?-"},

    {"Metadata", "version:string buildTime:string"},
    {"User",
     "id:string email:string? firstName:string? lastName:string? created:time updated:time"},
    {"Tenant",
     "id:uuid org:string orgDisplayName:string? created:time updated:time capabilities:object"},
    {"InfrastructureProvider",
     "id:uuid org:string orgDisplayName:string? created:time updated:time"},
    {"ServiceAccount", "enabled:bool infrastructureProviderId:uuid? tenantId:uuid?"},

    {"SiteCapabilities",
     "nativeNetworking:bool- networkSecurityGroup:bool- nvLinkPartition:bool- flow:bool- "
     "imageBasedOperatingSystem:bool-"},
    {"Site",
     "id:uuid name:string description:string? org:string infrastructureProviderId:uuid "
     "isOnline:bool status:#SiteStatus statusHistory:[@StatusDetail] created:time updated:time "
     "location:object? contact:object? machineStats:object? capabilities:@SiteCapabilities"},
    {"SiteCreate",
     "name:name description:text?- location:object?- contact:object?- "
     "capabilities:@SiteCapabilities?-"},
    {"SiteUpdate",
     "name:name?- description:text?- location:object?- contact:object?- "
     "capabilities:@SiteCapabilities?-"},
    {"MachineCapability",
     "type:string name:string count:int? frequency:string- cores:int- threads:int- "
     "capacity:string- vendor:string- hardwareRevision:string- deviceType:string-"},
    {"Machine",
     "id:string infrastructureProviderId:uuid siteId:uuid instanceTypeId:uuid? instanceId:uuid? "
     "tenantId:uuid? controllerMachineId:string controllerMachineType:string? "
     "hwSkuDeviceType:string? vendor:string? productName:string? hostname:string? "
     "machineCapabilities:[@MachineCapability] machineInterfaces:[object] "
     "maintenanceMessage:string? labels:labels? status:#MachineStatus isUsableByTenant:bool "
     "statusHistory:[@StatusDetail] created:time updated:time"},
    {"MachineUpdate",
     "instanceTypeId:uuid?- clearInstanceType:bool?- setMaintenanceMode:bool?- "
     "maintenanceMessage:string?- labels:labels?-"},
    {"GpuStats", "name:string gpus:int machines:int"},
    {"InstanceType",
     "id:uuid name:string description:string? infrastructureProviderId:uuid siteId:uuid "
     "labels:labels? machineCapabilities:[@MachineCapability] status:#InstanceTypeStatus "
     "statusHistory:[@StatusDetail] created:time updated:time"},
    {"InstanceTypeCreate",
     "name:name siteId:uuid description:text?- labels:labels?- "
     "machineCapabilities:[@MachineCapability]?-"},
    {"InstanceTypeUpdate",
     "name:name?- description:text?- labels:labels?- machineCapabilities:[@MachineCapability]?-"},
    {"MachineAssociation", "machineIds:[string]"},
    {"Allocation",
     "id:uuid name:string description:string? infrastructureProviderId:uuid tenantId:uuid "
     "siteId:uuid status:#AllocationStatus statusHistory:[@StatusDetail] created:time "
     "updated:time"},
    {"AllocationCreate",
     "name:name description:text?- tenantId:uuid siteId:uuid allocationConstraints:[object]"},
    {"AllocationUpdate", "name:name?- description:text?-"},
});

Json words_of(std::string_view text) {
  Json words = Json::array();
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    words.push_back(word);
  }
  return words;
}

Json plain_schema(std::string_view type) {
  if (type == "string") return {{"type", "string"}};
  if (type == "int") return {{"type", "integer"}};
  if (type == "bool") return {{"type", "boolean"}};
  if (type == "object") return {{"type", "object"}};
  if (type == "uuid") return {{"type", "string"}, {"format", "uuid"}};
  if (type == "time") return {{"type", "string"}, {"format", "date-time"}};
  if (type == "name") return {{"type", "string"}, {"minLength", 2}, {"maxLength", 256}};
  if (type == "text") return {{"type", "string"}, {"maxLength", 1024}};
  if (type == "labels") {
    return {{"type", "object"},
            {"maxProperties", 10},
            {"additionalProperties", {{"type", "string"}, {"maxLength", 255}}}};
  }
  if (type.starts_with('[') && type.ends_with(']')) {
    return {{"type", "array"}, {"items", schema_of(type.substr(1, type.size() - 2))}};
  }
  IMEX_ASSERT(type.starts_with('@') || type.starts_with('#'), "a type of the shorthand");
  return {{"$ref", "#/components/schemas/" + std::string(type.substr(1))}};
}

Json object_schema(std::string_view shorthand) {
  Json properties = Json::object(), required = Json::array();
  for (const Member& member : members_of(shorthand)) {
    properties[std::string(member.name)] = schema_of(member.type, member.nullable);
    if (!member.optional) required.push_back(member.name);
  }
  Json schema = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}

}  // namespace

std::vector<Member> members_of(std::string_view shorthand) {
  std::vector<Member> members;
  for (const Json& item : words_of(shorthand)) {
    // The words lie in `item`, which goes away: take them from the text itself.
    const auto& word = item.get_ref<const std::string&>();
    std::string_view text = shorthand.substr(0, word.size());
    shorthand.remove_prefix(std::min(shorthand.size(), word.size() + 1));
    Member member;
    const auto colon = text.find(':');
    IMEX_ASSERT(colon != std::string_view::npos, "name:type");
    member.name = text.substr(0, colon);
    text.remove_prefix(colon + 1);
    for (; text.ends_with('-') || text.ends_with('?') || text.ends_with('!');
         text.remove_suffix(1)) {
      (text.back() == '-'   ? member.optional
       : text.back() == '?' ? member.nullable
                            : member.required) = true;
    }
    member.type = text;
    members.push_back(member);
  }
  return members;
}

Json schema_of(std::string_view type, bool nullable) {
  if (type.ends_with('?')) return schema_of(type.substr(0, type.size() - 1), true);
  Json schema = plain_schema(type);
  if (!nullable) return schema;
  if (!schema.contains("type"))
    return {{"oneOf", Json::array({std::move(schema), Json{{"type", "null"}}})}};
  schema["type"] = Json::array({schema["type"], "null"});
  return schema;
}

Json component_schemas() {
  Json schemas = Json::object();
  for (const Named& one : kEnumerations) {
    schemas[std::string(one.name)] = {{"type", "string"}, {"enum", words_of(one.text)}};
  }
  for (const Named& one : kObjects) schemas[std::string(one.name)] = object_schema(one.text);
  return schemas;
}

}  // namespace imex::partition
