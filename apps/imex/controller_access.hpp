/// Finding the controller and the simulated rack of this machine: options, variables, and the file
/// that `imex up` leaves in its state directory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "commands.hpp"
#include "partition/client/client.hpp"

namespace imex::cli {

/// As given; empty: not given.
struct ControllerOptions {
  std::string url, org, token_file, authority, site;
};

/// Inputs as values, so that tests need not change the process's environment.
struct AccessInputs {
  ControllerOptions given;      ///< --controller, --org, ...
  ControllerOptions variables;  ///< $IMEX_CONTROLLER_URL, $IMEX_ORG, ...
  std::string stack_file;       ///< the file that `imex up` wrote; it may be missing
};

struct ControllerAccess {
  std::string url, org, token_file, authority;
  std::string site;    ///< id or name; empty: the only one
  std::string source;  ///< where the URL came from, for messages
};

/// Each value from the first that has it: option, variable, file. A URL that was given by hand
/// takes nothing but the org from the file: its token is for another controller. Errors:
/// kNotFound (no URL anywhere; says where it looked), kInvalidArgument (no org; a damaged file).
[[nodiscard]] Result<ControllerAccess> locate_controller(const AccessInputs& inputs);

/// The control socket of the rack that `imex up` started. Errors: kNotFound.
[[nodiscard]] Result<std::string> locate_rack(const std::string& given, const std::string& variable,
                                              const std::string& stack_file);

/// `stack.json` of --state-dir, $IMEX_STATE_DIR, or the default of this user.
[[nodiscard]] std::string stack_file_of(const std::string& state_dir);
[[nodiscard]] AccessInputs access_inputs(const Global& global, const ControllerOptions& given);

/// A client with the token read. Errors also: those of reading the token's file.
struct Controller {
  std::unique_ptr<partition::client::Client> client;
  std::string site;
};
[[nodiscard]] Result<Controller> connect_controller(const Global& global,
                                                    const ControllerOptions& given);

}  // namespace imex::cli
