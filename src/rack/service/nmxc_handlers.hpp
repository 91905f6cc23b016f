/// What each call of the fabric controller's service does to, or reads from, one domain. Between
/// the parsed request and the finished message there is no gRPC here: unit and fuzz tests call
/// these as they stand. The header of an answer is filled by the caller.
#pragma once

#include <chrono>

#include <nmx_c/draft.pb.h>
#include <nmx_c/nmx_c.pb.h>

#include "rack/domain.hpp"

namespace imex::rack::nmxc {

struct Moment {
  Time now;
  std::chrono::system_clock::time_point wall;
};

void fill_header(const Domain& domain, const Uuid& instance, ReturnCode code,
                 ::nmx_c::ServerHeader& header);

// nmxc_reads.cpp
ReturnCode handle(Domain& domain, const ::nmx_c::GetDomainPropertiesRequest& request,
                  ::nmx_c::DomainProperties& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetDomainStateInfoRequest& request,
                  ::nmx_c::DomainStateInfo& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetComputeNodeCountRequest& request,
                  ::nmx_c::GetComputeNodeCountResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetComputeNodeLocationListRequest& request,
                  ::nmx_c::GetComputeNodeLocationListResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetComputeNodeInfoListRequest& request,
                  ::nmx_c::GetComputeNodeInfoListResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetGpuInfoListRequest& request,
                  ::nmx_c::GetGpuInfoListResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetSwitchNodeCountRequest& request,
                  ::nmx_c::GetSwitchNodeCountResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetSwitchNodeLocationListRequest& request,
                  ::nmx_c::GetSwitchNodeLocationListResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetSwitchNodeInfoListRequest& request,
                  ::nmx_c::GetSwitchNodeInfoListResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetSwitchInfoListRequest& request,
                  ::nmx_c::GetSwitchInfoListResponse& answer, const Moment& moment);

// nmxc_topology.cpp
ReturnCode handle(Domain& domain, const ::nmx_c::GetTopologyInfoRequest& request,
                  ::nmx_c::FmTopologyInfo& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetTopologyInfoRequest& request,
                  ::nmx_c::DraftFmTopologyInfo& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetConnCountRequest& request,
                  ::nmx_c::GetConnCountResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetConnInfoListRequest& request,
                  ::nmx_c::GetConnInfoListResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetConnInfoCombinedRequest& request,
                  ::nmx_c::ConnInfoCombined& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetStateReportRequest& request,
                  ::nmx_c::GetStateReportResponse& answer, const Moment& moment);

// nmxc_partitions.cpp
ReturnCode handle(Domain& domain, const ::nmx_c::GetPartitionCountRequest& request,
                  ::nmx_c::GetPartitionCountResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetPartitionIdListRequest& request,
                  ::nmx_c::GetPartitionIdListResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetPartitionInfoListRequest& request,
                  ::nmx_c::GetPartitionInfoListResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::CreatePartitionRequest& request,
                  ::nmx_c::CreatePartitionResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::DeletePartitionRequest& request,
                  ::nmx_c::DeletePartitionResponse& answer, const Moment& moment);
ReturnCode add_gpus(Domain& domain, const ::nmx_c::UpdatePartitionRequest& request,
                    ::nmx_c::UpdatePartitionResponse& answer, const Moment& moment);
ReturnCode remove_gpus(Domain& domain, const ::nmx_c::UpdatePartitionRequest& request,
                       ::nmx_c::UpdatePartitionResponse& answer, const Moment& moment);

// nmxc_settings.cpp
ReturnCode handle(Domain& domain, const ::nmx_c::FactoryResetRequest& request,
                  ::nmx_c::ReturnCode& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetStaticConfigRequest& request,
                  ::nmx_c::StaticConfigResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::SetStaticConfigRequest& request,
                  ::nmx_c::ReturnCode& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetAdminStateRequest& request,
                  ::nmx_c::GetAdminStateResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::GetAdminStateRequest& request,
                  ::nmx_c::DraftGetAdminStateResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::SetAdminStateRequest& request,
                  ::nmx_c::SetAdminStateResponse& answer, const Moment& moment);
ReturnCode handle(Domain& domain, const ::nmx_c::DraftSetAdminStateRequest& request,
                  ::nmx_c::DraftSetAdminStateResponse& answer, const Moment& moment);

// Shared by the files above.
void fill(const Location& from, ::nmx_c::Location& to);
void fill_tray(const Domain& domain, const TrayPlace& from, ::nmx_c::LocationInfo& to);
[[nodiscard]] Location read(const ::nmx_c::Location& from);

}  // namespace imex::rack::nmxc
