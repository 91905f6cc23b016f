#include "nmxm_objects.hpp"

#include <array>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace imex::rack {

using nlohmann::json;

namespace {

// Each list is NMX-C's enumeration in the order of its numbers.
constexpr std::array kGpuHealth = {"UNKNOWN", "HEALTHY", "DEGRADED", "NO_NVLINK", "DEGRADED_BW"};
constexpr std::array kNodeHealth = {"UNKNOWN", "HEALTHY", "DEGRADED", "UNHEALTHY"};
constexpr std::array kSwitchHealth = {"UNKNOWN", "HEALTHY", "MISSING_NVLINK", "UNHEALTHY"};
constexpr std::array kPartitionHealth = {"UNKNOWN", "HEALTHY", "DEGRADED_BANDWIDTH", "DEGRADED",
                                         "UNHEALTHY"};
constexpr std::uint64_t kSubnet = 0xfe80'0000'0000'0000ULL;

template <std::size_t N>
const char* name_of(const std::array<const char*, N>& names, auto value) {
  return names.at(static_cast<std::size_t>(value));
}

json location(const Registered& domain, const TrayPlace& place) {
  return {{"ChassisID", place.location.chassis},
          {"ChassisSerialNumber", domain.copy.serials.at(place.chassis)},
          {"SlotID", place.location.slot},
          {"TrayIndex", place.index},
          {"HostID", place.location.host}};
}

std::string id_of(const Registered& domain, Entity kind, std::uint64_t number) {
  return entity_id(kind, domain.copy.uuid, domain.registration, number);
}

json common(const Registered& domain, Entity kind, std::uint64_t number, std::string name) {
  return {{"ID", id_of(domain, kind, number)},
          {"Name", std::move(name)},
          {"Description", ""},
          {"CreatedAt", domain.since},
          {"UpdatedAt", domain.since},
          {"DomainUUID", domain.copy.uuid.to_string()}};
}

/// Ports are numbered: those of GPUs first, then those of chips.
std::uint64_t gpu_port(const Topology& shape, unsigned gpu, unsigned link) {
  return std::uint64_t{gpu} * shape.links_per_gpu() + link;
}
std::uint64_t chip_port(const Topology& shape, unsigned chip, unsigned port) {
  return std::uint64_t{shape.gpu_count()} * shape.links_per_gpu() +
         std::uint64_t{chip} * shape.ports_per_chip + port;
}

void list_chassis(const Registered& domain, json& out) {
  const Topology& shape = domain.copy.shape;
  for (unsigned chassis = 0; chassis < shape.chassis; ++chassis) {
    json one = common(domain, Entity::kChassis, chassis,
                      fmt::format("{}-chassis-{}", domain.copy.name, chassis + 1));
    one["InternalID"] = chassis + 1;
    one["SerialNumber"] = domain.copy.serials.at(chassis);
    one["ComputeNodeIDList"] = json::array();
    one["SwitchNodeIDList"] = json::array();
    for (const TrayView& tray : domain.copy.trays) {
      if (tray.place.chassis == chassis)
        one["ComputeNodeIDList"].push_back(id_of(domain, Entity::kComputeNode, tray.tray));
    }
    for (unsigned tray = 0; tray < shape.switch_tray_count(); ++tray) {
      if (domain.copy.physical.switch_trays[tray] && shape.switch_tray(tray).chassis == chassis) {
        one["SwitchNodeIDList"].push_back(id_of(domain, Entity::kSwitchNode, tray));
      }
    }
    out.push_back(std::move(one));
  }
}

void list_compute_nodes(const Registered& domain, json& out) {
  for (const TrayView& tray : domain.copy.trays) {
    json one = common(domain, Entity::kComputeNode, tray.tray,
                      fmt::format("{}-compute-{}", domain.copy.name, tray.place.index));
    one["LocationInfo"] = location(domain, tray.place);
    one["Health"] = name_of(kNodeHealth, tray.health);
    out.push_back(std::move(one));
  }
}

void list_gpus(const Registered& domain, json& out) {
  constexpr std::uint64_t kPcieId = 0x2941;
  const Topology& shape = domain.copy.shape;
  for (const GpuView& gpu : domain.copy.gpus) {
    json one =
        common(domain, Entity::kGpu, gpu.uid,
               fmt::format("{}-gpu-{}-{}", domain.copy.name, gpu.tray_index, gpu.place.module));
    one["InternalDescription"] = "";
    one["LocationInfo"] = location(domain, {gpu.place.location, gpu.tray_index, gpu.chassis});
    one["DeviceUID"] = gpu.uid;
    one["DeviceID"] = gpu.place.module;
    one["DevicePcieID"] = kPcieId;
    one["SystemUID"] = domain.copy.tray_uids.at(shape.tray_of_gpu(gpu.index));
    one["VendorID"] = 4318;
    one["ALIDList"] = {2ULL * gpu.index + 1, 2ULL * gpu.index + 2};
    if (gpu.partition != 0) one["PartitionID"] = gpu.partition;
    one["PortIDList"] = json::array();
    for (unsigned link = 0; link < shape.links_per_gpu(); ++link) {
      one["PortIDList"].push_back(id_of(domain, Entity::kPort, gpu_port(shape, gpu.index, link)));
    }
    one["Health"] = name_of(kGpuHealth, gpu.health);
    out.push_back(std::move(one));
  }
}

void list_switch_nodes(const Registered& domain, json& out) {
  const Topology& shape = domain.copy.shape;
  for (unsigned tray = 0; tray < shape.switch_tray_count(); ++tray) {
    if (!domain.copy.physical.switch_trays[tray]) continue;
    const TrayPlace place = shape.switch_tray(tray);
    json one = common(domain, Entity::kSwitchNode, tray,
                      fmt::format("{}-switch-{}", domain.copy.name, place.index));
    one["LocationInfo"] = location(domain, place);
    one["Health"] = name_of(kSwitchHealth, domain.copy.physical.switch_tray_health(shape, tray));
    one["SwitchIDList"] = json::array();
    for (unsigned i = 0; i < shape.chips_per_tray; ++i) {
      one["SwitchIDList"].push_back(
          id_of(domain, Entity::kSwitch, tray * shape.chips_per_tray + i));
    }
    out.push_back(std::move(one));
  }
}

void list_switches(const Registered& domain, json& out) {
  const Topology& shape = domain.copy.shape;
  for (unsigned chip = 0; chip < shape.chip_count(); ++chip) {
    if (!domain.copy.physical.chips[chip].listed) continue;
    const unsigned tray = shape.tray_of_chip(chip);
    json one = common(domain, Entity::kSwitch, chip,
                      fmt::format("{}-nvswitch-{}", domain.copy.name, chip));
    one["InternalDescription"] = "";
    one["LocationInfo"] = location(domain, shape.switch_tray(tray));
    one["DeviceUID"] = domain.copy.chip_uids.at(chip);
    one["DeviceID"] = chip % shape.chips_per_tray + 1;
    one["DevicePcieID"] = 0x2900;
    one["SystemUID"] = domain.copy.switch_tray_uids.at(tray);
    one["VendorID"] = 4318;
    one["PortIDList"] = json::array();
    for (unsigned port = 0; port < shape.access_ports(); ++port) {
      one["PortIDList"].push_back(id_of(domain, Entity::kPort, chip_port(shape, chip, port)));
    }
    one["Health"] = name_of(kSwitchHealth, domain.copy.physical.chip_health(shape, chip));
    out.push_back(std::move(one));
  }
}

struct PortEnds {
  const char* type;
  std::uint64_t number, uid, port, peer, peer_port, lid;
  unsigned plane;
  bool up, contained;
};

json port_object(const Registered& domain, const TrayPlace& place, const PortEnds& ends) {
  constexpr std::uint64_t kSmall = 0x7fff'ffffULL;
  const std::uint64_t mask = domain.small_numbers ? kSmall : ~0ULL;
  return {{"ID", id_of(domain, Entity::kPort, ends.number)},
          {"CreatedAt", domain.since},
          {"UpdatedAt", domain.since},
          {"DomainUUID", domain.copy.uuid.to_string()},
          {"LocationInfo", location(domain, place)},
          {"Type", ends.type},
          {"PortUID", ends.uid & mask},
          {"PortNum", ends.port},
          {"PeerPortDeviceUID", ends.peer & mask},
          {"PeerPortNum", ends.peer_port},
          {"Rail", 0},
          {"Plane", ends.plane},
          {"PhysicalState", ends.up ? "LINKUP" : "POLLING"},
          {"LogicalState", ends.up ? "STATE_ACTIVE" : "STATE_DOWN"},
          {"SubnetPrefix", kSubnet & mask},
          {"IsSDNPort", false},
          {"ContainAndDrain", ends.contained},
          {"BaseLID", ends.lid}};
}

void list_ports(const Registered& domain, json& out) {
  const Topology& shape = domain.copy.shape;
  const Physical& physical = domain.copy.physical;
  for (const GpuView& gpu : domain.copy.gpus) {
    for (unsigned link = 0; link < shape.links_per_gpu(); ++link) {
      const unsigned chip = shape.chip_of_link(gpu.index, link);
      const bool up = physical.link_up(shape, gpu.index, link);
      const bool contained = (physical.gpus[gpu.index].contained >> link & 1U) != 0;
      const std::uint64_t at_chip = shape.port_of_gpu(gpu.index);
      out.push_back(port_object(domain, {gpu.place.location, gpu.tray_index, gpu.chassis},
                                {"GPU", gpu_port(shape, gpu.index, link), gpu.uid, link + 1ULL,
                                 domain.copy.chip_uids[chip], at_chip,
                                 1000ULL + gpu_port(shape, gpu.index, link), link, up, contained}));
      if (!physical.chips[chip].listed) continue;
      out.push_back(
          port_object(domain, shape.switch_tray(shape.tray_of_chip(chip)),
                      {"SWITCH_ACCESS", chip_port(shape, chip, static_cast<unsigned>(at_chip) - 1),
                       domain.copy.chip_uids[chip], at_chip, gpu.uid, link + 1ULL,
                       100'000ULL + chip, link, up, contained}));
    }
  }
}

template <class Names, class Values>
json histogram(const char* title, const Names& names, const Values& values) {
  std::map<std::string, int> counts;
  for (const auto value : values) ++counts[name_of(names, value)];
  json data = json::array();
  for (const auto& [name, count] : counts) data.push_back({{name, count}});
  return {
      {"Title", title}, {"Description", title}, {"Type", "histogram"}, {"Data", std::move(data)}};
}

}  // namespace

void list_objects(std::string_view collection, const Registered& domain, json& out) {
  if (collection == "chassis") return list_chassis(domain, out);
  if (collection == "compute-nodes") return list_compute_nodes(domain, out);
  if (collection == "gpus") return list_gpus(domain, out);
  if (collection == "switch-nodes") return list_switch_nodes(domain, out);
  if (collection == "switches") return list_switches(domain, out);
  list_ports(domain, out);
}

json metrics_and_kpis(const std::vector<const DomainCopy*>& domains) {
  std::vector<GpuHealth> gpus;
  std::vector<SwitchHealth> switches;
  std::vector<TrayHealth> nodes, whole;
  int free = 0, full = 0, partly = 0;
  for (const DomainCopy* domain : domains) {
    for (const GpuView& gpu : domain->gpus) gpus.push_back(gpu.health);
    for (unsigned chip = 0; chip < domain->shape.chip_count(); ++chip) {
      switches.push_back(domain->physical.chip_health(domain->shape, chip));
    }
    for (const TrayView& tray : domain->trays) {
      nodes.push_back(tray.health);
      ++(tray.allocated == 0 ? free : tray.allocated == tray.gpus ? full : partly);
    }
    whole.push_back(domain->control_plane == ControlPlane::kConfigured ? TrayHealth::kHealthy
                                                                       : TrayHealth::kDegraded);
  }
  const json allocation = {{{"FREE", free}}, {{"FULL", full}}, {{"PARTIAL", partly}}};
  return {{"Health",
           {{"switch-health", histogram("Switch health", kSwitchHealth, switches)},
            {"gpu-health", histogram("GPU health", kGpuHealth, gpus)},
            {"domain-health", histogram("Domain health", kNodeHealth, whole)},
            {"compute-health", histogram("Compute health", kNodeHealth, nodes)}}},
          {"Inventory",
           {{"compute-allocation",
             {{"Title", "Compute allocation"},
              {"Description", "Compute allocation"},
              {"Type", "histogram"},
              {"Data", allocation}}}}}};
}

std::string metrics_text(const DomainCopy& domain) {
  std::string text = "# TYPE PortLocalPhysicalErrors counter\n";
  for (const GpuView& gpu : domain.gpus) {
    for (unsigned link = 0; link < domain.shape.links_per_gpu(); ++link) {
      text += fmt::format("PortLocalPhysicalErrors{{Node_GUID=\"{:#x}\",Port_Number=\"{}\"}} {}\n",
                          gpu.uid, link + 1,
                          domain.physical.link_up(domain.shape, gpu.index, link) ? 0 : 1);
    }
  }
  text += "# TYPE switch_temperature gauge\n";
  for (unsigned chip = 0; chip < domain.shape.chip_count(); ++chip) {
    if (domain.physical.chips[chip].works()) {
      text += fmt::format("switch_temperature{{Node_GUID=\"{:#x}\"}} 45\n", domain.chip_uids[chip]);
    }
  }
  return text;
}

std::string_view partition_health_name(PartitionHealth health) {
  return name_of(kPartitionHealth, health);
}

std::string rfc3339(std::chrono::system_clock::time_point time) {
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}+00:00",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(time)), ms);
}

}  // namespace imex::rack
