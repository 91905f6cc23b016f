/// Records joined with what an answer shows beside them.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "partition/forge/administration.hpp"

namespace imex::partition::forge {

[[nodiscard]] Result<std::unordered_map<TenantId, std::string>> orgs_of(
    ReadTransaction& t, std::vector<TenantId> tenants);
[[nodiscard]] Result<std::vector<PartitionView>> partition_views(
    ReadTransaction& t, std::vector<LogicalPartition> records);

}  // namespace imex::partition::forge
