/// Every method of the service, once, in both dialects. A method that a dialect lacks has a null
/// pointer there; where the messages differ, there is one entry for each dialect.
#pragma once

#include <string_view>

#include <grpcpp/client_context.h>
#include <nmx_c/draft.grpc.pb.h>
#include <nmx_c/nmx_c.grpc.pb.h>

namespace imex::fabric::nmxc {

namespace pb = ::nmx_c;
using CurrentStub = pb::NMX_Controller::Stub;
using DraftStub = pb::NMXController::Stub;

template <class Request, class Answer>
struct Method {
  template <class Stub>
  using Pointer = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Answer*);

  std::string_view name;
  Pointer<CurrentStub> current = nullptr;
  Pointer<DraftStub> draft = nullptr;
};

#define IMEX_NMXC_BOTH(name, request, answer)                \
  inline constexpr Method<pb::request, pb::answer> k##name { \
    #name, &CurrentStub::name, &DraftStub::name              \
  }

IMEX_NMXC_BOTH(Hello, ClientHello, ServerHello);
IMEX_NMXC_BOTH(FactoryReset, FactoryResetRequest, ReturnCode);
IMEX_NMXC_BOTH(GetStaticConfig, GetStaticConfigRequest, StaticConfigResponse);
IMEX_NMXC_BOTH(SetStaticConfig, SetStaticConfigRequest, ReturnCode);
IMEX_NMXC_BOTH(GetDomainProperties, GetDomainPropertiesRequest, DomainProperties);
IMEX_NMXC_BOTH(GetDomainStateInfo, GetDomainStateInfoRequest, DomainStateInfo);
IMEX_NMXC_BOTH(GetComputeNodeCount, GetComputeNodeCountRequest, GetComputeNodeCountResponse);
IMEX_NMXC_BOTH(GetComputeNodeLocationList, GetComputeNodeLocationListRequest,
               GetComputeNodeLocationListResponse);
IMEX_NMXC_BOTH(GetComputeNodeInfoList, GetComputeNodeInfoListRequest,
               GetComputeNodeInfoListResponse);
IMEX_NMXC_BOTH(GetGpuInfoList, GetGpuInfoListRequest, GetGpuInfoListResponse);
IMEX_NMXC_BOTH(GetSwitchNodeCount, GetSwitchNodeCountRequest, GetSwitchNodeCountResponse);
IMEX_NMXC_BOTH(GetSwitchNodeLocationList, GetSwitchNodeLocationListRequest,
               GetSwitchNodeLocationListResponse);
IMEX_NMXC_BOTH(GetSwitchNodeInfoList, GetSwitchNodeInfoListRequest, GetSwitchNodeInfoListResponse);
IMEX_NMXC_BOTH(GetSwitchInfoList, GetSwitchInfoListRequest, GetSwitchInfoListResponse);
IMEX_NMXC_BOTH(GetPartitionCount, GetPartitionCountRequest, GetPartitionCountResponse);
IMEX_NMXC_BOTH(GetPartitionIdList, GetPartitionIdListRequest, GetPartitionIdListResponse);
IMEX_NMXC_BOTH(GetPartitionInfoList, GetPartitionInfoListRequest, GetPartitionInfoListResponse);
IMEX_NMXC_BOTH(CreatePartition, CreatePartitionRequest, CreatePartitionResponse);
IMEX_NMXC_BOTH(DeletePartition, DeletePartitionRequest, DeletePartitionResponse);
IMEX_NMXC_BOTH(AddGpusToPartition, UpdatePartitionRequest, UpdatePartitionResponse);
IMEX_NMXC_BOTH(RemoveGpusFromPartition, UpdatePartitionRequest, UpdatePartitionResponse);
IMEX_NMXC_BOTH(GetConnCount, GetConnCountRequest, GetConnCountResponse);
IMEX_NMXC_BOTH(GetConnInfoList, GetConnInfoListRequest, GetConnInfoListResponse);
IMEX_NMXC_BOTH(GetConnInfoCombined, GetConnInfoCombinedRequest, ConnInfoCombined);
#undef IMEX_NMXC_BOTH

inline constexpr Method<pb::GetStateReportRequest, pb::GetStateReportResponse> kGetStateReport{
    "GetStateReport", &CurrentStub::GetStateReport, nullptr};
inline constexpr Method<pb::GetTopologyInfoRequest, pb::FmTopologyInfo> kGetTopologyInfo{
    "GetTopologyInfo", &CurrentStub::GetTopologyInfo, nullptr};
inline constexpr Method<pb::GetTopologyInfoRequest, pb::DraftFmTopologyInfo> kDraftGetTopologyInfo{
    "GetTopologyInfo", nullptr, &DraftStub::GetTopologyInfo};
inline constexpr Method<pb::GetAdminStateRequest, pb::GetAdminStateResponse> kGetAdminState{
    "GetAdminState", &CurrentStub::GetAdminState, nullptr};
inline constexpr Method<pb::GetAdminStateRequest, pb::DraftGetAdminStateResponse>
    kDraftGetAdminState{"GetAdminState", nullptr, &DraftStub::GetAdminState};
inline constexpr Method<pb::SetAdminStateRequest, pb::SetAdminStateResponse> kSetAdminState{
    "SetAdminState", &CurrentStub::SetAdminState, nullptr};
inline constexpr Method<pb::DraftSetAdminStateRequest, pb::DraftSetAdminStateResponse>
    kDraftSetAdminState{"SetAdminState", nullptr, &DraftStub::SetAdminState};

}  // namespace imex::fabric::nmxc
