/// The methods of forge.Forge: who may call, from message to Administration and back. Only for the
/// .cpp files that name gRPC anyway.
#pragma once

#include <stop_token>

#include <forge/forge.grpc.pb.h>

#include "partition/forge/forge_server.hpp"

namespace imex::partition::forge {

namespace pb = ::forge;

/// Thread-safe: gRPC calls it from many threads.
class ForgeService final : public pb::Forge::Service {
 public:
  ForgeService(const ForgeServerOptions& options, Administration& administration, ForgeLog log);

  /// Calls off what waits for fabric managers: before the server is shut down.
  void stop() { stopping_.request_stop(); }

  grpc::Status Version(grpc::ServerContext* context, const pb::VersionRequest* in,
                       pb::BuildInfo* out) override;

  grpc::Status FindNVLinkLogicalPartitionIds(grpc::ServerContext* context,
                                             const pb::NVLinkLogicalPartitionSearchFilter* in,
                                             pb::NVLinkLogicalPartitionIdList* out) override;
  grpc::Status FindNVLinkLogicalPartitionsByIds(grpc::ServerContext* context,
                                                const pb::NVLinkLogicalPartitionsByIdsRequest* in,
                                                pb::NVLinkLogicalPartitionList* out) override;
  grpc::Status NVLinkLogicalPartitionsForTenant(grpc::ServerContext* context,
                                                const pb::TenantSearchQuery* in,
                                                pb::NVLinkLogicalPartitionList* out) override;
  grpc::Status CreateNVLinkLogicalPartition(grpc::ServerContext* context,
                                            const pb::NVLinkLogicalPartitionCreationRequest* in,
                                            pb::NVLinkLogicalPartition* out) override;
  grpc::Status UpdateNVLinkLogicalPartition(grpc::ServerContext* context,
                                            const pb::NVLinkLogicalPartitionUpdateRequest* in,
                                            pb::NVLinkLogicalPartitionUpdateResult* out) override;
  grpc::Status DeleteNVLinkLogicalPartition(grpc::ServerContext* context,
                                            const pb::NVLinkLogicalPartitionDeletionRequest* in,
                                            pb::NVLinkLogicalPartitionDeletionResult* out) override;

  grpc::Status FindNVLinkPartitionIds(grpc::ServerContext* context,
                                      const pb::NVLinkPartitionSearchFilter* in,
                                      pb::NVLinkPartitionIdList* out) override;
  grpc::Status FindNVLinkPartitionsByIds(grpc::ServerContext* context,
                                         const pb::NVLinkPartitionsByIdsRequest* in,
                                         pb::NVLinkPartitionList* out) override;
  grpc::Status NVLinkPartitionsForTenant(grpc::ServerContext* context,
                                         const pb::TenantSearchQuery* in,
                                         pb::NVLinkPartitionList* out) override;

  grpc::Status ListNvlinkNmxcEndpoints(grpc::ServerContext* context,
                                       const google::protobuf::Empty* in,
                                       pb::NvlinkNmxcEndpointList* out) override;
  grpc::Status CreateNvlinkNmxcEndpoint(grpc::ServerContext* context,
                                        const pb::NvlinkNmxcEndpoint* in,
                                        pb::NvlinkNmxcEndpoint* out) override;
  grpc::Status UpdateNvlinkNmxcEndpoint(grpc::ServerContext* context,
                                        const pb::NvlinkNmxcEndpoint* in,
                                        pb::NvlinkNmxcEndpoint* out) override;
  grpc::Status DeleteNvlinkNmxcEndpoint(grpc::ServerContext* context,
                                        const pb::DeleteNvlinkNmxcEndpointRequest* in,
                                        google::protobuf::Empty* out) override;
  grpc::Status CreateCredential(grpc::ServerContext* context,
                                const pb::CredentialCreationRequest* in,
                                pb::CredentialCreationResult* out) override;
  grpc::Status DeleteCredential(grpc::ServerContext* context,
                                const pb::CredentialDeletionRequest* in,
                                pb::CredentialDeletionResult* out) override;
  grpc::Status NmxcBrowse(grpc::ServerContext* context, const pb::NmxcBrowseRequest* in,
                          pb::NmxcBrowseResponse* out) override;

  grpc::Status FindMachinesByIds(grpc::ServerContext* context, const pb::MachinesByIdsRequest* in,
                                 pb::MachineList* out) override;
  grpc::Status UpdateMachineNvLinkInfo(grpc::ServerContext* context,
                                       const pb::UpdateMachineNvLinkInfoRequest* in,
                                       google::protobuf::Empty* out) override;
  grpc::Status AdminForceDeleteMachine(grpc::ServerContext* context,
                                       const pb::AdminForceDeleteMachineRequest* in,
                                       pb::AdminForceDeleteMachineResponse* out) override;

  grpc::Status FindInstancesByIds(grpc::ServerContext* context, const pb::InstancesByIdsRequest* in,
                                  pb::InstanceList* out) override;
  grpc::Status UpdateInstanceConfig(grpc::ServerContext* context,
                                    const pb::InstanceConfigUpdateRequest* in,
                                    pb::Instance* out) override;
  grpc::Status ReleaseInstance(grpc::ServerContext* context, const pb::InstanceReleaseRequest* in,
                               pb::InstanceReleaseResult* out) override;

 private:
  template <class Work>
  grpc::Status serve(const grpc::ServerContext& context, Access access, std::string_view method,
                     const Work& work);
  [[nodiscard]] fabric::CallOptions call_options(const grpc::ServerContext& context) const;

  const std::vector<CallerRule> rules_;
  const bool trust_local_;
  const std::chrono::milliseconds call_limit_;
  const std::string listen_;
  Administration& administration_;
  const ForgeLog log_;
  std::stop_source stopping_;
};

}  // namespace imex::partition::forge
