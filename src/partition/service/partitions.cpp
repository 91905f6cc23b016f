// Logical partitions (2.5), their interfaces (2.6) and sharing groups (8.2).
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "body.hpp"
#include "context.hpp"
#include "os/random.hpp"
#include "render.hpp"

namespace imex::partition {
namespace {

constexpr std::size_t kDescriptionMax = 1024;

struct PartitionBody {
  std::optional<std::string> name, description;
  std::optional<Uuid> site;
  std::optional<ResiliencyMode> resiliency;
  std::optional<std::uint32_t> multicast_groups;
};

/// `required`: what a POST must give.
Checked<PartitionBody> read_partition_body(std::string_view text, bool required) {
  IMEX_GET(Body body, Body::parse(text));
  PartitionBody out;
  if (required) {
    body.require("name");
    body.require("siteId");
  }
  out.name = body.name("name");
  out.description = body.text("description", kDescriptionMax);
  if (required) out.site = body.uuid("siteId");
  if (const auto mode = body.text("resiliencyMode", 64)) {
    out.resiliency = parse_resiliency_mode(*mode);
    if (!out.resiliency)
      body.wrong("resiliencyMode",
                 "must be FullBandwidth, AdaptiveBandwidth or UserActionRequired");
  }
  if (const auto groups = body.integer("multicastGroups", 0, 1024)) {
    if (*groups % 4 != 0) body.wrong("multicastGroups", "must be a multiple of 4");
    out.multicast_groups = static_cast<std::uint32_t>(*groups);
  }
  IMEX_PASS(body.check());
  return out;
}

Checked<void> check_site(ReadTransaction& t, const Tenant& tenant, const SiteId& id) {
  IMEX_GET(const auto site, t.find<Site>(id));
  if (!site) return refuse(404, fmt::format("site {} does not exist", id.to_string()));
  if (site->status != Status::kRegistered)
    return refuse(400, fmt::format("site {} is not registered", id.to_string()));
  IMEX_GET(const bool access, has_allocation(t, tenant, id));
  if (!access)
    return refuse(403, fmt::format("the tenant has no allocation at site {}", id.to_string()));
  if (!site->capabilities.nvlink_partition)
    return refuse(400, fmt::format("site {} does not offer NVLink partitions", id.to_string()));
  return {};
}

Checked<void> check_partition_name(ReadTransaction& t, const Tenant& tenant,
                                   const std::string& name, const LogicalPartitionId& self) {
  ListQuery query;
  query.filters.push_back({Field::kTenant, {tenant.id.to_string()}});
  query.filters.push_back({Field::kName, {name}});
  IMEX_GET(const auto found, t.list<LogicalPartition>(query));
  for (const LogicalPartition& other : found)
    if (other.id != self)
      return refuse(409, fmt::format("there is a logical partition named {} already", name),
                    id_data(other.id.to_string()));
  return {};
}

Checked<PartitionParts> partition_parts(const Query& query) {
  PartitionParts parts;
  IMEX_GET(parts.interfaces, flag(query, "includeInterfaces"));
  IMEX_GET(parts.stats, flag(query, "includeStats"));
  IMEX_GET(parts.vpcs, flag(query, "includeVpcs"));
  IMEX_GET(const Relations relations, Relations::of(query, {"Site", "Tenant"}));
  parts.site = relations.has("Site");
  parts.tenant = relations.has("Tenant");
  return parts;
}

Checked<Answer> answer_partition(ReadTransaction& t, int status, const LogicalPartition& partition,
                                 const Tenant& tenant, const PartitionParts& parts) {
  JsonWriter json;
  IMEX_PASS(render_partition(t, json, partition, tenant, parts));
  return json_answer(status, std::move(json));
}

Checked<void> check_unused(ReadTransaction& t, const LogicalPartition& partition) {
  ListQuery of_it;
  of_it.filters.push_back({Field::kPartition, {partition.id.to_string()}});
  IMEX_GET(const auto vpcs, t.list<Vpc>(of_it));
  if (!vpcs.empty()) {
    JsonWriter data;
    data.begin_object().key("vpcIds").begin_array();
    for (const Vpc& vpc : vpcs) data.value(vpc.id);
    data.end_array().end_object();
    return refuse(400, fmt::format("{} VPCs have this logical partition as default", vpcs.size()),
                  std::move(data).text());
  }
  // What was replaced does not count, but the GPUs of a released instance do until they have left.
  std::set<InstanceId> holders;
  IMEX_GET(const auto interfaces, t.list<NvlinkInterface>(of_it));
  for (const NvlinkInterface& interface : interfaces) {
    if (interface.status == Status::kDeleting) {
      IMEX_GET(const auto instance, t.find<Instance>(interface.instance));
      if (!instance || instance->status != Status::kTerminating) continue;
    }
    holders.insert(interface.instance);
  }
  if (!holders.empty())
    return refuse(
        400, fmt::format("{} instances have interfaces in this logical partition", holders.size()));
  return {};
}

}  // namespace

Answer Service::create_partition(const Request& request) {
  if (auto role = need_tenant_admin(request.caller); !role) return answer_of(refuse(role.error()));
  const Checked<PartitionBody> body = read_partition_body(request.body, true);
  if (!body) return answer_of(refuse(body.error()));
  return writing(store_, request, [&](WriteTransaction& t) -> Checked<Answer> {
    IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
    IMEX_PASS(check_site(t, tenant, {*body->site}));
    IMEX_PASS(check_partition_name(t, tenant, *body->name, {}));
    LogicalPartition partition;
    partition.id = {os::random_uuid()};
    partition.tenant = tenant.id;
    partition.site = {*body->site};
    partition.name = *body->name;
    partition.description = body->description;
    partition.resiliency = body->resiliency.value_or(ResiliencyMode::kUnset);
    partition.multicast_groups = body->multicast_groups.value_or(partition.multicast_groups);
    IMEX_PASS(t.insert(partition, "created"));
    return answer_partition(t, 201, partition, tenant, {});
  });
}

Answer Service::list_partitions(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_tenant_admin(request.caller));
    IMEX_GET(ListRequest list, list_request(request.query, {{"NAME", Field::kName},
                                                            {"STATUS", Field::kStatus},
                                                            {"CREATED", Field::kCreated},
                                                            {"UPDATED", Field::kUpdated}}));
    IMEX_GET(const PartitionParts parts, partition_parts(request.query));
    IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
    list.query.filters.push_back({Field::kTenant, {tenant.id.to_string()}});
    if (const auto site = request.query.one("siteId")) {
      IMEX_GET(const Uuid id, uuid_of(*site, "siteId"));
      IMEX_GET(const bool access, has_allocation(t, tenant, {id}));
      if (!access) return refuse(403, "the tenant has no allocation at this site");
      list.query.filters.push_back({Field::kSite, {id.to_string()}});
    }
    IMEX_PASS(filter_status(list, request.query, Kind::kLogicalPartition));
    return answer_list<LogicalPartition>(
        t, list, [&](JsonWriter& json, const LogicalPartition& partition) {
          return render_partition(t, json, partition, tenant, parts);
        });
  });
}

Answer Service::get_partition(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_tenant_admin(request.caller));
    IMEX_GET(const PartitionParts parts, partition_parts(request.query));
    IMEX_GET(const auto id, path_id<LogicalPartition>(request, "the logical partition's id"));
    IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
    IMEX_GET(const auto partition, own<LogicalPartition>(t, tenant, id, "logical partition"));
    return answer_partition(t, 200, partition, tenant, parts);
  });
}

Answer Service::update_partition(const Request& request) {
  if (auto role = need_tenant_admin(request.caller); !role) return answer_of(refuse(role.error()));
  const Checked<PartitionBody> body = read_partition_body(request.body, false);
  if (!body) return answer_of(refuse(body.error()));
  return writing(store_, request, [&](WriteTransaction& t) -> Checked<Answer> {
    IMEX_GET(const auto id, path_id<LogicalPartition>(request, "the logical partition's id"));
    IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
    IMEX_GET(auto partition, own<LogicalPartition>(t, tenant, id, "logical partition"));
    const auto former = std::tuple(partition.name, partition.description, partition.resiliency,
                                   partition.multicast_groups);
    if (body->name) {
      IMEX_PASS(check_partition_name(t, tenant, *body->name, id));
      partition.name = *body->name;
    }
    if (body->description) partition.description = body->description;
    partition.resiliency = body->resiliency.value_or(partition.resiliency);
    partition.multicast_groups = body->multicast_groups.value_or(partition.multicast_groups);
    if (former != std::tuple(partition.name, partition.description, partition.resiliency,
                             partition.multicast_groups)) {
      ++partition.version;
      IMEX_PASS(t.update(partition));
      t.wake_reconciler();
    }
    return answer_partition(t, 200, partition, tenant, {});
  });
}

Answer Service::delete_partition(const Request& request) {
  return writing(store_, request, [&](WriteTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_tenant_admin(request.caller));
    IMEX_GET(const auto id, path_id<LogicalPartition>(request, "the logical partition's id"));
    IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
    IMEX_GET(auto partition, own<LogicalPartition>(t, tenant, id, "logical partition"));
    IMEX_PASS(check_unused(t, partition));
    if (partition.status != Status::kDeleting) {
      partition.status = Status::kDeleting;
      ++partition.version;
      IMEX_PASS(t.update(partition, "deletion requested"));
    }
    // Where nothing was ever made there is nothing to wait for.
    IMEX_PASS(t.remove_if_free(id));
    t.wake_reconciler();
    return deletion_accepted();
  });
}

Answer Service::list_sharing_groups(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_tenant_admin(request.caller));
    IMEX_GET(const auto id, path_id<LogicalPartition>(request, "the logical partition's id"));
    IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
    IMEX_GET(const auto partition, own<LogicalPartition>(t, tenant, id, "logical partition"));
    ListQuery of_it;
    of_it.filters.push_back({Field::kPartition, {id.to_string()}});
    of_it.filters.push_back({Field::kStatus, {"Deleting"}, true});
    IMEX_GET(const auto interfaces, t.list<NvlinkInterface>(of_it));
    // Only GPUs that were seen in their partition share; the others have no domain yet.
    std::map<DomainId, std::vector<const NvlinkInterface*>> groups;
    std::vector<const NvlinkInterface*> outside;
    for (const NvlinkInterface& interface : interfaces) {
      if (interface.status == Status::kReady && interface.domain)
        groups[*interface.domain].push_back(&interface);
      else
        outside.push_back(&interface);
    }
    JsonWriter json;
    const auto render = [&json](const std::vector<const NvlinkInterface*>& members) {
      json.key("nvLinkInterfaces").begin_array();
      for (const NvlinkInterface* member : members) render_interface(json, *member);
      json.end_array();
    };
    json.begin_object().member("nvLinkLogicalPartitionId", partition.id);
    json.member("allShare", groups.size() <= 1 && outside.empty());
    json.key("groups").begin_array();
    for (const auto& [domain, members] : groups) {
      json.begin_object().member("nvLinkDomainId", domain).member("gpus", members.size());
      render(members);
      json.end_object();
    }
    json.end_array().key("notSharing").begin_object().member("gpus", outside.size());
    render(outside);
    json.end_object().end_object();
    return json_answer(200, std::move(json));
  });
}

// ---- Interfaces --------------------------------------------------------------------------------

namespace {

Checked<void> render_interface_with(ReadTransaction& t, JsonWriter& json,
                                    const NvlinkInterface& interface, const Relations& relations) {
  json.begin_object();
  render_interface_members(json, interface);
  if (relations.has("Instance")) {
    IMEX_GET(const auto instance, t.find<Instance>(interface.instance));
    if (instance) render_instance_summary(json.key("instance"), *instance);
  }
  if (relations.has("NVLinkLogicalPartition")) {
    json.key("nvLinkLogicalPartition");
    IMEX_PASS(render_partition_summary(t, json, interface.partition));
  }
  if (relations.has("Site")) {
    json.key("site");
    IMEX_PASS(render_site_summary(t, json, interface.site));
  }
  json.end_object();
  return {};
}

/// Objects that a filter names must be there and be the tenant's: 404, 403.
template <class T>
Checked<void> check_named(ReadTransaction& t, const Tenant& tenant, const Query& query,
                          std::string_view parameter, std::string_view what) {
  for (const std::string& text : query.all(parameter)) {
    IMEX_GET(const Uuid id, uuid_of(text, parameter));
    IMEX_PASS(own<T>(t, tenant, {id}, what));
  }
  return {};
}

Checked<ListRequest> interface_list(const Query& query) {
  IMEX_GET(ListRequest list, list_request(query, {{"STATUS", Field::kStatus},
                                                  {"CREATED", Field::kCreated},
                                                  {"UPDATED", Field::kUpdated}}));
  list.query.text.clear();  // interfaces have no texts to search
  IMEX_PASS(filter_status(list, query, Kind::kInterface));
  IMEX_PASS(filter_ids(list, query, "nvLinkLogicalPartitionId", Field::kPartition));
  IMEX_PASS(filter_ids(list, query, "nvLinkDomainId", Field::kDomain));
  return list;
}

}  // namespace

Answer Service::list_interfaces(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_tenant_admin(request.caller));
    const Query& query = request.query;
    IMEX_GET(ListRequest list, interface_list(query));
    IMEX_PASS(filter_ids(list, query, "siteId", Field::kSite));
    IMEX_PASS(filter_ids(list, query, "instanceId", Field::kInstance));
    IMEX_GET(const Relations relations,
             Relations::of(query, {"Instance", "NVLinkLogicalPartition", "Site"}));
    IMEX_GET(const Tenant tenant, own_tenant(t, request.caller, 403));
    list.query.filters.push_back({Field::kTenant, {tenant.id.to_string()}});
    IMEX_PASS(check_named<Instance>(t, tenant, query, "instanceId", "instance"));
    IMEX_PASS(check_named<LogicalPartition>(t, tenant, query, "nvLinkLogicalPartitionId",
                                            "logical partition"));
    return answer_list<NvlinkInterface>(
        t, list, [&](JsonWriter& json, const NvlinkInterface& interface) {
          return render_interface_with(t, json, interface, relations);
        });
  });
}

Answer Service::list_instance_interfaces(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_tenant_admin(request.caller));
    IMEX_GET(ListRequest list, interface_list(request.query));
    IMEX_GET(const Relations relations,
             Relations::of(request.query, {"Instance", "NVLinkLogicalPartition", "Site"}));
    IMEX_GET(const auto id, path_id<Instance>(request, "the instance's id"));
    IMEX_GET(const Tenant tenant, own_tenant(t, request.caller, 403));
    IMEX_PASS(own<Instance>(t, tenant, id, "instance"));
    list.query.filters.push_back({Field::kInstance, {id.to_string()}});
    return answer_list<NvlinkInterface>(
        t, list, [&](JsonWriter& json, const NvlinkInterface& interface) {
          return render_interface_with(t, json, interface, relations);
        });
  });
}

}  // namespace imex::partition
