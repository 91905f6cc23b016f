#include "fabric/nmx_code.hpp"

#include <array>
#include <charconv>

#include <fmt/format.h>

namespace imex::fabric {
namespace {

using Code = NmxCode;
using Sense = NmxSense;
using Retry = NmxRetry;

constexpr std::string_view kPrefix = "NMX_ST_";
constexpr std::string_view kSeeController =
    "look at the controller's own log on its switch tray; observe before the next change";
constexpr std::string_view kSeeFabric =
    "no retry cures this: check trunks, switch trays and the static configuration of the fabric";

constexpr std::array kTable{
    NmxCodeInfo{Code::kUndefined, "NMX_ST_UNDEFINED", "the answer carries no return code",
                "is this a fabric controller (NMX-C)?", Errc::kInternal, Sense::kController,
                Retry::kBackOff, Effect::kUnknown},
    NmxCodeInfo{Code::kSuccess, "NMX_ST_SUCCESS", "done", "", Errc::kOk, Sense::kDone, Retry::kNo,
                Effect::kNone},
    NmxCodeInfo{Code::kBadParam, "NMX_ST_BADPARAM", "malformed or missing parameter", "",
                Errc::kInvalidArgument, Sense::kBadRequest, Retry::kNo, Effect::kNone},
    NmxCodeInfo{Code::kGenericError, "NMX_ST_GENERIC_ERROR",
                "unspecified failure of the controller", kSeeController, Errc::kInternal,
                Sense::kController, Retry::kBackOff, Effect::kUnknown},
    NmxCodeInfo{Code::kNotSupported, "NMX_ST_NOT_SUPPORTED", "not offered by this controller", "",
                Errc::kUnsupported, Sense::kBadRequest, Retry::kNo, Effect::kNone},
    NmxCodeInfo{Code::kUninitialized, "NMX_ST_UNINITIALIZED", "fabric manager is not initialised",
                "it may still be starting; if it stays so, start the cluster function on the "
                "primary switch tray",
                Errc::kUnavailable, Sense::kNotReady, Retry::kBackOff, Effect::kNone},
    NmxCodeInfo{Code::kTimeout, "NMX_ST_TIMEOUT", "an internal step of the controller timed out",
                "the change may still come: observe before the next one", Errc::kDeadlineExceeded,
                Sense::kController, Retry::kBackOff, Effect::kUnknown},
    NmxCodeInfo{Code::kVersionMismatch, "NMX_ST_VERSION_MISMATCH",
                "the controller speaks another protocol version",
                "use a controller of protocol 2 (or the draft dialect), or a release of Imex that "
                "knows its protocol",
                Errc::kVersionMismatch, Sense::kBadRequest, Retry::kNo, Effect::kNone},
    NmxCodeInfo{Code::kInUse, "NMX_ST_IN_USE",
                "controller is busy with, or owned by, another client",
                "is a second manager pointed at this domain?", Errc::kUnavailable, Sense::kNotReady,
                Retry::kBackOff, Effect::kNone},
    NmxCodeInfo{Code::kNotConfigured, "NMX_ST_NOT_CONFIGURED", "fabric is not configured yet",
                "configure the topology on the primary switch tray", Errc::kUnavailable,
                Sense::kNotReady, Retry::kBackOff, Effect::kNone},
    NmxCodeInfo{Code::kConnectionNotValid, "NMX_ST_CONNECTION_NOT_VALID",
                "no session with the controller", "", Errc::kUnavailable, Sense::kNoSession,
                Retry::kSoon, Effect::kNone},
    NmxCodeInfo{Code::kNvlinkError, "NMX_ST_NVLINK_ERROR", "a link-level failure prevented it",
                "look at the health of the GPUs named and of their links",
                Errc::kFailedPrecondition, Sense::kFabric, Retry::kBackOff, Effect::kNone},
    NmxCodeInfo{Code::kResourceBad, "NMX_ST_RESOURCE_BAD",
                "GPU, tray or port is unknown or unusable",
                "was a tray replaced? read the GPUs of the domain again", Errc::kNotFound,
                Sense::kGone, Retry::kNo, Effect::kNone},
    NmxCodeInfo{Code::kResourceInUse, "NMX_ST_RESOURCE_IN_USE",
                "GPU or port is held by a partition",
                "seconds after a removal this passes; otherwise look which partition holds it",
                Errc::kAlreadyExists, Sense::kConflict, Retry::kSoon, Effect::kNone},
    NmxCodeInfo{Code::kResourceNotInUse, "NMX_ST_RESOURCE_NOT_IN_USE",
                "GPU is not in the partition named", "", Errc::kNotFound, Sense::kGone, Retry::kNo,
                Effect::kNone},
    NmxCodeInfo{
        Code::kResourceExhausted, "NMX_ST_RESOURCE_EXHAUSTED",
        "no partition ids or no multicast groups left",
        "ask for fewer multicast groups; the default partition holds all of them while it stands",
        Errc::kResourceExhausted, Sense::kExhausted, Retry::kNo, Effect::kNone},
    NmxCodeInfo{Code::kResourceNotReady, "NMX_ST_RESOURCE_NOT_READY",
                "GPU or node is still registering", "", Errc::kUnavailable, Sense::kNotReady,
                Retry::kSoon, Effect::kNone},
    NmxCodeInfo{Code::kPartitionExists, "NMX_ST_PARTITION_EXISTS",
                "the same partition is there already", "", Errc::kAlreadyExists, Sense::kAlreadySo,
                Retry::kNo, Effect::kNone},
    NmxCodeInfo{Code::kPartitionIdInUse, "NMX_ST_PARTITION_ID_IN_USE", "partition id is taken", "",
                Errc::kAlreadyExists, Sense::kConflict, Retry::kNo, Effect::kNone},
    NmxCodeInfo{Code::kPartitionIdNotInUse, "NMX_ST_PARTITION_ID_NOT_IN_USE",
                "no partition with that id", "", Errc::kNotFound, Sense::kGone, Retry::kNo,
                Effect::kNone},
    NmxCodeInfo{Code::kPartitionNameInUse, "NMX_ST_PARTITION_NAME_IN_USE",
                "partition name is taken", "", Errc::kAlreadyExists, Sense::kConflict, Retry::kNo,
                Effect::kNone},
    NmxCodeInfo{Code::kPartitionNameNotInUse, "NMX_ST_PARTITION_NAME_NOT_IN_USE",
                "no partition with that name", "", Errc::kNotFound, Sense::kGone, Retry::kNo,
                Effect::kNone},
    NmxCodeInfo{Code::kPartitionIdNameMismatch, "NMX_ST_PARTITION_ID_NAME_MISMATCH",
                "partition id and name belong to different partitions",
                "the id was handed out again: observe, then name the partition anew", Errc::kStale,
                Sense::kConflict, Retry::kNo, Effect::kNone},
    NmxCodeInfo{Code::kNotReady, "NMX_ST_NOT_READY", "controller is not ready to serve",
                "it may still be starting", Errc::kUnavailable, Sense::kNotReady, Retry::kBackOff,
                Effect::kNone},
    NmxCodeInfo{Code::kResourceUsedInThisPartition, "NMX_ST_RESOURCE_USED_IN_THIS_PARTITION",
                "GPU is in this partition already", "", Errc::kAlreadyExists, Sense::kConflict,
                Retry::kSoon, Effect::kNone},
    NmxCodeInfo{Code::kResourceUsedInAnotherPartition, "NMX_ST_RESOURCE_USED_IN_ANOTHER_PARTITION",
                "GPU is held by another partition",
                "seconds after a removal this passes; otherwise look which partition holds it",
                Errc::kAlreadyExists, Sense::kConflict, Retry::kSoon, Effect::kNone},
    NmxCodeInfo{Code::kPartitionMiswiredTrunks, "NMX_ST_PARTITION_MISWIRED_TRUNKS",
                "partition has miswired trunks", kSeeFabric, Errc::kFailedPrecondition,
                Sense::kFabric, Retry::kNo, Effect::kUnknown},
    NmxCodeInfo{Code::kPartitionTooFewTrunks, "NMX_ST_PARTITION_TOO_FEW_TRUNKS",
                "partition has too few trunks", kSeeFabric, Errc::kFailedPrecondition,
                Sense::kFabric, Retry::kNo, Effect::kUnknown},
    NmxCodeInfo{Code::kPartitionMissingSwitches, "NMX_ST_PARTITION_MISSING_SWITCHES",
                "partition misses switches", kSeeFabric, Errc::kFailedPrecondition, Sense::kFabric,
                Retry::kNo, Effect::kUnknown},
    NmxCodeInfo{Code::kNetworkConfigurationError, "NMX_ST_NETWORK_CONFIGURATION_ERROR",
                "network configuration error", kSeeFabric, Errc::kFailedPrecondition,
                Sense::kFabric, Retry::kNo, Effect::kUnknown},
    NmxCodeInfo{Code::kRouteProgrammingError, "NMX_ST_ROUTE_PROGRAMMING_ERROR",
                "routes could not be programmed", kSeeFabric, Errc::kFailedPrecondition,
                Sense::kFabric, Retry::kNo, Effect::kUnknown},
    NmxCodeInfo{Code::kControllerInternalError, "NMX_ST_NMX_CONTROLLER_INTERNAL_ERROR",
                "controller failed inside", kSeeController, Errc::kInternal, Sense::kController,
                Retry::kBackOff, Effect::kUnknown},
    NmxCodeInfo{Code::kControllerDbError, "NMX_ST_NMX_CONTROLLER_DB_ERROR",
                "the controller's database failed", kSeeController, Errc::kInternal,
                Sense::kController, Retry::kBackOff, Effect::kUnknown},
    NmxCodeInfo{Code::kControllerDbCorruption, "NMX_ST_NMX_CONTROLLER_DB_CORRUPTION",
                "the controller's database is corrupt",
                "stop changing this domain; an operator must restore the controller's database",
                Errc::kDataLoss, Sense::kController, Retry::kNo, Effect::kUnknown},
    NmxCodeInfo{Code::kControllerInvalidConfigFile, "NMX_ST_NMX_CONTROLLER_INVALID_CONFIG_FILE",
                "static configuration was refused", "", Errc::kInvalidArgument, Sense::kBadRequest,
                Retry::kNo, Effect::kNone},
};

constexpr bool sorted_by_code() {
  for (std::size_t i = 1; i < kTable.size(); ++i)
    if (kTable[i - 1].code >= kTable[i].code) return false;
  return true;
}
static_assert(sorted_by_code());

}  // namespace

NmxCodeInfo nmx_code_info(NmxCode code) noexcept {
  for (const NmxCodeInfo& row : kTable)
    if (row.code == code) return row;
  return {code,
          "NMX_ST_?",
          "a return code that this release does not know",
          kSeeController,
          Errc::kInternal,
          Sense::kController,
          Retry::kBackOff,
          Effect::kUnknown};
}

std::string nmx_code_name(NmxCode code) {
  for (const NmxCodeInfo& row : kTable)
    if (row.code == code) return std::string(row.name);
  return fmt::format("{}{}", kPrefix, static_cast<std::uint32_t>(code));
}

std::optional<NmxCode> nmx_code_from_name(std::string_view name) noexcept {
  for (const NmxCodeInfo& row : kTable)
    if (row.name == name) return row.code;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return NmxCode{number};
}

Error nmx_error(NmxCode code, std::string_view what) {
  const NmxCodeInfo info = nmx_code_info(code);
  return {info.errc == Errc::kOk ? Errc::kInternal : info.errc,
          fmt::format("{}: {} ({}, {})", what, info.text, nmx_code_name(code),
                      static_cast<std::uint32_t>(code)),
          std::string(info.hint), kNoRank};
}

}  // namespace imex::fabric
