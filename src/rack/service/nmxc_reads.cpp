#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "nmxc_handlers.hpp"

namespace imex::rack::nmxc {

namespace {

/// `attr` 0 is refused, or means "all" to a lenient controller; `last` is the highest that is
/// known.
bool attr_fits(const Domain& domain, int attr, int last) {
  return (attr > 0 && attr <= last) || (attr == 0 && domain.personality().lenient_attr);
}

/// 0: no limit.
std::size_t limit(std::uint32_t at_most) { return at_most == 0 ? SIZE_MAX : at_most; }

bool passes(int filter, auto health) { return filter == 0 || filter == static_cast<int>(health); }

bool tray_matches(const TrayView& tray, ::nmx_c::ComputeNodeAttr attr) {
  switch (attr) {
    case ::nmx_c::COMPUTE_NODE_ATTR_FREE:
      return tray.allocated == 0;
    case ::nmx_c::COMPUTE_NODE_ATTR_FULLY_ALLOCATED:
      return tray.allocated == tray.gpus;
    case ::nmx_c::COMPUTE_NODE_ATTR_PARTIALLY_ALLOCATED:
      return tray.allocated != 0 && tray.allocated != tray.gpus;
    default:
      return true;
  }
}

std::vector<TrayView> compute_trays(const Domain& domain, ::nmx_c::ComputeNodeAttr attr,
                                    std::uint64_t chassis, int health, std::uint32_t at_most) {
  std::vector<TrayView> found;
  for (TrayView& tray : domain.compute_trays()) {
    if (found.size() >= limit(at_most)) break;
    if (!tray_matches(tray, attr) || !passes(health, tray.health)) continue;
    if (chassis != 0 && tray.place.location.chassis != chassis) continue;
    found.push_back(std::move(tray));
  }
  return found;
}

/// Listed switch trays by filter.
std::vector<unsigned> switch_trays(const Domain& domain, ::nmx_c::SwitchNodeAttr attr, int health,
                                   std::uint32_t at_most) {
  std::vector<unsigned> found;
  if (attr == ::nmx_c::SWITCH_NODE_ATTR_L2) return found;  // one layer of switches only
  const Topology& shape = domain.shape();
  for (unsigned tray = 0; tray < shape.switch_tray_count() && found.size() < limit(at_most);
       ++tray) {
    if (!domain.physical().switch_trays[tray]) continue;
    if (passes(health, domain.physical().switch_tray_health(shape, tray))) found.push_back(tray);
  }
  return found;
}

std::set<Location> wanted(const google::protobuf::RepeatedPtrField<::nmx_c::Location>& list) {
  std::set<Location> found;
  for (const ::nmx_c::Location& location : list) found.insert(read(location));
  return found;
}

}  // namespace

void fill(const Location& from, ::nmx_c::Location& to) {
  to.set_chassis_id(from.chassis);
  to.set_slot_id(from.slot);
  to.set_host_id(from.host);
}

void fill_tray(const Domain& domain, const TrayPlace& from, ::nmx_c::LocationInfo& to) {
  to.set_chassis_serial_number(domain.chassis_serial(from.chassis));
  to.set_tray_index(from.index);
  fill(from.location, *to.mutable_location());
}

Location read(const ::nmx_c::Location& from) {
  return {from.chassis_id(), from.slot_id(), from.host_id()};
}

void fill_header(const Domain& domain, const Uuid& instance, ReturnCode code,
                 ::nmx_c::ServerHeader& header) {
  header.set_domain_uuid(domain.uuid().to_string());
  header.set_app_uuid(instance.to_string());
  header.set_app_ver(domain.version());
  header.set_return_code(static_cast<::nmx_c::StReturnCode>(code));
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetDomainPropertiesRequest& /*request*/,
                  ::nmx_c::DomainProperties& answer, const Moment& /*moment*/) {
  constexpr std::uint32_t kLineRate = 50'000;  // megabytes per second and link
  const Topology& shape = domain.shape();
  answer.set_max_compute_nodes(shape.tray_count());
  answer.set_max_compute_nodes_per_chassis(shape.compute_trays);
  answer.set_max_gpus_per_compute_node(shape.gpus_per_tray);
  answer.set_max_gpu_nv_links(shape.links_per_gpu());
  answer.set_line_rate_mbps(kLineRate);
  answer.set_max_switch_nodes(shape.switch_tray_count());
  answer.set_max_switch_nodes_per_chassis(shape.switch_trays);
  answer.set_max_switches_per_switch_node(shape.chips_per_tray);
  answer.set_max_switch_nv_links(shape.ports_per_chip);
  answer.set_min_gpus_per_partition(1);
  answer.set_max_num_partitions(kPartitionIdMax);
  answer.set_max_num_alids(2 * shape.gpu_count());
  answer.set_max_multicast_groups(kGroupsMax);
  answer.set_max_num_ports(2 * shape.gpu_count() * shape.links_per_gpu() + 2 * shape.trunk_count());
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetDomainStateInfoRequest& /*request*/,
                  ::nmx_c::DomainStateInfo& answer, const Moment& /*moment*/) {
  answer.set_control_plane_state(static_cast<::nmx_c::ControlPlaneState>(domain.control_plane()));
  answer.set_available_multicast_groups(domain.groups_left());
  answer.set_nmx_controller_health(
      static_cast<::nmx_c::NmxControllerHealth>(domain.controller_health()));
  answer.set_config_status_description(domain.ready() ? "configured " + domain.shape().name
                                                      : "reading the fabric");
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetComputeNodeCountRequest& request,
                  ::nmx_c::GetComputeNodeCountResponse& answer, const Moment& /*moment*/) {
  if (!attr_fits(domain, request.attr(), ::nmx_c::COMPUTE_NODE_ATTR_PARTIALLY_ALLOCATED))
    return ReturnCode::kBadParam;
  const auto found =
      compute_trays(domain, request.attr(), request.chassis_id(), request.node_health(), 0);
  answer.set_num_nodes(static_cast<std::uint32_t>(found.size()));
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetComputeNodeLocationListRequest& request,
                  ::nmx_c::GetComputeNodeLocationListResponse& answer, const Moment& /*moment*/) {
  if (!attr_fits(domain, request.attr(), ::nmx_c::COMPUTE_NODE_ATTR_PARTIALLY_ALLOCATED))
    return ReturnCode::kBadParam;
  for (const TrayView& tray : compute_trays(domain, request.attr(), request.chassis_id(),
                                            request.node_health(), request.num_nodes())) {
    fill(tray.place.location, *answer.add_loc_list());
  }
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetComputeNodeInfoListRequest& request,
                  ::nmx_c::GetComputeNodeInfoListResponse& answer, const Moment& /*moment*/) {
  const std::set<Location> named = wanted(request.loc_list());
  for (const TrayView& tray : domain.compute_trays()) {
    if (!named.empty() && !named.contains(tray.place.location)) continue;
    ::nmx_c::ComputeNodeInfo& info = *answer.add_node_info_list();
    fill_tray(domain, tray.place, *info.mutable_loc());
    info.set_num_gpus(tray.gpus);
    info.set_node_health(static_cast<::nmx_c::ComputeNodeHealth>(tray.health));
    for (const std::uint32_t id : tray.partitions)
      info.add_partition_id_list()->set_partition_id(id);
  }
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetGpuInfoListRequest& request,
                  ::nmx_c::GetGpuInfoListResponse& answer, const Moment& /*moment*/) {
  if (!attr_fits(domain, request.attr(), ::nmx_c::GPU_ATTR_BY_PARTITION))
    return ReturnCode::kBadParam;
  const bool by_location = request.attr() == ::nmx_c::GPU_ATTR_BY_LOCATION;
  const bool by_partition = request.attr() == ::nmx_c::GPU_ATTR_BY_PARTITION;
  const std::uint32_t partition = request.partition_id().partition_id();
  if (by_location && !request.has_loc()) return ReturnCode::kBadParam;
  if (by_partition && partition == 0) return ReturnCode::kBadParam;
  const std::vector<GpuView> gpus = domain.gpus();
  const Location location = read(request.loc());
  if (by_location &&
      std::ranges::none_of(gpus, [&](const GpuView& g) { return g.place.location == location; })) {
    return ReturnCode::kResourceBad;
  }
  if (by_partition) {
    const auto listed = domain.partitions();
    if (std::ranges::find(listed, partition, &Partition::id) == listed.end())
      return ReturnCode::kPartitionIdNotInUse;
  }
  for (const GpuView& gpu : gpus) {
    if (static_cast<std::size_t>(answer.gpu_info_list_size()) >= limit(request.num_gpus())) break;
    if (by_location && gpu.place.location != location) continue;
    if (by_partition && gpu.partition != partition) continue;
    if (!passes(request.gpu_health(), gpu.health)) continue;
    ::nmx_c::GpuInfo& info = *answer.add_gpu_info_list();
    fill_tray(domain, {gpu.place.location, gpu.tray_index, gpu.chassis}, *info.mutable_loc());
    info.set_gpu_id(gpu.place.module);
    info.set_gpu_uid(gpu.uid);
    info.set_gpu_health(static_cast<::nmx_c::GpuHealth>(gpu.health));
    if (gpu.partition != 0) info.mutable_partition_id()->set_partition_id(gpu.partition);
  }
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetSwitchNodeCountRequest& request,
                  ::nmx_c::GetSwitchNodeCountResponse& answer, const Moment& /*moment*/) {
  if (!attr_fits(domain, request.attr(), ::nmx_c::SWITCH_NODE_ATTR_L2))
    return ReturnCode::kBadParam;
  const auto found =
      switch_trays(domain, request.attr(), request.node_health(), request.num_nodes());
  answer.set_num_nodes(static_cast<std::uint32_t>(found.size()));
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetSwitchNodeLocationListRequest& request,
                  ::nmx_c::GetSwitchNodeLocationListResponse& answer, const Moment& /*moment*/) {
  if (!attr_fits(domain, request.attr(), ::nmx_c::SWITCH_NODE_ATTR_L2))
    return ReturnCode::kBadParam;
  for (const unsigned tray :
       switch_trays(domain, request.attr(), request.node_health(), request.num_nodes())) {
    fill(domain.shape().switch_tray(tray).location, *answer.add_loc_list());
  }
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetSwitchNodeInfoListRequest& request,
                  ::nmx_c::GetSwitchNodeInfoListResponse& answer, const Moment& /*moment*/) {
  const std::set<Location> named = wanted(request.loc_list());
  const Topology& shape = domain.shape();
  const auto partitions = domain.partitions();
  for (const unsigned tray : switch_trays(domain, ::nmx_c::SWITCH_NODE_ATTR_ALL, 0, 0)) {
    const TrayPlace place = shape.switch_tray(tray);
    if (!named.empty() && !named.contains(place.location)) continue;
    ::nmx_c::SwitchNodeInfo& info = *answer.add_node_info_list();
    fill_tray(domain, place, *info.mutable_loc());
    info.set_num_switches(shape.chips_per_tray);
    info.set_node_health(
        static_cast<::nmx_c::SwitchNodeHealth>(domain.physical().switch_tray_health(shape, tray)));
    for (const Partition* partition : partitions) {
      const bool here = std::ranges::any_of(partition->members, [&](const Member& member) {
        return member.place.location.chassis == place.location.chassis;
      });
      if (here) info.add_partition_id_list()->set_partition_id(partition->id);
    }
  }
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetSwitchInfoListRequest& request,
                  ::nmx_c::GetSwitchInfoListResponse& answer, const Moment& /*moment*/) {
  const Topology& shape = domain.shape();
  bool known = !request.has_loc();
  for (unsigned chip = 0; chip < shape.chip_count(); ++chip) {
    const TrayPlace place = shape.switch_tray(shape.tray_of_chip(chip));
    if (request.has_loc() && place.location != read(request.loc())) continue;
    if (!domain.physical().chips[chip].listed) continue;
    known = true;
    if (static_cast<std::size_t>(answer.switch_info_list_size()) >= limit(request.num_switches()))
      break;
    ::nmx_c::SwitchInfo& info = *answer.add_switch_info_list();
    fill(place.location, *info.mutable_loc());
    info.set_switch_id(chip % shape.chips_per_tray + 1);
    info.set_switch_uid(domain.identities().chip_uid(chip));
    info.set_num_ports(shape.ports_per_chip);
    info.set_health(static_cast<::nmx_c::SwitchHealth>(domain.physical().chip_health(shape, chip)));
  }
  return known ? ReturnCode::kSuccess : ReturnCode::kResourceBad;
}

}  // namespace imex::rack::nmxc
