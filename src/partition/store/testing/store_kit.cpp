#include "store_kit.hpp"

#include "os/random.hpp"

namespace imex::partition::testing {

WallTime at_second(std::int64_t second) { return WallTime(std::chrono::seconds(second)); }

World make_world(Store& store) {
  World world;
  world.provider = {.id = {os::random_uuid()}, .org = "nvidia", .display_name = "NVIDIA"};
  world.tenant = {.id = {os::random_uuid()}, .org = "acme", .display_name = "Acme"};
  world.other_tenant = {.id = {os::random_uuid()}, .org = "umbrella", .display_name = "Umbrella"};
  world.site = {.id = {os::random_uuid()}, .provider = world.provider.id, .name = "here"};
  world.type = {.id = {os::random_uuid()},
                .provider = world.provider.id,
                .site = world.site.id,
                .name = "gb200",
                .nvlink_gpus = 4};
  world.allocation = {.id = {os::random_uuid()},
                      .name = "all",
                      .provider = world.provider.id,
                      .tenant = world.tenant.id,
                      .site = world.site.id,
                      .instance_type = world.type.id,
                      .machines = 18};
  world.endpoint = {.id = {os::random_uuid()}, .site = world.site.id, .url = "http://rack:9370"};
  world.domain = {os::random_uuid()};
  must(store.write(kTester, [&](WriteTransaction& t) -> Result<void> {
    IMEX_CHECK_OK(t.insert(world.provider));
    IMEX_CHECK_OK(t.insert(world.tenant));
    IMEX_CHECK_OK(t.insert(world.other_tenant));
    IMEX_CHECK_OK(t.insert(world.site));
    IMEX_CHECK_OK(t.insert(world.type));
    IMEX_CHECK_OK(t.insert(world.allocation));
    return t.insert(world.endpoint);
  }));
  return world;
}

LogicalPartition new_partition(const World& world, const std::string& name) {
  return {
      .id = {os::random_uuid()}, .tenant = world.tenant.id, .site = world.site.id, .name = name};
}

Vpc new_vpc(const World& world, const std::string& name) {
  return {.id = {os::random_uuid()},
          .tenant = world.tenant.id,
          .site = world.site.id,
          .name = name,
          .network_virtualization_type = "FNN"};
}

DomainObservation rack_view(const World& world, std::uint32_t trays, WallTime at) {
  DomainObservation view{.domain = world.domain,
                         .at = at,
                         .manager = "fm-1",
                         .manager_version = "1.0",
                         .control_plane = "configured"};
  view.limits = {.partitions_max = 54, .multicast_groups_max = 1024, .multicast_groups_free = 1024};
  for (std::uint32_t tray = 0; tray < trays; ++tray)
    for (std::uint32_t gpu = 0; gpu < 4; ++gpu)
      view.gpus.push_back({.uid = 1000 + std::uint64_t{tray} * 4 + gpu,
                           .chassis_serial = "CH1",
                           .tray_index = tray,
                           .slot_id = tray + 1,
                           .host_id = 1,
                           .device_instance = gpu,
                           .health = Health::kHealthy,
                           .fabric_partition = 0});
  return view;
}

MachineId machine_of(std::uint32_t tray) { return {"CH1." + std::to_string(tray + 1) + ".1"}; }

Placed place_instance(Store& store, const World& world, const Vpc& vpc,
                      const LogicalPartition& partition, std::uint32_t tray,
                      const std::string& name) {
  Placed placed;
  placed.instance = {.id = {os::random_uuid()},
                     .tenant = world.tenant.id,
                     .site = world.site.id,
                     .vpc = vpc.id,
                     .instance_type = world.type.id,
                     .machine = machine_of(tray),
                     .name = name};
  must(store.write(kTester, [&](WriteTransaction& t) -> Result<void> {
    IMEX_CHECK_OK(t.insert(placed.instance));
    IMEX_TRY(auto machine, t.find<Machine>(placed.instance.machine));
    if (!machine) return fail(Errc::kNotFound, "no such machine: observe the rack first");
    machine->instance = placed.instance.id;
    machine->status = Status::kInUse;
    IMEX_TRY([[maybe_unused]] const bool changed, t.update(*machine));
    for (std::uint32_t device = 0; device < 4; ++device) {
      NvlinkInterface interface{.id = {os::random_uuid()},
                                .instance = placed.instance.id,
                                .tenant = world.tenant.id,
                                .site = world.site.id,
                                .partition = partition.id,
                                .device_instance = device};
      IMEX_CHECK_OK(t.insert(interface));
      placed.interfaces.push_back(interface);
    }
    t.wake_reconciler();
    return {};
  }));
  return placed;
}

}  // namespace imex::partition::testing
