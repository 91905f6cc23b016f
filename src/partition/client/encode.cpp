#include "encode.hpp"

#include <nlohmann/json.hpp>

#include "json/json.hpp"

namespace imex::partition::client {
namespace {

using Body = nlohmann::json;

template <class T>
void set(Body& body, const char* key, const std::optional<T>& value) {
  if (value) body[key] = *value;
}

void set_fabric(Body& body, const FabricWishes& wishes) {
  set(body, "multicastGroups", wishes.multicast_groups);
  if (wishes.resiliency) body["resiliencyMode"] = resiliency_mode_name(*wishes.resiliency);
}

Body gpus_of(const std::vector<GpuBinding>& bindings) {
  Body list = Body::array();
  for (const GpuBinding& each : bindings) {
    list.push_back({{"deviceInstance", each.device_instance},
                    {"nvLinkLogicalPartitionId", each.partition.to_string()}});
  }
  return list;
}

/// A boot script that does nothing: the API insists on one or on an operating system, and an
/// NVLink controller boots nobody.
constexpr const char* kNoBoot = "#!ipxe\nexit\n";

}  // namespace

std::string encode(const NewPartition& wanted) {
  Body body{{"name", wanted.name}, {"siteId", wanted.site.to_string()}};
  set(body, "description", wanted.description);
  set_fabric(body, wanted.fabric);
  return json::text_of(body);
}

std::string encode(const PartitionChange& change) {
  Body body = Body::object();
  set(body, "name", change.name);
  set(body, "description", change.description);
  set_fabric(body, change.fabric);
  return json::text_of(body);
}

std::string encode(const NewVpc& wanted) {
  Body body{{"name", wanted.name}, {"siteId", wanted.site.to_string()}};
  set(body, "description", wanted.description);
  if (wanted.default_partition)
    body["nvLinkLogicalPartitionId"] = wanted.default_partition->to_string();
  if (!wanted.labels.empty()) body["labels"] = wanted.labels;
  return json::text_of(body);
}

std::string encode(const VpcChange& change) {
  Body body = Body::object();
  set(body, "name", change.name);
  set(body, "description", change.description);
  set(body, "labels", change.labels);
  // Absent and null keep the default; only empty text clears it.
  if (change.clear_default_partition)
    body["nvLinkLogicalPartitionId"] = "";
  else if (change.default_partition)
    body["nvLinkLogicalPartitionId"] = change.default_partition->to_string();
  return json::text_of(body);
}

std::string encode(const NewInstance& wanted, std::uint32_t count) {
  Body body{{"tenantId", wanted.tenant.to_string()}, {"vpcId", wanted.vpc.to_string()}};
  body[count > 1 ? "namePrefix" : "name"] = wanted.name;
  if (count > 1) body["count"] = count;
  if (wanted.instance_type) body["instanceTypeId"] = wanted.instance_type->to_string();
  set(body, "machineId", wanted.machine);
  set(body, "description", wanted.description);
  set(body, "operatingSystemId", wanted.operating_system);
  set(body, "ipxeScript", wanted.ipxe_script);
  if (!wanted.operating_system && !wanted.ipxe_script) body["ipxeScript"] = kNoBoot;
  // At least one network interface must be there. Who has no subnet to name has no Ethernet
  // controller either: then any id will do, and the VPC's is at hand.
  body["interfaces"] = Body::array(
      {{{"subnetId", wanted.subnet.value_or(wanted.vpc.to_string())}, {"isPhysical", true}}});
  if (wanted.gpus) body["nvLinkInterfaces"] = gpus_of(*wanted.gpus);
  if (!wanted.labels.empty()) body["labels"] = wanted.labels;
  switch (wanted.domain) {
    case OneDomain::kDefault:
      break;
    case OneDomain::kRequire:
      body["domainPlacement"] = "require";
      break;
    case OneDomain::kPrefer:
      body["domainPlacement"] = "prefer";
      break;
    case OneDomain::kIgnore:
      body["domainPlacement"] = "ignore";
      break;
  }
  return json::text_of(body);
}

std::string encode(const InstanceChange& change) {
  Body body = Body::object();
  set(body, "name", change.name);
  set(body, "description", change.description);
  set(body, "labels", change.labels);
  if (change.gpus) body["nvLinkInterfaces"] = gpus_of(*change.gpus);
  return json::text_of(body);
}

}  // namespace imex::partition::client
