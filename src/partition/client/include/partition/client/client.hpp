/// The controller's REST API as typed calls: every answer is checked before it is believed.
///
///     IMEX_TRY(auto client, Client::make({.url = url, .org = "imex", .token = token}));
///     IMEX_TRY(const auto made, client->create_partition({.name = "training", .site = site}));
///     IMEX_TRY(const auto ready, wait_ready(*client, made.id, {.deadline = in(30s)}));
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/time.hpp"
#include "log/secret.hpp"
#include "partition/client/requests.hpp"
#include "partition/client/views.hpp"

namespace imex::partition::client {

struct Options {
  std::string url{};         ///< "http://127.0.0.1:8388"; nothing behind host and port
  std::string org{};         ///< whose objects
  log::Secret token{};       ///< bearer token; empty: none is sent
  std::string authority{};   ///< PEM file to check the server with; empty: the system's
  std::string api = "nico";  ///< last element of the base path
  Nanos timeout = std::chrono::seconds(10);  ///< of each request
};

/// Thread-safe. Nothing is repeated: a write may have taken effect when its answer was lost, and
/// only the caller knows what that means.
///
/// Errors of all calls: kUnavailable (nobody there, connection lost, 503), kDeadlineExceeded,
/// kPermissionDenied (401, 403), kDataLoss (an answer that is not what the API promises),
/// kInternal (500). Of most: kInvalidArgument (400), kNotFound (404), kAlreadyExists (409, name or
/// id), kFailedPrecondition (409, 412, and 400 of a delete: something still needs the object),
/// kResourceExhausted (429, quota), kUnsupported (501).
class Client {
 public:
  /// Connects to nobody yet. Errors: kInvalidArgument (URL, org).
  [[nodiscard]] static Result<std::unique_ptr<Client>> make(Options options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// The tenant of the org; its first call makes it.
  [[nodiscard]] Result<TenantId> tenant();
  [[nodiscard]] Result<std::vector<SiteView>> sites();
  [[nodiscard]] Result<std::vector<InstanceTypeView>> instance_types(const SiteId& site);

  // ---- Logical partitions
  [[nodiscard]] Result<std::vector<PartitionView>> partitions();
  [[nodiscard]] Result<PartitionView> partition(const LogicalPartitionId& id);
  /// Of all GPUs wanted in it.
  [[nodiscard]] Result<std::vector<InterfaceView>> interfaces(const LogicalPartitionId& id);
  [[nodiscard]] Result<PartitionView> create_partition(const NewPartition& wanted);
  [[nodiscard]] Result<PartitionView> update_partition(const LogicalPartitionId& id,
                                                       const PartitionChange& change);
  [[nodiscard]] Result<void> delete_partition(const LogicalPartitionId& id);

  // ---- VPCs
  [[nodiscard]] Result<std::vector<VpcView>> vpcs();
  [[nodiscard]] Result<VpcView> vpc(const VpcId& id);
  [[nodiscard]] Result<VpcView> create_vpc(const NewVpc& wanted);
  [[nodiscard]] Result<VpcView> update_vpc(const VpcId& id, const VpcChange& change);
  [[nodiscard]] Result<void> delete_vpc(const VpcId& id);

  // ---- Instances
  [[nodiscard]] Result<std::vector<InstanceView>> instances();
  [[nodiscard]] Result<InstanceView> instance(const InstanceId& id);
  [[nodiscard]] Result<InstanceView> create_instance(const NewInstance& wanted);
  /// All or none of `count` (at least 2).
  [[nodiscard]] Result<std::vector<InstanceView>> create_instances(const NewInstance& wanted,
                                                                   std::uint32_t count);
  [[nodiscard]] Result<InstanceView> update_instance(const InstanceId& id,
                                                     const InstanceChange& change);
  [[nodiscard]] Result<void> delete_instance(const InstanceId& id);

  // ---- What a write would do; nothing is changed. Errors beside the write's own: kUnsupported
  // ---- (the controller cannot say).
  using Plan = std::vector<PlannedOperation>;
  [[nodiscard]] Result<Plan> plan_create(const NewPartition& wanted);
  [[nodiscard]] Result<Plan> plan_update(const LogicalPartitionId& id,
                                         const PartitionChange& change);
  [[nodiscard]] Result<Plan> plan_delete(const LogicalPartitionId& id);
  [[nodiscard]] Result<Plan> plan_create(const NewVpc& wanted);
  [[nodiscard]] Result<Plan> plan_update(const VpcId& id, const VpcChange& change);
  [[nodiscard]] Result<Plan> plan_delete(const VpcId& id);
  /// `count` 1: as create_instance(); else as create_instances().
  [[nodiscard]] Result<Plan> plan_create(const NewInstance& wanted, std::uint32_t count);
  [[nodiscard]] Result<Plan> plan_update(const InstanceId& id, const InstanceChange& change);
  [[nodiscard]] Result<Plan> plan_delete(const InstanceId& id);

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace imex::partition::client
