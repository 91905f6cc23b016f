#include "objects.hpp"

#include <chrono>

namespace imex::admin {
namespace {

/// "2026-03-01T12:00:00.123456Z", or null.
Json time_json(bool given, const google::protobuf::Timestamp& time) {
  if (!given) return nullptr;
  const auto seconds = std::chrono::sys_seconds(std::chrono::seconds(time.seconds()));
  const auto day = std::chrono::floor<std::chrono::days>(seconds);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(seconds - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     time.nanos() / 1000);
}

Json metadata_json(const pb::Metadata& metadata) {
  Json labels = Json::array();
  for (const pb::Label& label : metadata.labels()) {
    labels.push_back(
        {{"key", label.key()}, {"value", label.has_value() ? Json(label.value()) : Json(nullptr)}});
  }
  return {{"name", metadata.name()},
          {"description", metadata.description()},
          {"labels", std::move(labels)}};
}

Json config_json(const pb::InstanceNVLinkConfig& config) {
  Json gpus = Json::array();
  for (const pb::InstanceNVLinkGpuConfig& gpu : config.gpu_configs()) {
    gpus.push_back({{"device_instance", gpu.device_instance()},
                    {"logical_partition_id",
                     id_json(gpu.has_logical_partition_id(), gpu.logical_partition_id())}});
  }
  return {{"gpu_configs", std::move(gpus)}};
}

Json status_json(const pb::InstanceNVLinkStatus& status) {
  Json gpus = Json::array();
  for (const pb::InstanceNVLinkGpuStatus& gpu : status.gpu_statuses()) {
    gpus.push_back({{"gpu_guid", gpu.has_gpu_guid() ? Json(gpu.gpu_guid()) : Json(nullptr)},
                    {"domain_id", id_json(gpu.has_domain_id(), gpu.domain_id())},
                    {"logical_partition_id",
                     id_json(gpu.has_logical_partition_id(), gpu.logical_partition_id())}});
  }
  return {{"gpu_statuses", std::move(gpus)},
          {"configs_synced", pb::SyncState_Name(status.configs_synced())}};
}

}  // namespace

std::string state_name(pb::TenantState state) {
  const std::string& name = pb::TenantState_Name(state);
  return name.empty() ? fmt::format("STATE {}", static_cast<int>(state)) : name;
}

Json id_json(bool given, const pb::UUID& id) { return given ? Json(id.value()) : Json(nullptr); }

Json to_json(const pb::NvlinkNmxcEndpoint& endpoint) {
  return {{"chassis_serial", endpoint.chassis_serial()}, {"endpoint", endpoint.endpoint()}};
}

Json to_json(const pb::NVLinkLogicalPartition& partition) {
  return {{"id", partition.id().value()},
          {"config",
           {{"metadata", metadata_json(partition.config().metadata())},
            {"tenant_organization_id", partition.config().tenant_organization_id()}}},
          {"config_version", partition.config_version()},
          {"status", {{"state", state_name(partition.status().state())}}},
          {"created", time_json(partition.has_created(), partition.created())}};
}

Json to_json(const pb::NVLinkPartition& partition) {
  return {{"id", partition.id().value()},
          {"name", partition.name()},
          {"nmx_c_partition_id", partition.nmx_m_id()},
          {"domain_uuid", id_json(partition.has_domain_uuid(), partition.domain_uuid())},
          {"logical_partition_id",
           id_json(partition.has_logical_partition_id(), partition.logical_partition_id())}};
}

Json to_json(const pb::MachineNVLinkInfo& info) {
  Json gpus = Json::array();
  for (const pb::NVLinkGpu& gpu : info.gpus()) {
    gpus.push_back({{"tray_index", gpu.tray_index()},
                    {"slot_id", gpu.slot_id()},
                    {"device_id", gpu.device_id()},
                    {"guid", gpu.guid()}});
  }
  return {{"domain_uuid", id_json(info.has_domain_uuid(), info.domain_uuid())},
          {"gpus", std::move(gpus)},
          {"chassis_serial", info.chassis_serial()}};
}

Json to_json(const pb::Instance& instance) {
  const pb::InstanceStatus& status = instance.status();
  return {{"id", instance.id().value()},
          {"machine_id", instance.machine_id().id()},
          {"metadata", metadata_json(instance.metadata())},
          {"instance_type_id",
           instance.has_instance_type_id() ? Json(instance.instance_type_id()) : Json(nullptr)},
          {"config",
           {{"tenant",
             {{"tenant_organization_id", instance.config().tenant().tenant_organization_id()}}},
            {"nvlink", config_json(instance.config().nvlink())}}},
          {"status",
           {{"tenant",
             {{"state", state_name(status.tenant().state())},
              {"state_details", status.tenant().state_details()}}},
            {"configs_synced", pb::SyncState_Name(status.configs_synced())},
            {"nvlink", status_json(status.nvlink())}}},
          {"config_version", instance.config_version()},
          {"nvlink_config_version", instance.nvlink_config_version()}};
}

}  // namespace imex::admin
