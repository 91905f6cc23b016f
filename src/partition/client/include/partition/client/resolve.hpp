/// Objects as people name them: by id, or by a name that only one of them has.
#pragma once

#include <string_view>

#include "partition/client/client.hpp"

namespace imex::partition::client {

/// Errors: kNotFound lists the names that there are; kFailedPrecondition lists the ids that share
/// the name; those of the client. An id is not looked up: whoever uses it hears that it is gone.
[[nodiscard]] Result<LogicalPartitionId> find_partition(Client& client,
                                                        std::string_view id_or_name);
[[nodiscard]] Result<VpcId> find_vpc(Client& client, std::string_view id_or_name);
[[nodiscard]] Result<InstanceId> find_instance(Client& client, std::string_view id_or_name);
/// Empty: the only one. Errors also: kFailedPrecondition (none, or several to choose from).
[[nodiscard]] Result<SiteId> find_site(Client& client, std::string_view id_or_name);
[[nodiscard]] Result<InstanceTypeId> find_instance_type(Client& client, const SiteId& site,
                                                        std::string_view id_or_name);

}  // namespace imex::partition::client
