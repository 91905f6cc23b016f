#include "answer.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "fabric/check.hpp"

namespace imex::fabric::nmxc {
namespace {

namespace pb = ::nmx_c;

auto broken_answer(std::string message) {
  return fail(Errc::kDataLoss, std::move(message),
              "the fabric controller breaks its own rules: look at its log and version");
}

Result<HostPlace> read_place(const pb::LocationInfo& info) {
  HostPlace place;
  IMEX_TRY(place.chassis_serial,
           bounded_text(info.chassis_serial_number(), kPartitionNameMax, "chassis serial number"));
  place.tray_index = info.tray_index();
  place.chassis_id = info.location().chassis_id();
  place.slot_id = info.location().slot_id();
  place.host_id = info.location().host_id();
  return place;
}

std::optional<std::uint64_t> uid_at(const pb::GpuLocation& location,
                                    const std::vector<ObservedGpu>& gpus) {
  const auto at = std::find_if(gpus.begin(), gpus.end(), [&location](const ObservedGpu& gpu) {
    return gpu.module_id == location.gpu_id() && gpu.place.slot_id == location.loc().slot_id() &&
           gpu.place.host_id == location.loc().host_id() &&
           gpu.place.chassis_id == location.loc().chassis_id();
  });
  if (at == gpus.end()) return std::nullopt;
  return at->uid;
}

Result<ObservedPartition> read_partition(const pb::PartitionInfo& info,
                                         const std::vector<ObservedGpu>& gpus) {
  ObservedPartition partition;
  partition.id = info.partition_id().partition_id();
  IMEX_TRY(partition.name, bounded_text(info.name(), kAnswerTextMax,
                                        fmt::format("name of partition {}", partition.id)));
  partition.health = static_cast<PartitionHealth>(info.health());
  partition.kind = static_cast<PartitionKind>(info.partition_type());
  partition.multicast_groups_used = info.num_allocated_multicast_groups();
  if (info.has_attr()) {
    partition.resiliency = static_cast<ResiliencyMode>(info.attr().resiliency_mode());
    partition.multicast_groups_limit = info.attr().multicast_groups_limit();
  }
  if (static_cast<std::size_t>(info.gpu_uid_list_size()) > kDomainGpusMax ||
      static_cast<std::size_t>(info.gpu_location_list_size()) > kDomainGpusMax)
    return broken_answer(
        fmt::format("partition {} lists more GPUs than any domain has", partition.id));
  partition.gpu_uids.assign(info.gpu_uid_list().begin(), info.gpu_uid_list().end());
  if (partition.gpu_uids.empty()) {
    for (const pb::GpuLocation& location : info.gpu_location_list()) {
      const auto uid = uid_at(location, gpus);
      if (!uid) {
        return broken_answer(
            fmt::format("partition {} has a GPU at {}.{}.{}.{} that no list of GPUs shows",
                        partition.id, location.loc().chassis_id(), location.loc().slot_id(),
                        location.loc().host_id(), location.gpu_id()));
      }
      partition.gpu_uids.push_back(*uid);
    }
  }
  // Acting on half a list would throw the other half out. 0 stands for "not told", too.
  if (info.num_gpus() != 0 && info.num_gpus() != partition.gpu_uids.size())
    return broken_answer(fmt::format("partition {} claims {} GPUs and lists {}", partition.id,
                                     info.num_gpus(), partition.gpu_uids.size()));
  return partition;
}

FabricEvent partition_event(std::uint32_t id) {
  return {.kind = FabricEvent::Kind::kPartition, .partition_id = id};
}

std::optional<FabricEvent> read_fabric_event(const pb::FmEvent& event) {
  switch (event.event_case()) {
    case pb::FmEvent::kFmEventControlPlaneStateChange:
      return FabricEvent{.kind = FabricEvent::Kind::kControlPlane};
    case pb::FmEvent::kFmEventTopologyChange:
      return FabricEvent{.kind = FabricEvent::Kind::kTopology};
    case pb::FmEvent::kFmEventPartitionChange:
      return partition_event(event.fm_event_partition_change().partition_id().partition_id());
    case pb::FmEvent::EVENT_NOT_SET:
      return std::nullopt;
  }
  return std::nullopt;
}

/// What both dialects have; the numbers of the cases are the field numbers, and equal.
template <class Notification>
std::optional<FabricEvent> read_common_event(const Notification& notification) {
  switch (notification.notification_case()) {
    case Notification::kStaticConfigResponse:
    case Notification::kSetAdminStateResponse:
      return FabricEvent{.kind = FabricEvent::Kind::kConfiguration};
    case Notification::kCreatePartitionResponse:
      return partition_event(
          notification.create_partition_response().partition_id().partition_id());
    case Notification::kDeletePartitionResponse:
      return partition_event(
          notification.delete_partition_response().partition_id().partition_id());
    case Notification::kUpdatePartitionResponse:
      return partition_event(
          notification.update_partition_response().partition_id().partition_id());
    case Notification::kFmEvent:
      return read_fabric_event(notification.fm_event());
    case Notification::kHealthStateChanged:
      return FabricEvent{.kind = FabricEvent::Kind::kHealth};
    default:
      return std::nullopt;
  }
}

template <class Device>
void move_admin_states(Device& device) {
  for (pb::PortTopoInfo& port : *device.mutable_port_topo_info()) {
    port.set_port_admin_state(static_cast<pb::AdminState>(port.link_rate_mbps()));
    port.clear_link_rate_mbps();
  }
}

}  // namespace

Result<std::vector<ObservedGpu>> read_gpus(const pb::GetGpuInfoListResponse& answer) {
  if (static_cast<std::size_t>(answer.gpu_info_list_size()) > kDomainGpusMax)
    return broken_answer(fmt::format("{} GPUs in one domain, at most {} are read",
                                     answer.gpu_info_list_size(), kDomainGpusMax));
  std::vector<ObservedGpu> gpus;
  gpus.reserve(static_cast<std::size_t>(answer.gpu_info_list_size()));
  for (const pb::GpuInfo& info : answer.gpu_info_list()) {
    ObservedGpu gpu;
    gpu.uid = info.gpu_uid();
    gpu.module_id = info.gpu_id();
    IMEX_TRY(gpu.place, read_place(info.loc()));
    gpu.health = static_cast<GpuHealth>(info.gpu_health());
    if (const std::uint32_t partition = info.partition_id().partition_id(); partition != 0)
      gpu.partition_id = partition;
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

Result<std::vector<ObservedPartition>> read_partitions(
    const pb::GetPartitionInfoListResponse& answer, const std::vector<ObservedGpu>& gpus) {
  if (static_cast<std::size_t>(answer.partition_info_list_size()) > kDomainPartitionsMax)
    return broken_answer(
        fmt::format("{} partitions in one domain", answer.partition_info_list_size()));
  std::vector<ObservedPartition> partitions;
  partitions.reserve(static_cast<std::size_t>(answer.partition_info_list_size()));
  for (const pb::PartitionInfo& info : answer.partition_info_list()) {
    IMEX_TRY(ObservedPartition partition, read_partition(info, gpus));
    partitions.push_back(std::move(partition));
  }
  return partitions;
}

Result<std::vector<ObservedNode>> read_nodes(const pb::GetComputeNodeInfoListResponse& answer) {
  if (static_cast<std::size_t>(answer.node_info_list_size()) > kDomainGpusMax)
    return broken_answer(
        fmt::format("{} compute nodes in one domain", answer.node_info_list_size()));
  std::vector<ObservedNode> nodes;
  for (const pb::ComputeNodeInfo& info : answer.node_info_list()) {
    ObservedNode node;
    IMEX_TRY(node.place, read_place(info.loc()));
    node.health = static_cast<NodeHealth>(info.node_health());
    node.gpu_count = info.num_gpus();
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Result<void> read_state(const pb::DomainStateInfo& answer, Snapshot& snapshot) {
  snapshot.control_plane = static_cast<ControlPlaneState>(answer.control_plane_state());
  snapshot.controller_health = static_cast<ControllerHealth>(answer.nmx_controller_health());
  snapshot.multicast_groups_free = answer.available_multicast_groups();
  IMEX_TRY(snapshot.status_text, bounded_text(answer.config_status_description(), kAnswerTextMax,
                                              "status of the configuration"));
  return {};
}

DomainLimits read_limits(const pb::DomainProperties& answer) {
  return {.compute_nodes = answer.max_compute_nodes(),
          .gpus_per_node = answer.max_gpus_per_compute_node(),
          .links_per_gpu = answer.max_gpu_nv_links(),
          .switch_nodes = answer.max_switch_nodes(),
          .switches_per_node = answer.max_switches_per_switch_node(),
          .links_per_switch = answer.max_switch_nv_links(),
          .partitions = answer.max_num_partitions(),
          .multicast_groups = answer.max_multicast_groups(),
          .routing_labels = answer.max_num_alids(),
          .ports = answer.max_num_ports()};
}

std::optional<FabricEvent> read_event(const pb::ServerNotification& notification) {
  if (notification.has_domain_state_info()) {
    return FabricEvent{.kind = FabricEvent::Kind::kControlPlane,
                       .control_plane = static_cast<ControlPlaneState>(
                           notification.domain_state_info().control_plane_state())};
  }
  if (notification.has_init_done())
    return FabricEvent{.kind = FabricEvent::Kind::kGap,
                       .detail = "the controller has finished initialising"};
  return read_common_event(notification);
}

std::optional<FabricEvent> read_event(const pb::DraftServerNotification& notification) {
  return read_common_event(notification);
}

Result<pb::FmTopologyInfo> from_draft(const pb::DraftFmTopologyInfo& answer) {
  pb::FmTopologyInfo current;
  if (!current.ParseFromString(answer.SerializeAsString()))
    return broken_answer("the topology cannot be read");
  for (pb::DeviceTopoInfo& device : *current.mutable_device_topo_info()) {
    if (device.has_switch_topo_info()) move_admin_states(*device.mutable_switch_topo_info());
    if (device.has_gpu_topo_info()) move_admin_states(*device.mutable_gpu_topo_info());
  }
  return current;
}

}  // namespace imex::fabric::nmxc
