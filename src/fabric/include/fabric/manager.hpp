/// What the product needs of whoever programs the NVLink switches of one domain, in its own words.
///
///     auto manager = nmxc::open(options);        // or nmxm::open: nobody else knows which one
///     speaks auto snapshot = (*manager)->observe(CallOptions::within(30s)); auto created =
///     (*manager)->create_partition({.name = "lp-7", .gpu_uids = {...}}, CallOptions::within(60s));
///     if (!created && created.error().effect == Effect::kUnknown) { /* observe, compare by GPU
///     uids */ }
///
/// One object serves one domain. Threads: every call may come from any thread and blocks it until
/// the answer, the deadline or the cancellation. Reads run side by side; changes wait for each
/// other, in no particular order. The destructor cancels what still runs and joins all threads
/// within a second; no call may begin after that.
///
/// What holds for every implementation:
/// - An answer that breaks the rules (an id twice, a list beyond any rack, a wrong domain) is an
/// error, never a snapshot.
/// - A domain UUID other than the first one, or than the one configured, is refused with
/// kFailedPrecondition: an address may
///   come to belong to another rack.
/// - Nothing is retried that may have taken effect. Reads and calls that certainly had no effect go
/// on to the next endpoint.
/// - A lost session is opened again once, quietly.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/time.hpp"
#include "base/uuid.hpp"
#include "fabric/nmx_code.hpp"

namespace imex::fabric {

/// Id of the partition that holds every GPU of a domain until somebody takes them out.
inline constexpr std::uint32_t kDefaultPartitionId = 32'766;
/// Bounds on answers: far above any rack, so that a broken manager costs an error and not the
/// memory.
inline constexpr std::size_t kDomainGpusMax = 4'096;
inline constexpr std::size_t kDomainPartitionsMax = 32'766;

// --- Outcomes
// -------------------------------------------------------------------------------------------------------

/// Why a call did not succeed, and what that leaves behind.
struct Failure {
  Error error{};
  /// For changes. Reads always say kNone.
  Effect effect = Effect::kNone;
  /// What the controller answered; kUndefined where no answer came, or none of the controller's.
  NmxCode code = NmxCode::kUndefined;
  NmxRetry retry = NmxRetry::kNo;
  /// All endpoints are in back-off: the next attempt is not made before. Zero: at once.
  Nanos retry_after{0};
};
template <class T>
using Outcome = tl::expected<T, Failure>;

struct CallOptions {
  std::chrono::steady_clock::time_point deadline;
  /// Ends the call with kAborted. Only a call that was not sent yet is then certain to have no
  /// effect.
  std::stop_token cancel{};

  [[nodiscard]] static CallOptions within(std::chrono::milliseconds timeout,
                                          std::stop_token cancel = {}) {
    return {std::chrono::steady_clock::now() + timeout, std::move(cancel)};
  }
};

// --- What is there
// --------------------------------------------------------------------------------------------------

// Open sets with the numbers of NMX-C: a number that is not listed is kept, and its name is
// "unknown".
enum class GpuHealth : std::uint32_t {
  kUnknown,
  kHealthy,
  kDegraded,
  kNoNvlink,
  kDegradedBandwidth
};
enum class NodeHealth : std::uint32_t { kUnknown, kHealthy, kDegraded, kUnhealthy };
enum class PartitionHealth : std::uint32_t {
  kUnknown,
  kHealthy,
  kDegradedBandwidth,
  kDegraded,
  kUnhealthy,
  /// NMX-M only: recorded there, not yet confirmed by the controller.
  kNew = 1'000,
};
enum class PartitionKind : std::uint32_t { kUndefined, kByLocation, kByUid };
enum class ResiliencyMode : std::uint32_t {
  kDefault,
  kFullBandwidth,
  kAdaptiveBandwidth,
  kUserActionRequired
};
enum class ControlPlaneState : std::uint32_t {
  kUndefined,
  kOffline,
  kStandby,
  kConfigured,
  kTimeout,
  kError,
  kUnconfigured,
  kDegraded,
};
enum class ControllerHealth : std::uint32_t {
  kUnknown,
  kHealthy,
  kDegraded,
  kUnhealthy,
  kCorruptDatabase
};

/// "healthy", "degraded_bw", "no_nvlink", ...: as in metrics labels and JSON.
[[nodiscard]] std::string_view to_text(GpuHealth health) noexcept;
[[nodiscard]] std::string_view to_text(NodeHealth health) noexcept;
[[nodiscard]] std::string_view to_text(PartitionHealth health) noexcept;
[[nodiscard]] std::string_view to_text(PartitionKind kind) noexcept;
[[nodiscard]] std::string_view to_text(ResiliencyMode mode) noexcept;
[[nodiscard]] std::string_view to_text(ControlPlaneState state) noexcept;
[[nodiscard]] std::string_view to_text(ControllerHealth health) noexcept;

/// Where a host stands. Slot and tray are never computed from each other.
struct HostPlace {
  std::uint64_t chassis_id = 0;
  std::string chassis_serial{};
  std::uint64_t slot_id = 0;     ///< physical slot, from 1, over all kinds of trays
  std::uint64_t tray_index = 0;  ///< among trays of this kind, from 0
  std::uint64_t host_id = 0;     ///< OS instance in the slot, from 1
  friend bool operator==(const HostPlace&, const HostPlace&) = default;
};

struct ObservedGpu {
  std::uint64_t uid = 0;        ///< fabric GUID: the only stable key
  std::uint32_t module_id = 0;  ///< 1 to 4 within the host; not the index of NVML
  HostPlace place{};
  GpuHealth health = GpuHealth::kUnknown;
  /// As the list of GPUs says; nothing: in no partition, so without NVLink.
  std::optional<std::uint32_t> partition_id{};
};

struct ObservedPartition {
  std::uint32_t id = 0;
  std::string name{};
  PartitionHealth health = PartitionHealth::kUnknown;
  PartitionKind kind = PartitionKind::kUndefined;
  /// Ascending, each once. Members may be missing from Snapshot::gpus (a tray that is off): such a
  /// GPU is not free.
  std::vector<std::uint64_t> gpu_uids{};
  ResiliencyMode resiliency = ResiliencyMode::kDefault;
  /// What it may use and what it uses; nothing where the manager does not tell.
  std::optional<std::uint32_t> multicast_groups_limit{}, multicast_groups_used{};

  /// By id, or by a name that contains "Default": both occur.
  [[nodiscard]] bool is_default() const noexcept;
};

struct ObservedNode {
  HostPlace place{};
  NodeHealth health = NodeHealth::kUnknown;
  std::uint32_t gpu_count = 0;
};

/// Everything that a pass of the reconciler reads. All parts came from one life of one controller;
/// they were read within milliseconds, not atomically, so `disputed` names what changed in between
/// or never agreed.
struct Snapshot {
  Uuid domain_uuid{};
  std::string instance{};  ///< of the controller; another one after a restart or take-over
  std::string endpoint{};  ///< which one answered
  ControlPlaneState control_plane = ControlPlaneState::kUndefined;
  ControllerHealth controller_health = ControllerHealth::kUnknown;
  std::string status_text{};
  std::optional<std::uint32_t> multicast_groups_free{};
  std::vector<ObservedGpu> gpus{};  ///< by uid, each once
  std::vector<ObservedPartition>
      partitions;                     ///< by id, each once; the default partition is one of them
  std::vector<ObservedNode> nodes{};  ///< by chassis, slot, host
  /// GPUs, by uid, whose own partition id and whose place in the partitions' lists still differed
  /// after three readings: leave them alone in this pass.
  std::vector<std::uint64_t> disputed{};

  [[nodiscard]] const ObservedGpu* find_gpu(std::uint64_t uid) const noexcept;
  [[nodiscard]] const ObservedPartition* find_partition(std::uint32_t id) const noexcept;
  /// The one that lists the GPU as a member, whatever the GPU itself says.
  [[nodiscard]] const ObservedPartition* partition_of(std::uint64_t uid) const noexcept;
  /// Null once somebody has deleted it: it does not come back by itself.
  [[nodiscard]] const ObservedPartition* default_partition() const noexcept;
  /// kConfigured, or kDegraded, which still serves.
  [[nodiscard]] bool can_change() const noexcept;
};

/// What the manager can do; nothing else tells an implementation from another.
struct ManagerProfile {
  std::string protocol{};  ///< "nmx-c 2.20", "nmx-c 1.4 (draft)", "nmx-m v1": for people
  std::size_t name_bytes_max = 0;
  bool chooses_partition_id = false;  ///< CreatePartition::id is heeded
  bool multicast = false;             ///< CreatePartition::multicast_groups is heeded
  bool resiliency = false;            ///< CreatePartition::resiliency is heeded
  bool empty_partitions = false;      ///< one may be created without GPUs
  bool immediate = false;  ///< what was answered with success shows in the next observation
  bool notifies = false;   ///< changes of others are told; otherwise they are found by looking
};

/// 0: not told.
struct DomainLimits {
  std::uint32_t compute_nodes = 0, gpus_per_node = 0, links_per_gpu = 0;
  std::uint32_t switch_nodes = 0, switches_per_node = 0, links_per_switch = 0;
  std::uint32_t partitions = 0, multicast_groups = 0, routing_labels = 0, ports = 0;
};

struct DomainDescription {
  Uuid domain_uuid{};
  std::string instance{}, version{}, endpoint{};
  ControlPlaneState control_plane = ControlPlaneState::kUndefined;
  ControllerHealth controller_health = ControllerHealth::kUnknown;
  std::string status_text{};
  ManagerProfile profile{};
  DomainLimits limits{};
};

// --- Changes
// --------------------------------------------------------------------------------------------------------

/// Which partition. Give both where both are known: an id is handed out again, and the manager
/// refuses a pair that does not belong together (kPartitionIdNameMismatch). 0 or an empty name: not
/// given.
struct PartitionTarget {
  std::uint32_t id = 0;
  std::string name{};
};

struct CreatePartition {
  std::string
      name;  ///< printable ASCII, at most ManagerProfile::name_bytes_max; unique in the domain
  std::vector<std::uint64_t> gpu_uids{};  ///< none of them in a partition now
  std::uint32_t id = 0;                   ///< 0: the manager chooses
  ResiliencyMode resiliency = ResiliencyMode::kDefault;
  /// Fixed for the life of the partition; rounded down to a multiple of 4, as managers demand. 0:
  /// none.
  std::uint32_t multicast_groups = 0;
};

struct CreatedPartition {
  std::uint32_t id = 0;
  bool already_there = false;  ///< the same name and GPUs stood there before; nothing was done
};

/// GPUs to take out and to put in, by uid. A GPU listed to be removed that is not a member, or to
/// be added that is one, is no error. Everything else in the partition stays.
struct MembershipChange {
  std::vector<std::uint64_t> remove{}, add{};
};

// --- Events
// ---------------------------------------------------------------------------------------------------------

/// Hints that wake the reconciler, never state: on any of them, observe. They come late, merged, or
/// not at all.
struct FabricEvent {
  enum class Kind : std::uint8_t {
    kTopology,       ///< devices or links appeared, went or changed
    kPartition,      ///< one changed: `partition_id`, 0 where not told
    kControlPlane,   ///< `control_plane` has the state where it was told
    kHealth,         ///< something's health changed
    kConfiguration,  ///< static configuration or admin states changed
    kGap,  ///< events may have been missed: a stream began, ended, fell silent, or the controller
           ///< is another one
    kUnreachable,  ///< no endpoint answers (told once); kGap follows when one does again
    kSplit,  ///< two controllers serve this domain and both believe to be primary: an operator must
             ///< act
  };
  Kind kind = Kind::kGap;
  std::uint32_t partition_id = 0;
  ControlPlaneState control_plane = ControlPlaneState::kUndefined;
  std::string detail{};  ///< for logs
};
[[nodiscard]] std::string_view to_text(FabricEvent::Kind kind) noexcept;

/// On a thread of the manager, one at a time; must not block, nor call the manager.
using EventHandler = std::function<void(const FabricEvent&)>;

// --- The interface
// --------------------------------------------------------------------------------------------------

class FabricManager {
 public:
  FabricManager() = default;
  virtual ~FabricManager() = default;
  FabricManager(const FabricManager&) = delete;
  FabricManager& operator=(const FabricManager&) = delete;

  /// Opens a session where there is none and says who is there: what an operator gets on entering
  /// an endpoint.
  [[nodiscard]] virtual Outcome<DomainDescription> describe(const CallOptions& options) = 0;

  [[nodiscard]] virtual Outcome<Snapshot> observe(const CallOptions& options) = 0;

  /// Errors: kInvalidArgument before anything is sent; then what the manager says. kUnknown: look
  /// for a partition with exactly these GPUs, now and later, before creating it again.
  [[nodiscard]] virtual Outcome<CreatedPartition> create_partition(const CreatePartition& wanted,
                                                                   const CallOptions& options) = 0;

  /// Removes first, then adds. kPartial: the removal is done, the addition is not.
  [[nodiscard]] virtual Outcome<void> update_partition(const PartitionTarget& target,
                                                       const MembershipChange& change,
                                                       const CallOptions& options) = 0;

  /// Its GPUs are then in no partition. One that is not there may be answered with success or with
  /// kNotFound.
  [[nodiscard]] virtual Outcome<void> delete_partition(const PartitionTarget& target,
                                                       const CallOptions& options) = 0;

  /// From now on, until replaced by another handler or by none. The first event is kGap, or
  /// kUnreachable. On return the former handler is not running and will not be called again.
  virtual void watch(EventHandler handler) = 0;
};

}  // namespace imex::fabric
