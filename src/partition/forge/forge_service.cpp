#include "forge_service.hpp"

#include <algorithm>

#include "base/version.hpp"
#include "wire.hpp"

namespace imex::partition::forge {
namespace {

grpc::StatusCode status_code(Errc code) noexcept {
  switch (code) {
    case Errc::kInvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Errc::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case Errc::kAlreadyExists:
      return grpc::StatusCode::ALREADY_EXISTS;
    case Errc::kPermissionDenied:
      return grpc::StatusCode::PERMISSION_DENIED;
    case Errc::kResourceExhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Errc::kFailedPrecondition:
    case Errc::kStale:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case Errc::kAborted:
      return grpc::StatusCode::ABORTED;
    case Errc::kDeadlineExceeded:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case Errc::kUnavailable:
    case Errc::kPeerLost:
      return grpc::StatusCode::UNAVAILABLE;
    case Errc::kDataLoss:
      return grpc::StatusCode::DATA_LOSS;
    case Errc::kUnsupported:
      return grpc::StatusCode::UNIMPLEMENTED;
    default:
      return grpc::StatusCode::INTERNAL;
  }
}

grpc::Status grpc_status_of(const Error& error) {
  std::string text = error.message;
  if (!error.hint.empty()) text.append("; ").append(error.hint);
  return {status_code(error.code), text};
}

std::string text_of(grpc::string_ref value) { return {value.data(), value.size()}; }

/// Whether the connection is plaintext, which ForgeServer serves only where its options trust it. A
/// certificate without any name is not plaintext: that is a caller whom nobody knows.
bool is_plaintext(const grpc::AuthContext& peer) {
  const auto types = peer.FindPropertyValues("transport_security_type");
  return std::all_of(types.begin(), types.end(),
                     [](const grpc::string_ref& type) { return text_of(type) == "insecure"; });
}

CallerNames names_of(const grpc::AuthContext& peer, bool trust_local) {
  CallerNames names;
  if (is_plaintext(peer)) {
    names.local = trust_local;
    return names;
  }
  for (const grpc::string_ref& name : peer.FindPropertyValues("x509_common_name"))
    names.common_name = text_of(name);
  for (const grpc::string_ref& name : peer.FindPropertyValues("x509_subject_alternative_name"))
    names.alternative_names.push_back(text_of(name));
  return names;
}

template <class Rows, class List>
void add_all(const Rows& rows, List& list) {
  list.Reserve(static_cast<int>(rows.size()));
  for (const auto& row : rows) to_wire(row, *list.Add());
}
template <class Ids>
void add_ids(const Ids& ids, google::protobuf::RepeatedPtrField<pb::UUID>& list) {
  for (const auto& id : ids) list.Add()->set_value(id.to_string());
}

std::optional<std::string> maybe(bool has, const std::string& value) {
  return has && !value.empty() ? std::optional(value) : std::nullopt;
}

/// Only what fabric managers need is kept here. Errors: kUnsupported.
Result<void> check_credential_type(pb::CredentialType type) {
  if (type == pb::NmxM) return {};
  const std::string& name = pb::CredentialType_Name(type);
  return fail(Errc::kUnsupported,
              fmt::format("credentials of type {} are not kept here",
                          name.empty() ? std::to_string(type) : name),
              "the partition controller has those of NMX-M alone");
}

}  // namespace

ForgeService::ForgeService(const ForgeServerOptions& options, Administration& administration,
                           ForgeLog log)
    : rules_(options.rules),
      trust_local_(options.trust_local),
      call_limit_(options.call_limit),
      listen_(options.listen.empty() ? std::string() : options.listen.front()),
      administration_(administration),
      log_(std::move(log)) {}

template <class Work>
grpc::Status ForgeService::serve(const grpc::ServerContext& context, Access access,
                                 std::string_view method, const Work& work) {
  const Caller caller = identify(names_of(*context.auth_context(), trust_local_), rules_);
  Result<void> done = authorise(caller, access, method);
  if (done) done = work(Actor{caller.subject, ""});
  if (done) return grpc::Status::OK;
  if (log_) {
    log_(fmt::format("forge: {} of '{}': {}", method, printable(caller.subject),
                     printable(done.error().to_string())));
  }
  return grpc_status_of(done.error());
}

fabric::CallOptions ForgeService::call_options(const grpc::ServerContext& context) const {
  using System = std::chrono::system_clock;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::min(context.deadline(), System::now() + call_limit_) - System::now());
  return fabric::CallOptions::within(left, stopping_.get_token());
}

grpc::Status ForgeService::Version(grpc::ServerContext* context, const pb::VersionRequest* in,
                                   pb::BuildInfo* out) {
  return serve(*context, Access::kAnyone, "Version", [&](const Actor&) -> Result<void> {
    out->set_build_version(std::string(build_info().version));
    out->set_git_sha(std::string(build_info().git));
    if (!in->display_config()) return {};
    out->mutable_runtime_config()->set_listen(listen_);
    out->mutable_runtime_config()->set_max_find_by_ids(
        static_cast<std::uint32_t>(administration_.options().ids_max));
    return {};
  });
}

// ---- Logical partitions ------------------------------------------------------------------------

grpc::Status ForgeService::FindNVLinkLogicalPartitionIds(
    grpc::ServerContext* context, const pb::NVLinkLogicalPartitionSearchFilter* in,
    pb::NVLinkLogicalPartitionIdList* out) {
  return serve(*context, Access::kPartitions, "FindNVLinkLogicalPartitionIds",
               [&](const Actor&) -> Result<void> {
                 IMEX_TRY(const auto ids,
                          administration_.partition_ids(maybe(in->has_name(), in->name())));
                 add_ids(ids, *out->mutable_partition_ids());
                 return {};
               });
}

grpc::Status ForgeService::FindNVLinkLogicalPartitionsByIds(
    grpc::ServerContext* context, const pb::NVLinkLogicalPartitionsByIdsRequest* in,
    pb::NVLinkLogicalPartitionList* out) {
  return serve(*context, Access::kPartitions, "FindNVLinkLogicalPartitionsByIds",
               [&](const Actor&) -> Result<void> {
                 IMEX_TRY(const auto ids,
                          ids_from<LogicalPartitionId>(in->partition_ids(), "partition_ids"));
                 IMEX_TRY(const auto views, administration_.partitions(ids));
                 add_all(views, *out->mutable_partitions());
                 return {};
               });
}

grpc::Status ForgeService::NVLinkLogicalPartitionsForTenant(grpc::ServerContext* context,
                                                            const pb::TenantSearchQuery* in,
                                                            pb::NVLinkLogicalPartitionList* out) {
  return serve(*context, Access::kPartitions, "NVLinkLogicalPartitionsForTenant",
               [&](const Actor&) -> Result<void> {
                 IMEX_TRY(const auto views,
                          administration_.partitions_of(in->tenant_organization_id()));
                 add_all(views, *out->mutable_partitions());
                 return {};
               });
}

grpc::Status ForgeService::CreateNVLinkLogicalPartition(
    grpc::ServerContext* context, const pb::NVLinkLogicalPartitionCreationRequest* in,
    pb::NVLinkLogicalPartition* out) {
  return serve(*context, Access::kPartitions, "CreateNVLinkLogicalPartition",
               [&](const Actor& actor) -> Result<void> {
                 IMEX_TRY(const NewPartition wanted, from_wire(*in));
                 IMEX_TRY(const auto made, administration_.create_partition(actor, wanted));
                 to_wire(made, *out);
                 return {};
               });
}

grpc::Status ForgeService::UpdateNVLinkLogicalPartition(
    grpc::ServerContext* context, const pb::NVLinkLogicalPartitionUpdateRequest* in,
    pb::NVLinkLogicalPartitionUpdateResult* /*out*/) {
  return serve(*context, Access::kPartitions, "UpdateNVLinkLogicalPartition",
               [&](const Actor& actor) -> Result<void> {
                 IMEX_TRY(const PartitionUpdate update, from_wire(*in));
                 return administration_.update_partition(actor, update);
               });
}

grpc::Status ForgeService::DeleteNVLinkLogicalPartition(
    grpc::ServerContext* context, const pb::NVLinkLogicalPartitionDeletionRequest* in,
    pb::NVLinkLogicalPartitionDeletionResult* /*out*/) {
  return serve(*context, Access::kPartitions, "DeleteNVLinkLogicalPartition",
               [&](const Actor& actor) -> Result<void> {
                 IMEX_TRY(const auto id, id_from<LogicalPartitionId>(in->id(), "id"));
                 return administration_.delete_partition(actor, id);
               });
}

// ---- Physical partitions -----------------------------------------------------------------------

grpc::Status ForgeService::FindNVLinkPartitionIds(grpc::ServerContext* context,
                                                  const pb::NVLinkPartitionSearchFilter* in,
                                                  pb::NVLinkPartitionIdList* out) {
  return serve(*context, Access::kPartitions, "FindNVLinkPartitionIds",
               [&](const Actor&) -> Result<void> {
                 IMEX_TRY(const auto ids,
                          administration_.physical_ids(
                              maybe(in->has_tenant_organization_id(), in->tenant_organization_id()),
                              maybe(in->has_name(), in->name())));
                 add_ids(ids, *out->mutable_partition_ids());
                 return {};
               });
}

grpc::Status ForgeService::FindNVLinkPartitionsByIds(grpc::ServerContext* context,
                                                     const pb::NVLinkPartitionsByIdsRequest* in,
                                                     pb::NVLinkPartitionList* out) {
  return serve(*context, Access::kPartitions, "FindNVLinkPartitionsByIds",
               [&](const Actor&) -> Result<void> {
                 IMEX_TRY(const auto ids,
                          ids_from<PhysicalPartitionId>(in->partition_ids(), "partition_ids"));
                 IMEX_TRY(const auto rows, administration_.physical(ids));
                 add_all(rows, *out->mutable_partitions());
                 return {};
               });
}

grpc::Status ForgeService::NVLinkPartitionsForTenant(grpc::ServerContext* context,
                                                     const pb::TenantSearchQuery* in,
                                                     pb::NVLinkPartitionList* out) {
  return serve(*context, Access::kPartitions, "NVLinkPartitionsForTenant",
               [&](const Actor&) -> Result<void> {
                 IMEX_TRY(const auto rows,
                          administration_.physical_of(in->tenant_organization_id()));
                 add_all(rows, *out->mutable_partitions());
                 return {};
               });
}

// ---- Fabric managers ---------------------------------------------------------------------------

grpc::Status ForgeService::ListNvlinkNmxcEndpoints(grpc::ServerContext* context,
                                                   const google::protobuf::Empty* /*in*/,
                                                   pb::NvlinkNmxcEndpointList* out) {
  return serve(*context, Access::kAdminOnly, "ListNvlinkNmxcEndpoints",
               [&](const Actor&) -> Result<void> {
                 IMEX_TRY(const auto endpoints, administration_.endpoints());
                 for (const ChassisEndpoint& endpoint : endpoints) {
                   pb::NvlinkNmxcEndpoint& entry = *out->add_entries();
                   entry.set_chassis_serial(endpoint.chassis_serial);
                   entry.set_endpoint(endpoint.url);
                 }
                 return {};
               });
}

grpc::Status ForgeService::CreateNvlinkNmxcEndpoint(grpc::ServerContext* context,
                                                    const pb::NvlinkNmxcEndpoint* in,
                                                    pb::NvlinkNmxcEndpoint* out) {
  return serve(*context, Access::kAdminOnly, "CreateNvlinkNmxcEndpoint",
               [&](const Actor& actor) -> Result<void> {
                 IMEX_CHECK_OK(administration_.create_endpoint(
                     actor, {in->chassis_serial(), in->endpoint()}));
                 *out = *in;
                 return {};
               });
}

grpc::Status ForgeService::UpdateNvlinkNmxcEndpoint(grpc::ServerContext* context,
                                                    const pb::NvlinkNmxcEndpoint* in,
                                                    pb::NvlinkNmxcEndpoint* out) {
  return serve(*context, Access::kAdminOnly, "UpdateNvlinkNmxcEndpoint",
               [&](const Actor& actor) -> Result<void> {
                 IMEX_CHECK_OK(administration_.update_endpoint(
                     actor, {in->chassis_serial(), in->endpoint()}));
                 *out = *in;
                 return {};
               });
}

grpc::Status ForgeService::DeleteNvlinkNmxcEndpoint(grpc::ServerContext* context,
                                                    const pb::DeleteNvlinkNmxcEndpointRequest* in,
                                                    google::protobuf::Empty* /*out*/) {
  return serve(*context, Access::kAdminOnly, "DeleteNvlinkNmxcEndpoint",
               [&](const Actor& actor) -> Result<void> {
                 return administration_.delete_endpoint(actor, in->chassis_serial());
               });
}

grpc::Status ForgeService::CreateCredential(grpc::ServerContext* context,
                                            const pb::CredentialCreationRequest* in,
                                            pb::CredentialCreationResult* /*out*/) {
  return serve(*context, Access::kAdminOnly, "CreateCredential",
               [&](const Actor& actor) -> Result<void> {
                 IMEX_CHECK_OK(check_credential_type(in->credential_type()));
                 return administration_.add_nmxm_credentials(actor, in->username(),
                                                             log::Secret(in->password()));
               });
}

grpc::Status ForgeService::DeleteCredential(grpc::ServerContext* context,
                                            const pb::CredentialDeletionRequest* in,
                                            pb::CredentialDeletionResult* /*out*/) {
  return serve(*context, Access::kAdminOnly, "DeleteCredential",
               [&](const Actor& actor) -> Result<void> {
                 IMEX_CHECK_OK(check_credential_type(in->credential_type()));
                 return administration_.delete_nmxm_credentials(actor, in->username());
               });
}

grpc::Status ForgeService::NmxcBrowse(grpc::ServerContext* context, const pb::NmxcBrowseRequest* in,
                                      pb::NmxcBrowseResponse* out) {
  return serve(*context, Access::kAdminOnly, "NmxcBrowse", [&](const Actor&) -> Result<void> {
    IMEX_TRY(BrowseAnswer answer,
             administration_.browse(in->chassis_serial(), static_cast<int>(in->operation()),
                                    in->gpu_uid(), call_options(*context)));
    out->set_body(std::move(answer.body));
    out->set_code(answer.code);
    return {};
  });
}

// ---- Machines ----------------------------------------------------------------------------------

grpc::Status ForgeService::FindMachinesByIds(grpc::ServerContext* context,
                                             const pb::MachinesByIdsRequest* in,
                                             pb::MachineList* out) {
  return serve(*context, Access::kPartitions, "FindMachinesByIds",
               [&](const Actor&) -> Result<void> {
                 std::vector<MachineId> ids;
                 for (const pb::MachineId& id : in->machine_ids()) ids.push_back({id.id()});
                 IMEX_TRY(const auto views, administration_.machines(ids));
                 add_all(views, *out->mutable_machines());
                 return {};
               });
}

grpc::Status ForgeService::UpdateMachineNvLinkInfo(grpc::ServerContext* context,
                                                   const pb::UpdateMachineNvLinkInfoRequest* in,
                                                   google::protobuf::Empty* /*out*/) {
  return serve(*context, Access::kAdminOnly, "UpdateMachineNvLinkInfo",
               [&](const Actor& actor) -> Result<void> {
                 if (!in->has_nvlink_info())
                   return fail(Errc::kInvalidArgument, "nvlink_info is missing");
                 IMEX_TRY(const NvlinkInfo info, from_wire(in->nvlink_info()));
                 return administration_.set_nvlink_info(actor, {in->machine_id().id()}, info);
               });
}

grpc::Status ForgeService::AdminForceDeleteMachine(grpc::ServerContext* context,
                                                   const pb::AdminForceDeleteMachineRequest* in,
                                                   pb::AdminForceDeleteMachineResponse* out) {
  return serve(*context, Access::kAdminOnly, "AdminForceDeleteMachine",
               [&](const Actor& actor) -> Result<void> {
                 IMEX_TRY(const ForceDeleted gone,
                          administration_.force_delete(actor, {in->host_query()},
                                                       in->allow_delete_with_instance_type()));
                 out->set_all_done(true);
                 out->set_managed_host_machine_id(gone.machine.text);
                 if (gone.instance) out->set_instance_id(gone.instance->to_string());
                 return {};
               });
}

// ---- Instances ---------------------------------------------------------------------------------

grpc::Status ForgeService::FindInstancesByIds(grpc::ServerContext* context,
                                              const pb::InstancesByIdsRequest* in,
                                              pb::InstanceList* out) {
  return serve(*context, Access::kPartitions, "FindInstancesByIds",
               [&](const Actor&) -> Result<void> {
                 IMEX_TRY(const auto ids, ids_from<InstanceId>(in->instance_ids(), "instance_ids"));
                 IMEX_TRY(const auto views, administration_.instances(ids));
                 add_all(views, *out->mutable_instances());
                 return {};
               });
}

grpc::Status ForgeService::UpdateInstanceConfig(grpc::ServerContext* context,
                                                const pb::InstanceConfigUpdateRequest* in,
                                                pb::Instance* out) {
  return serve(*context, Access::kPartitions, "UpdateInstanceConfig",
               [&](const Actor& actor) -> Result<void> {
                 IMEX_TRY(const InstanceUpdate update, from_wire(*in));
                 IMEX_TRY(const auto view, administration_.update_instance(actor, update));
                 to_wire(view, *out);
                 return {};
               });
}

grpc::Status ForgeService::ReleaseInstance(grpc::ServerContext* context,
                                           const pb::InstanceReleaseRequest* in,
                                           pb::InstanceReleaseResult* /*out*/) {
  return serve(*context, Access::kPartitions, "ReleaseInstance",
               [&](const Actor& actor) -> Result<void> {
                 IMEX_TRY(const auto id, id_from<InstanceId>(in->id(), "id"));
                 return administration_.release_instance(actor, id, issue_text(*in));
               });
}

}  // namespace imex::partition::forge
