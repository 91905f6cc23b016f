// VPCs and their default partition (2.7).
#include <fmt/format.h>

#include "body.hpp"
#include "context.hpp"
#include "os/random.hpp"
#include "render.hpp"

namespace imex::partition {
namespace {

constexpr std::size_t kVpcDescriptionMax = 1024;

struct VpcBody {
  std::optional<Uuid> id, site;
  std::optional<std::string> name, description, virtualization;
  std::optional<Labels> labels;
  /// PATCH: absent keeps, empty clears, a value sets.
  std::optional<std::string> default_partition;
};

Checked<VpcBody> read_vpc_body(Body& body, bool create) {
  VpcBody out;
  if (create) {
    body.require("name");
    body.require("siteId");
    out.id = body.uuid("id");
    out.site = body.uuid("siteId");
    static_cast<void>(body.integer("vni", 1, 65'535));
  }
  out.name = body.name("name");
  out.description = body.text("description", kVpcDescriptionMax);
  out.labels = body.labels("labels");
  out.virtualization = body.text("networkVirtualizationType", 64);
  if (out.virtualization && *out.virtualization != "FNN" &&
      *out.virtualization != "ETHERNET_VIRTUALIZER")
    body.wrong("networkVirtualizationType", "must be FNN or ETHERNET_VIRTUALIZER");
  static_cast<void>(body.text("routingProfile", 256));
  static_cast<void>(body.text("networkSecurityGroupId", 256));
  out.default_partition = body.text("nvLinkLogicalPartitionId", 64);
  IMEX_PASS(body.check());
  return out;
}

/// The partition that a VPC may have as default. Absent is 404, not NICo's 500.
Checked<LogicalPartitionId> usable_default(ReadTransaction& t, const Tenant& tenant,
                                           const Site& site, const std::string& text) {
  if (!site.capabilities.nvlink_partition)
    return refuse(400, "the site does not offer NVLink partitions");
  IMEX_GET(const Uuid id, uuid_of(text, "nvLinkLogicalPartitionId"));
  IMEX_GET(const auto partition, own<LogicalPartition>(t, tenant, {id}, "logical partition"));
  if (partition.site != site.id)
    return refuse(403, "the logical partition belongs to another site");
  if (partition.status != Status::kReady)
    return refuse(
        403, fmt::format("the logical partition is {}, not Ready", status_name(partition.status)));
  return partition.id;
}

Checked<void> check_vpc_name(ReadTransaction& t, const Vpc& vpc) {
  ListQuery query;
  query.filters.push_back({Field::kTenant, {vpc.tenant.to_string()}});
  query.filters.push_back({Field::kSite, {vpc.site.to_string()}});
  query.filters.push_back({Field::kName, {vpc.name}});
  IMEX_GET(const auto found, t.list<Vpc>(query));
  for (const Vpc& other : found)
    if (other.id != vpc.id)
      return refuse(409, fmt::format("there is a VPC named {} already", vpc.name),
                    id_data(other.id.to_string()));
  return {};
}

/// Whether an instance of the VPC has a live interface in its present default.
Checked<bool> default_in_use(ReadTransaction& t, const Vpc& vpc) {
  if (!vpc.default_partition) return false;
  ListQuery instances;
  instances.filters.push_back({Field::kVpc, {vpc.id.to_string()}});
  IMEX_GET(const auto rows, t.list<Instance>(instances));
  if (rows.empty()) return false;
  Filter of_instances{Field::kInstance, {}};
  for (const Instance& row : rows) of_instances.values.push_back(row.id.to_string());
  ListQuery query;
  query.filters.push_back(std::move(of_instances));
  query.filters.push_back({Field::kPartition, {vpc.default_partition->to_string()}});
  query.filters.push_back({Field::kStatus, {"Deleting"}, true});
  IMEX_GET(const std::uint64_t count, t.count<NvlinkInterface>(query));
  return count > 0;
}

Checked<Answer> answer_vpc(ReadTransaction& t, int status, const Vpc& vpc, const Tenant& tenant,
                           const Relations& relations) {
  JsonWriter json;
  IMEX_PASS(render_vpc(t, json, vpc, tenant, relations));
  return json_answer(status, std::move(json));
}

Checked<Relations> vpc_relations(const Query& query) {
  return Relations::of(query, {"InfrastructureProvider", "Site", "Tenant", "NetworkSecurityGroup",
                               "NVLinkLogicalPartition"});
}

Checked<Site> vpc_site(ReadTransaction& t, const SiteId& id) {
  IMEX_GET(auto site, t.find<Site>(id));
  if (!site) return refuse(400, fmt::format("site {} does not exist", id.to_string()));
  if (site->status != Status::kRegistered) return refuse(400, "the site is not registered");
  return std::move(*site);
}

}  // namespace

Answer Service::create_vpc(const Request& request) {
  return writing_body(
      store_, request, need_tenant_admin, [&](WriteTransaction& t, Body& body) -> Checked<Answer> {
        IMEX_GET(const VpcBody wanted, read_vpc_body(body, true));
        IMEX_GET(const Tenant tenant, own_tenant(t, request.caller, 403));
        IMEX_GET(const Site site, vpc_site(t, {*wanted.site}));
        IMEX_GET(const bool access, has_allocation(t, tenant, site.id));
        if (!access) return refuse(403, "the tenant has no allocation at the site");
        Vpc vpc;
        vpc.id = {wanted.id.value_or(os::random_uuid())};
        vpc.tenant = tenant.id;
        vpc.site = site.id;
        vpc.name = *wanted.name;
        vpc.description = wanted.description;
        vpc.labels = wanted.labels.value_or(Labels{});
        vpc.network_virtualization_type = wanted.virtualization.value_or(
            site.capabilities.native_networking ? "FNN" : "ETHERNET_VIRTUALIZER");
        vpc.extra_json = body.keep({"routingProfile", "networkSecurityGroupId", "vni"});
        IMEX_GET(const auto taken, t.find<Vpc>(vpc.id));
        if (taken) return refuse(409, "the id is taken", id_data(vpc.id.to_string()));
        IMEX_PASS(check_vpc_name(t, vpc));
        if (wanted.default_partition && !wanted.default_partition->empty()) {
          IMEX_GET(vpc.default_partition,
                   usable_default(t, tenant, site, *wanted.default_partition));
        }
        IMEX_PASS(t.insert(vpc, "created"));
        return answer_vpc(t, 201, vpc, tenant, {});
      });
}

Answer Service::list_vpcs(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_tenant_admin(request.caller));
    const Query& query = request.query;
    IMEX_GET(ListRequest list, list_request(query, {{"NAME", Field::kName},
                                                    {"STATUS", Field::kStatus},
                                                    {"CREATED", Field::kCreated},
                                                    {"UPDATED", Field::kUpdated}}));
    IMEX_GET(const Relations relations, vpc_relations(query));
    IMEX_PASS(filter_ids(list, query, "siteId", Field::kSite));
    IMEX_PASS(filter_status(list, query, Kind::kVpc));
    IMEX_PASS(filter_ids(list, query, "nvLinkLogicalPartitionId", Field::kPartition));
    IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
    for (const std::string& text : query.all("nvLinkLogicalPartitionId")) {
      IMEX_GET(const Uuid id, uuid_of(text, "nvLinkLogicalPartitionId"));
      IMEX_GET(const auto partition, t.find<LogicalPartition>({id}));
      if (!partition || partition->tenant != tenant.id)
        return refuse(400, "nvLinkLogicalPartitionId names no logical partition of the tenant");
    }
    list.query.filters.push_back({Field::kTenant, {tenant.id.to_string()}});
    return answer_list<Vpc>(t, list, [&](JsonWriter& json, const Vpc& vpc) {
      return render_vpc(t, json, vpc, tenant, relations);
    });
  });
}

Answer Service::get_vpc(const Request& request) {
  return reading(store_, [&](ReadTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_tenant_admin(request.caller));
    IMEX_GET(const Relations relations, vpc_relations(request.query));
    IMEX_GET(const auto id, path_id<Vpc>(request, "the VPC's id"));
    IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
    IMEX_GET(const Vpc vpc, own<Vpc>(t, tenant, id, "VPC"));
    return answer_vpc(t, 200, vpc, tenant, relations);
  });
}

Answer Service::update_vpc(const Request& request) {
  return writing_body(
      store_, request, need_tenant_admin, [&](WriteTransaction& t, Body& body) -> Checked<Answer> {
        IMEX_GET(const VpcBody wanted, read_vpc_body(body, false));
        IMEX_GET(const auto id, path_id<Vpc>(request, "the VPC's id"));
        IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
        IMEX_GET(Vpc vpc, own<Vpc>(t, tenant, id, "VPC"));
        if (wanted.name) {
          vpc.name = *wanted.name;
          IMEX_PASS(check_vpc_name(t, vpc));
        }
        if (wanted.description) vpc.description = wanted.description;
        if (wanted.labels) vpc.labels = *wanted.labels;
        vpc.extra_json = body.keep({"networkSecurityGroupId"}, vpc.extra_json);
        if (wanted.default_partition) {
          std::optional<LogicalPartitionId> target;
          if (!wanted.default_partition->empty()) {
            IMEX_GET(const Site site, vpc_site(t, vpc.site));
            IMEX_GET(target, usable_default(t, tenant, site, *wanted.default_partition));
          }
          if (target != vpc.default_partition) {
            IMEX_GET(const bool in_use, default_in_use(t, vpc));
            if (in_use)
              return refuse(403, "instances of the VPC have interfaces in its present default");
            vpc.default_partition = target;
          }
        }
        IMEX_PASS(t.update(vpc));
        return answer_vpc(t, 200, vpc, tenant, {});
      });
}

Answer Service::update_vpc_virtualization(const Request& request) {
  return writing_body(store_, request, need_tenant_admin,
                      [&](WriteTransaction& t, Body& body) -> Checked<Answer> {
                        body.require("networkVirtualizationType");
                        IMEX_GET(const VpcBody wanted, read_vpc_body(body, false));
                        IMEX_GET(const auto id, path_id<Vpc>(request, "the VPC's id"));
                        IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
                        IMEX_GET(Vpc vpc, own<Vpc>(t, tenant, id, "VPC"));
                        vpc.network_virtualization_type = *wanted.virtualization;
                        IMEX_PASS(t.update(vpc));
                        return answer_vpc(t, 200, vpc, tenant, {});
                      });
}

Answer Service::delete_vpc(const Request& request) {
  return writing(store_, request, [&](WriteTransaction& t) -> Checked<Answer> {
    IMEX_PASS(need_tenant_admin(request.caller));
    IMEX_GET(const auto id, path_id<Vpc>(request, "the VPC's id"));
    IMEX_GET(const Tenant tenant, own_tenant(t, request.caller));
    IMEX_PASS(own<Vpc>(t, tenant, id, "VPC"));
    ListQuery query;
    query.filters.push_back({Field::kVpc, {id.to_string()}});
    IMEX_GET(const std::uint64_t instances, t.count<Instance>(query));
    if (instances > 0) return refuse(400, fmt::format("the VPC has {} instances", instances));
    IMEX_PASS(t.remove<Vpc>(id));
    return deletion_accepted();
  });
}

}  // namespace imex::partition
