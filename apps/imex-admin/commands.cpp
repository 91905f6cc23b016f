#include "commands.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/text.hpp"
#include "log/secret.hpp"
#include "objects.hpp"
#include "os/file.hpp"

namespace imex::admin {
namespace {

using Stub = pb::Forge::Stub;

/// The unary method of the stub; its other overloads are for callbacks.
template <class Request, class Reply>
using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Reply*);

/// All objects of the ids, page by page.
template <class Request, class Reply, class Ids, class Add, class Take>
Result<void> by_pages(const Session& session, Method<Request, Reply> method, const Ids& ids,
                      std::string_view what, const Add& add, const Take& take) {
  for (int begin = 0; begin < ids.size(); begin += session.page_size) {
    Request request;
    for (int i = begin; i < std::min(begin + session.page_size, ids.size()); ++i)
      add(request, ids.Get(i));
    IMEX_TRY(const Reply reply, session.client.call(method, request, what));
    take(reply);
  }
  return {};
}

Result<std::string> password_of(const CredentialOptions& options) {
  if (options.password_file.empty()) return options.password;
  const std::string path = options.password_file == "-" ? "/dev/stdin" : options.password_file;
  constexpr std::size_t kBytesMax = 64 << 10;
  IMEX_TRY(std::string text, os::read_file(path, kBytesMax));
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

Output endpoint_line(const pb::NvlinkNmxcEndpoint& endpoint) {
  return {
      .json = to_json(endpoint),
      .line = fmt::format("{} {}", endpoint.chassis_serial(), endpoint.endpoint()),
      .fields = {{"chassis_serial", endpoint.chassis_serial()}, {"endpoint", endpoint.endpoint()}}};
}

Output partition_fields(const pb::NVLinkLogicalPartition& partition) {
  return {.json = to_json(partition),
          .fields = {{"ID", partition.id().value()},
                     {"NAME", partition.config().metadata().name()},
                     {"STATUS", state_name(partition.status().state())}}};
}

Output info_output(const pb::MachineNVLinkInfo& info) {
  Output output{.json = to_json(info), .as_json = true};
  // For csv alone: people get the JSON, as the command has always printed it.
  output.table.columns = {"domain_uuid", "chassis_serial", "tray_index",
                          "slot_id",     "device_id",      "guid"};
  for (const pb::NVLinkGpu& gpu : info.gpus()) {
    output.table.rows.push_back({info.domain_uuid().value(), info.chassis_serial(),
                                 std::to_string(gpu.tray_index()), std::to_string(gpu.slot_id()),
                                 std::to_string(gpu.device_id()), std::to_string(gpu.guid())});
  }
  return output;
}

Result<pb::Machine> machine_of(const Session& session, const std::string& id) {
  pb::MachinesByIdsRequest request;
  request.add_machine_ids()->set_id(id);
  IMEX_TRY(const pb::MachineList list,
           session.client.call<pb::MachinesByIdsRequest, pb::MachineList>(
               &Stub::FindMachinesByIds, request, fmt::format("find machine {}", id)));
  if (list.machines_size() == 1) return list.machines(0);
  return fail(Errc::kNotFound, fmt::format("no machine {}", printable(id)),
              "machines are found through their fabric manager: see whether the endpoint of its "
              "chassis is entered, 'imex-admin nvlink-nmxc-endpoints show'");
}

Result<pb::Instance> instance_of(const Session& session, const std::string& id) {
  pb::InstancesByIdsRequest request;
  request.add_instance_ids()->set_value(id);
  IMEX_TRY(const pb::InstanceList list,
           session.client.call<pb::InstancesByIdsRequest, pb::InstanceList>(
               &Stub::FindInstancesByIds, request, fmt::format("find instance {}", id)));
  if (list.instances_size() == 1) return list.instances(0);
  return fail(Errc::kNotFound, fmt::format("no instance {}", printable(id)));
}

}  // namespace

// ---- Credentials -------------------------------------------------------------------------------

Result<Output> add_nmxm_credential(const Session& session, const CredentialOptions& options) {
  pb::CredentialCreationRequest request;
  request.set_credential_type(pb::NmxM);
  request.set_username(options.user);
  IMEX_TRY(const log::Secret password,
           password_of(options).map([](std::string text) { return log::Secret(std::move(text)); }));
  if (password.empty()) {
    return fail(Errc::kInvalidArgument, "the password is empty",
                "give --password, or --password-file FILE ('-' for standard input)");
  }
  request.set_password(password.reveal());
  IMEX_CHECK_OK(session.client.call<pb::CredentialCreationRequest, pb::CredentialCreationResult>(
      &Stub::CreateCredential, request,
      fmt::format("store the NMX-M credentials of '{}'", options.user)));
  return Output{};
}

Result<Output> delete_nmxm_credential(const Session& session, const std::string& user) {
  pb::CredentialDeletionRequest request;
  request.set_credential_type(pb::NmxM);
  request.set_username(user);
  IMEX_CHECK_OK(session.client.call<pb::CredentialDeletionRequest, pb::CredentialDeletionResult>(
      &Stub::DeleteCredential, request, fmt::format("delete the NMX-M credentials of '{}'", user)));
  return Output{};
}

// ---- Endpoints ---------------------------------------------------------------------------------

Result<Output> show_endpoints(const Session& session, const std::string& chassis_serial) {
  IMEX_TRY(const pb::NvlinkNmxcEndpointList list,
           session.client.call<google::protobuf::Empty, pb::NvlinkNmxcEndpointList>(
               &Stub::ListNvlinkNmxcEndpoints, {}, "list NMX-C endpoints"));
  Output output{.json = Json::array(), .table = {.columns = {"chassis_serial", "endpoint"}}};
  for (const pb::NvlinkNmxcEndpoint& entry : list.entries()) {
    if (!chassis_serial.empty() && entry.chassis_serial() != chassis_serial) continue;
    output.json.push_back(to_json(entry));
    output.table.rows.push_back({entry.chassis_serial(), entry.endpoint()});
  }
  if (!chassis_serial.empty() && output.table.rows.empty()) {
    return fail(Errc::kNotFound,
                fmt::format("no NMX-C endpoint for chassis '{}'", printable(chassis_serial)),
                "'imex-admin nvlink-nmxc-endpoints show' lists those there are");
  }
  return output;
}

Result<Output> create_endpoint(const Session& session, const EndpointOptions& options) {
  pb::NvlinkNmxcEndpoint request;
  request.set_chassis_serial(options.chassis_serial);
  request.set_endpoint(options.endpoint);
  IMEX_TRY(const auto made,
           (session.client.call<pb::NvlinkNmxcEndpoint, pb::NvlinkNmxcEndpoint>(
               &Stub::CreateNvlinkNmxcEndpoint, request,
               fmt::format("enter the endpoint of chassis '{}'", options.chassis_serial))));
  return endpoint_line(made);
}

Result<Output> update_endpoint(const Session& session, const EndpointOptions& options) {
  pb::NvlinkNmxcEndpoint request;
  request.set_chassis_serial(options.chassis_serial);
  request.set_endpoint(options.endpoint);
  IMEX_TRY(const auto changed,
           (session.client.call<pb::NvlinkNmxcEndpoint, pb::NvlinkNmxcEndpoint>(
               &Stub::UpdateNvlinkNmxcEndpoint, request,
               fmt::format("change the endpoint of chassis '{}'", options.chassis_serial))));
  return endpoint_line(changed);
}

Result<Output> delete_endpoint(const Session& session, const std::string& chassis_serial) {
  pb::DeleteNvlinkNmxcEndpointRequest request;
  request.set_chassis_serial(chassis_serial);
  IMEX_CHECK_OK(session.client.call<pb::DeleteNvlinkNmxcEndpointRequest, google::protobuf::Empty>(
      &Stub::DeleteNvlinkNmxcEndpoint, request,
      fmt::format("delete the endpoint of chassis '{}'", chassis_serial)));
  return Output{.json = {{"deleted", chassis_serial}},
                .line = "deleted " + chassis_serial,
                .fields = {{"deleted", chassis_serial}}};
}

// ---- Partitions --------------------------------------------------------------------------------

namespace {

Result<Output> show_logical_partition(const Session& session, const std::string& id) {
  pb::NVLinkLogicalPartitionsByIdsRequest request;
  request.add_partition_ids()->set_value(id);
  IMEX_TRY(
      const auto list,
      (session.client.call<pb::NVLinkLogicalPartitionsByIdsRequest, pb::NVLinkLogicalPartitionList>(
          &Stub::FindNVLinkLogicalPartitionsByIds, request,
          fmt::format("find logical partition {}", id))));
  if (list.partitions_size() == 1) return partition_fields(list.partitions(0));
  return fail(Errc::kNotFound, fmt::format("no logical partition {}", printable(id)));
}

Result<Output> show_nvl_partition(const Session& session, const std::string& id) {
  pb::NVLinkPartitionsByIdsRequest request;
  request.add_partition_ids()->set_value(id);
  IMEX_TRY(
      const auto list,
      (session.client.call<pb::NVLinkPartitionsByIdsRequest, pb::NVLinkPartitionList>(
          &Stub::FindNVLinkPartitionsByIds, request, fmt::format("find NVLink partition {}", id))));
  if (list.partitions_size() != 1)
    return fail(Errc::kNotFound, fmt::format("no NVLink partition {}", printable(id)));
  const pb::NVLinkPartition& partition = list.partitions(0);
  return Output{.json = to_json(partition),
                .fields = {{"ID", partition.id().value()},
                           {"NAME", partition.name()},
                           {"LOGICAL PARTITION ID", partition.logical_partition_id().value()},
                           {"NMX-C PARTITION ID", partition.nmx_m_id()},
                           {"NVLINK DOMAIN UUID", partition.domain_uuid().value()}}};
}

}  // namespace

Result<Output> show_logical_partitions(const Session& session, const ShowOptions& options) {
  if (!options.id.empty()) return show_logical_partition(session, options.id);
  pb::NVLinkLogicalPartitionSearchFilter filter;
  if (!options.name.empty()) filter.set_name(options.name);
  IMEX_TRY(const auto found,
           (session.client
                .call<pb::NVLinkLogicalPartitionSearchFilter, pb::NVLinkLogicalPartitionIdList>(
                    &Stub::FindNVLinkLogicalPartitionIds, filter, "list logical partitions")));
  Output output{.json = Json::array(), .table = {.columns = {"Id", "State"}}};
  const Method<pb::NVLinkLogicalPartitionsByIdsRequest, pb::NVLinkLogicalPartitionList> method =
      &Stub::FindNVLinkLogicalPartitionsByIds;
  IMEX_CHECK_OK(by_pages(
      session, method, found.partition_ids(), "read logical partitions",
      [](auto& request, const pb::UUID& id) { *request.add_partition_ids() = id; },
      [&](const pb::NVLinkLogicalPartitionList& page) {
        for (const pb::NVLinkLogicalPartition& partition : page.partitions()) {
          output.json.push_back(to_json(partition));
          output.table.rows.push_back(
              {partition.id().value(), state_name(partition.status().state())});
        }
      }));
  return output;
}

Result<Output> create_logical_partition(const Session& session, const std::string& name,
                                        const std::string& tenant_org) {
  pb::NVLinkLogicalPartitionCreationRequest request;
  request.mutable_config()->mutable_metadata()->set_name(name);
  request.mutable_config()->set_tenant_organization_id(tenant_org);
  IMEX_TRY(
      const auto made,
      (session.client.call<pb::NVLinkLogicalPartitionCreationRequest, pb::NVLinkLogicalPartition>(
          &Stub::CreateNVLinkLogicalPartition, request,
          fmt::format("create logical partition '{}'", name))));
  return partition_fields(made);
}

Result<Output> delete_logical_partition(const Session& session, const std::string& id) {
  pb::NVLinkLogicalPartitionDeletionRequest request;
  request.mutable_id()->set_value(id);
  IMEX_CHECK_OK(session.client.call<pb::NVLinkLogicalPartitionDeletionRequest,
                                    pb::NVLinkLogicalPartitionDeletionResult>(
      &Stub::DeleteNVLinkLogicalPartition, request,
      fmt::format("delete logical partition {}", id)));
  return Output{};
}

Result<Output> show_nvl_partitions(const Session& session, const ShowOptions& options) {
  if (!options.id.empty()) return show_nvl_partition(session, options.id);
  pb::NVLinkPartitionSearchFilter filter;
  if (!options.name.empty()) filter.set_name(options.name);
  if (!options.tenant_org.empty()) filter.set_tenant_organization_id(options.tenant_org);
  IMEX_TRY(const auto found,
           (session.client.call<pb::NVLinkPartitionSearchFilter, pb::NVLinkPartitionIdList>(
               &Stub::FindNVLinkPartitionIds, filter, "list NVLink partitions")));
  // The message does not tell the organisation: its column stays empty, as scripts know it.
  Output output{.json = Json::array(), .table = {.columns = {"Id", "Name", "TenantOrg"}}};
  const Method<pb::NVLinkPartitionsByIdsRequest, pb::NVLinkPartitionList> method =
      &Stub::FindNVLinkPartitionsByIds;
  IMEX_CHECK_OK(by_pages(
      session, method, found.partition_ids(), "read NVLink partitions",
      [](auto& request, const pb::UUID& id) { *request.add_partition_ids() = id; },
      [&](const pb::NVLinkPartitionList& page) {
        for (const pb::NVLinkPartition& partition : page.partitions()) {
          output.json.push_back(to_json(partition));
          output.table.rows.push_back({partition.id().value(), partition.name(), ""});
        }
      }));
  return output;
}

// ---- Machines ----------------------------------------------------------------------------------

Result<Output> show_nvlink_info(const Session& session, const std::string& machine) {
  IMEX_TRY(const pb::Machine found, machine_of(session, machine));
  if (found.has_nvlink_info()) return info_output(found.nvlink_info());
  return fail(Errc::kNotFound, fmt::format("machine {} has no NVLink information", machine),
              "'imex-admin machine nvlink-info populate MACHINE --update-db' looks for it");
}

namespace {

/// Where to look for the machine's GPUs: as given, else as is known of it.
struct TrayPlace {
  std::string chassis_serial;
  std::uint32_t tray_index = 0;
};

Result<TrayPlace> place_of(const pb::Machine& machine, const PopulateOptions& options) {
  TrayPlace place{options.chassis_serial, options.tray_index.value_or(0)};
  const pb::MachineNVLinkInfo& known = machine.nvlink_info();
  if (place.chassis_serial.empty()) place.chassis_serial = known.chassis_serial();
  if (place.chassis_serial.empty())
    place.chassis_serial = machine.discovery_info().dmi_data().chassis_serial();
  if (place.chassis_serial.empty()) {
    return fail(Errc::kInvalidArgument,
                fmt::format("the chassis of machine {} is not known", options.machine),
                "give its serial number with --chassis-serial");
  }
  if (options.tray_index) return place;
  if (known.gpus_size() == 0 || known.gpus(0).tray_index() < 0) {
    return fail(Errc::kInvalidArgument,
                fmt::format("the tray of machine {} is not known", options.machine),
                "give its index in the chassis with --tray-index");
  }
  place.tray_index = static_cast<std::uint32_t>(known.gpus(0).tray_index());
  return place;
}

}  // namespace

Result<Output> populate_nvlink_info(const Session& session, const PopulateOptions& options) {
  IMEX_TRY(const pb::Machine machine, machine_of(session, options.machine));
  IMEX_TRY(const TrayPlace place, place_of(machine, options));
  pb::NmxcBrowseRequest browse;
  browse.set_chassis_serial(place.chassis_serial);
  browse.set_operation(pb::NMXC_BROWSE_OPERATION_GPU_INFO_LIST);
  IMEX_TRY(const auto answer,
           (session.client.call<pb::NmxcBrowseRequest, pb::NmxcBrowseResponse>(
               &Stub::NmxcBrowse, browse,
               fmt::format("ask the fabric manager of chassis '{}'", place.chassis_serial))));
  constexpr int kOk = 200;
  if (answer.code() != kOk) {
    return fail(Errc::kUnavailable,
                fmt::format("the fabric manager of chassis '{}' answers with code {}: {}",
                            place.chassis_serial, answer.code(), printable(answer.body())));
  }
  IMEX_TRY(const pb::MachineNVLinkInfo info,
           nvlink_info_of(answer.body(), place.chassis_serial, place.tray_index));
  if (options.update_db) {
    pb::UpdateMachineNvLinkInfoRequest update;
    *update.mutable_machine_id() = machine.id();
    *update.mutable_nvlink_info() = info;
    IMEX_CHECK_OK(session.client.call<pb::UpdateMachineNvLinkInfoRequest, google::protobuf::Empty>(
        &Stub::UpdateMachineNvLinkInfo, update,
        fmt::format("store the NVLink information of machine {}", options.machine)));
  } else if (session.progress) {
    session.progress("nothing was stored: that takes --update-db");
  }
  return info_output(info);
}

Result<Output> force_delete_machine(const Session& session, const std::string& machine,
                                    bool despite_type) {
  constexpr int kRoundsMax = 300;
  constexpr auto kPause = std::chrono::seconds(1);
  pb::AdminForceDeleteMachineRequest request;
  request.set_host_query(machine);
  request.set_allow_delete_with_instance_type(despite_type);
  std::string instance;
  for (int round = 1; round <= kRoundsMax; ++round) {
    IMEX_TRY(const auto reply,
             (session.client
                  .call<pb::AdminForceDeleteMachineRequest, pb::AdminForceDeleteMachineResponse>(
                      &Stub::AdminForceDeleteMachine, request,
                      fmt::format("force-delete machine {}", machine))));
    if (!reply.instance_id().empty()) instance = reply.instance_id();
    if (!reply.all_done()) {
      if (session.progress) session.progress(fmt::format("machine {} is going", machine));
      std::this_thread::sleep_for(kPause);
      continue;
    }
    const bool there = !reply.managed_host_machine_id().empty() || round > 1;
    if (session.progress) {
      if (!instance.empty()) session.progress(fmt::format("instance {} is gone", instance));
      session.progress(
          there ? fmt::format("machine {} is gone; its GPUs leave their partitions", machine)
                : fmt::format("there is no machine {}: nothing to do", machine));
    }
    return Output{
        .json = {{"machine_id", there ? Json(machine) : Json(nullptr)},
                 {"instance_id", instance.empty() ? Json(nullptr) : Json(instance)},
                 {"all_done", true}},
        .fields = {
            {"MACHINE ID", there ? machine : ""}, {"INSTANCE ID", instance}, {"ALL DONE", "true"}}};
  }
  return fail(Errc::kDeadlineExceeded,
              fmt::format("machine {} is not gone after {} rounds", machine, kRoundsMax),
              "the command can be given again; see the controller's log for what holds it");
}

// ---- Instances ---------------------------------------------------------------------------------

Result<Output> show_instance(const Session& session, const std::string& id) {
  IMEX_TRY(const pb::Instance instance, instance_of(session, id));
  const pb::InstanceStatus& status = instance.status();
  Output output{.json = to_json(instance),
                .fields = {{"ID", instance.id().value()},
                           {"MACHINE ID", instance.machine_id().id()},
                           {"NAME", instance.metadata().name()},
                           {"TENANT ORG", instance.config().tenant().tenant_organization_id()},
                           {"STATE", state_name(status.tenant().state())},
                           {"CONFIGS SYNCED", pb::SyncState_Name(status.configs_synced())},
                           {"CONFIG VERSION", instance.nvlink_config_version()}},
                .table = {.columns = {"DeviceInstance", "LogicalPartitionId",
                                      "ObservedLogicalPartitionId", "NvLinkDomainId", "GpuGuid"}}};
  const auto& configs = instance.config().nvlink().gpu_configs();
  const auto& statuses = status.nvlink().gpu_statuses();
  for (int i = 0; i < configs.size(); ++i) {
    const pb::InstanceNVLinkGpuStatus seen =
        i < statuses.size() ? statuses.Get(i) : pb::InstanceNVLinkGpuStatus();
    output.table.rows.push_back({std::to_string(configs.Get(i).device_instance()),
                                 configs.Get(i).logical_partition_id().value(),
                                 seen.logical_partition_id().value(), seen.domain_id().value(),
                                 seen.gpu_guid()});
  }
  return output;
}

Result<Output> update_instance_nvlink(const Session& session, const std::string& id,
                                      const std::string& config) {
  IMEX_TRY(const pb::InstanceNVLinkConfig wanted, parse_nvlink_config(config));
  IMEX_TRY(const pb::Instance instance, instance_of(session, id));
  pb::InstanceConfigUpdateRequest request;
  *request.mutable_instance_id() = instance.id();
  request.set_if_version_match(instance.config_version());
  *request.mutable_config() = instance.config();
  *request.mutable_config()->mutable_nvlink() = wanted;
  *request.mutable_metadata() = instance.metadata();
  IMEX_CHECK_OK(session.client.call<pb::InstanceConfigUpdateRequest, pb::Instance>(
      &Stub::UpdateInstanceConfig, request,
      fmt::format("change the NVLink configuration of instance {}", id)));
  return Output{};
}

Result<Output> show_version(const Session& session) {
  pb::VersionRequest request;
  request.set_display_config(true);
  IMEX_TRY(const auto info, (session.client.call<pb::VersionRequest, pb::BuildInfo>(
                                &Stub::Version, request, "ask for the version")));
  return Output{
      .json = {{"build_version", info.build_version()},
               {"git_sha", info.git_sha()},
               {"listen", info.runtime_config().listen()},
               {"max_find_by_ids", info.runtime_config().max_find_by_ids()}},
      .fields = {{"VERSION", info.build_version()},
                 {"GIT", info.git_sha()},
                 {"LISTEN", info.runtime_config().listen()},
                 {"MAX FIND BY IDS", std::to_string(info.runtime_config().max_find_by_ids())}}};
}

}  // namespace imex::admin
