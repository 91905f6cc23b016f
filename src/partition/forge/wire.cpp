#include "wire.hpp"

#include <algorithm>

namespace imex::partition::forge {
namespace {

pb::TenantState tenant_state(Status status) {
  switch (status) {
    case Status::kReady:
    case Status::kRebooting:
      return pb::READY;
    case Status::kConfiguring:
      return pb::CONFIGURING;
    case Status::kDeleting:
    case Status::kTerminating:
      return pb::TERMINATING;
    case Status::kTerminated:
      return pb::TERMINATED;
    case Status::kError:
      return pb::FAILED;
    case Status::kUpdating:
      return pb::UPDATING;
    case Status::kRepairing:
      return pb::REPAIRING;
    default:
      return pb::PROVISIONING;
  }
}

void set_time(WallTime time, google::protobuf::Timestamp& out) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  out.set_seconds(seconds.time_since_epoch().count());
  out.set_nanos(static_cast<std::int32_t>(std::chrono::nanoseconds(time - seconds).count()));
}

void set_metadata(const std::string& name, const std::optional<std::string>& description,
                  const Labels& labels, pb::Metadata& out) {
  out.set_name(name);
  out.set_description(description.value_or(""));
  for (const auto& [key, value] : labels) {
    pb::Label& label = *out.add_labels();
    label.set_key(key);
    label.set_value(value);
  }
}

template <class Tag>
void set_id(const Id<Tag>& id, pb::UUID& out) {
  out.set_value(id.to_string());
}

void set_info(const Machine& machine, pb::MachineNVLinkInfo& out) {
  if (machine.domain) set_id(*machine.domain, *out.mutable_domain_uuid());
  out.set_chassis_serial(machine.chassis_serial);
  for (const Gpu& gpu : machine.gpus) {
    pb::NVLinkGpu& row = *out.add_gpus();
    row.set_tray_index(static_cast<std::int32_t>(machine.tray_index));
    row.set_slot_id(static_cast<std::int32_t>(machine.slot_id));
    row.set_device_id(static_cast<std::int32_t>(gpu.device_instance) + 1);
    row.set_guid(gpu.uid);
  }
}

void set_observation(const MachineView& view, pb::MachineNVLinkStatusObservation& out) {
  for (const Gpu& gpu : view.record.gpus) {
    pb::MachineNVLinkGpuStatusObservation& row = *out.add_gpu_status();
    row.set_gpu_id(std::to_string(gpu.uid));
    row.set_guid(gpu.uid);
    row.set_device_instance(gpu.device_instance);
    if (view.record.domain) set_id(*view.record.domain, *row.mutable_domain_id());
    const PhysicalPartition* const partition = view.partition_of(gpu);
    if (partition == nullptr) continue;
    set_id(partition->id, *row.mutable_partition_id());
    set_id(partition->partition, *row.mutable_logical_partition_id());
  }
}

void set_interface(const NvlinkInterface& interface, pb::Instance& out) {
  pb::InstanceNVLinkGpuConfig& config = *out.mutable_config()->mutable_nvlink()->add_gpu_configs();
  config.set_device_instance(interface.device_instance);
  set_id(interface.partition, *config.mutable_logical_partition_id());
  // One status for each configuration, in the same order; empty until the GPU was seen there.
  pb::InstanceNVLinkGpuStatus& status = *out.mutable_status()->mutable_nvlink()->add_gpu_statuses();
  if (interface.gpu_uid) status.set_gpu_guid(std::to_string(*interface.gpu_uid));
  if (interface.domain) set_id(*interface.domain, *status.mutable_domain_id());
  if (interface.status == Status::kReady)
    set_id(interface.partition, *status.mutable_logical_partition_id());
}

Result<void> check_config(const pb::NVLinkLogicalPartitionConfig& config, bool given) {
  if (!given) return fail(Errc::kInvalidArgument, "config is missing");
  if (!config.has_metadata()) return fail(Errc::kInvalidArgument, "config.metadata is missing");
  return {};
}

}  // namespace

// ---- From the wire -----------------------------------------------------------------------------

Result<NewPartition> from_wire(const pb::NVLinkLogicalPartitionCreationRequest& in) {
  IMEX_CHECK_OK(check_config(in.config(), in.has_config()));
  NewPartition wanted{.org = in.config().tenant_organization_id(),
                      .name = in.config().metadata().name(),
                      .description = in.config().metadata().description()};
  if (in.has_id()) {
    IMEX_TRY(wanted.id, id_from<LogicalPartitionId>(in.id(), "id"));
  }
  return wanted;
}

Result<PartitionUpdate> from_wire(const pb::NVLinkLogicalPartitionUpdateRequest& in) {
  PartitionUpdate update;
  IMEX_TRY(update.id, id_from<LogicalPartitionId>(in.id(), "id"));
  IMEX_CHECK_OK(check_config(in.config(), in.has_config()));
  update.org = in.config().tenant_organization_id();
  update.name = in.config().metadata().name();
  update.description = in.config().metadata().description();
  if (in.has_if_version_match()) update.if_version = in.if_version_match();
  return update;
}

Result<NvlinkInfo> from_wire(const pb::MachineNVLinkInfo& in) {
  NvlinkInfo info;
  if (in.has_domain_uuid()) {
    IMEX_TRY(info.domain, id_from<DomainId>(in.domain_uuid(), "nvlink_info.domain_uuid"));
  }
  info.chassis_serial = in.chassis_serial();
  for (const pb::NVLinkGpu& gpu : in.gpus())
    info.gpus.push_back({gpu.tray_index(), gpu.slot_id(), gpu.device_id(), gpu.guid()});
  return info;
}

Result<InstanceUpdate> from_wire(const pb::InstanceConfigUpdateRequest& in) {
  InstanceUpdate update;
  IMEX_TRY(update.id, id_from<InstanceId>(in.instance_id(), "instance_id"));
  if (in.has_if_version_match()) update.if_version = in.if_version_match();
  if (!in.has_config()) return fail(Errc::kInvalidArgument, "config is missing");
  if (in.has_metadata()) {
    update.name = in.metadata().name();
    update.description = in.metadata().description();
  }
  if (!in.config().has_nvlink()) return update;
  std::vector<GpuWish>& wishes = update.gpus.emplace();
  for (const pb::InstanceNVLinkGpuConfig& config : in.config().nvlink().gpu_configs()) {
    GpuWish& wish = wishes.emplace_back();
    wish.device_instance = config.device_instance();
    if (!config.has_logical_partition_id()) continue;
    IMEX_TRY(wish.partition, id_from<LogicalPartitionId>(config.logical_partition_id(),
                                                         "gpu_configs.logical_partition_id"));
  }
  return update;
}

std::string issue_text(const pb::InstanceReleaseRequest& in) {
  constexpr std::size_t kBytesMax = 1024;
  if (!in.has_issue()) return {};
  std::string text = fmt::format("{}: {}", pb::IssueCategory_Name(in.issue().category()),
                                 printable(in.issue().summary()));
  if (!in.issue().details().empty()) text += " (" + printable(in.issue().details()) + ")";
  // Cut where a character begins: the store keeps UTF-8.
  if (text.size() > kBytesMax) {
    std::size_t end = kBytesMax;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
    text.resize(end);
  }
  return text;
}

// ---- To the wire -------------------------------------------------------------------------------

void to_wire(const PartitionView& view, pb::NVLinkLogicalPartition& out) {
  const LogicalPartition& record = view.record;
  set_id(record.id, *out.mutable_id());
  set_metadata(record.name, record.description, {}, *out.mutable_config()->mutable_metadata());
  out.mutable_config()->set_tenant_organization_id(view.org);
  out.set_config_version(version_text(record.version, record.updated));
  out.mutable_status()->set_state(tenant_state(record.status));
  set_time(record.created, *out.mutable_created());
}

void to_wire(const PhysicalPartition& row, pb::NVLinkPartition& out) {
  set_id(row.id, *out.mutable_id());
  out.set_name(row.name);
  out.set_nmx_m_id(std::to_string(row.fabric_id));
  set_id(row.domain, *out.mutable_domain_uuid());
  set_id(row.partition, *out.mutable_logical_partition_id());
}

void to_wire(const MachineView& view, pb::Machine& out) {
  const Machine& machine = view.record;
  out.mutable_id()->set_id(machine.id.text);
  out.set_state(std::string(status_name(machine.status)));
  out.set_machine_type(pb::HOST);
  set_metadata(machine.id.text, std::nullopt, machine.labels, *out.mutable_metadata());
  if (!machine.maintenance_message.empty())
    out.set_maintenance_reference(machine.maintenance_message);
  if (machine.instance_type) out.set_instance_type_id(machine.instance_type->to_string());
  pb::DmiData& dmi = *out.mutable_discovery_info()->mutable_dmi_data();
  dmi.set_product_name(machine.product_name);
  dmi.set_chassis_serial(machine.chassis_serial);
  *out.mutable_status()->mutable_discovery_info() = out.discovery_info();
  if (machine.gpus.empty()) return;
  set_info(machine, *out.mutable_nvlink_info());
  *out.mutable_status()->mutable_nvlink_info() = out.nvlink_info();
  if (!machine.observed_at) return;
  set_observation(view, *out.mutable_nvlink_status_observation());
  *out.mutable_status()->mutable_nvlink() = out.nvlink_status_observation();
}

void to_wire(const InstanceView& view, pb::Instance& out) {
  const Instance& record = view.record;
  set_id(record.id, *out.mutable_id());
  out.mutable_machine_id()->set_id(record.machine.text);
  set_metadata(record.name, record.description, record.labels, *out.mutable_metadata());
  if (record.instance_type) out.set_instance_type_id(record.instance_type->to_string());
  out.mutable_config()->mutable_tenant()->set_tenant_organization_id(view.org);
  out.mutable_config()->mutable_nvlink();
  pb::InstanceStatus& status = *out.mutable_status();
  status.mutable_tenant()->set_state(tenant_state(record.status));
  status.mutable_tenant()->set_state_details(std::string(status_name(record.status)));
  const pb::SyncState synced = view.configs_synced() ? pb::SYNCED : pb::PENDING;
  status.set_configs_synced(synced);
  status.mutable_nvlink()->set_configs_synced(synced);
  for (const NvlinkInterface& interface : view.interfaces) {
    if (interface.status != Status::kDeleting) set_interface(interface, out);
  }
  const std::string version = version_text(record.version, record.config_changed);
  out.set_config_version(version);
  out.set_nvlink_config_version(version);
}

}  // namespace imex::partition::forge
