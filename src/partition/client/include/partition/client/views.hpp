/// The controller's objects as its REST API shows them to a tenant. Plain values; times are the
/// RFC 3339 text of the answer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "partition/model/ids.hpp"
#include "partition/model/status.hpp"

namespace imex::partition::client {

/// One entry of an object's history.
struct StatusNote {
  Status status = Status::kPending;
  std::string message;  ///< why; may be empty
  std::string updated;
};

/// What went wrong last with an object that has not converged since.
struct FailureNote {
  std::string message, at;
  std::uint64_t count = 0;  ///< failures in a row
};

/// One GPU of an instance and the logical partition that it is wanted in.
struct InterfaceView {
  InterfaceId id;
  InstanceId instance;
  LogicalPartitionId partition;
  std::uint32_t device_instance = 0;
  Status status = Status::kPending;
  std::optional<DomainId> domain;        ///< once observed
  std::optional<std::uint64_t> gpu_uid;  ///< once observed
  std::optional<FailureNote> failure;
};

/// An object that another one refers to.
template <class IdOf>
struct Reference {
  IdOf id;
  std::string name;
};

struct PartitionView {
  LogicalPartitionId id;
  std::string name, description;
  SiteId site;
  Status status = Status::kPending;
  std::uint32_t gpus = 0, instances = 0;
  std::optional<std::uint32_t> multicast_groups;  ///< of each physical partition
  ResiliencyMode resiliency = ResiliencyMode::kUnset;
  std::optional<FailureNote> failure;
  std::vector<Reference<VpcId>> default_of;  ///< VPCs; only of partition()
  std::vector<StatusNote> history;           ///< newest first
  std::string created, updated;
};

struct VpcView {
  VpcId id;
  std::string name, description;
  std::optional<SiteId> site;
  std::optional<LogicalPartitionId> default_partition;
  Status status = Status::kPending;
  std::map<std::string, std::string> labels;
  std::vector<StatusNote> history;
  std::string created, updated;
};

struct InstanceView {
  InstanceId id;
  std::string name, description;
  SiteId site;
  VpcId vpc;
  std::optional<InstanceTypeId> instance_type;
  std::string machine;  ///< empty until placed
  Status status = Status::kPending;
  std::map<std::string, std::string> labels;
  std::vector<InterfaceView> interfaces;  ///< by device instance, then status
  std::vector<StatusNote> history;
  std::string created, updated;
};

struct SiteView {
  SiteId id;
  std::string name;
  Status status = Status::kPending;
  bool nvlink_partition = false;  ///< the capability: without it there are no partitions
};

struct InstanceTypeView {
  InstanceTypeId id;
  std::string name;
  SiteId site;
  std::uint32_t nvlink_gpus = 0;  ///< of each machine
};

/// Which GPUs of a logical partition can reach one another: those in one NVLink domain.
struct SharingGroup {
  DomainId domain;
  std::vector<InterfaceView> interfaces;  ///< by instance, then device instance
};
/// Only interfaces that are Ready share; groups with most GPUs first, then by domain.
[[nodiscard]] std::vector<SharingGroup> sharing_groups(const std::vector<InterfaceView>& all);

/// One step that a write would make the controller take on the fabric.
struct PlannedOperation {
  std::string kind;  ///< "create_partition", "add_gpus", ...
  std::optional<DomainId> domain;
  std::optional<LogicalPartitionId> partition;
  std::uint32_t fabric_id = 0;  ///< of a partition that is there; else 0
  std::vector<std::uint64_t> gpu_uids;
};

}  // namespace imex::partition::client
