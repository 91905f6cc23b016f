#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "partition/forge/administration.hpp"

namespace imex::partition::forge {
namespace {

// Names and numbers are those of the NMX-C messages (partition-api.md, annex A): clients read the
// body as if it came from there.
using BrowseJson = nlohmann::ordered_json;

BrowseJson place_json(const fabric::HostPlace& place) {
  return {
      {"chassis_serial_number", place.chassis_serial},
      {"tray_index", place.tray_index},
      {"location",
       {{"chassis_id", place.chassis_id}, {"slot_id", place.slot_id}, {"host_id", place.host_id}}}};
}

BrowseJson header_json(const fabric::Snapshot& snapshot) {
  constexpr int kSuccess = 1;
  return {{"domain_uuid", snapshot.domain_uuid.to_string()},
          {"app_uuid", snapshot.instance},
          {"return_code", kSuccess}};
}

BrowseJson gpus_json(const fabric::Snapshot& snapshot) {
  BrowseJson list = BrowseJson::array();
  for (const fabric::ObservedGpu& gpu : snapshot.gpus) {
    list.push_back(
        {{"loc", place_json(gpu.place)},
         {"gpu_id", gpu.module_id},
         {"gpu_uid", gpu.uid},
         {"gpu_health", static_cast<std::uint32_t>(gpu.health)},
         {"partition_id", gpu.partition_id ? BrowseJson{{"partition_id", *gpu.partition_id}}
                                           : BrowseJson(nullptr)}});
  }
  return {{"server_header", header_json(snapshot)}, {"gpu_info_list", std::move(list)}};
}

BrowseJson nodes_json(const fabric::Snapshot& snapshot) {
  BrowseJson list = BrowseJson::array();
  for (const fabric::ObservedNode& node : snapshot.nodes) {
    list.push_back({{"loc", place_json(node.place)},
                    {"num_gpus", node.gpu_count},
                    {"node_health", static_cast<std::uint32_t>(node.health)}});
  }
  return {{"server_header", header_json(snapshot)}, {"node_info_list", std::move(list)}};
}

std::string body_of(const BrowseJson& json) {
  return json.dump(-1, ' ', false, BrowseJson::error_handler_t::replace);
}

}  // namespace

BrowseAnswer render_browse(const fabric::Snapshot& snapshot, BrowseOperation operation,
                           std::uint64_t gpu_uid) {
  switch (operation) {
    case BrowseOperation::kComputeNodes:
      return {body_of(nodes_json(snapshot)), 200};
    case BrowseOperation::kGpus:
      return {body_of(gpus_json(snapshot)), 200};
    case BrowseOperation::kGpu:
      break;
  }
  const fabric::ObservedGpu* const gpu = snapshot.find_gpu(gpu_uid);
  if (gpu == nullptr) return {fmt::format("GPU not found: {}", gpu_uid), 404};
  // This one has the names of NMX-M, as in NICo.
  return {body_of({{"ID", std::to_string(gpu->uid)},
                   {"DeviceID", gpu->module_id},
                   {"DeviceUID", gpu->uid},
                   {"LocationInfo",
                    {{"TrayIndex", gpu->place.tray_index}, {"SlotID", gpu->place.slot_id}}}}),
          200};
}

}  // namespace imex::partition::forge
