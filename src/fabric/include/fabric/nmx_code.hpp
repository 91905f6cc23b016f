/// Return codes of NVLink fabric controllers (NMX-C), and what each one means for the caller. They
/// stand in the header of every answer, beside a transport status that says only that an answer
/// came.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace imex::fabric {

/// An open set: later controllers add codes, which are carried through as numbers.
enum class NmxCode : std::uint32_t {
  kUndefined = 0,  ///< never a valid answer; here also: no answer came
  kSuccess = 1,
  kBadParam = 2,
  kGenericError = 3,
  kNotSupported = 4,
  kUninitialized = 5,
  kTimeout = 6,
  kVersionMismatch = 7,
  kInUse = 8,
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
  // Inferred numbers of what controllers of release 1.3 added.
  kResourceUsedInThisPartition = 24,
  kResourceUsedInAnotherPartition = 25,
  kPartitionMiswiredTrunks = 26,
  kPartitionTooFewTrunks = 27,
  kPartitionMissingSwitches = 28,
  kNetworkConfigurationError = 29,
  kRouteProgrammingError = 30,
  kControllerInternalError = 500,
  kControllerDbError = 501,
  kControllerDbCorruption = 502,
  kControllerInvalidConfigFile = 503,
};

/// What kind of answer it is: what a caller branches on.
enum class NmxSense : std::uint8_t {
  kDone,
  kAlreadySo,   ///< the wanted state is there; nothing was done
  kBadRequest,  ///< wrong whatever the state of the fabric
  kConflict,    ///< an id, a name or a GPU is held by something else
  kGone,        ///< what was named is not there
  kExhausted,   ///< no ids or multicast groups left
  kNotReady,    ///< the controller, a tray or a GPU is still coming up, or another client is served
  kNoSession,   ///< Hello again
  kFabric,      ///< links, switches or routes prevent it: a retry does not cure it
  kController,  ///< the controller itself failed
};

enum class NmxRetry : std::uint8_t {
  kNo,       ///< not until something else has changed
  kSoon,     ///< seconds: resources of a deleted partition are freed late
  kBackOff,  ///< later and ever more rarely
};

/// What a call that did not succeed may have done to the fabric.
enum class Effect : std::uint8_t {
  kNone,     ///< certain: nothing was changed
  kPartial,  ///< certain: a first step (removal) is in effect, the rest is not
  kUnknown,  ///< all, some or nothing, now or later: observe before the next change
};

struct NmxCodeInfo {
  NmxCode code;
  std::string_view name;  ///< "NMX_ST_BADPARAM"
  std::string_view text;  ///< for people
  std::string_view hint;  ///< what to do; may be empty
  Errc errc;
  NmxSense sense;
  NmxRetry retry;
  Effect effect;  ///< of a change that was answered with this code
};

/// Unknown numbers get a row of their own (kController, kBackOff, kUnknown) with that number.
[[nodiscard]] NmxCodeInfo nmx_code_info(NmxCode code) noexcept;
/// "NMX_ST_RESOURCE_IN_USE"; "NMX_ST_77" for a number that is not known.
[[nodiscard]] std::string nmx_code_name(NmxCode code);
/// From the form above: managers above the controller quote it. Nothing for any other text.
[[nodiscard]] std::optional<NmxCode> nmx_code_from_name(std::string_view name) noexcept;

/// "`what`: GPU or port is held by a partition (NMX_ST_RESOURCE_IN_USE, 13)" with the code and hint
/// that fit. Not for kSuccess.
[[nodiscard]] Error nmx_error(NmxCode code, std::string_view what);

}  // namespace imex::fabric
