// Creating instances, one and in batches (2.8, 2.9), with placement (8.2).
#include "instances.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "os/random.hpp"
#include "partition/model/placement.hpp"
#include "render.hpp"

namespace imex::partition {
namespace {

/// No tray that we know of has more; the real limit is the machine's GPU count.
constexpr std::int64_t kDeviceInstanceMax = 255;
constexpr std::size_t kInterfacesMax = 256;
constexpr std::size_t kInstanceDescriptionMax = 1024;
/// A batch lies in one transaction. The domain's own size is the limit that matters.
constexpr std::int64_t kBatchMax = 576;

struct InstanceBody {
  std::string name;  ///< of a batch: the prefix
  std::uint32_t count = 1;
  std::optional<std::string> description;
  Labels labels;
  VpcId vpc;
  std::optional<InstanceTypeId> type;
  std::optional<MachineId> machine;
  std::optional<std::vector<WantedInterface>> interfaces;
  DomainRule rule = DomainRule::kPrefer;
  std::string extra_json;
};

std::optional<DomainRule> parse_rule(std::string_view text) {
  if (text == "require") return DomainRule::kRequire;
  if (text == "prefer") return DomainRule::kPrefer;
  if (text == "ignore") return DomainRule::kIgnore;
  return std::nullopt;
}

void read_ethernet_interfaces(Body& body, bool batch) {
  body.require("interfaces");
  const nlohmann::json* interfaces = body.array("interfaces", kInterfacesMax);
  if (interfaces == nullptr) return;
  if (interfaces->empty()) body.wrong("interfaces", "must have at least one entry");
  for (const nlohmann::json& entry : *interfaces) {
    Checked<Body> item = Body::of(entry, "interfaces");
    if (!item) {
      body.wrong("interfaces", "must hold objects");
      return;
    }
    const bool subnet = item->uuid("subnetId").has_value();
    const bool prefix = item->uuid("vpcPrefixId").has_value();
    if (subnet == prefix) item->wrong("interfaces", "need exactly one of subnetId and vpcPrefixId");
    static_cast<void>(item->boolean("isPhysical"));
    static_cast<void>(item->integer("virtualFunctionId", 1, 16));
    if (batch && item->has("ipAddress"))
      item->wrong("interfaces", "must not give ipAddress in a batch");
    body.merge(*item);
  }
}

void read_placement(Body& body, bool batch, InstanceBody& out) {
  if (batch) {
    const bool together = body.boolean("topologyOptimized").value_or(true);
    out.rule = together ? DomainRule::kRequire : DomainRule::kPrefer;
  }
  if (const auto text = body.text("domainPlacement", 16)) {
    if (const auto rule = parse_rule(*text))
      out.rule = *rule;
    else
      body.wrong("domainPlacement", "must be require, prefer or ignore");
  }
}

Checked<InstanceBody> read_instance_body(Body& body, const Tenant& tenant, bool batch) {
  InstanceBody out;
  for (const std::string_view field : {"tenantId", "vpcId"}) body.require(field);
  body.require(batch ? "namePrefix" : "name");
  if (batch) {
    body.require("instanceTypeId");
    body.require("count");
    out.count = static_cast<std::uint32_t>(body.integer("count", 2, kBatchMax).value_or(2));
  } else if (body.has("instanceTypeId") == body.has("machineId")) {
    body.wrong("instanceTypeId", "exactly one of instanceTypeId and machineId must be given");
  }
  out.name = (batch ? body.name("namePrefix", 240) : body.name("name")).value_or("");
  out.description = body.text("description", kInstanceDescriptionMax);
  out.labels = body.labels("labels").value_or(Labels{});
  const auto tenant_id = body.uuid("tenantId");
  out.vpc = {body.uuid("vpcId").value_or(Uuid{})};
  if (const auto type = body.uuid("instanceTypeId")) out.type = InstanceTypeId{*type};
  if (!batch)
    if (const auto machine = body.text("machineId", 256)) out.machine = MachineId{*machine};
  read_ethernet_interfaces(body, batch);
  if (!body.has("operatingSystemId") && !body.has("ipxeScript"))
    body.wrong("operatingSystemId", "operatingSystemId or ipxeScript must be given");
  check_adjacent(body);
  read_placement(body, batch, out);
  IMEX_GET(out.interfaces, read_wanted_interfaces(body));
  IMEX_PASS(body.check());
  if (*tenant_id != tenant.id.uuid)
    return refuse_field("tenantId", "is not the tenant of this org");
  out.extra_json = kept_adjacent(body);
  return out;
}

Checked<Vpc> usable_vpc(ReadTransaction& t, const Tenant& tenant, const VpcId& id) {
  IMEX_GET(auto vpc, t.find<Vpc>(id));
  if (!vpc || vpc->tenant != tenant.id) return refuse_field("vpcId", "names no VPC of this tenant");
  if (vpc->status != Status::kReady) return refuse_field("vpcId", "names a VPC that is not Ready");
  IMEX_GET(const auto site, t.find<Site>(vpc->site));
  if (!site || site->status != Status::kRegistered)
    return refuse(400, "the VPC's site is not registered");
  return std::move(*vpc);
}

// ---- Placement ---------------------------------------------------------------------------------

Checked<InstanceType> usable_type(ReadTransaction& t, const Tenant& tenant, const Vpc& vpc,
                                  const InstanceTypeId& id, std::uint32_t count) {
  IMEX_GET(auto type, t.find<InstanceType>(id));
  if (!type || type->site != vpc.site)
    return refuse_field("instanceTypeId", "names no instance type of the VPC's site");
  IMEX_GET(const std::uint64_t allowed, t.allocated_machines(tenant.id, id));
  if (allowed == 0) return refuse(403, "the tenant has no allocation of this instance type");
  ListQuery query;
  query.filters.push_back({Field::kTenant, {tenant.id.to_string()}});
  query.filters.push_back({Field::kInstanceType, {id.to_string()}});
  IMEX_GET(const std::uint64_t used, t.count<Instance>(query));
  if (used + count > allowed)
    return refuse(403, fmt::format("the tenant's quota of this instance type is {} machines, {} "
                                   "are used, {} more were asked for",
                                   allowed, used, count));
  return std::move(*type);
}

/// Which partitions the new instances will be members of.
std::vector<LogicalPartitionId> partitions_of(const std::vector<WantedInterface>& wanted) {
  std::set<LogicalPartitionId> ids;
  for (const WantedInterface& interface : wanted) ids.insert(interface.partition);
  return {ids.begin(), ids.end()};
}

/// Reserved trays per domain: for our partitions, and for others' (those of ours that are taken
/// already no longer count).
Checked<void> add_reservations(ReadTransaction& t, const std::vector<LogicalPartitionId>& ours,
                               const InstanceTypeId& type,
                               std::map<DomainId, PlacementDomain>& domains) {
  IMEX_GET(const auto reservations, t.list<Reservation>({}));
  for (const Reservation& reservation : reservations) {
    if (reservation.expires <= t.now() || reservation.instance_type != type) continue;
    IMEX_GET(const std::uint32_t taken,
             t.trays_in(reservation.partition, reservation.domain, reservation.created));
    const std::uint32_t open = reservation.trays - std::min(reservation.trays, taken);
    PlacementDomain& domain = domains[reservation.domain];
    domain.id = reservation.domain;
    if (std::find(ours.begin(), ours.end(), reservation.partition) != ours.end())
      domain.reserved_for_us += open;
    else
      domain.reserved_for_others += open;
  }
  return {};
}

Checked<std::vector<MachineId>> choose_machines(ReadTransaction& t, const InstanceType& type,
                                                const InstanceBody& body,
                                                const std::vector<WantedInterface>& wanted,
                                                bool batch) {
  ListQuery query;
  query.filters.push_back({Field::kInstanceType, {type.id.to_string()}});
  query.filters.push_back({Field::kStatus, {"Ready"}});
  query.filters.push_back({Field::kInstance, {}});
  IMEX_GET(const auto machines, t.list<Machine>(query));
  std::vector<FreeMachine> free;
  std::map<DomainId, PlacementDomain> domains;
  for (const Machine& machine : machines) {
    free.push_back({machine.id, machine.domain, machine.tray_index});
    if (machine.domain) domains[*machine.domain].id = *machine.domain;
  }
  const std::vector<LogicalPartitionId> ours = partitions_of(wanted);
  IMEX_GET(const auto members, t.members(ours));
  for (const DomainMembers& found : members) {
    domains[found.domain].id = found.domain;
    domains[found.domain].members += found.gpus;
  }
  IMEX_PASS(add_reservations(t, ours, type.id, domains));
  std::vector<PlacementDomain> list;
  for (const auto& [id, domain] : domains) list.push_back(domain);
  // A single instance that must share has to join those that are there.
  auto placed =
      place({body.count, body.rule, body.rule == DomainRule::kRequire && !batch}, free, list);
  if (!placed) return refuse(batch ? 409 : 400, placed.error().message);
  return std::move(placed->machines);
}

Checked<Machine> named_machine(ReadTransaction& t, const Tenant& tenant, const Vpc& vpc,
                               const MachineId& id) {
  if (!tenant.targeted_instance_creation)
    return refuse(403, "machineId needs the tenant capability targetedInstanceCreation");
  IMEX_GET(auto machine, t.find<Machine>(id));
  if (!machine || machine->site != vpc.site)
    return refuse_field("machineId", "names no machine of the VPC's site");
  if (machine->status != Status::kReady || machine->instance)
    return refuse_field("machineId", "names a machine that is not free");
  return std::move(*machine);
}

// ---- Making them -------------------------------------------------------------------------------

Checked<Instance> make_instance(WriteTransaction& t, const Tenant& tenant, const Vpc& vpc,
                                const InstanceBody& body, const std::string& name,
                                const MachineId& machine_id,
                                const std::vector<WantedInterface>& wanted, std::int64_t number) {
  IMEX_GET(auto machine, t.find<Machine>(machine_id));
  if (!machine) return refuse(409, "the machine is gone");
  Instance instance;
  instance.id = {os::random_uuid()};
  instance.tenant = tenant.id;
  instance.site = vpc.site;
  instance.vpc = vpc.id;
  instance.instance_type = machine->instance_type;
  instance.machine = machine_id;
  instance.name = name;
  instance.description = body.description;
  instance.labels = body.labels;
  instance.config_changed = t.now();
  instance.extra_json = body.extra_json;
  // Of one batch: in order, by a microsecond each.
  instance.created = t.now() + std::chrono::microseconds(number);
  instance.status = outside_fabric(*machine) ? Status::kReady : Status::kPending;
  instance.provisioned = instance.status == Status::kReady;
  IMEX_PASS(t.insert(instance, "placed on machine " + machine_id.text));
  machine->instance = instance.id;
  machine->status = Status::kInUse;
  IMEX_PASS(t.update(*machine, "given to an instance"));
  IMEX_PASS(insert_interfaces(t, instance, wanted));
  return instance;
}

Checked<void> render_new(ReadTransaction& t, JsonWriter& json, const Instance& instance,
                         const Tenant& tenant) {
  IMEX_GET(const auto interfaces, interfaces_of(t, instance.id));
  return render_instance(t, json, instance, interfaces, tenant, {});
}

/// What the instances' interfaces will be: given, or all GPUs in the VPC's default (3.1).
Checked<std::vector<WantedInterface>> settled_interfaces(ReadTransaction& t, const Tenant& tenant,
                                                         const Vpc& vpc, std::uint32_t gpus,
                                                         const InstanceBody& body) {
  if (body.interfaces) {
    if (!body.interfaces->empty())
      IMEX_PASS(check_wanted_interfaces(t, tenant, vpc, gpus, *body.interfaces));
    return *body.interfaces;
  }
  std::vector<WantedInterface> wanted;
  if (vpc.default_partition)
    for (std::uint32_t device = 0; device < gpus; ++device)
      wanted.push_back({*vpc.default_partition, device});
  if (!wanted.empty()) IMEX_PASS(check_wanted_interfaces(t, tenant, vpc, gpus, wanted));
  return wanted;
}

std::string batch_name(const std::string& prefix, const std::string& digits, std::size_t number) {
  return fmt::format("{}-{}-{}", prefix, digits, number);
}

}  // namespace

// ---- Shared ------------------------------------------------------------------------------------

Checked<std::optional<std::vector<WantedInterface>>> read_wanted_interfaces(Body& body) {
  const nlohmann::json* list = body.array("nvLinkInterfaces", kInterfacesMax);
  if (list == nullptr) return std::optional<std::vector<WantedInterface>>();
  std::vector<WantedInterface> wanted;
  for (const nlohmann::json& entry : *list) {
    IMEX_GET(Body item, Body::of(entry, "nvLinkInterfaces"));
    if (!item.has("nvLinkLogicalPartitionId"))
      item.wrong("nvLinkInterfaces", "each needs nvLinkLogicalPartitionId");
    const auto partition = item.uuid("nvLinkLogicalPartitionId");
    const auto device = item.integer("deviceInstance", 0, kDeviceInstanceMax);
    body.merge(item);
    wanted.push_back(
        {{partition.value_or(Uuid{})}, static_cast<std::uint32_t>(device.value_or(0))});
  }
  return std::optional(std::move(wanted));
}

Checked<void> check_wanted_interfaces(ReadTransaction& t, const Tenant& tenant, const Vpc& vpc,
                                      std::uint32_t gpus,
                                      const std::vector<WantedInterface>& wanted) {
  const auto wrong = [](std::string why) { return refuse_field("nvLinkInterfaces", why); };
  if (gpus == 0) return wrong("the machine has no GPUs behind NVLink");
  if (wanted.size() > gpus)
    return wrong(fmt::format("has {} entries, the machine has {} GPUs", wanted.size(), gpus));
  std::set<std::uint32_t> devices;
  std::set<LogicalPartitionId> partitions;
  for (const WantedInterface& interface : wanted) {
    if (interface.device_instance >= gpus)
      return wrong(fmt::format("deviceInstance {} is not below the GPU count {}",
                               interface.device_instance, gpus));
    if (!devices.insert(interface.device_instance).second)
      return wrong(fmt::format("deviceInstance {} is given twice", interface.device_instance));
    if (vpc.default_partition && interface.partition != *vpc.default_partition)
      return wrong("the VPC has a default partition, and an entry names another");
    partitions.insert(interface.partition);
  }
  for (const LogicalPartitionId& id : partitions) {
    IMEX_GET(const auto partition, t.find<LogicalPartition>(id));
    if (!partition || partition->tenant != tenant.id || partition->site != vpc.site)
      return wrong(
          fmt::format("{} is no logical partition of this tenant and site", id.to_string()));
    if (partition->status != Status::kReady)
      return wrong(fmt::format("logical partition {} is {}, not Ready", id.to_string(),
                               status_name(partition->status)));
  }
  return {};
}

Checked<void> check_instance_name(ReadTransaction& t, const TenantId& tenant, const SiteId& site,
                                  const std::string& name, const InstanceId& self) {
  ListQuery query;
  query.filters.push_back({Field::kTenant, {tenant.to_string()}});
  query.filters.push_back({Field::kSite, {site.to_string()}});
  query.filters.push_back({Field::kName, {name}});
  IMEX_GET(const auto found, t.list<Instance>(query));
  for (const Instance& other : found)
    if (other.id != self)
      return refuse(409, fmt::format("there is an instance named {} already", name),
                    id_data(other.id.to_string()));
  return {};
}

Checked<void> insert_interfaces(WriteTransaction& t, const Instance& instance,
                                const std::vector<WantedInterface>& wanted) {
  for (const WantedInterface& item : wanted) {
    NvlinkInterface interface;
    interface.id = {os::random_uuid()};
    interface.instance = instance.id;
    interface.tenant = instance.tenant;
    interface.site = instance.site;
    interface.partition = item.partition;
    interface.device_instance = item.device_instance;
    IMEX_PASS(t.insert(interface));
  }
  return {};
}

Checked<std::vector<NvlinkInterface>> interfaces_of(ReadTransaction& t,
                                                    const InstanceId& instance) {
  ListQuery query;
  query.filters.push_back({Field::kInstance, {instance.to_string()}});
  query.order = Field::kDevice;
  IMEX_GET(auto interfaces, t.list<NvlinkInterface>(query));
  return interfaces;
}

bool outside_fabric(const Machine& machine) { return !machine.domain; }

void check_adjacent(Body& body) {
  static_cast<void>(body.text("operatingSystemId", 64));
  static_cast<void>(body.text("networkSecurityGroupId", 256));
  static_cast<void>(body.text("ipxeScript", 65'536));
  static_cast<void>(body.text("userData", 1U << 20U));
  for (const std::string_view field :
       {"alwaysBootWithCustomIpxe", "phoneHomeEnabled", "allowUnhealthyMachine"})
    static_cast<void>(body.boolean(field));
  for (const std::string_view field : {"interfaces", "infinibandInterfaces", "sshKeyGroupIds",
                                       "secondaryVpcIds", "dpuExtensionServiceDeployments"})
    static_cast<void>(body.array(field, kInterfacesMax));
}

std::string kept_adjacent(const Body& body, const std::string& former_json) {
  return body.keep(
      {"secondaryVpcIds", "operatingSystemId", "ipxeScript", "userData", "networkSecurityGroupId",
       "alwaysBootWithCustomIpxe", "phoneHomeEnabled", "interfaces", "infinibandInterfaces",
       "dpuExtensionServiceDeployments", "sshKeyGroupIds"},
      former_json);
}

// ---- Operations --------------------------------------------------------------------------------

Answer Service::create_instance(const Request& request) {
  return writing_body(
      store_, request, need_tenant_admin, [&](WriteTransaction& t, Body& given) -> Checked<Answer> {
        IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
        IMEX_GET(const InstanceBody body, read_instance_body(given, tenant, false));
        IMEX_GET(const Vpc vpc, usable_vpc(t, tenant, body.vpc));
        MachineId machine;
        std::vector<WantedInterface> wanted;
        std::optional<InstanceType> type;
        if (body.type) {
          IMEX_GET(type, usable_type(t, tenant, vpc, *body.type, 1));
        }
        std::uint32_t gpus = type ? type->nvlink_gpus : 0;
        if (body.machine) {
          IMEX_GET(const Machine named, named_machine(t, tenant, vpc, *body.machine));
          machine = named.id;
          gpus = static_cast<std::uint32_t>(named.gpus.size());
        }
        IMEX_PASS(check_instance_name(t, tenant.id, vpc.site, body.name, {}));
        IMEX_GET(wanted, settled_interfaces(t, tenant, vpc, gpus, body));
        if (type) {
          IMEX_GET(const auto chosen, choose_machines(t, *type, body, wanted, false));
          machine = chosen.front();
        }
        IMEX_GET(const Instance instance,
                 make_instance(t, tenant, vpc, body, body.name, machine, wanted, 0));
        t.wake_reconciler();
        JsonWriter json;
        IMEX_PASS(render_new(t, json, instance, tenant));
        return json_answer(201, std::move(json));
      });
}

Answer Service::create_instance_batch(const Request& request) {
  return writing_body(
      store_, request, need_tenant_admin, [&](WriteTransaction& t, Body& given) -> Checked<Answer> {
        IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
        IMEX_GET(const InstanceBody body, read_instance_body(given, tenant, true));
        IMEX_GET(const Vpc vpc, usable_vpc(t, tenant, body.vpc));
        IMEX_GET(const InstanceType type, usable_type(t, tenant, vpc, *body.type, body.count));
        IMEX_GET(const auto wanted, settled_interfaces(t, tenant, vpc, type.nvlink_gpus, body));
        IMEX_GET(const auto machines, choose_machines(t, type, body, wanted, true));
        const std::string digits = os::random_uuid().to_string().substr(0, 6);
        JsonWriter json;
        json.begin_array();
        for (std::size_t i = 0; i < machines.size(); ++i) {
          const std::string name = batch_name(body.name, digits, i + 1);
          IMEX_PASS(check_instance_name(t, tenant.id, vpc.site, name, {}));
          IMEX_GET(const Instance instance, make_instance(t, tenant, vpc, body, name, machines[i],
                                                          wanted, static_cast<std::int64_t>(i)));
          IMEX_PASS(render_new(t, json, instance, tenant));
        }
        json.end_array();
        t.wake_reconciler();
        return json_answer(201, std::move(json));
      });
}

}  // namespace imex::partition
