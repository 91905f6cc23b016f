/// Outcomes and states of the fabric controller's protocol, with their numbers on the wire.
#pragma once

#include <cstdint>
#include <string_view>

namespace imex::rack {

enum class ReturnCode : std::uint32_t {
  kUndefined = 0,
  kSuccess = 1,
  kBadParam = 2,
  kGenericError = 3,
  kNotSupported = 4,
  kTimeout = 6,
  kVersionMismatch = 7,
  kNotConfigured = 9,
  kConnectionNotValid = 10,
  kNvlinkError = 11,
  kResourceBad = 12,
  kResourceInUse = 13,
  kResourceNotInUse = 14,
  kResourceExhausted = 15,
  kResourceNotReady = 16,
  kPartitionExists = 17,
  kPartitionIdInUse = 18,
  kPartitionIdNotInUse = 19,
  kPartitionNameInUse = 20,
  kPartitionNameNotInUse = 21,
  kPartitionIdNameMismatch = 22,
  kNotReady = 23,
  kUsedInThisPartition = 24,  ///< from here to 30: personality "1.3" only
  kUsedInAnotherPartition = 25,
  kMissingSwitches = 28,
  kDbError = 501,
  kDbCorruption = 502,
  kInvalidConfigFile = 503,
};
/// "NMX_ST_RESOURCE_IN_USE"
[[nodiscard]] std::string_view return_code_name(ReturnCode code) noexcept;

enum class ControlPlane : std::uint32_t {
  kStandby = 2,
  kConfigured = 3,
  kUnconfigured = 6,
  kDegraded = 7
};
enum class ControllerHealth : std::uint32_t { kHealthy = 1, kDegraded = 2, kCorruptDatabase = 4 };
enum class PartitionHealth : std::uint32_t {
  kUnknown = 0,
  kHealthy = 1,
  kDegradedBandwidth = 2,
  kDegraded = 3,
  kUnhealthy = 4,
};
enum class PartitionKind : std::uint32_t { kUndefined = 0, kByLocation = 1, kByUid = 2 };
enum class ResiliencyMode : std::uint32_t {
  kDefault = 0,  ///< whatever the controller takes: here kAdaptiveBandwidth
  kFullBandwidth = 1,
  kAdaptiveBandwidth = 2,
  kUserActionRequired = 3,
};
enum class GpuHealth : std::uint32_t {
  kHealthy = 1,
  kDegraded = 2,
  kNoNvlink = 3,
  kDegradedBandwidth = 4,
};
enum class TrayHealth : std::uint32_t { kHealthy = 1, kDegraded = 2, kUnhealthy = 3 };
/// Of a chip and of a switch tray.
enum class SwitchHealth : std::uint32_t { kHealthy = 1, kMissingNvlink = 2, kUnhealthy = 3 };
enum class AdminState : std::uint32_t { kUp = 1, kDown = 2, kDiagnostic = 3 };

}  // namespace imex::rack
