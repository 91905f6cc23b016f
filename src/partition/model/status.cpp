#include "partition/model/status.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "partition/model/reconciliation.hpp"

namespace imex::partition {
namespace {

// Each table is indexed by its enumerator.
constexpr std::array<std::string_view, 15> kKindNames{"tenant",
                                                      "provider",
                                                      "site",
                                                      "instance_type",
                                                      "allocation",
                                                      "machine",
                                                      "vpc",
                                                      "nvlink_logical_partition",
                                                      "instance",
                                                      "nvlink_interface",
                                                      "domain",
                                                      "endpoint",
                                                      "physical_partition",
                                                      "operation",
                                                      "reservation"};
static_assert(kKindNames[static_cast<std::size_t>(Kind::kReservation)] == "reservation");

constexpr std::array<std::string_view, 20> kStatusNames{
    "Pending",    "Provisioning",   "Configuring",  "Ready",       "Deleting",
    "Error",      "Updating",       "Repairing",    "Rebooting",   "Terminating",
    "Terminated", "BootCompleted",  "Initializing", "Reset",       "Maintenance",
    "InUse",      "Decommissioned", "Unknown",      "Registering", "Registered"};
static_assert(kStatusNames[static_cast<std::size_t>(Status::kRegistered)] == "Registered");

constexpr std::array<std::string_view, 4> kResiliencyNames{"", "FullBandwidth", "AdaptiveBandwidth",
                                                           "UserActionRequired"};
constexpr std::array<std::string_view, 6> kHealthNames{"unknown",     "healthy",   "degraded",
                                                       "degraded_bw", "no_nvlink", "unhealthy"};
constexpr std::array<std::string_view, 5> kOperationKindNames{
    "CreatePartition", "DeletePartition", "AddGpus", "RemoveGpus", "DeleteDefaultPartition"};
constexpr std::array<std::string_view, 6> kOperationStateNames{
    "Begun", "Completed", "Failed", "TimedOut", "Cancelled", "RolledBack"};

template <class Enum, std::size_t n>
std::string_view name_in(const std::array<std::string_view, n>& names, Enum value) noexcept {
  const auto index = static_cast<std::size_t>(value);
  IMEX_ASSERT(index < n, "an enumerator of the table");
  return names[index];
}

template <class Enum, std::size_t n>
std::optional<Enum> parse_in(const std::array<std::string_view, n>& names,
                             std::string_view name) noexcept {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

constexpr std::uint32_t bit(Status status) { return 1U << static_cast<unsigned>(status); }
template <class... Statuses>
constexpr std::uint32_t bits(Statuses... statuses) {
  return (bit(statuses) | ...);
}

std::uint32_t statuses_of(Kind kind) noexcept {
  using enum Status;
  switch (kind) {
    case Kind::kLogicalPartition:
    case Kind::kVpc:
      return bits(kPending, kProvisioning, kConfiguring, kReady, kDeleting, kError);
    case Kind::kInterface:
      return bits(kPending, kProvisioning, kReady, kDeleting, kError);
    case Kind::kInstance:
      return bits(kPending, kProvisioning, kConfiguring, kReady, kUpdating, kRepairing, kRebooting,
                  kTerminating, kError, kTerminated, kBootCompleted);
    case Kind::kMachine:
      return bits(kInitializing, kReady, kReset, kMaintenance, kInUse, kError, kDecommissioned,
                  kUnknown);
    case Kind::kInstanceType:
      return bits(kPending, kRegistering, kReady, kDeleting, kError);
    case Kind::kSite:
      return bits(kPending, kRegistered, kError);
    case Kind::kAllocation:
      return bits(kPending, kRegistered, kDeleting, kError);
    default:
      return 0;
  }
}

}  // namespace

std::string_view kind_name(Kind kind) noexcept { return name_in(kKindNames, kind); }
std::string_view status_name(Status status) noexcept { return name_in(kStatusNames, status); }
std::optional<Status> parse_status(std::string_view name) noexcept {
  return parse_in<Status>(kStatusNames, name);
}
bool is_status_of(Kind kind, Status status) noexcept {
  return (statuses_of(kind) & bit(status)) != 0;
}

std::string_view resiliency_mode_name(ResiliencyMode mode) noexcept {
  return name_in(kResiliencyNames, mode);
}
std::optional<ResiliencyMode> parse_resiliency_mode(std::string_view name) noexcept {
  return parse_in<ResiliencyMode>(kResiliencyNames, name);
}
std::string_view health_name(Health health) noexcept { return name_in(kHealthNames, health); }
std::optional<Health> parse_health(std::string_view name) noexcept {
  return parse_in<Health>(kHealthNames, name);
}
std::string_view operation_kind_name(OperationKind kind) noexcept {
  return name_in(kOperationKindNames, kind);
}
std::optional<OperationKind> parse_operation_kind(std::string_view name) noexcept {
  return parse_in<OperationKind>(kOperationKindNames, name);
}
std::string_view operation_state_name(OperationState state) noexcept {
  return name_in(kOperationStateNames, state);
}
std::optional<OperationState> parse_operation_state(std::string_view name) noexcept {
  return parse_in<OperationState>(kOperationStateNames, name);
}

}  // namespace imex::partition
