#include "render.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "json/json.hpp"

namespace imex::partition {
namespace {

void render_error(JsonWriter& json, const std::optional<LastError>& error) {
  json.key("lastError");
  if (!error) {
    json.value(nullptr);
    return;
  }
  json.begin_object().member("message", error->message).member("time", error->at);
  json.member("count", error->count).end_object();
}

void render_gpu_uids(JsonWriter& json, const std::vector<std::uint64_t>& uids) {
  // As text: 64 bits do not fit the numbers of every JSON reader.
  json.key("gpuGuids").begin_array();
  for (const std::uint64_t uid : uids) json.value(std::to_string(uid));
  json.end_array();
}

std::optional<std::string> nonempty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

/// The day from which clients must know the right spelling (2.6).
constexpr std::string_view kMisspeltKey =
    R"({"attribute":"nvLinklogicalPartitionId","replacedby":"nvLinkLogicalPartitionId",)"
    R"("effective":"2026-09-10T00:00:00Z",)"
    R"("notice":"nvLinklogicalPartitionId is deprecated, use nvLinkLogicalPartitionId"})";

}  // namespace

void render_kept(JsonWriter& json, const std::string& extra_json,
                 std::initializer_list<KeptField> fields) {
  if (extra_json == "{}") {
    for (const KeptField& field : fields) json.raw_member(field.name, field.default_json);
    return;
  }
  const auto kept = nlohmann::json::parse(extra_json, nullptr, false);
  for (const KeptField& field : fields) {
    const nlohmann::json* value = json::find(kept, field.name);
    json.raw_member(field.name,
                    value == nullptr ? std::string(field.default_json) : json::text_of(*value));
  }
}

Checked<void> render_history(ReadTransaction& t, JsonWriter& json, Kind kind, const std::string& id,
                             std::uint64_t limit) {
  IMEX_GET(const auto details, t.history(kind, id, limit));
  json.begin_array();
  for (const StatusDetail& detail : details) {
    json.begin_object().member("status", detail.status);
    json.member("message", nonempty(detail.message));
    json.member("created", detail.created).member("updated", detail.updated).end_object();
  }
  json.end_array();
  return {};
}

// ---- Summaries ---------------------------------------------------------------------------------

void render_tenant_summary(JsonWriter& json, const Tenant& tenant) {
  json.begin_object().member("id", tenant.id).member("org", tenant.org);
  json.member("orgDisplayName", nonempty(tenant.display_name)).end_object();
}

Checked<void> render_site_summary(ReadTransaction& t, JsonWriter& json, const SiteId& id) {
  IMEX_GET(const auto site, t.find<Site>(id));
  if (!site) {
    json.value(nullptr);
    return {};
  }
  json.begin_object().member("id", site->id).member("name", site->name);
  json.member("infrastructureProviderId", site->provider);
  json.member("isOnline", site->status == Status::kRegistered);
  json.member("status", site->status).end_object();
  return {};
}

Checked<void> render_partition_summary(ReadTransaction& t, JsonWriter& json,
                                       const LogicalPartitionId& id) {
  IMEX_GET(const auto partition, t.find<LogicalPartition>(id));
  if (!partition) {
    json.value(nullptr);
    return {};
  }
  json.begin_object().member("id", partition->id).member("name", partition->name);
  json.member("siteId", partition->site).member("status", partition->status).end_object();
  return {};
}

void render_vpc_summary(JsonWriter& json, const Vpc& vpc) {
  json.begin_object().member("id", vpc.id).member("name", vpc.name).member("siteId", vpc.site);
  json.member("networkVirtualizationType", vpc.network_virtualization_type);
  json.member("status", vpc.status).end_object();
}

void render_instance_summary(JsonWriter& json, const Instance& instance) {
  json.begin_object().member("id", instance.id).member("name", instance.name);
  json.member("siteId", instance.site).member("status", instance.status).end_object();
}

// ---- Logical partitions and interfaces ---------------------------------------------------------

Checked<void> render_partition(ReadTransaction& t, JsonWriter& json,
                               const LogicalPartition& partition, const Tenant& tenant,
                               const PartitionParts& parts) {
  const std::string id = partition.id.to_string();
  ListQuery of_it;
  of_it.filters.push_back({Field::kPartition, {id}});
  json.begin_object().member("id", id).member("name", partition.name);
  json.member("description", partition.description).member("siteId", partition.site);
  if (parts.site) {
    json.key("site");
    IMEX_PASS(render_site_summary(t, json, partition.site));
  }
  json.member("tenantId", partition.tenant);
  if (parts.tenant) render_tenant_summary(json.key("tenant"), tenant);
  if (parts.vpcs) {
    IMEX_GET(const auto vpcs, t.list<Vpc>(of_it));
    json.key("vpcs").begin_array();
    for (const Vpc& vpc : vpcs) render_vpc_summary(json, vpc);
    json.end_array();
  }
  if (parts.interfaces) {
    IMEX_GET(const auto interfaces, t.list<NvlinkInterface>(of_it));
    json.key("nvLinkInterfaces").begin_array();
    for (const NvlinkInterface& interface : interfaces) {
      json.begin_object().member("id", interface.id).member("instanceId", interface.instance);
      json.member("nvLinkLogicalPartitionId", interface.partition);
      json.member("deviceInstance", interface.device_instance);
      json.member("status", interface.status).end_object();
    }
    json.end_array();
  }
  json.key("nvLinkLogicalPartitionStats");
  if (parts.stats) {
    IMEX_GET(const PartitionUsage usage, t.usage(partition.id));
    json.begin_object().member("totalGpus", usage.gpus);
    json.member("totalDistinctInstances", usage.instances).end_object();
  } else {
    json.value(nullptr);
  }
  json.member("resiliencyMode", nonempty(std::string(resiliency_mode_name(partition.resiliency))));
  json.member("multicastGroups", partition.multicast_groups).member("version", partition.version);
  render_error(json, partition.last_error);
  json.member("status", partition.status).key("statusHistory");
  IMEX_PASS(render_history(t, json, Kind::kLogicalPartition, id));
  json.member("created", partition.created).member("updated", partition.updated).end_object();
  return {};
}

void render_interface_members(JsonWriter& json, const NvlinkInterface& interface) {
  const std::string partition = interface.partition.to_string();
  json.member("id", interface.id).member("instanceId", interface.instance);
  json.member("nvLinkLogicalPartitionId", partition);
  json.member("nvLinklogicalPartitionId", partition);  // generation B's spelling
  json.member("nvLinkDomainId", interface.domain);
  json.member("deviceInstance", interface.device_instance).key("gpuGuid");
  if (interface.gpu_uid)
    json.value(std::to_string(*interface.gpu_uid));
  else
    json.value(nullptr);
  json.member("status", interface.status);
  render_error(json, interface.last_error);
  json.member("created", interface.created).member("updated", interface.updated);
  json.key("deprecations").begin_array().raw(kMisspeltKey).end_array();
}

void render_interface(JsonWriter& json, const NvlinkInterface& interface) {
  json.begin_object();
  render_interface_members(json, interface);
  json.end_object();
}

// ---- VPCs and instances ------------------------------------------------------------------------

Checked<void> render_vpc(ReadTransaction& t, JsonWriter& json, const Vpc& vpc, const Tenant& tenant,
                         const Relations& relations) {
  const std::string id = vpc.id.to_string();
  IMEX_GET(const auto site, t.find<Site>(vpc.site));
  json.begin_object().member("id", id).member("name", vpc.name);
  json.member("description", vpc.description).member("org", tenant.org);
  json.key("infrastructureProviderId");
  if (site)
    json.value(site->provider);
  else
    json.value(nullptr);
  json.member("tenantId", vpc.tenant).member("siteId", vpc.site);
  if (relations.has("Tenant")) render_tenant_summary(json.key("tenant"), tenant);
  if (relations.has("Site")) {
    json.key("site");
    IMEX_PASS(render_site_summary(t, json, vpc.site));
  }
  json.member("networkVirtualizationType", vpc.network_virtualization_type);
  json.member("controllerVpcId", id).member("labels", vpc.labels);
  json.member("nvLinkLogicalPartitionId", vpc.default_partition);
  if (relations.has("NVLinkLogicalPartition") && vpc.default_partition) {
    json.key("nvLinkLogicalPartitionSummary");
    IMEX_PASS(render_partition_summary(t, json, *vpc.default_partition));
  }
  render_kept(json, vpc.extra_json,
              {{"networkSecurityGroupId", "null"},
               {"routingProfile", "null"},
               {"requestedVni", "null"},
               {"vni", "null"}});
  json.raw_member("networkSecurityGroupPropagationDetails", "null");
  json.member("status", vpc.status).key("statusHistory");
  IMEX_PASS(render_history(t, json, Kind::kVpc, id));
  json.member("created", vpc.created).member("updated", vpc.updated).end_object();
  return {};
}

namespace {

Checked<void> render_instance_relations(ReadTransaction& t, JsonWriter& json,
                                        const Instance& instance, const Tenant& tenant,
                                        const Relations& relations) {
  if (relations.has("Tenant")) render_tenant_summary(json.key("tenant"), tenant);
  if (relations.has("Site")) {
    json.key("site");
    IMEX_PASS(render_site_summary(t, json, instance.site));
  }
  if (relations.has("Vpc")) {
    IMEX_GET(const auto vpc, t.find<Vpc>(instance.vpc));
    if (vpc) render_vpc_summary(json.key("vpc"), *vpc);
  }
  if (relations.has("InstanceType") && instance.instance_type) {
    IMEX_GET(const auto type, t.find<InstanceType>(*instance.instance_type));
    if (type) {
      json.key("instanceType").begin_object().member("id", type->id).member("name", type->name);
      json.member("siteId", type->site).member("status", type->status).end_object();
    }
  }
  if (relations.has("Machine")) {
    IMEX_GET(const auto machine, t.find<Machine>(instance.machine));
    if (machine) {
      json.key("machine").begin_object().member("id", machine->id);
      json.member("controllerMachineId", machine->id).member("status", machine->status);
      json.end_object();
    }
  }
  return {};
}

}  // namespace

Checked<void> render_instance(ReadTransaction& t, JsonWriter& json, const Instance& instance,
                              const std::vector<NvlinkInterface>& interfaces, const Tenant& tenant,
                              const Relations& relations) {
  const std::string id = instance.id.to_string();
  IMEX_GET(const auto site, t.find<Site>(instance.site));
  json.begin_object().member("id", id).member("name", instance.name);
  json.member("description", instance.description).member("controllerInstanceId", id);
  json.member("tenantId", instance.tenant);
  if (site) json.member("infrastructureProviderId", site->provider);
  json.member("siteId", instance.site).member("vpcId", instance.vpc);
  json.member("instanceTypeId", instance.instance_type);
  json.member("machineId", nonempty(instance.machine.text));
  IMEX_PASS(render_instance_relations(t, json, instance, tenant, relations));
  render_kept(json, instance.extra_json,
              {{"secondaryVpcIds", "[]"},
               {"operatingSystemId", "null"},
               {"ipxeScript", "null"},
               {"userData", "null"},
               {"networkSecurityGroupId", "null"},
               {"alwaysBootWithCustomIpxe", "false"},
               {"phoneHomeEnabled", "false"},
               {"interfaces", "[]"},
               {"infinibandInterfaces", "[]"},
               {"dpuExtensionServiceDeployments", "[]"},
               {"sshKeyGroupIds", "[]"}});
  json.raw_member("serialConsoleUrl", "null").raw_member("tpmEkCertificate", "null");
  json.raw_member("networkSecurityGroupPropagationDetails", "null");
  json.member("isUpdatePending", false).member("networkSecurityGroupInherited", false);
  json.raw_member("sshKeyGroups", "[]").member("labels", instance.labels);
  json.key("nvLinkInterfaces").begin_array();
  for (const NvlinkInterface& interface : interfaces) render_interface(json, interface);
  json.end_array().member("version", instance.version);
  json.member("status", instance.status).key("statusHistory");
  IMEX_PASS(render_history(t, json, Kind::kInstance, id));
  json.member("created", instance.created).member("updated", instance.updated).end_object();
  return {};
}

// ---- Sites, machines, types, allocations -------------------------------------------------------

Checked<void> render_site(ReadTransaction& t, JsonWriter& json, const Site& site,
                          const std::string& org) {
  json.begin_object().member("id", site.id).member("name", site.name);
  json.member("description", site.description).member("org", org);
  json.member("infrastructureProviderId", site.provider);
  for (const std::string_view name :
       {"siteControllerVersion", "siteAgentVersion", "registrationToken",
        "registrationTokenExpiration", "machineStats"})
    json.raw_member(name, "null");
  render_kept(json, site.extra_json,
              {{"serialConsoleHostname", "null"},
               {"isSerialConsoleEnabled", "false"},
               {"serialConsoleIdleTimeout", "null"},
               {"serialConsoleMaxSessionLength", "null"},
               {"location", "null"},
               {"contact", "null"}});
  json.member("isOnline", site.status == Status::kRegistered).key("capabilities").begin_object();
  json.member("nativeNetworking", site.capabilities.native_networking);
  json.member("networkSecurityGroup", site.capabilities.network_security_group);
  json.member("nvLinkPartition", site.capabilities.nvlink_partition);
  json.member("flow", site.capabilities.flow);
  json.member("imageBasedOperatingSystem", site.capabilities.image_based_operating_system);
  json.end_object().member("status", site.status).key("statusHistory");
  IMEX_PASS(render_history(t, json, Kind::kSite, site.id.to_string()));
  json.member("created", site.created).member("updated", site.updated).end_object();
  return {};
}

namespace {

void render_gpu_capability(JsonWriter& json, std::size_t gpus, const std::string& product) {
  json.key("machineCapabilities").begin_array();
  if (gpus > 0) {
    json.begin_object().member("type", "GPU");
    json.member("name", product.empty() ? std::string("NVLink GPU") : product);
    json.member("count", gpus).member("deviceType", "NVLink").end_object();
  }
  json.end_array();
}

/// Where the machine is in the fabric: what NICo does not show (2.10).
void render_place(JsonWriter& json, const Machine& machine) {
  json.member("nvLinkDomainId", machine.domain).member("chassisSerial", machine.chassis_serial);
  json.member("trayIndex", machine.tray_index).member("slotId", machine.slot_id);
  json.member("observedAt", machine.observed_at).key("gpus").begin_array();
  for (const Gpu& gpu : machine.gpus) {
    json.begin_object().member("deviceInstance", gpu.device_instance);
    json.member("gpuGuid", std::to_string(gpu.uid)).member("health", gpu.health);
    json.member("fabricPartitionId", gpu.fabric_partition).end_object();
  }
  json.end_array();
}

}  // namespace

Checked<void> render_machine(ReadTransaction& t, JsonWriter& json, const Machine& machine,
                             const ProviderId& provider, bool for_provider) {
  std::optional<Instance> instance;
  if (machine.instance) {
    IMEX_GET(instance, t.find<Instance>(*machine.instance));
  }
  json.begin_object().member("id", machine.id).member("infrastructureProviderId", provider);
  json.member("siteId", machine.site).member("instanceTypeId", machine.instance_type);
  json.member("instanceId", machine.instance).key("tenantId");
  if (instance)
    json.value(instance->tenant);
  else
    json.value(nullptr);
  json.member("controllerMachineId", machine.id);
  for (const std::string_view name :
       {"controllerMachineType", "hwSkuDeviceType", "vendor", "serialNumber", "hostname"})
    json.raw_member(name, "null");
  json.member("productName", nonempty(machine.product_name));
  render_gpu_capability(json, machine.gpus.size(), machine.product_name);
  json.raw_member("machineInterfaces", "[]");
  json.member("maintenanceMessage", nonempty(machine.maintenance_message));
  json.raw_member("health", "null").member("labels", machine.labels);
  if (for_provider) render_place(json, machine);
  json.member("isUsableByTenant", machine.status == Status::kReady);
  json.member("status", machine.status).key("statusHistory");
  IMEX_PASS(render_history(t, json, Kind::kMachine, machine.id.text));
  json.member("created", machine.created).member("updated", machine.updated).end_object();
  return {};
}

Checked<void> render_instance_type(ReadTransaction& t, JsonWriter& json, const InstanceType& type) {
  json.begin_object().member("id", type.id).member("name", type.name);
  json.member("description", type.description).raw_member("controllerMachineType", "null");
  json.member("infrastructureProviderId", type.provider).member("siteId", type.site);
  json.member("labels", type.labels).raw_member("machineCapabilities", type.capabilities_json);
  json.member("status", type.status).key("statusHistory");
  IMEX_PASS(render_history(t, json, Kind::kInstanceType, type.id.to_string()));
  json.member("created", type.created).member("updated", type.updated).end_object();
  return {};
}

Checked<void> render_allocation(ReadTransaction& t, JsonWriter& json,
                                const Allocation& allocation) {
  json.begin_object().member("id", allocation.id).member("name", allocation.name);
  json.member("description", allocation.description);
  json.member("infrastructureProviderId", allocation.provider);
  json.member("tenantId", allocation.tenant).member("siteId", allocation.site);
  // One constraint each; it has the allocation's own id.
  json.key("allocationConstraints").begin_array().begin_object().member("id", allocation.id);
  json.member("allocationId", allocation.id).member("resourceType", "InstanceType");
  json.member("resourceTypeId", allocation.instance_type).member("constraintType", "Reserved");
  json.member("constraintValue", allocation.machines).raw_member("derivedResourceId", "null");
  json.member("status", allocation.status).member("created", allocation.created);
  json.member("updated", allocation.updated).end_object().end_array();
  json.member("status", allocation.status).key("statusHistory");
  IMEX_PASS(render_history(t, json, Kind::kAllocation, allocation.id.to_string()));
  json.member("created", allocation.created).member("updated", allocation.updated).end_object();
  return {};
}

// ---- Insight -----------------------------------------------------------------------------------

void render_endpoint(JsonWriter& json, const Endpoint& endpoint, WallTime now) {
  json.begin_object().member("id", endpoint.id).member("siteId", endpoint.site);
  json.member("protocol", endpoint.protocol == FabricProtocol::kNmxC ? "NMX-C" : "NMX-M");
  json.member("url", endpoint.url).member("chassisSerial", nonempty(endpoint.chassis_serial));
  json.member("tlsAuthority", nonempty(endpoint.tls_authority));
  json.member("verifyServer", endpoint.verify_server);
  json.member("hasCredentials", endpoint.has_credentials);
  json.member("nvLinkDomainId", endpoint.domain).member("state", endpoint.state);
  json.member("lastContact", endpoint.last_contact).key("lastContactAgeSeconds");
  if (endpoint.last_contact)
    json.value(
        std::chrono::duration_cast<std::chrono::seconds>(now - *endpoint.last_contact).count());
  else
    json.value(nullptr);
  json.member("created", endpoint.created).member("updated", endpoint.updated).end_object();
}

void render_physical(JsonWriter& json, const PhysicalPartition& partition) {
  json.begin_object().member("id", partition.id).member("nvLinkDomainId", partition.domain);
  json.member("fabricPartitionId", partition.fabric_id).member("name", partition.name);
  json.member("nvLinkLogicalPartitionId", partition.partition);
  json.member("tenantId", partition.tenant);
  render_gpu_uids(json, partition.gpu_uids);
  json.member("health", partition.health).member("multicastGroups", partition.multicast_groups);
  json.member("created", partition.created).member("updated", partition.updated).end_object();
}

namespace {

void render_step_members(JsonWriter& json, const OperationRecord& operation) {
  json.member("kind", operation_kind_name(operation.kind));
  json.member("nvLinkDomainId", operation.domain);
  json.member("nvLinkLogicalPartitionId", operation.partition).key("fabricPartitionId");
  if (operation.fabric_id != 0)
    json.value(operation.fabric_id);
  else
    json.value(nullptr);
  render_gpu_uids(json, operation.gpu_uids);
}

}  // namespace

void render_step(JsonWriter& json, const OperationRecord& operation) {
  json.begin_object();
  render_step_members(json, operation);
  json.end_object();
}

void render_operation(JsonWriter& json, const OperationRecord& operation) {
  json.begin_object().member("id", operation.id);
  render_step_members(json, operation);
  json.member("state", operation_state_name(operation.state));
  json.member("detail", nonempty(operation.detail)).member("attempt", operation.attempt);
  json.member("group", nonempty(operation.group)).member("step", operation.step);
  json.member("begun", operation.begun).member("finished", operation.finished).end_object();
}

void render_reservation(JsonWriter& json, const Reservation& reservation) {
  json.begin_object().member("id", reservation.id).member("tenantId", reservation.tenant);
  json.member("siteId", reservation.site);
  json.member("nvLinkLogicalPartitionId", reservation.partition);
  json.member("nvLinkDomainId", reservation.domain);
  json.member("instanceTypeId", reservation.instance_type).member("trays", reservation.trays);
  json.member("expires", reservation.expires).member("created", reservation.created);
  json.member("updated", reservation.updated).end_object();
}

}  // namespace imex::partition
