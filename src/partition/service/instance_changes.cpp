// Reading, changing and releasing instances (2.8, 3.3, 3.4).
#include <algorithm>

#include <fmt/format.h>

#include "instances.hpp"
#include "render.hpp"

namespace imex::partition {
namespace {

constexpr std::uint64_t kPatchHistory = 100;

Checked<Relations> instance_relations(const Query& query) {
  return Relations::of(query, {"InfrastructureProvider", "Site", "Tenant", "Vpc", "InstanceType",
                               "Machine", "OperatingSystem", "NetworkSecurityGroup"});
}

Checked<Answer> answer_instance(ReadTransaction& t, const Instance& instance, const Tenant& tenant,
                                const Relations& relations) {
  IMEX_GET(const auto interfaces, interfaces_of(t, instance.id));
  JsonWriter json;
  IMEX_PASS(render_instance(t, json, instance, interfaces, tenant, relations));
  return json_answer(200, std::move(json));
}

Checked<Instance> own_instance(ReadTransaction& t, const Request& request, const Tenant& tenant) {
  IMEX_GET(const auto id, path_id<Instance>(request, "the instance's id"));
  return own<Instance>(t, tenant, id, "instance");
}

// ---- PATCH -------------------------------------------------------------------------------------

/// Reboots belong to who manages hosts; never in one request with changes (2.8).
Checked<void> check_reboot(Body& body) {
  bool reboot = false;
  for (const std::string_view field :
       {"triggerReboot", "rebootWithCustomIpxe", "applyUpdatesOnReboot"})
    reboot |= body.boolean(field).value_or(false);
  if (!reboot) return {};
  for (const std::string_view field :
       {"name", "description", "labels", "nvLinkInterfaces", "operatingSystemId", "ipxeScript",
        "userData", "interfaces", "infinibandInterfaces", "sshKeyGroupIds"})
    if (body.has(field)) return refuse_field(std::string(field), "cannot be changed with a reboot");
  return refuse(501, "this controller does not reboot machines");
}

Checked<void> check_changeable(ReadTransaction& t, const Instance& instance) {
  IMEX_GET(const auto site, t.find<Site>(instance.site));
  if (!site || site->status != Status::kRegistered)
    return refuse(400, "the instance's site is not registered");
  if (instance.status == Status::kTerminating) return refuse(409, "the instance is terminating");
  IMEX_GET(const auto machine, t.find<Machine>(instance.machine));
  if (!machine || machine->status == Status::kUnknown)
    return refuse(409, "the instance's machine is missing at the site");
  return {};
}

/// Live rows that the wanted set no longer has, and wanted entries that have no live row.
struct InterfaceChange {
  std::vector<NvlinkInterface> leaving;
  std::vector<WantedInterface> joining;
  [[nodiscard]] bool none() const { return leaving.empty() && joining.empty(); }
};

InterfaceChange compare(const std::vector<NvlinkInterface>& present,
                        std::vector<WantedInterface> wanted) {
  InterfaceChange change;
  for (const NvlinkInterface& row : present) {
    if (row.status == Status::kDeleting) continue;
    const auto same = std::find(wanted.begin(), wanted.end(),
                                WantedInterface{row.partition, row.device_instance});
    // A row in error is made anew; one that is Ready or on its way is left alone.
    if (same != wanted.end() && row.status != Status::kError)
      wanted.erase(same);
    else
      change.leaving.push_back(row);
  }
  change.joining = std::move(wanted);
  return change;
}

Checked<void> leave(WriteTransaction& t, std::vector<NvlinkInterface> rows, bool at_once) {
  for (NvlinkInterface& row : rows) {
    if (at_once) {
      IMEX_PASS(t.remove<NvlinkInterface>(row.id));
    } else if (row.status != Status::kDeleting) {
      row.status = Status::kDeleting;
      IMEX_PASS(t.update(row));
    }
  }
  return {};
}

Checked<void> replace_interfaces(WriteTransaction& t, const Tenant& tenant, Instance& instance,
                                 const std::vector<WantedInterface>& wanted) {
  IMEX_GET(const auto present, interfaces_of(t, instance.id));
  const InterfaceChange change = compare(present, wanted);
  if (change.none()) return {};
  IMEX_GET(const auto vpc, t.find<Vpc>(instance.vpc));
  IMEX_GET(const auto machine, t.find<Machine>(instance.machine));
  if (!vpc || !machine) return refuse(409, "the instance's VPC or machine is gone");
  const bool has_interfaces =
      std::any_of(present.begin(), present.end(),
                  [](const NvlinkInterface& row) { return row.status != Status::kDeleting; });
  if (!wanted.empty()) {
    if (vpc->default_partition && has_interfaces)
      return refuse_field("nvLinkInterfaces",
                          "cannot be changed while the VPC has a default partition; [] clears");
    IMEX_PASS(check_wanted_interfaces(t, tenant, *vpc,
                                      static_cast<std::uint32_t>(machine->gpus.size()), wanted));
  }
  // Before the new ones: an index has one live row.
  IMEX_PASS(leave(t, change.leaving, outside_fabric(*machine)));
  IMEX_PASS(insert_interfaces(t, instance, change.joining));
  ++instance.version;
  instance.config_changed = t.now();
  if (!outside_fabric(*machine) && instance.provisioned) instance.status = Status::kConfiguring;
  t.wake_reconciler();
  return {};
}

Checked<void> change_texts(ReadTransaction& t, const Tenant& tenant, Instance& instance,
                           Body& body) {
  const auto name = body.name("name");
  const auto description = body.text("description", 1024);
  const auto labels = body.labels("labels");
  check_adjacent(body);
  IMEX_PASS(body.check());
  if (name) {
    IMEX_PASS(check_instance_name(t, tenant.id, instance.site, *name, instance.id));
    instance.name = *name;
  }
  if (description) instance.description = description;
  if (labels) instance.labels = *labels;
  instance.extra_json = kept_adjacent(body, instance.extra_json);
  return {};
}

// ---- DELETE ------------------------------------------------------------------------------------

/// Why the tenant gives the machine back, if it was broken.
Checked<std::optional<std::string>> read_health_issue(std::string_view text) {
  if (text.empty()) return std::optional<std::string>();
  IMEX_GET(Body body, Body::parse(text));
  static_cast<void>(body.boolean("isRepairTenant"));
  const nlohmann::json* issue = body.find("machineHealthIssue");
  if (issue == nullptr) {
    IMEX_PASS(body.check());
    return std::optional<std::string>();
  }
  IMEX_GET(Body part, Body::of(*issue, "machineHealthIssue"));
  const std::string category = part.text("category", 64).value_or("");
  const std::string summary = part.text("summary", 256).value_or("");
  static_cast<void>(part.text("details", 4096));
  if (category != "Hardware" && category != "Network" && category != "Performance" &&
      category != "Other")
    part.wrong("category", "must have category Hardware, Network, Performance or Other");
  body.merge(part);
  IMEX_PASS(body.check());
  return std::optional(fmt::format("{}: {}", category, summary));
}

Checked<void> give_machine_back(WriteTransaction& t, const Instance& instance, Machine& machine) {
  IMEX_PASS(t.remove<Instance>(instance.id));
  machine.instance.reset();
  machine.status = machine.maintenance_message.empty() ? Status::kReady : Status::kMaintenance;
  IMEX_PASS(t.update(machine, "instance released"));
  return {};
}

Checked<void> release(WriteTransaction& t, Instance instance,
                      const std::optional<std::string>& issue) {
  IMEX_GET(auto machine, t.find<Machine>(instance.machine));
  if (!machine) return refuse(500, "internal error");
  if (issue) {
    machine->maintenance_message = *issue;
    IMEX_PASS(t.update(*machine));
  }
  if (instance.status == Status::kTerminating) return {};
  IMEX_GET(auto interfaces, interfaces_of(t, instance.id));
  IMEX_PASS(leave(t, std::move(interfaces), outside_fabric(*machine)));
  if (outside_fabric(*machine)) return give_machine_back(t, instance, *machine);
  instance.status = Status::kTerminating;
  ++instance.version;
  instance.config_changed = t.now();
  IMEX_PASS(t.update(instance, "release requested"));
  // The gate (8.4): Ready again only after its GPUs were seen outside all tenants' partitions.
  machine->status = Status::kReset;
  IMEX_PASS(t.update(*machine, "waiting until its GPUs have left the partitions"));
  t.wake_reconciler();
  return {};
}

}  // namespace

Answer Service::list_instances(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_tenant_admin(request.caller));
    const Query& query = request.query;
    IMEX_GET(ListRequest list, list_request(query, {{"NAME", Field::kName},
                                                    {"STATUS", Field::kStatus},
                                                    {"CREATED", Field::kCreated},
                                                    {"UPDATED", Field::kUpdated}}));
    IMEX_GET(const Relations relations, instance_relations(query));
    for (const std::string_view filter :
         {"operatingSystemId", "ipAddress", "networkSecurityGroupId"})
      // No instance here has one: nothing matches.
      if (query.one(filter)) list.query.filters.push_back({Field::kVpc, {Uuid{}.to_string()}});
    IMEX_PASS(filter_ids(list, query, "siteId", Field::kSite));
    IMEX_PASS(filter_ids(list, query, "vpcId", Field::kVpc));
    IMEX_PASS(filter_ids(list, query, "instanceTypeId", Field::kInstanceType));
    IMEX_PASS(filter_text(list, query, "machineId", Field::kMachine));
    IMEX_PASS(filter_text(list, query, "name", Field::kName));
    IMEX_PASS(filter_status(list, query, Kind::kInstance));
    IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
    list.query.filters.push_back({Field::kTenant, {tenant.id.to_string()}});
    return answer_list<Instance>(
        t, list, [&](JsonWriter& json, const Instance& instance) -> Checked<void> {
          IMEX_GET(const auto interfaces, interfaces_of(t, instance.id));
          return render_instance(t, json, instance, interfaces, tenant, relations);
        });
  });
}

Answer Service::get_instance(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_tenant_admin(request.caller));
    IMEX_GET(const Relations relations, instance_relations(request.query));
    IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
    IMEX_GET(const Instance instance, own_instance(t, request, tenant));
    return answer_instance(t, instance, tenant, relations);
  });
}

Answer Service::get_instance_history(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_tenant_admin(request.caller));
    IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
    IMEX_GET(const Instance instance, own_instance(t, request, tenant));
    JsonWriter json;
    IMEX_PASS(render_history(t, json, Kind::kInstance, instance.id.to_string(), kPatchHistory));
    return json_answer(200, std::move(json));
  });
}

Answer Service::update_instance(const Request& request) {
  return writing_body(store_, request, need_tenant_admin,
                      [&](WriteTransaction& t, Body& body) -> Checked<Answer> {
                        IMEX_PASS(check_reboot(body));
                        IMEX_GET(const auto wanted, read_wanted_interfaces(body));
                        IMEX_PASS(body.check());
                        IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
                        IMEX_GET(Instance instance, own_instance(t, request, tenant));
                        IMEX_PASS(check_changeable(t, instance));
                        IMEX_PASS(change_texts(t, tenant, instance, body));
                        if (wanted) IMEX_PASS(replace_interfaces(t, tenant, instance, *wanted));
                        IMEX_PASS(t.update(instance, "NVLink configuration changed"));
                        return answer_instance(t, instance, tenant, {});
                      });
}

Answer Service::delete_instance(const Request& request) {
  if (auto role = need_tenant_admin(request.caller); !role) return answer_of(refuse(role.error()));
  const auto issue = read_health_issue(request.body);
  if (!issue) return answer_of(refuse(issue.error()));
  return writing(store_, request, [&](WriteTransaction& t) -> Checked<Answer> {
    IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
    IMEX_GET(const Instance instance, own_instance(t, request, tenant));
    IMEX_GET(const auto site, t.find<Site>(instance.site));
    if (!site || site->status != Status::kRegistered)
      return refuse(409, "the instance's site is not registered");
    IMEX_PASS(release(t, instance, *issue));
    return deletion_accepted();
  });
}

}  // namespace imex::partition
