// Sites, instance types and allocations: what providers set up (2.10).
#include <algorithm>

#include <fmt/format.h>

#include "body.hpp"
#include "context.hpp"
#include "json/json.hpp"
#include "os/random.hpp"
#include "render.hpp"

namespace imex::partition {
namespace {

constexpr std::size_t kTextMax = 1024;
constexpr std::int64_t kAllocatedMax = 1'000'000;

// ---- Sites -------------------------------------------------------------------------------------

Checked<void> change_capabilities(Body& body, SiteCapabilities& capabilities) {
  const nlohmann::json* given = body.find("capabilities");
  if (given == nullptr) return {};
  IMEX_GET(Body part, Body::of(*given, "capabilities"));
  const auto set = [&part](std::string_view field, bool& value) {
    value = part.boolean(field).value_or(value);
  };
  set("nativeNetworking", capabilities.native_networking);
  set("networkSecurityGroup", capabilities.network_security_group);
  set("nvLinkPartition", capabilities.nvlink_partition);
  set("flow", capabilities.flow);
  set("imageBasedOperatingSystem", capabilities.image_based_operating_system);
  body.merge(part);
  return {};
}

Checked<void> change_site(Body& body, Site& site) {
  site.name = body.name("name").value_or(site.name);
  if (const auto text = body.text("description", kTextMax)) site.description = text;
  IMEX_PASS(change_capabilities(body, site.capabilities));
  static_cast<void>(body.text("serialConsoleHostname", 256));
  static_cast<void>(body.boolean("isSerialConsoleEnabled"));
  for (const std::string_view field : {"location", "contact"}) body.object_or_null(field);
  IMEX_PASS(body.check());
  site.extra_json =
      body.keep({"serialConsoleHostname", "isSerialConsoleEnabled", "serialConsoleIdleTimeout",
                 "serialConsoleMaxSessionLength", "location", "contact"},
                site.extra_json);
  return {};
}

/// A site that the caller may see: its provider's, or one where its tenant has an allocation.
Checked<Site> visible_site(ReadTransaction& t, const Request& request) {
  IMEX_PASS(need_anyone(request.caller));
  IMEX_GET(const auto id, path_id<Site>(request, "the site's id"));
  IMEX_GET(auto site, t.find<Site>(id));
  if (!site) return refuse(404, fmt::format("site {} does not exist", id.to_string()));
  if (is_provider(request.caller)) {
    IMEX_GET(const auto provider, t.provider_of(request.caller.org));
    if (provider && provider->id == site->provider) return std::move(*site);
  }
  if (is_tenant(request.caller)) {
    IMEX_GET(const auto tenant, t.tenant_of(request.caller.org));
    if (tenant) {
      IMEX_GET(const bool access, has_allocation(t, *tenant, id));
      if (access) return std::move(*site);
    }
  }
  return refuse(403, "the site is another provider's, and the tenant has no allocation there");
}

Checked<Site> provider_site(ReadTransaction& t, const Provider& provider, const SiteId& id,
                            int absent = 404) {
  IMEX_GET(auto site, t.find<Site>(id));
  if (!site) return refuse(absent, fmt::format("site {} does not exist", id.to_string()));
  if (site->provider != provider.id) return refuse(403, "the site belongs to another provider");
  return std::move(*site);
}

/// Limits a list of sites to those that the caller may see.
Checked<void> limit_to_visible(ReadTransaction& t, const Caller& caller, ListRequest& list) {
  std::vector<std::string> ids;
  if (is_provider(caller)) {
    IMEX_GET(const auto provider, t.provider_of(caller.org));
    if (provider) {
      ListQuery query;
      query.filters.push_back({Field::kProvider, {provider->id.to_string()}});
      IMEX_GET(const auto sites, t.list<Site>(query));
      for (const Site& site : sites) ids.push_back(site.id.to_string());
    }
  }
  if (is_tenant(caller)) {
    IMEX_GET(const auto tenant, t.tenant_of(caller.org));
    if (tenant) {
      ListQuery query;
      query.filters.push_back({Field::kTenant, {tenant->id.to_string()}});
      IMEX_GET(const auto allocations, t.list<Allocation>(query));
      for (const Allocation& allocation : allocations) ids.push_back(allocation.site.to_string());
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (ids.empty()) ids.push_back(Uuid{}.to_string());  // nothing is visible: nothing matches
  list.query.filters.push_back({Field::kId, std::move(ids)});
  return {};
}

Checked<std::string> org_of(ReadTransaction& t, const Site& site) {
  IMEX_GET(const auto provider, t.find<Provider>(site.provider));
  return provider ? provider->org : std::string();
}

Checked<Answer> answer_site(ReadTransaction& t, int status, const Site& site) {
  IMEX_GET(const std::string org, org_of(t, site));
  JsonWriter json;
  IMEX_PASS(render_site(t, json, site, org));
  return json_answer(status, std::move(json));
}

// ---- Types -------------------------------------------------------------------------------------

/// Capabilities are kept as given; the NVLink GPU count is what the rest needs of them.
void read_capabilities(Body& body, InstanceType& type) {
  const nlohmann::json* list = body.array("machineCapabilities", 100);
  if (list == nullptr) return;
  type.nvlink_gpus = 0;
  for (const nlohmann::json& entry : *list) {
    Checked<Body> item = Body::of(entry, "machineCapabilities");
    if (!item) return body.wrong("machineCapabilities", "must hold objects");
    item->require("type");
    const auto kind = item->text("type", 64);
    static_cast<void>(item->text("name", 256));
    const auto count = item->integer("count", 0, 1024);
    const auto device = item->text("deviceType", 64);
    body.merge(*item);
    if (kind == "GPU" && device == "NVLink")
      type.nvlink_gpus = static_cast<std::uint32_t>(count.value_or(0));
  }
  type.capabilities_json = json::text_of(*list);
}

Checked<void> change_type(Body& body, InstanceType& type) {
  type.name = body.name("name").value_or(type.name);
  if (const auto text = body.text("description", kTextMax)) type.description = text;
  type.labels = body.labels("labels").value_or(type.labels);
  read_capabilities(body, type);
  return body.check();
}

Checked<InstanceType> provider_type(ReadTransaction& t, const Provider& provider,
                                    const InstanceTypeId& id, int absent = 404) {
  IMEX_GET(auto type, t.find<InstanceType>(id));
  if (!type) return refuse(absent, fmt::format("instance type {} does not exist", id.to_string()));
  if (type->provider != provider.id)
    return refuse(403, "the instance type belongs to another provider");
  return std::move(*type);
}

Checked<Answer> answer_type(ReadTransaction& t, int status, const InstanceType& type) {
  JsonWriter json;
  IMEX_PASS(render_instance_type(t, json, type));
  return json_answer(status, std::move(json));
}

void render_association(JsonWriter& json, const InstanceTypeId& type, const Machine& machine) {
  json.begin_object().member("id", machine.id).member("instanceTypeId", type);
  json.member("machineId", machine.id).member("created", machine.created);
  json.member("updated", machine.updated).end_object();
}

/// Tenants see types of sites where they have an allocation; providers their own.
Checked<void> check_type_visible(ReadTransaction& t, const Caller& caller,
                                 const InstanceType& type) {
  if (is_provider(caller)) {
    IMEX_GET(const auto provider, t.provider_of(caller.org));
    if (provider && provider->id == type.provider) return {};
  }
  if (is_tenant(caller)) {
    IMEX_GET(const auto tenant, t.tenant_of(caller.org));
    if (tenant) {
      IMEX_GET(const bool access, has_allocation(t, *tenant, type.site));
      if (access) return {};
    }
  }
  return refuse(403, "the instance type is another provider's");
}

// ---- Allocations -------------------------------------------------------------------------------

struct ConstraintBody {
  std::optional<InstanceTypeId> type;
  std::optional<std::uint32_t> machines;
};

Checked<ConstraintBody> read_constraint(Body& body) {
  ConstraintBody out;
  const nlohmann::json* list = body.array("allocationConstraints", 1);
  if (list == nullptr || list->empty()) return out;
  IMEX_GET(Body item, Body::of(list->front(), "allocationConstraints"));
  const auto resource = item.text("resourceType", 64);
  const auto kind = item.text("constraintType", 64);
  if (resource && *resource != "InstanceType")
    item.wrong("resourceType", "must have resourceType InstanceType");
  if (kind && *kind != "Reserved") item.wrong("constraintType", "must be Reserved");
  if (const auto type = item.uuid("resourceTypeId")) out.type = InstanceTypeId{*type};
  if (const auto value = item.integer("constraintValue", 0, kAllocatedMax))
    out.machines = static_cast<std::uint32_t>(*value);
  body.merge(item);
  return out;
}

Checked<Answer> answer_allocation(ReadTransaction& t, int status, const Allocation& allocation) {
  JsonWriter json;
  IMEX_PASS(render_allocation(t, json, allocation));
  return json_answer(status, std::move(json));
}

Checked<void> check_allocation_name(ReadTransaction& t, const Allocation& allocation) {
  ListQuery query;
  query.filters.push_back({Field::kTenant, {allocation.tenant.to_string()}});
  query.filters.push_back({Field::kSite, {allocation.site.to_string()}});
  query.filters.push_back({Field::kName, {allocation.name}});
  IMEX_GET(const auto found, t.list<Allocation>(query));
  for (const Allocation& other : found)
    if (other.id != allocation.id)
      return refuse(409, fmt::format("there is an allocation named {} already", allocation.name),
                    id_data(other.id.to_string()));
  return {};
}

Checked<Allocation> visible_allocation(ReadTransaction& t, const Request& request) {
  IMEX_PASS(need_anyone(request.caller));
  IMEX_GET(const auto id, path_id<Allocation>(request, "the allocation's id"));
  IMEX_GET(auto allocation, t.find<Allocation>(id));
  if (!allocation) return refuse(404, fmt::format("allocation {} does not exist", id.to_string()));
  IMEX_GET(const auto provider, t.provider_of(request.caller.org));
  IMEX_GET(const auto tenant, t.tenant_of(request.caller.org));
  const bool theirs =
      (is_provider(request.caller) && provider && provider->id == allocation->provider) ||
      (is_tenant(request.caller) && tenant && tenant->id == allocation->tenant);
  if (!theirs) return refuse(403, "the allocation is somebody else's");
  return std::move(*allocation);
}

}  // namespace

Answer Service::create_site(const Request& request) {
  return writing_body(store_, request, need_provider_admin,
                      [&](WriteTransaction& t, Body& body) -> Checked<Answer> {
                        Site site;
                        body.require("name");
                        IMEX_PASS(change_site(body, site));
                        IMEX_GET(const Provider provider, own_provider(t, request.caller));
                        site.id = {os::random_uuid()};
                        site.provider = provider.id;
                        ListQuery query;
                        query.filters.push_back({Field::kProvider, {provider.id.to_string()}});
                        query.filters.push_back({Field::kName, {site.name}});
                        IMEX_GET(const auto taken, t.list<Site>(query));
                        if (!taken.empty())
                          return refuse(409, "there is a site of this name already",
                                        id_data(taken[0].id.to_string()));
                        IMEX_PASS(t.insert(site, "created"));
                        return answer_site(t, 201, site);
                      });
}

Answer Service::list_sites(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_anyone(request.caller));
    IMEX_GET(ListRequest list, list_request(request.query, {{"NAME", Field::kName},
                                                            {"STATUS", Field::kStatus},
                                                            {"CREATED", Field::kCreated},
                                                            {"UPDATED", Field::kUpdated}}));
    IMEX_PASS(filter_status(list, request.query, Kind::kSite));
    IMEX_PASS(filter_ids(list, request.query, "infrastructureProviderId", Field::kProvider));
    IMEX_PASS(limit_to_visible(t, request.caller, list));
    return answer_list<Site>(t, list, [&](JsonWriter& json, const Site& site) -> Checked<void> {
      IMEX_GET(const std::string org, org_of(t, site));
      return render_site(t, json, site, org);
    });
  });
}

Answer Service::get_site(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_GET(const Site site, visible_site(t, request));
    return answer_site(t, 200, site);
  });
}

Answer Service::get_site_history(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_GET(const Site site, visible_site(t, request));
    JsonWriter json;
    IMEX_PASS(render_history(t, json, Kind::kSite, site.id.to_string(), 100));
    return json_answer(200, std::move(json));
  });
}

Answer Service::update_site(const Request& request) {
  return writing_body(store_, request, need_provider_admin,
                      [&](WriteTransaction& t, Body& body) -> Checked<Answer> {
                        IMEX_GET(const auto id, path_id<Site>(request, "the site's id"));
                        IMEX_GET(const Provider provider, own_provider(t, request.caller));
                        IMEX_GET(Site site, provider_site(t, provider, id));
                        IMEX_PASS(change_site(body, site));
                        IMEX_PASS(t.update(site));
                        return answer_site(t, 200, site);
                      });
}

Answer Service::delete_site(const Request& request) {
  return writing(store_, request, [&](WriteTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_provider_admin(request.caller));
    IMEX_GET(const auto id, path_id<Site>(request, "the site's id"));
    IMEX_GET(const Provider provider, own_provider(t, request.caller));
    IMEX_PASS(provider_site(t, provider, id));
    IMEX_PASS(t.remove<Site>(id));  // 412 while anything lies in it
    return deletion_accepted();
  });
}

// ---- Instance types ----------------------------------------------------------------------------

Answer Service::create_instance_type(const Request& request) {
  return writing_body(store_, request, need_provider_admin,
                      [&](WriteTransaction& t, Body& body) -> Checked<Answer> {
                        InstanceType type;
                        body.require("name");
                        body.require("siteId");
                        const SiteId site_id{body.uuid("siteId").value_or(Uuid{})};
                        IMEX_PASS(change_type(body, type));
                        IMEX_GET(const Provider provider, own_provider(t, request.caller));
                        IMEX_GET(const Site site, provider_site(t, provider, site_id, 400));
                        type.id = {os::random_uuid()};
                        type.provider = provider.id;
                        type.site = site.id;
                        ListQuery query;
                        query.filters.push_back({Field::kSite, {site.id.to_string()}});
                        query.filters.push_back({Field::kName, {type.name}});
                        IMEX_GET(const auto taken, t.list<InstanceType>(query));
                        if (!taken.empty())
                          return refuse(409, "there is an instance type of this name already",
                                        id_data(taken[0].id.to_string()));
                        IMEX_PASS(t.insert(type, "created"));
                        return answer_type(t, 201, type);
                      });
}

Answer Service::list_instance_types(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_anyone(request.caller));
    IMEX_GET(ListRequest list, list_request(request.query, {{"NAME", Field::kName},
                                                            {"STATUS", Field::kStatus},
                                                            {"CREATED", Field::kCreated},
                                                            {"UPDATED", Field::kUpdated}}));
    IMEX_PASS(filter_ids(list, request.query, "siteId", Field::kSite));
    IMEX_PASS(filter_status(list, request.query, Kind::kInstanceType));
    ListRequest sites;
    IMEX_PASS(limit_to_visible(t, request.caller, sites));
    list.query.filters.push_back({Field::kSite, std::move(sites.query.filters[0].values)});
    return answer_list<InstanceType>(t, list, [&](JsonWriter& json, const InstanceType& type) {
      return render_instance_type(t, json, type);
    });
  });
}

Answer Service::get_instance_type(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_anyone(request.caller));
    IMEX_GET(const auto id, path_id<InstanceType>(request, "the instance type's id"));
    IMEX_GET(const auto type, t.find<InstanceType>(id));
    if (!type) return refuse(404, fmt::format("instance type {} does not exist", id.to_string()));
    IMEX_PASS(check_type_visible(t, request.caller, *type));
    return answer_type(t, 200, *type);
  });
}

Answer Service::update_instance_type(const Request& request) {
  return writing_body(store_, request, need_provider_admin,
                      [&](WriteTransaction& t, Body& body) -> Checked<Answer> {
                        IMEX_GET(const auto id,
                                 path_id<InstanceType>(request, "the instance type's id"));
                        IMEX_GET(const Provider provider, own_provider(t, request.caller));
                        IMEX_GET(InstanceType type, provider_type(t, provider, id));
                        IMEX_PASS(change_type(body, type));
                        IMEX_PASS(t.update(type));
                        return answer_type(t, 200, type);
                      });
}

Answer Service::delete_instance_type(const Request& request) {
  return writing(store_, request, [&](WriteTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_provider_admin(request.caller));
    IMEX_GET(const auto id, path_id<InstanceType>(request, "the instance type's id"));
    IMEX_GET(const Provider provider, own_provider(t, request.caller));
    IMEX_PASS(provider_type(t, provider, id));
    IMEX_PASS(t.remove<InstanceType>(id));  // 412 while machines or allocations refer to it
    return deletion_accepted();
  });
}

Answer Service::add_type_machines(const Request& request) {
  return writing_body(
      store_, request, need_provider_admin,
      [&](WriteTransaction& t, Body& body) -> Checked<Answer> {
        body.require("machineIds");
        const nlohmann::json* ids = body.array("machineIds", 1000);
        if (ids != nullptr && ids->empty())
          body.wrong("machineIds", "must have at least one entry");
        IMEX_PASS(body.check());
        IMEX_GET(const auto id, path_id<InstanceType>(request, "the instance type's id"));
        IMEX_GET(const Provider provider, own_provider(t, request.caller));
        IMEX_GET(const InstanceType type, provider_type(t, provider, id));
        JsonWriter json;
        json.begin_array();
        for (const nlohmann::json& entry : *ids) {
          if (!entry.is_string()) return refuse_field("machineIds", "must hold strings");
          IMEX_GET(auto machine, t.find<Machine>({entry.get<std::string>()}));
          if (!machine || machine->site != type.site)
            return refuse_field("machineIds", "names a machine that is not at the type's site");
          if (machine->gpus.size() < type.nvlink_gpus)
            return refuse_field("machineIds", "names a machine with fewer GPUs than the type has");
          machine->instance_type = type.id;
          IMEX_PASS(t.update(*machine));
          render_association(json, type.id, *machine);
        }
        json.end_array();
        return json_answer(201, std::move(json));
      });
}

Answer Service::list_type_machines(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_provider(request.caller));
    IMEX_GET(const auto id, path_id<InstanceType>(request, "the instance type's id"));
    IMEX_GET(ListRequest list, list_request(request.query, {{"CREATED", Field::kCreated},
                                                            {"UPDATED", Field::kUpdated}}));
    IMEX_GET(const Provider provider, own_provider(t, request.caller));
    IMEX_GET(const InstanceType type, provider_type(t, provider, id));
    list.query.filters.push_back({Field::kInstanceType, {id.to_string()}});
    return answer_list<Machine>(t, list,
                                [&](JsonWriter& json, const Machine& machine) -> Checked<void> {
                                  render_association(json, type.id, machine);
                                  return {};
                                });
  });
}

Answer Service::remove_type_machine(const Request& request) {
  return writing(store_, request, [&](WriteTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_provider_admin(request.caller));
    IMEX_GET(const auto id, path_id<InstanceType>(request, "the instance type's id"));
    IMEX_GET(const Provider provider, own_provider(t, request.caller));
    IMEX_PASS(provider_type(t, provider, id));
    IMEX_GET(auto machine, t.find<Machine>({request.path.at(1)}));
    if (!machine || machine->instance_type != id)
      return refuse(404, "the machine is not of this type");
    if (machine->instance) return refuse(400, "the machine has an instance");
    machine->instance_type.reset();
    IMEX_PASS(t.update(*machine));
    return deletion_accepted();
  });
}

// ---- Allocations -------------------------------------------------------------------------------

Answer Service::create_allocation(const Request& request) {
  return writing_body(
      store_, request, need_provider_admin,
      [&](WriteTransaction& t, Body& body) -> Checked<Answer> {
        for (const std::string_view field : {"name", "tenantId", "siteId", "allocationConstraints"})
          body.require(field);
        Allocation allocation;
        allocation.id = {os::random_uuid()};
        allocation.name = body.name("name").value_or("");
        allocation.description = body.text("description", kTextMax);
        allocation.tenant = {body.uuid("tenantId").value_or(Uuid{})};
        allocation.site = {body.uuid("siteId").value_or(Uuid{})};
        IMEX_GET(const ConstraintBody constraint, read_constraint(body));
        if (!constraint.type || !constraint.machines)
          body.wrong("allocationConstraints", "needs one with resourceTypeId and constraintValue");
        IMEX_PASS(body.check());
        IMEX_GET(const Provider provider, own_provider(t, request.caller));
        IMEX_PASS(provider_site(t, provider, allocation.site, 400));
        IMEX_GET(const auto tenant, t.find<Tenant>(allocation.tenant));
        if (!tenant) return refuse_field("tenantId", "names no tenant");
        IMEX_GET(const InstanceType type, provider_type(t, provider, *constraint.type, 400));
        if (type.site != allocation.site)
          return refuse_field("allocationConstraints", "names a type of another site");
        allocation.provider = provider.id;
        allocation.instance_type = type.id;
        allocation.machines = *constraint.machines;
        IMEX_PASS(check_allocation_name(t, allocation));
        IMEX_PASS(t.insert(allocation, "created"));
        return answer_allocation(t, 201, allocation);
      });
}

Answer Service::list_allocations(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_anyone(request.caller));
    IMEX_GET(ListRequest list, list_request(request.query, {{"NAME", Field::kName},
                                                            {"STATUS", Field::kStatus},
                                                            {"CREATED", Field::kCreated},
                                                            {"UPDATED", Field::kUpdated}}));
    IMEX_PASS(filter_ids(list, request.query, "siteId", Field::kSite));
    IMEX_PASS(filter_ids(list, request.query, "tenantId", Field::kTenant));
    IMEX_PASS(filter_status(list, request.query, Kind::kAllocation));
    if (is_provider(request.caller)) {
      IMEX_GET(const Provider provider, own_provider(t, request.caller));
      list.query.filters.push_back({Field::kProvider, {provider.id.to_string()}});
    } else {
      IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
      list.query.filters.push_back({Field::kTenant, {tenant.id.to_string()}});
    }
    return answer_list<Allocation>(t, list, [&](JsonWriter& json, const Allocation& allocation) {
      return render_allocation(t, json, allocation);
    });
  });
}

Answer Service::get_allocation(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_GET(const Allocation allocation, visible_allocation(t, request));
    return answer_allocation(t, 200, allocation);
  });
}

Answer Service::update_allocation(const Request& request) {
  return writing_body(store_, request, need_provider_admin,
                      [&](WriteTransaction& t, Body& body) -> Checked<Answer> {
                        IMEX_GET(Allocation allocation, visible_allocation(t, request));
                        IMEX_GET(const Provider provider, own_provider(t, request.caller));
                        if (allocation.provider != provider.id)
                          return refuse(403, "the allocation is another provider's");
                        allocation.name = body.name("name").value_or(allocation.name);
                        if (const auto text = body.text("description", kTextMax))
                          allocation.description = text;
                        IMEX_GET(const ConstraintBody constraint, read_constraint(body));
                        allocation.machines = constraint.machines.value_or(allocation.machines);
                        IMEX_PASS(body.check());
                        IMEX_PASS(check_allocation_name(t, allocation));
                        IMEX_PASS(t.update(allocation));
                        return answer_allocation(t, 200, allocation);
                      });
}

Answer Service::delete_allocation(const Request& request) {
  return writing(store_, request, [&](WriteTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_provider_admin(request.caller));
    IMEX_GET(const Allocation allocation, visible_allocation(t, request));
    IMEX_GET(const Provider provider, own_provider(t, request.caller));
    if (allocation.provider != provider.id)
      return refuse(403, "the allocation is another provider's");
    ListQuery used;
    used.filters.push_back({Field::kTenant, {allocation.tenant.to_string()}});
    used.filters.push_back({Field::kInstanceType, {allocation.instance_type.to_string()}});
    IMEX_GET(const std::uint64_t instances, t.count<Instance>(used));
    IMEX_GET(const std::uint64_t allowed,
             t.allocated_machines(allocation.tenant, allocation.instance_type));
    if (instances + allocation.machines > allowed)
      return refuse(400, fmt::format("the tenant uses {} machines of it", instances));
    IMEX_PASS(t.remove<Allocation>(allocation.id));
    return deletion_accepted();
  });
}

}  // namespace imex::partition
