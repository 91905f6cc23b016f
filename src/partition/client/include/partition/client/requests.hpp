/// What a tenant asks of the controller. What is not set is left to the controller, or as it is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "partition/model/ids.hpp"
#include "partition/model/status.hpp"

namespace imex::partition::client {

/// How the physical partitions of a logical one are made. Unset: as the controller likes.
struct FabricWishes {
  std::optional<std::uint32_t> multicast_groups{};  ///< of each; a multiple of 4
  std::optional<ResiliencyMode> resiliency{};
};

struct NewPartition {
  std::string name{};
  SiteId site{};
  std::optional<std::string> description{};
  FabricWishes fabric{};
};

struct PartitionChange {
  std::optional<std::string> name{}, description{};
  FabricWishes fabric{};
};

struct NewVpc {
  std::string name{};
  SiteId site{};
  std::optional<std::string> description{};
  std::optional<LogicalPartitionId> default_partition{};
  std::map<std::string, std::string> labels{};
};

struct VpcChange {
  std::optional<std::string> name{}, description{};
  std::optional<LogicalPartitionId> default_partition{};
  bool clear_default_partition = false;
  std::optional<std::map<std::string, std::string>> labels{};  ///< all of them, anew
};

/// A GPU of a machine, and where it is to be.
struct GpuBinding {
  std::uint32_t device_instance = 0;
  LogicalPartitionId partition{};
  friend bool operator==(const GpuBinding&, const GpuBinding&) = default;
};

/// Whether machines of one request must share an NVLink domain.
enum class OneDomain : std::uint8_t { kDefault, kRequire, kPrefer, kIgnore };

struct NewInstance {
  std::string name{};  ///< of several: what their names begin with
  TenantId tenant{};
  VpcId vpc{};
  std::optional<InstanceTypeId> instance_type{};  ///< this or `machine`
  std::optional<std::string> machine{};
  /// Unset: the VPC's default, if it has one.
  std::optional<std::vector<GpuBinding>> gpus{};
  std::optional<std::string> description{};
  std::optional<std::string> operating_system{}, ipxe_script{}, subnet{};
  std::map<std::string, std::string> labels{};
  OneDomain domain = OneDomain::kDefault;
};

struct InstanceChange {
  std::optional<std::string> name{}, description{};
  std::optional<std::map<std::string, std::string>> labels{};
  /// The complete new set; empty: all GPUs leave their partitions.
  std::optional<std::vector<GpuBinding>> gpus{};
};

}  // namespace imex::partition::client
