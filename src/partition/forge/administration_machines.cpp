#include <algorithm>
#include <set>

#include "checks.hpp"
#include "partition/forge/administration.hpp"

namespace imex::partition::forge {
namespace {

constexpr std::size_t kMachineGpusMax = 64;
constexpr std::int64_t kPositionMax = 1'000'000;

Error wrong_gpu(const GpuPlace& gpu, std::string_view why) {
  return {Errc::kInvalidArgument,
          fmt::format("GPU {} with device_id {}: {}", gpu.uid, gpu.device_id, why)};
}

/// What an operator entered, each GPU for itself.
Result<void> check_info(const NvlinkInfo& info) {
  IMEX_CHECK_OK(check_text("chassis_serial", info.chassis_serial, kNameBytesMax));
  if (info.gpus.empty()) return fail(Errc::kInvalidArgument, "nvlink_info has no GPUs");
  if (info.gpus.size() > kMachineGpusMax) {
    return fail(Errc::kInvalidArgument, fmt::format("nvlink_info has {} GPUs, a machine at most {}",
                                                    info.gpus.size(), kMachineGpusMax));
  }
  std::set<std::uint64_t> uids;
  std::set<std::int64_t> devices;
  const GpuPlace& first = info.gpus.front();
  for (const GpuPlace& gpu : info.gpus) {
    if (gpu.uid == 0) return fail(wrong_gpu(gpu, "the guid is missing"));
    if (gpu.device_id < 1 || gpu.device_id > static_cast<std::int64_t>(kMachineGpusMax))
      return fail(wrong_gpu(gpu, "device ids count from 1 to 64"));
    if (!uids.insert(gpu.uid).second) return fail(wrong_gpu(gpu, "the guid is there twice"));
    if (!devices.insert(gpu.device_id).second)
      return fail(wrong_gpu(gpu, "the device id is there twice"));
    if (gpu.tray_index < 0 || gpu.tray_index > kPositionMax || gpu.slot_id < 0 ||
        gpu.slot_id > kPositionMax)
      return fail(wrong_gpu(gpu, "no tray has such a position"));
    if (gpu.tray_index != first.tray_index || gpu.slot_id != first.slot_id)
      return fail(wrong_gpu(gpu, "the GPUs of one machine share its tray"));
  }
  return {};
}

/// The GPUs that the entry makes of what is known; health and place in partitions stay with the
/// uid.
std::vector<Gpu> gpus_of(const NvlinkInfo& info, const Machine& machine) {
  std::vector<Gpu> gpus;
  for (const GpuPlace& place : info.gpus) {
    Gpu gpu;
    const auto known = std::ranges::find(machine.gpus, place.uid, &Gpu::uid);
    if (known != machine.gpus.end()) gpu = *known;
    gpu.uid = place.uid;
    gpu.device_instance = static_cast<std::uint32_t>(place.device_id - 1);
    gpus.push_back(gpu);
  }
  std::ranges::sort(gpus, {}, &Gpu::device_instance);
  return gpus;
}

Result<void> check_others(ReadTransaction& t, const Machine& machine) {
  IMEX_TRY(const auto neighbours, rows_with<Machine>(t, Field::kChassis, {machine.chassis_serial}));
  for (const Machine& other : neighbours) {
    if (other.id == machine.id) continue;
    for (const Gpu& gpu : machine.gpus) {
      if (std::ranges::find(other.gpus, gpu.uid, &Gpu::uid) == other.gpus.end()) continue;
      return fail(Errc::kInvalidArgument,
                  fmt::format("GPU {} is in machine {}", gpu.uid, printable(other.id.text)));
    }
  }
  return {};
}

bool same_gpus(const Machine& left, const Machine& right) {
  return std::ranges::equal(left.gpus, right.gpus, [](const Gpu& a, const Gpu& b) {
    return a.uid == b.uid && a.device_instance == b.device_instance;
  });
}

Result<void> enter(WriteTransaction& t, const NvlinkInfo& info, const Machine& former) {
  Machine machine = former;
  const GpuPlace& place = info.gpus.front();
  machine.domain = info.domain;
  machine.chassis_serial = info.chassis_serial;
  machine.tray_index = static_cast<std::uint32_t>(place.tray_index);
  machine.slot_id = static_cast<std::uint32_t>(place.slot_id);
  machine.gpus = gpus_of(info, former);
  if (former.instance && (machine.domain != former.domain || !same_gpus(machine, former))) {
    return fail(Errc::kFailedPrecondition,
                fmt::format("instance {} holds machine {}: its GPUs cannot become others",
                            former.instance->to_string(), printable(former.id.text)),
                "release the instance first");
  }
  IMEX_CHECK_OK(check_others(t, machine));
  if (machine.domain) {
    IMEX_TRY(const auto known, t.find<Domain>(*machine.domain));
    if (!known) {
      Domain domain;
      domain.id = *machine.domain;
      domain.site = machine.site;
      IMEX_CHECK_OK(t.insert(domain));
    }
  }
  IMEX_TRY(const bool changed, t.update(machine, "NVLink information entered by an operator"));
  if (changed) t.wake_reconciler();
  return {};
}

/// Removes an instance with all that hangs on it. Partitions that only waited for its GPUs go too.
Result<void> remove_instance(WriteTransaction& t, const InstanceId& id) {
  IMEX_TRY(const auto interfaces,
           rows_with<NvlinkInterface>(t, Field::kInstance, {id.to_string()}));
  std::set<LogicalPartitionId> partitions;
  for (const NvlinkInterface& interface : interfaces) {
    partitions.insert(interface.partition);
    IMEX_CHECK_OK(t.remove<NvlinkInterface>(interface.id));
  }
  IMEX_CHECK_OK(t.remove<Instance>(id));
  for (const LogicalPartitionId& partition : partitions) {
    IMEX_TRY(const auto row, t.find<LogicalPartition>(partition));
    if (row && row->status == Status::kDeleting) IMEX_CHECK_OK(t.remove_if_free(partition));
  }
  return {};
}

}  // namespace

const PhysicalPartition* MachineView::partition_of(const Gpu& gpu) const noexcept {
  if (gpu.fabric_partition == 0) return nullptr;
  const auto found =
      std::ranges::find(partitions, gpu.fabric_partition, &PhysicalPartition::fabric_id);
  return found == partitions.end() ? nullptr : &*found;
}

Result<std::vector<MachineView>> Administration::machines(const std::vector<MachineId>& ids) {
  IMEX_CHECK_OK(check_count(ids));
  std::vector<std::string> names;
  for (const MachineId& id : ids) names.push_back(id.text);
  std::vector<MachineView> views;
  auto done = store_.read([&](ReadTransaction& t) -> Result<void> {
    views.clear();
    IMEX_TRY(auto rows, rows_with<Machine>(t, Field::kId, names, Field::kId));
    for (Machine& row : rows) {
      MachineView& view = views.emplace_back();
      view.record = std::move(row);
      if (!view.record.domain) continue;
      IMEX_TRY(view.partitions,
               rows_with<PhysicalPartition>(t, Field::kDomain, {view.record.domain->to_string()}));
    }
    return {};
  });
  if (!done) return fail(std::move(done).error());
  return views;
}

Result<void> Administration::set_nvlink_info(const Actor& actor, const MachineId& id,
                                             const NvlinkInfo& info) {
  IMEX_CHECK_OK(check_text("machine_id", id.text, kNameBytesMax));
  IMEX_CHECK_OK(check_info(info));
  return store_.write(actor, [&](WriteTransaction& t) -> Result<void> {
    IMEX_TRY(const Machine machine, existing<Machine>(t, id, "machine", id.text));
    return enter(t, info, machine);
  });
}

Result<ForceDeleted> Administration::force_delete(const Actor& actor, const MachineId& id,
                                                  bool despite_type) {
  IMEX_CHECK_OK(check_text("host_query", id.text, kNameBytesMax));
  ForceDeleted gone;
  auto done = store_.write(actor, [&](WriteTransaction& t) -> Result<void> {
    gone = {};
    IMEX_TRY(const auto machine, t.find<Machine>(id));
    if (!machine) return {};
    if (machine->instance_type && !despite_type) {
      return fail(Errc::kFailedPrecondition,
                  fmt::format("machine {} is associated with instance type {}", printable(id.text),
                              machine->instance_type->to_string()),
                  "remove the association first: DELETE /instance/type/{id}/machine/{machineId}");
    }
    // By the instances' own rows: these are what holds GPUs, whatever the machine's row says.
    IMEX_TRY(const auto instances, rows_with<Instance>(t, Field::kMachine, {id.text}));
    for (const Instance& instance : instances) {
      gone.instance = instance.id;
      IMEX_CHECK_OK(remove_instance(t, instance.id));
    }
    IMEX_CHECK_OK(t.remove<Machine>(id));
    gone.machine = id;
    t.wake_reconciler();
    return {};
  });
  if (!done) return fail(std::move(done).error());
  return gone;
}

}  // namespace imex::partition::forge
