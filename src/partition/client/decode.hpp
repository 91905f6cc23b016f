/// From JSON of the API to views. Every value is checked: type, range, known state.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "partition/client/views.hpp"

namespace imex::partition::client {

// Errors of all: kInvalidArgument names the key and what is wrong with it; the caller makes it
// kDataLoss and says which answer it was.
[[nodiscard]] Result<PartitionView> decode_partition(const nlohmann::json& json);
[[nodiscard]] Result<InterfaceView> decode_interface(const nlohmann::json& json);
[[nodiscard]] Result<VpcView> decode_vpc(const nlohmann::json& json);
[[nodiscard]] Result<InstanceView> decode_instance(const nlohmann::json& json);
[[nodiscard]] Result<SiteView> decode_site(const nlohmann::json& json);
[[nodiscard]] Result<InstanceTypeView> decode_instance_type(const nlohmann::json& json);
[[nodiscard]] Result<TenantId> decode_tenant(const nlohmann::json& json);
/// The answer to a write with dryRun=true.
[[nodiscard]] Result<std::vector<PlannedOperation>> decode_plan(const nlohmann::json& json);

}  // namespace imex::partition::client
