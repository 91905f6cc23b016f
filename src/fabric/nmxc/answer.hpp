/// Answers of a fabric controller as our own words, checked and bounded. Pure: the fuzz target
/// calls these with any bytes.
#pragma once

#include <vector>

#include <nmx_c/draft.pb.h>
#include <nmx_c/nmx_c.pb.h>

#include "fabric/manager.hpp"

namespace imex::fabric::nmxc {

// Errors: kDataLoss, which names the rule that was broken. Numbers of enumerations are carried
// through.

[[nodiscard]] Result<std::vector<ObservedGpu>> read_gpus(
    const ::nmx_c::GetGpuInfoListResponse& answer);

/// Members that are told by location only are looked up in `gpus`, in any order; one that is not
/// found there is an error.
[[nodiscard]] Result<std::vector<ObservedPartition>> read_partitions(
    const ::nmx_c::GetPartitionInfoListResponse& answer, const std::vector<ObservedGpu>& gpus);

[[nodiscard]] Result<std::vector<ObservedNode>> read_nodes(
    const ::nmx_c::GetComputeNodeInfoListResponse& answer);

/// State, health, text and free multicast groups into `snapshot`.
[[nodiscard]] Result<void> read_state(const ::nmx_c::DomainStateInfo& answer, Snapshot& snapshot);

[[nodiscard]] DomainLimits read_limits(const ::nmx_c::DomainProperties& answer);

/// Nothing for a first message of a stream and for a kind of notification that this release does
/// not know.
[[nodiscard]] std::optional<FabricEvent> read_event(
    const ::nmx_c::ServerNotification& notification);
[[nodiscard]] std::optional<FabricEvent> read_event(
    const ::nmx_c::DraftServerNotification& notification);

/// As the current dialect says it: only the places of link rate and admin state of a port differ.
[[nodiscard]] Result<::nmx_c::FmTopologyInfo> from_draft(
    const ::nmx_c::DraftFmTopologyInfo& answer);

}  // namespace imex::fabric::nmxc
