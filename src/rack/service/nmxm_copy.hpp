/// What the manager (NMX-M) knows of one domain: a copy, taken at some moment, that may be late;
/// and the entity ids under which it speaks of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "domain_host.hpp"

namespace imex::rack {

struct DomainCopy {
  Uuid uuid, instance;
  std::string name, version;
  Topology shape;
  std::vector<std::string> serials;  ///< by chassis
  Physical physical{Topology{}};
  std::vector<GpuView> gpus;
  std::vector<TrayView> trays;
  std::vector<std::pair<Partition, PartitionHealth>> partitions;
  std::vector<std::uint64_t> tray_uids, switch_tray_uids, chip_uids;
  ControlPlane control_plane = ControlPlane::kConfigured;
};
/// Takes the host's lock.
[[nodiscard]] DomainCopy copy_domain(DomainHost& host, Time now);

/// 24 hexadecimal digits, as the manager's database makes them; the same for the same facts.
/// `registration` counts how often the domain was registered: another one, other ids.
enum class Entity : std::uint8_t {
  kService = 1,
  kChassis,
  kComputeNode,
  kGpu,
  kSwitchNode,
  kSwitch,
  kPort,
  kPartition,
  kOperation
};
[[nodiscard]] std::string entity_id(Entity kind, const Uuid& domain, unsigned registration,
                                    std::uint64_t number);
[[nodiscard]] bool is_entity_id(std::string_view text);

}  // namespace imex::rack
