/// The tenant's commands: `imex partition`, `imex vpc`, `imex instance`. Each asks the controller's
/// REST API and prints what came of it. Errors of all: those of connect_controller() and of
/// partition::client; kInvalidArgument (options that do not go together).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "controller_access.hpp"

namespace imex::cli {

/// What all of them have.
struct TenantOptions {
  ControllerOptions controller;
  std::string target;  ///< id or name of what is shown, changed, deleted
  std::optional<std::string> name, description;
  std::vector<std::string> labels;  ///< "key=value"
  bool wait = false;                ///< until what was asked for is so
  bool dry_run = false;             ///< print what would follow, change nothing
  std::string wait_timeout = "5m";
};

struct PartitionOptions : TenantOptions {
  std::optional<std::uint32_t> multicast_groups;
  std::string resiliency;  ///< "FullBandwidth", ...; empty: not given
};
[[nodiscard]] Result<void> partition_list(const Global& global, const PartitionOptions& options);
[[nodiscard]] Result<void> partition_show(const Global& global, const PartitionOptions& options);
[[nodiscard]] Result<void> partition_create(const Global& global, const PartitionOptions& options);
[[nodiscard]] Result<void> partition_update(const Global& global, const PartitionOptions& options);
[[nodiscard]] Result<void> partition_delete(const Global& global, const PartitionOptions& options);

struct VpcOptions : TenantOptions {
  std::optional<std::string> default_partition;  ///< id or name
  bool no_default_partition = false;
};
[[nodiscard]] Result<void> vpc_list(const Global& global, const VpcOptions& options);
[[nodiscard]] Result<void> vpc_show(const Global& global, const VpcOptions& options);
[[nodiscard]] Result<void> vpc_create(const Global& global, const VpcOptions& options);
[[nodiscard]] Result<void> vpc_update(const Global& global, const VpcOptions& options);
[[nodiscard]] Result<void> vpc_delete(const Global& global, const VpcOptions& options);

struct InstanceOptions : TenantOptions {
  std::string vpc;                     ///< empty: the only one; none: one called "default" is made
  std::string type;                    ///< empty: the only one of the site
  std::optional<std::string> machine;  ///< this very one, instead of one of a type
  std::optional<std::string> partition;  ///< where `gpus`, or those of `gpu` without one, go
  std::optional<std::uint32_t> gpus;     ///< so many, from index 0
  std::vector<std::string> gpu;          ///< "2", "2=PARTITION", "2=none"
  std::uint32_t count = 1;
  std::string domain;  ///< "require", "prefer", "ignore"; empty: as the controller likes
  std::optional<std::string> operating_system, subnet;
};
[[nodiscard]] Result<void> instance_list(const Global& global, const InstanceOptions& options);
[[nodiscard]] Result<void> instance_show(const Global& global, const InstanceOptions& options);
[[nodiscard]] Result<void> instance_create(const Global& global, const InstanceOptions& options);
[[nodiscard]] Result<void> instance_update(const Global& global, const InstanceOptions& options);
[[nodiscard]] Result<void> instance_delete(const Global& global, const InstanceOptions& options);

/// What is wanted of one GPU.
struct GpuWish {
  std::uint32_t device_instance = 0;
  std::optional<std::string> partition;  ///< id or name; none: it leaves its partition
  friend bool operator==(const GpuWish&, const GpuWish&) = default;
};
/// Wishes by index, from --gpus, --gpu and --partition; `gpus_of_type`: how many there are, for
/// --partition alone. Nothing said: nothing. Errors: kInvalidArgument (an index twice or no number,
/// a GPU without a partition, --gpus beside --gpu).
[[nodiscard]] Result<std::optional<std::vector<GpuWish>>> gpu_wishes(
    const InstanceOptions& options, std::optional<std::uint32_t> gpus_of_type);

}  // namespace imex::cli
