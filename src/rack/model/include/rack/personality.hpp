/// How a simulated controller behaves where real ones differ, or where nobody knows. Defaults
/// first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/time.hpp"
#include "rack/codes.hpp"

namespace imex::rack {

enum class SessionReach : std::uint8_t {
  kGateway,     ///< one Hello covers the gateway id
  kConnection,  ///< one Hello for each connection
  kOff,
};
enum class CliqueChange : std::uint8_t {
  kOnReset,  ///< NVML shows a changed partition after a reset of the GPU
  kImmediate,
};
enum class IdAllocation : std::uint8_t { kUpward, kReuseLowest };

struct Personality {
  std::string name = "2.20";
  bool draft_too = false;  ///< serves the draft dialect beside the current one
  SessionReach session = SessionReach::kGateway;
  bool codes_1_3 = false;     ///< return codes 24 to 30
  bool strict = false;        ///< errors where existing controllers are lenient
  bool lenient_attr = false;  ///< attr 0 of a read means "all"
  ReturnCode unknown_gpu = ReturnCode::kResourceBad;
  bool default_partition = true;
  std::string default_name = "Default Partition";
  CliqueChange clique_change = CliqueChange::kOnReset;
  IdAllocation ids = IdAllocation::kUpward;
  bool subscribe = true;
  bool strict_links = true;    ///< one lost link: GPU without NVLink; otherwise degraded
  bool small_numbers = false;  ///< uids from 1001, as the interop profile wants them
  bool nvml_last_field =
      true;  ///< health mask 0x1AA; false: 0x0AA, of drivers without the last field
  std::string version = "2.20.0";
  std::uint32_t major = 2, minor = 20;
  Nanos still_listed{0};  ///< a deleted partition stays in lists
  Nanos still_bound{0};   ///< freed GPUs refuse
  Nanos start_delay{0};   ///< NOT_READY after a start
};

/// "2.20", "1.3", "strict", "draft", "interop". Errors: kInvalidArgument.
[[nodiscard]] Result<Personality> find_personality(std::string_view name);
/// Changes one switch: "session=connection", "clique-change=immediate", "default-partition=absent",
/// ... Errors: kInvalidArgument, with the known keys.
[[nodiscard]] Result<void> set_personality(Personality& personality, std::string_view setting);

}  // namespace imex::rack
