/// The command line of nvidia-imex-ctl (imex-service section 11), with the spellings its callers
/// use: -u PATH, -u=PATH, --u=PATH, --u PATH; short flags alone or together (-Nj); -i takes two
/// words.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"

namespace imex::ctl {

enum class Verb : std::uint8_t { kStatus, kSubscribe, kDomain, kMonitor, kHelp, kVersion };

struct Options {
  Verb verb = Verb::kHelp;
  std::string config = "/etc/nvidia-imex/config.cfg";  ///< -c
  bool config_given = false;
  std::string socket;                                ///< -u
  std::string address;                               ///< -i, first word
  std::uint16_t port = 0;                            ///< -i, second word
  bool host_names = false;                           ///< -H
  bool json = false;                                 ///< -j
  bool deep = false;                                 ///< --deep
  std::optional<std::chrono::milliseconds> timeout;  ///< -t
};

/// `arguments` without the program's name. Errors: kInvalidArgument, in words for the user.
[[nodiscard]] Result<Options> parse_options(std::span<const char* const> arguments);

/// What --help prints.
[[nodiscard]] const char* help_text() noexcept;

}  // namespace imex::ctl
