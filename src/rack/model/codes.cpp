#include "rack/codes.hpp"

namespace imex::rack {

std::string_view return_code_name(ReturnCode code) noexcept {
  switch (code) {
    case ReturnCode::kUndefined:
      return "NMX_ST_UNDEFINED";
    case ReturnCode::kSuccess:
      return "NMX_ST_SUCCESS";
    case ReturnCode::kBadParam:
      return "NMX_ST_BADPARAM";
    case ReturnCode::kGenericError:
      return "NMX_ST_GENERIC_ERROR";
    case ReturnCode::kNotSupported:
      return "NMX_ST_NOT_SUPPORTED";
    case ReturnCode::kTimeout:
      return "NMX_ST_TIMEOUT";
    case ReturnCode::kVersionMismatch:
      return "NMX_ST_VERSION_MISMATCH";
    case ReturnCode::kNotConfigured:
      return "NMX_ST_NOT_CONFIGURED";
    case ReturnCode::kConnectionNotValid:
      return "NMX_ST_CONNECTION_NOT_VALID";
    case ReturnCode::kNvlinkError:
      return "NMX_ST_NVLINK_ERROR";
    case ReturnCode::kResourceBad:
      return "NMX_ST_RESOURCE_BAD";
    case ReturnCode::kResourceInUse:
      return "NMX_ST_RESOURCE_IN_USE";
    case ReturnCode::kResourceNotInUse:
      return "NMX_ST_RESOURCE_NOT_IN_USE";
    case ReturnCode::kResourceExhausted:
      return "NMX_ST_RESOURCE_EXHAUSTED";
    case ReturnCode::kResourceNotReady:
      return "NMX_ST_RESOURCE_NOT_READY";
    case ReturnCode::kPartitionExists:
      return "NMX_ST_PARTITION_EXISTS";
    case ReturnCode::kPartitionIdInUse:
      return "NMX_ST_PARTITION_ID_IN_USE";
    case ReturnCode::kPartitionIdNotInUse:
      return "NMX_ST_PARTITION_ID_NOT_IN_USE";
    case ReturnCode::kPartitionNameInUse:
      return "NMX_ST_PARTITION_NAME_IN_USE";
    case ReturnCode::kPartitionNameNotInUse:
      return "NMX_ST_PARTITION_NAME_NOT_IN_USE";
    case ReturnCode::kPartitionIdNameMismatch:
      return "NMX_ST_PARTITION_ID_NAME_MISMATCH";
    case ReturnCode::kNotReady:
      return "NMX_ST_NOT_READY";
    case ReturnCode::kUsedInThisPartition:
      return "NMX_ST_RESOURCE_USED_IN_THIS_PARTITION";
    case ReturnCode::kUsedInAnotherPartition:
      return "NMX_ST_RESOURCE_USED_IN_ANOTHER_PARTITION";
    case ReturnCode::kMissingSwitches:
      return "NMX_ST_PARTITION_MISSING_SWITCHES";
    case ReturnCode::kDbError:
      return "NMX_ST_NMX_CONTROLLER_DB_ERROR";
    case ReturnCode::kDbCorruption:
      return "NMX_ST_NMX_CONTROLLER_DB_CORRUPTION";
    case ReturnCode::kInvalidConfigFile:
      return "NMX_ST_NMX_CONTROLLER_INVALID_CONFIG_FILE";
  }
  return "NMX_ST_UNKNOWN";
}

}  // namespace imex::rack
