/// What administrators and the site agent may do to the controller's state: the rules of
/// partition-api.md 6.3, in plain types. No gRPC here; partition/forge/forge_server.hpp puts it on
/// the wire.
///
/// Thread-safe. Calls block for a transaction of the store; browse() also for a fabric manager.
/// Errors of all beside those named: what the store says (kUnavailable, kDeadlineExceeded,
/// kDataLoss).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "fabric/manager.hpp"
#include "log/secret.hpp"
#include "partition/store/store.hpp"

namespace imex::partition::forge {

/// A logical partition, and the organisation that owns it.
struct PartitionView {
  LogicalPartition record{};
  std::string org{};
};

/// An instance with its interfaces, those being replaced included, by device instance.
struct InstanceView {
  Instance record{};
  std::string org{};
  std::vector<NvlinkInterface> interfaces{};

  [[nodiscard]] bool configs_synced() const noexcept;
};

/// A machine, and the partition rows that its GPUs are in, by fabric id.
struct MachineView {
  Machine record{};
  std::vector<PhysicalPartition> partitions{};

  [[nodiscard]] const PhysicalPartition* partition_of(const Gpu& gpu) const noexcept;
};

struct NewPartition {
  std::optional<LogicalPartitionId> id{};
  std::string org{}, name{}, description{};
};
struct PartitionUpdate {
  LogicalPartitionId id{};
  std::string org{}, name{}, description{};
  std::optional<std::string> if_version{};  ///< as version_text() gives it
};

/// Where the fabric manager of a chassis listens.
struct ChassisEndpoint {
  std::string chassis_serial{}, url{};
};

/// One GPU of a machine as an operator enters it.
struct GpuPlace {
  std::int64_t tray_index = 0, slot_id = 0;
  std::int64_t device_id = 0;  ///< from 1
  std::uint64_t uid = 0;
};
struct NvlinkInfo {
  std::optional<DomainId> domain{};
  std::string chassis_serial{};
  std::vector<GpuPlace> gpus{};
};

struct GpuWish {
  std::uint32_t device_instance = 0;
  std::optional<LogicalPartitionId> partition{};
};
struct InstanceUpdate {
  InstanceId id{};
  /// The complete set; nothing: stays as it is.
  std::optional<std::vector<GpuWish>> gpus{};
  std::optional<std::string> name{}, description{};
  std::optional<std::string> if_version{};
};

struct ForceDeleted {
  MachineId machine{};  ///< empty: there was none of that name, which is fine
  std::optional<InstanceId> instance{};
};

enum class BrowseOperation : std::uint8_t { kComputeNodes = 1, kGpu = 2, kGpus = 3 };
struct BrowseAnswer {
  std::string body{};
  std::int32_t code = 200;
};

/// "V3-T1764000000000000": the number counts writes, the time is that of the last.
[[nodiscard]] std::string version_text(std::uint64_t version, WallTime updated);
/// Takes that form, or the number alone. Errors: kInvalidArgument.
[[nodiscard]] Result<std::uint64_t> parse_version(const std::string& text);

/// What a fabric manager listed, as JSON with NMX-C's own names, for `NmxcBrowse`.
[[nodiscard]] BrowseAnswer render_browse(const fabric::Snapshot& snapshot,
                                         BrowseOperation operation, std::uint64_t gpu_uid);

/// Looks at the domain behind an endpoint; wired by the controller to the clients that it has.
using ObserveFabric =
    std::function<Result<fabric::Snapshot>(const Endpoint&, const fabric::CallOptions&)>;

class Administration {
 public:
  struct Options {
    SiteId site{};
    ObserveFabric observe{};    ///< empty: browsing is kUnavailable
    std::size_t ids_max = 100;  ///< of one look-up by ids
  };
  /// `store` must outlive it.
  Administration(Store& store, Options options);

  [[nodiscard]] const Options& options() const noexcept { return options_; }

  // ---- Logical partitions. Errors: kInvalidArgument (name or organisation missing or too long, of
  // ---- another tenant, still in use), kAlreadyExists (name or id), kNotFound (also while it is
  // ---- being deleted), kFailedPrecondition (version).
  /// Makes the tenant of an organisation that never asked before.
  [[nodiscard]] Result<PartitionView> create_partition(const Actor& actor,
                                                       const NewPartition& wanted);
  [[nodiscard]] Result<void> update_partition(const Actor& actor, const PartitionUpdate& update);
  /// One that is being deleted already is fine.
  [[nodiscard]] Result<void> delete_partition(const Actor& actor, const LogicalPartitionId& id);
  [[nodiscard]] Result<std::vector<LogicalPartitionId>> partition_ids(
      const std::optional<std::string>& name);
  /// Of all find-by-ids: unknown ids are left out. Errors: kInvalidArgument (none, or too many).
  [[nodiscard]] Result<std::vector<PartitionView>> partitions(
      const std::vector<LogicalPartitionId>& ids);
  [[nodiscard]] Result<std::vector<PartitionView>> partitions_of(const std::string& org);

  // ---- Physical partitions
  [[nodiscard]] Result<std::vector<PhysicalPartitionId>> physical_ids(
      const std::optional<std::string>& org, const std::optional<std::string>& name);
  [[nodiscard]] Result<std::vector<PhysicalPartition>> physical(
      const std::vector<PhysicalPartitionId>& ids);
  [[nodiscard]] Result<std::vector<PhysicalPartition>> physical_of(const std::string& org);

  // ---- Fabric managers. Errors: kInvalidArgument (empty field, no http:// or https:// URL),
  // ---- kAlreadyExists, kNotFound, kFailedPrecondition (several endpoints for one chassis).
  [[nodiscard]] Result<std::vector<ChassisEndpoint>> endpoints();
  [[nodiscard]] Result<ChassisEndpoint> create_endpoint(const Actor& actor,
                                                        const ChassisEndpoint& wanted);
  [[nodiscard]] Result<ChassisEndpoint> update_endpoint(const Actor& actor,
                                                        const ChassisEndpoint& wanted);
  [[nodiscard]] Result<void> delete_endpoint(const Actor& actor, const std::string& chassis_serial);
  /// Seals them beside every NMX-M endpoint of the site, replacing what is there. Errors:
  /// kInvalidArgument, kFailedPrecondition (the site has none).
  [[nodiscard]] Result<void> add_nmxm_credentials(const Actor& actor, const std::string& user,
                                                  const log::Secret& password);
  /// Errors: kNotFound (no endpoint has some of this user).
  [[nodiscard]] Result<void> delete_nmxm_credentials(const Actor& actor, const std::string& user);
  /// Errors: kInvalidArgument, kNotFound (no endpoint for the chassis), kUnavailable, those of the
  /// fabric manager. A GPU that is not there, or none named, is an answer with code 404 or 400.
  [[nodiscard]] Result<BrowseAnswer> browse(const std::string& chassis_serial, int operation,
                                            std::uint64_t gpu_uid, const fabric::CallOptions& call);

  // ---- Machines
  [[nodiscard]] Result<std::vector<MachineView>> machines(const std::vector<MachineId>& ids);
  /// Errors: kNotFound, kInvalidArgument (places or uids that cannot be, or are another machine's),
  /// kFailedPrecondition (other GPUs while an instance holds the machine).
  [[nodiscard]] Result<void> set_nvlink_info(const Actor& actor, const MachineId& id,
                                             const NvlinkInfo& info);
  /// Removes the machine and its instance. Its GPUs leave their partitions: the reconciler takes
  /// out members that no machine holds. Errors: kFailedPrecondition (associated with an instance
  /// type, unless `despite_type`).
  [[nodiscard]] Result<ForceDeleted> force_delete(const Actor& actor, const MachineId& id,
                                                  bool despite_type);

  // ---- Instances
  [[nodiscard]] Result<std::vector<InstanceView>> instances(const std::vector<InstanceId>& ids);
  /// Errors: kNotFound, kInvalidArgument (the machine is not assigned and ready yet, deletion was
  /// requested, or the configuration cannot be), kFailedPrecondition (version).
  [[nodiscard]] Result<InstanceView> update_instance(const Actor& actor,
                                                     const InstanceUpdate& update);
  /// Again is fine. Errors: kNotFound.
  [[nodiscard]] Result<void> release_instance(const Actor& actor, const InstanceId& id,
                                              const std::string& issue);

 private:
  template <class T>
  Result<void> check_count(const std::vector<T>& ids) const;

  Store& store_;
  const Options options_;
};

}  // namespace imex::partition::forge
