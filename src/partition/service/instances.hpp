/// What creating and changing instances share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "body.hpp"
#include "context.hpp"

namespace imex::partition {

/// One item of `nvLinkInterfaces` in a request.
struct WantedInterface {
  LogicalPartitionId partition;
  std::uint32_t device_instance = 0;
  friend bool operator==(const WantedInterface&, const WantedInterface&) = default;
};

/// Nothing: the key is absent or null. Notes problems under "nvLinkInterfaces".
[[nodiscard]] Checked<std::optional<std::vector<WantedInterface>>> read_wanted_interfaces(
    Body& body);

/// Index below the GPU count and once each; partitions there, of this site and tenant, and Ready;
/// and all the VPC's default if it has one. `gpus` 0: the machine has no NVLink.
[[nodiscard]] Checked<void> check_wanted_interfaces(ReadTransaction& t, const Tenant& tenant,
                                                    const Vpc& vpc, std::uint32_t gpus,
                                                    const std::vector<WantedInterface>& wanted);

[[nodiscard]] Checked<void> check_instance_name(ReadTransaction& t, const TenantId& tenant,
                                                const SiteId& site, const std::string& name,
                                                const InstanceId& self);
[[nodiscard]] Checked<void> insert_interfaces(WriteTransaction& t, const Instance& instance,
                                              const std::vector<WantedInterface>& wanted);
[[nodiscard]] Checked<std::vector<NvlinkInterface>> interfaces_of(ReadTransaction& t,
                                                                  const InstanceId& instance);
/// Where nothing of the fabric is touched there is nothing to wait for.
[[nodiscard]] bool outside_fabric(const Machine& machine);

/// Fields that are kept and echoed, checked for type and size only.
void check_adjacent(Body& body);
[[nodiscard]] std::string kept_adjacent(const Body& body, const std::string& former_json = "{}");

}  // namespace imex::partition
