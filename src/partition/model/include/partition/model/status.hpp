/// Words for the states of objects, spelled as the API spells them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace imex::partition {

/// Wall-clock time as records and answers carry it (RFC 3339, UTC, microseconds).
using WallTime = std::chrono::sys_time<std::chrono::microseconds>;

/// What an object is; also names it in the audit log.
enum class Kind : std::uint8_t {
  kTenant,
  kProvider,
  kSite,
  kInstanceType,
  kAllocation,
  kMachine,
  kVpc,
  kLogicalPartition,
  kInstance,
  kInterface,
  kDomain,
  kEndpoint,
  kPhysicalPartition,
  kOperation,
  kReservation,
};
/// "logical_partition", ...
[[nodiscard]] std::string_view kind_name(Kind kind) noexcept;

/// The union of all objects' states; is_status_of() says which an object of a kind can have.
enum class Status : std::uint8_t {
  kPending,
  kProvisioning,
  kConfiguring,
  kReady,
  kDeleting,
  kError,
  kUpdating,
  kRepairing,
  kRebooting,
  kTerminating,
  kTerminated,
  kBootCompleted,
  kInitializing,
  kReset,
  kMaintenance,
  kInUse,
  kDecommissioned,
  kUnknown,
  kRegistering,
  kRegistered,
};
/// "Ready", "InUse", ...
[[nodiscard]] std::string_view status_name(Status status) noexcept;
[[nodiscard]] std::optional<Status> parse_status(std::string_view name) noexcept;
/// Whether an object of this kind can be in, or its list be filtered by, this status.
[[nodiscard]] bool is_status_of(Kind kind, Status status) noexcept;

/// How a physical partition behaves when links are lost; numbers as on the NMX-C wire.
enum class ResiliencyMode : std::uint8_t {
  kUnset = 0,
  kFullBandwidth = 1,
  kAdaptiveBandwidth = 2,
  kUserActionRequired = 3,
};
/// "FullBandwidth", ...; empty for kUnset.
[[nodiscard]] std::string_view resiliency_mode_name(ResiliencyMode mode) noexcept;
[[nodiscard]] std::optional<ResiliencyMode> parse_resiliency_mode(std::string_view name) noexcept;

/// One word for the health of GPUs, compute nodes and partitions; NMX-C numbers them differently.
enum class Health : std::uint8_t {
  kUnknown,
  kHealthy,
  kDegraded,
  kDegradedBandwidth,
  kNoNvlink,
  kUnhealthy,
};
/// As label of metrics and in JSON: "healthy", "degraded_bw", ...
[[nodiscard]] std::string_view health_name(Health health) noexcept;
[[nodiscard]] std::optional<Health> parse_health(std::string_view name) noexcept;

}  // namespace imex::partition
