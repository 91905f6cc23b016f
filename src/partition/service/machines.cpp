// Machines (2.10).
#include <map>

#include <fmt/format.h>

#include "body.hpp"
#include "context.hpp"
#include "render.hpp"

namespace imex::partition {
namespace {

struct VisibleMachine {
  Machine machine;
  ProviderId provider;
  bool for_provider = false;
};

/// The provider's machines; of others', those under the tenant's own instance, and with the
/// capability targetedInstanceCreation those of sites where it has an allocation.
Checked<VisibleMachine> visible_machine(ReadTransaction& t, const Request& request) {
  IMEX_PASS(need_anyone(request.caller));
  const MachineId id{request.path.at(0)};
  IMEX_GET(auto machine, t.find<Machine>(id));
  if (!machine) return refuse(404, "the machine does not exist");
  IMEX_GET(const auto site, t.find<Site>(machine->site));
  if (!site) return refuse(404, "the machine does not exist");
  VisibleMachine out{std::move(*machine), site->provider, false};
  if (is_provider(request.caller)) {
    IMEX_GET(const auto provider, t.provider_of(request.caller.org));
    if (provider && provider->id == site->provider) {
      out.for_provider = true;
      return out;
    }
  }
  if (is_tenant(request.caller)) {
    IMEX_GET(const auto tenant, t.tenant_of(request.caller.org));
    if (tenant && out.machine.instance) {
      IMEX_GET(const auto instance, t.find<Instance>(*out.machine.instance));
      if (instance && instance->tenant == tenant->id) return out;
    }
    if (tenant && tenant->targeted_instance_creation) {
      IMEX_GET(const bool access, has_allocation(t, *tenant, site->id));
      if (access) return out;
    }
  }
  return refuse(403, "the machine is not this org's");
}

Checked<VisibleMachine> changeable_machine(ReadTransaction& t, const Request& request) {
  IMEX_PASS(need_provider_admin(request.caller));
  IMEX_GET(VisibleMachine visible, visible_machine(t, request));
  if (!visible.for_provider) return refuse(403, "the machine is another provider's");
  return visible;
}

Checked<Answer> answer_machine(ReadTransaction& t, const VisibleMachine& visible) {
  JsonWriter json;
  IMEX_PASS(render_machine(t, json, visible.machine, visible.provider, visible.for_provider));
  return json_answer(200, std::move(json));
}

/// Which sites' machines a list shows. Refuses tenants without the capability, or without siteId.
Checked<bool> limit_machines(ReadTransaction& t, const Request& request, ListRequest& list) {
  if (is_provider(request.caller)) {
    IMEX_GET(const Provider provider, own_provider(t, request.caller));
    ListQuery query;
    query.filters.push_back({Field::kProvider, {provider.id.to_string()}});
    IMEX_GET(const auto sites, t.list<Site>(query));
    Filter at{Field::kSite, {}};
    for (const Site& site : sites) at.values.push_back(site.id.to_string());
    if (at.values.empty()) at.values.push_back(Uuid{}.to_string());
    list.query.filters.push_back(std::move(at));
    return true;
  }
  IMEX_PASS(need_tenant_admin(request.caller));
  IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
  if (!tenant.targeted_instance_creation)
    return refuse(403, "listing machines needs the tenant capability targetedInstanceCreation");
  const auto site = request.query.one("siteId");
  if (!site) return refuse(400, "siteId must be given");
  IMEX_GET(const Uuid id, uuid_of(*site, "siteId"));
  IMEX_GET(const bool access, has_allocation(t, tenant, {id}));
  if (!access) return refuse(403, "the tenant has no allocation at the site");
  return false;
}

Checked<void> filter_presence(ListRequest& list, const Query& query, std::string_view parameter,
                              Field field) {
  if (!query.one(parameter)) return {};
  IMEX_GET(const bool wanted, flag(query, parameter));
  list.query.filters.push_back({field, {}, wanted});
  return {};
}

/// Exactly one group of changes (2.10).
Checked<void> change_machine(ReadTransaction& t, Machine& machine, Body& body) {
  const auto type = body.uuid("instanceTypeId");
  const bool clear = body.boolean("clearInstanceType").value_or(false);
  const auto maintenance = body.boolean("setMaintenanceMode");
  const auto message = body.text("maintenanceMessage", 256);
  const auto labels = body.labels("labels");
  const int groups =
      int{type.has_value()} + int{clear} + int{maintenance.has_value()} + int{labels.has_value()};
  if (groups != 1)
    body.wrong("setMaintenanceMode",
               "exactly one of instanceTypeId, clearInstanceType, setMaintenanceMode and labels "
               "must be given");
  if (maintenance == true && (!message || characters(*message) < 5))
    body.wrong("maintenanceMessage", "must have 5 to 256 characters");
  IMEX_PASS(body.check());
  if (labels) machine.labels = *labels;
  if (type || clear) {
    if (machine.instance) return refuse(400, "the machine has an instance");
    machine.instance_type.reset();
  }
  if (type) {
    IMEX_GET(const auto found, t.find<InstanceType>({*type}));
    if (!found || found->site != machine.site)
      return refuse_field("instanceTypeId", "names no instance type of the machine's site");
    if (machine.gpus.size() < found->nvlink_gpus)
      return refuse_field("instanceTypeId", "asks for more GPUs than the machine has");
    machine.instance_type = found->id;
  }
  if (maintenance) {
    machine.maintenance_message = *maintenance ? *message : "";
    // With an instance it takes effect on release. Out of it: not known to be clean.
    if (!machine.instance)
      machine.status = *maintenance ? Status::kMaintenance
                                    : (machine.domain ? Status::kInitializing : Status::kReady);
  }
  return {};
}

}  // namespace

Answer Service::list_machines(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_anyone(request.caller));
    const Query& query = request.query;
    IMEX_GET(ListRequest list, list_request(query, {{"ID", Field::kId},
                                                    {"STATUS", Field::kStatus},
                                                    {"CREATED", Field::kCreated},
                                                    {"UPDATED", Field::kUpdated}}));
    IMEX_PASS(filter_ids(list, query, "siteId", Field::kSite));
    IMEX_PASS(filter_text(list, query, "id", Field::kId));
    IMEX_PASS(filter_ids(list, query, "instanceTypeId", Field::kInstanceType));
    IMEX_PASS(filter_ids(list, query, "nvLinkDomainId", Field::kDomain));
    IMEX_PASS(filter_status(list, query, Kind::kMachine));
    IMEX_PASS(filter_presence(list, query, "hasInstanceType", Field::kInstanceType));
    IMEX_PASS(filter_presence(list, query, "hasInstance", Field::kInstance));
    if (query.one("isMissingOnSite")) {
      IMEX_GET(const bool missing, flag(query, "isMissingOnSite"));
      list.query.filters.push_back({Field::kStatus, {"Unknown"}, !missing});
    }
    IMEX_GET(const bool for_provider, limit_machines(t, request, list));
    std::map<SiteId, ProviderId> providers;
    return answer_list<Machine>(
        t, list, [&](JsonWriter& json, const Machine& machine) -> Checked<void> {
          auto known = providers.find(machine.site);
          if (known == providers.end()) {
            IMEX_GET(const auto site, t.find<Site>(machine.site));
            known = providers.emplace(machine.site, site ? site->provider : ProviderId{}).first;
          }
          return render_machine(t, json, machine, known->second, for_provider);
        });
  });
}

Answer Service::get_machine(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_GET(const VisibleMachine visible, visible_machine(t, request));
    return answer_machine(t, visible);
  });
}

Answer Service::get_machine_history(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_GET(const VisibleMachine visible, visible_machine(t, request));
    JsonWriter json;
    IMEX_PASS(render_history(t, json, Kind::kMachine, visible.machine.id.text, 100));
    return json_answer(200, std::move(json));
  });
}

Answer Service::update_machine(const Request& request) {
  return writing_body(store_, request, need_provider_admin,
                      [&](WriteTransaction& t, Body& body) -> Checked<Answer> {
                        IMEX_GET(VisibleMachine visible, changeable_machine(t, request));
                        IMEX_PASS(change_machine(t, visible.machine, body));
                        IMEX_PASS(t.update(visible.machine, visible.machine.maintenance_message));
                        t.wake_reconciler();
                        return answer_machine(t, visible);
                      });
}

Answer Service::delete_machine(const Request& request) {
  return writing(store_, request, [&](WriteTransaction& t) -> Checked<Answer> {
    IMEX_GET(const VisibleMachine visible, changeable_machine(t, request));
    if (visible.machine.instance) return refuse(400, "the machine has an instance");
    if (visible.machine.instance_type)
      return refuse(412, "the machine is of an instance type; take it out first");
    IMEX_PASS(t.remove<Machine>(visible.machine.id));
    return deletion_accepted();
  });
}

Answer Service::get_gpu_stats(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_provider(request.caller));
    ListRequest list;
    if (!request.query.one("siteId")) return refuse(400, "siteId must be given");
    IMEX_PASS(filter_ids(list, request.query, "siteId", Field::kSite));
    IMEX_PASS(limit_machines(t, request, list));
    IMEX_GET(const auto machines, t.list<Machine>(list.query));
    std::map<std::string, std::pair<std::size_t, std::size_t>> by_name;
    for (const Machine& machine : machines) {
      if (machine.gpus.empty()) continue;
      auto& [gpus, count] =
          by_name[machine.product_name.empty() ? "NVLink GPU" : machine.product_name];
      gpus += machine.gpus.size();
      ++count;
    }
    JsonWriter json;
    json.begin_array();
    for (const auto& [name, counts] : by_name)
      json.begin_object()
          .member("name", name)
          .member("gpus", counts.first)
          .member("machines", counts.second)
          .end_object();
    json.end_array();
    return json_answer(200, std::move(json));
  });
}

}  // namespace imex::partition
