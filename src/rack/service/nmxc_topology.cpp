// Devices with their ports, connections, and the report that contains both.
#include <optional>
#include <type_traits>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "nmxc_handlers.hpp"

namespace imex::rack::nmxc {

namespace {

constexpr std::uint32_t kVendor = 4318;          // 0x10DE
constexpr std::uint64_t kGpuPcieId = 0x2941;     // GB200
constexpr std::uint64_t kSwitchPcieId = 0x2900;  // no number is published
constexpr std::uint64_t kTopologyId = 128;       // "18x1RU"
constexpr std::uint64_t kSubnetPrefix = 0xfe80'0000'0000'0000ULL;
constexpr std::uint32_t kLinkRate = 53'125;  // megabytes per second, as nvidia-smi shows it

struct PortFacts {
  ::nmx_c::PortType type = ::nmx_c::PORT_TYPE_UNDEFINED;
  std::uint64_t uid = 0, number = 0, peer_device = 0, peer_port = 0, lid = 0;
  std::uint32_t plane = 0;
  bool up = false, disabled = false, contained = false;
};

template <class Port>
void fill_port(const PortFacts& facts, Port& port) {
  port.set_port_type(facts.type);
  port.set_port_uid(facts.uid);
  port.set_port_num(facts.number);
  port.set_peer_port_device_uid(facts.peer_device);
  port.set_peer_port_num(facts.peer_port);
  const auto lost =
      facts.disabled ? ::nmx_c::PHYSICAL_PORT_STATE_DISABLED : ::nmx_c::PHYSICAL_PORT_STATE_POLLING;
  port.set_physical_state(facts.up ? ::nmx_c::PHYSICAL_PORT_STATE_LINK_UP : lost);
  port.set_logical_state(facts.up ? ::nmx_c::LOGICAL_LINK_STATE_ACTIVE
                                  : ::nmx_c::LOGICAL_LINK_STATE_DOWN);
  port.set_subnet_prefix(kSubnetPrefix);
  port.set_base_lid(facts.lid);
  port.set_contain_and_drain(facts.contained);
  port.set_plane(facts.plane);
  port.set_port_admin_state(facts.disabled ? ::nmx_c::ADMIN_STATE_DOWN : ::nmx_c::ADMIN_STATE_UP);
  if constexpr (std::is_same_v<Port, ::nmx_c::PortTopoInfo>) port.set_link_rate_mbps(kLinkRate);
}

template <class Device>
void fill_device(const Domain& domain, const TrayPlace& place, Device& device) {
  fill_tray(domain, place, *device.mutable_loc());
  device.set_topology_id(kTopologyId);
  device.set_vendor_id(kVendor);
}

template <class Gpu>
void fill_gpu(const Domain& domain, const GpuView& view, Gpu& gpu) {
  const Topology& shape = domain.shape();
  const unsigned tray = shape.tray_of_gpu(view.index);
  fill_device(domain, {view.place.location, view.tray_index, view.chassis}, gpu);
  gpu.set_device_uid(view.uid);
  gpu.set_device_id(view.place.module);
  gpu.set_num_ports(shape.links_per_gpu());
  gpu.set_system_uid(domain.identities().tray_uid(tray, domain.tray_generation(tray)));
  gpu.set_device_pcie_id(kGpuPcieId);
  gpu.add_a_lids(2ULL * view.index + 1);
  gpu.add_a_lids(2ULL * view.index + 2);
  gpu.set_description(fmt::format("GPU {}.{}", view.tray_index, view.place.module));
  if (view.partition != 0) gpu.add_partition_id()->set_partition_id(view.partition);
  gpu.set_device_health(static_cast<::nmx_c::GpuHealth>(view.health));
  const GpuLinks& links = domain.physical().gpus[view.index];
  for (unsigned link = 0; link < shape.links_per_gpu(); ++link) {
    const unsigned chip = shape.chip_of_link(view.index, link);
    auto& port = *gpu.add_port_topo_info();
    fill_port({.type = ::nmx_c::PORT_TYPE_GPU,
               .uid = view.uid,
               .number = link + 1,
               .peer_device = domain.identities().chip_uid(chip),
               .peer_port = shape.port_of_gpu(view.index),
               .lid = 1000ULL + view.index * shape.links_per_gpu() + link,
               .plane = link,
               .up = domain.physical().link_up(shape, view.index, link),
               .disabled = false,
               .contained = (links.contained >> link & 1U) != 0},
              port);
    if (view.partition != 0) port.add_partition_id_list()->set_partition_id(view.partition);
  }
}

template <class Switch>
void fill_access_ports(const Domain& domain, unsigned chip, Switch& device) {
  const Topology& shape = domain.shape();
  const unsigned chassis = chip / shape.chips_per_chassis(),
                 link = chip % shape.chips_per_chassis();
  const unsigned first = chassis * shape.compute_trays * shape.gpus_per_tray;
  for (unsigned gpu = first; gpu < first + shape.access_ports(); ++gpu) {
    const bool present = domain.physical().gpus[gpu].present;
    auto& port = *device.add_port_topo_info();
    fill_port({.type = ::nmx_c::PORT_TYPE_SWITCH_ACCESS,
               .uid = domain.identities().chip_uid(chip),
               .number = shape.port_of_gpu(gpu),
               .peer_device = present ? domain.uid_of(gpu) : 0,
               .peer_port = present ? link + 1 : 0U,
               .lid = 100'000ULL + chip,
               .plane = link,
               .up = domain.physical().link_up(shape, gpu, link),
               .disabled = false,
               .contained = (domain.physical().gpus[gpu].contained >> link & 1U) != 0},
              port);
    port.set_system_port_num(chip % shape.chips_per_tray * shape.ports_per_chip +
                             shape.port_of_gpu(gpu));
  }
}

template <class Switch>
void fill_trunk_ports(const Domain& domain, unsigned chip, Switch& device) {
  const Topology& shape = domain.shape();
  const unsigned link = chip % shape.chips_per_chassis();
  const unsigned peer = (chip + shape.chips_per_chassis()) % shape.chip_count();
  for (unsigned i = 0; shape.trunk_count() != 0 && i < shape.trunks_per_chip; ++i) {
    const unsigned trunk = link * shape.trunks_per_chip + i;
    const unsigned cage = domain.cage_of_trunk(trunk);
    const unsigned tray = shape.tray_of_chip(chip);
    const unsigned other = shape.tray_of_chip(peer);
    auto& port = *device.add_port_topo_info();
    fill_port({.type = ::nmx_c::PORT_TYPE_SWITCH_TRUNK,
               .uid = domain.identities().chip_uid(chip),
               .number = shape.access_ports() + i + 1,
               .peer_device = domain.identities().chip_uid(peer),
               .peer_port = shape.access_ports() + i + 1,
               .lid = 100'000ULL + chip,
               .plane = link,
               .up = domain.physical().trunk_up(shape, trunk),
               .disabled = domain.cage_state(tray, cage) == AdminState::kDown ||
                           domain.cage_state(other, cage) == AdminState::kDown,
               .contained = false},
              port);
    port.set_cage_num(cage);
    port.set_cage_port_num(trunk % kCagePorts / 2 + 1);
    port.set_cage_split_port_num(trunk % 2 + 1);
  }
}

template <class Switch>
void fill_switch(const Domain& domain, unsigned chip, Switch& device) {
  const Topology& shape = domain.shape();
  const unsigned tray = shape.tray_of_chip(chip);
  fill_device(domain, shape.switch_tray(tray), device);
  device.set_device_uid(domain.identities().chip_uid(chip));
  device.set_device_id(chip % shape.chips_per_tray + 1);
  device.set_num_ports(shape.ports_per_chip);
  device.set_system_uid(domain.identities().switch_tray_uid(tray));
  device.set_device_pcie_id(kSwitchPcieId);
  device.set_description(fmt::format("NVSwitch {}.{}", shape.switch_tray(tray).index,
                                     chip % shape.chips_per_tray + 1));
  device.set_device_health(
      static_cast<::nmx_c::SwitchHealth>(domain.physical().chip_health(shape, chip)));
  for (const Partition* partition : domain.partitions()) {
    if (!partition->members.empty()) device.add_partition_id()->set_partition_id(partition->id);
  }
  fill_access_ports(domain, chip, device);
  fill_trunk_ports(domain, chip, device);
}

/// `Answer` has a repeated field device_topo_info of either dialect.
template <class Answer>
void fill_devices(const Domain& domain, Answer& answer) {
  for (unsigned chip = 0; chip < domain.shape().chip_count(); ++chip) {
    if (!domain.physical().chips[chip].listed) continue;
    fill_switch(domain, chip, *answer.add_device_topo_info()->mutable_switch_topo_info());
  }
  for (const GpuView& gpu : domain.gpus()) {
    fill_gpu(domain, gpu, *answer.add_device_topo_info()->mutable_gpu_topo_info());
  }
}

struct Connection {
  ::nmx_c::ConnType type;
  Location a, b;
  std::uint32_t device_a = 0, device_b = 0, port_a = 0, port_b = 0;
  std::uint32_t cage = 0, cage_port = 0, split = 0;
  bool discovered = false, active = false;
};

std::vector<Connection> all_connections(const Domain& domain) {
  const Topology& shape = domain.shape();
  std::vector<Connection> found;
  found.reserve(shape.gpu_count() * shape.links_per_gpu() + shape.trunk_count());
  for (unsigned gpu = 0; gpu < shape.gpu_count(); ++gpu) {
    for (unsigned link = 0; link < shape.links_per_gpu(); ++link) {
      const unsigned chip = shape.chip_of_link(gpu, link);
      const bool present =
          domain.physical().gpus[gpu].present && domain.physical().chips[chip].listed;
      found.push_back({::nmx_c::CONN_TYPE_GPU_CONNECTIONS, shape.place_of_gpu(gpu).location,
                       shape.switch_tray(shape.tray_of_chip(chip)).location,
                       shape.module_of_gpu(gpu), chip % shape.chips_per_tray + 1, link + 1,
                       shape.port_of_gpu(gpu), 0, 0, 0, present,
                       domain.physical().link_up(shape, gpu, link)});
    }
  }
  for (unsigned trunk = 0; trunk < shape.trunk_count(); ++trunk) {
    const unsigned chip = trunk / shape.trunks_per_chip, peer = chip + shape.chips_per_chassis();
    const unsigned port = shape.access_ports() + trunk % shape.trunks_per_chip + 1;
    const bool present =
        domain.physical().chips[chip].listed && domain.physical().chips[peer].listed;
    const unsigned device = chip % shape.chips_per_tray + 1;
    found.push_back({::nmx_c::CONN_TYPE_SWITCH_TO_SWITCH_CONNECTIONS,
                     shape.switch_tray(shape.tray_of_chip(chip)).location,
                     shape.switch_tray(shape.tray_of_chip(peer)).location, device, device, port,
                     port, domain.cage_of_trunk(trunk), trunk % kCagePorts / 2 + 1, trunk % 2 + 1,
                     present, domain.physical().trunk_up(shape, trunk)});
  }
  return found;
}

/// Nothing: a parameter is not one that is known.
std::optional<std::vector<Connection>> connections(const Domain& domain, ::nmx_c::ConnType type,
                                                   ::nmx_c::ConnAttr attr,
                                                   const ::nmx_c::Location* location) {
  const bool lenient = domain.personality().lenient_attr;
  if (type > ::nmx_c::CONN_TYPE_SWITCH_TO_SWITCH_CONNECTIONS || type < 0 || (type == 0 && !lenient))
    return {};
  if (attr > ::nmx_c::CONN_ATTR_UNEXPECTED || attr < 0 || (attr == 0 && !lenient)) return {};
  std::vector<Connection> found = all_connections(domain);
  std::erase_if(found, [&](const Connection& c) {
    if (type > ::nmx_c::CONN_TYPE_ALL && c.type != type) return true;
    if (location != nullptr && c.a != read(*location) && c.b != read(*location)) return true;
    switch (attr) {
      case ::nmx_c::CONN_ATTR_DISCOVERED:
        return !c.discovered;
      case ::nmx_c::CONN_ATTR_EXPECTED_AND_ACTIVE:
        return !c.active;
      case ::nmx_c::CONN_ATTR_EXPECTED_AND_INACTIVE:
        return c.active;
      case ::nmx_c::CONN_ATTR_UNEXPECTED:
        return true;  // the simulator's cables are where they belong
      default:
        return false;
    }
  });
  return found;
}

void fill_end(const Connection& c, bool b, ::nmx_c::LinkEndPoint& end) {
  fill(b ? c.b : c.a, *end.mutable_loc());
  end.set_switch_orgpu_id(b ? c.device_b : c.device_a);
  end.set_port_num(b ? c.port_b : c.port_a);
  end.set_cage_num(c.cage);
  end.set_cage_port_num(c.cage_port);
  end.set_cage_port_split_num(c.split);
}

std::string time_stamp(const Moment& moment) {
  return fmt::format("{:%Y-%m-%d %H.%M.%S}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(moment.wall)));
}

}  // namespace

ReturnCode handle(Domain& domain, const ::nmx_c::GetTopologyInfoRequest& /*request*/,
                  ::nmx_c::FmTopologyInfo& answer, const Moment& /*moment*/) {
  fill_devices(domain, answer);
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetTopologyInfoRequest& /*request*/,
                  ::nmx_c::DraftFmTopologyInfo& answer, const Moment& /*moment*/) {
  fill_devices(domain, answer);
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetConnCountRequest& request,
                  ::nmx_c::GetConnCountResponse& answer, const Moment& moment) {
  const auto found = connections(domain, request.conn_type(), request.conn_attr(),
                                 request.has_loc() ? &request.loc() : nullptr);
  if (!found) return ReturnCode::kBadParam;
  answer.set_num_conns(static_cast<std::uint32_t>(found->size()));
  answer.set_time_stamp(time_stamp(moment));
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetConnInfoListRequest& request,
                  ::nmx_c::GetConnInfoListResponse& answer, const Moment& moment) {
  const auto found = connections(domain, request.conn_type(), request.conn_attr(),
                                 request.has_loc() ? &request.loc() : nullptr);
  if (!found) return ReturnCode::kBadParam;
  ::nmx_c::ConnInfoList& list = *answer.mutable_conn_info_list();
  for (const Connection& c : *found) {
    if (request.num_conns() != 0 &&
        static_cast<std::uint32_t>(list.conn_info_list_size()) >= request.num_conns())
      break;
    ::nmx_c::ConnInfo& info = *list.add_conn_info_list();
    fill_end(c, false, *info.mutable_end_point_a());
    fill_end(c, true, *info.mutable_end_point_b());
    info.set_conn_type(c.type);
    info.set_conn_state(c.active ? ::nmx_c::CONN_STATE_ACTIVE : ::nmx_c::CONN_STATE_INACTIVE);
  }
  answer.set_time_stamp(time_stamp(moment));
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& /*domain*/, const ::nmx_c::GetConnInfoCombinedRequest& /*request*/,
                  ::nmx_c::ConnInfoCombined& answer, const Moment& /*moment*/) {
  answer.mutable_unexpected_conn_list();  // present and empty
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetStateReportRequest& request,
                  ::nmx_c::GetStateReportResponse& answer, const Moment& /*moment*/) {
  if (request.report_type() == ::nmx_c::REPORT_TYPE_TOPOLOGY) {
    fill_devices(domain, *answer.mutable_device_topo_info());
    return ReturnCode::kSuccess;
  }
  if (request.report_type() != ::nmx_c::REPORT_TYPE_PARTITIONS) return ReturnCode::kBadParam;
  answer.mutable_partitions();
  for (const Partition* partition : domain.partitions()) {
    ::nmx_c::PartitionReport& report = *answer.mutable_partitions()->add_partitions();
    report.mutable_partition_id()->set_partition_id(partition->id);
    for (const Member& member : partition->members) {
      ::nmx_c::PartitionGpu& gpu = *report.add_gpus();
      gpu.set_device_uid(member.uid);
      for (unsigned tray = 0; tray < domain.shape().tray_count(); ++tray) {
        const TrayPlace place = domain.shape().compute_tray(tray);
        if (place.location == member.place.location)
          fill_tray(domain, place, *gpu.mutable_location_info());
      }
    }
  }
  return ReturnCode::kSuccess;
}

}  // namespace imex::rack::nmxc
