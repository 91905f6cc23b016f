/// Finding the local daemon: its run directory holds its sockets.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace imex::cli {

/// Where a daemon can be asked.
struct DaemonPaths {
  std::string run_directory;
  [[nodiscard]] std::string command_socket() const { return run_directory + "/command.sock"; }
  [[nodiscard]] std::string control_socket() const { return run_directory + "/control.sock"; }
};

/// Inputs as values, so that tests need not change the process's environment.
struct LocateOptions {
  std::string state_dir;               ///< --state-dir; empty: not given
  std::string state_dir_variable;      ///< $IMEX_STATE_DIR
  std::vector<std::string> run_roots;  ///< searched for the only daemon, in this order
};
/// Of this process: $IMEX_STATE_DIR; $XDG_RUNTIME_DIR/imex and /run/imex.
[[nodiscard]] LocateOptions locate_options(std::string state_dir);

/// The run directory of the daemon meant. With a state directory its 'run' (or itself, where it has
/// the sockets), whether or not a daemon runs; else the only directory with a socket under the run
/// roots. Errors: kNotFound (none; says where it looked), kFailedPrecondition (several; lists
/// them).
[[nodiscard]] Result<DaemonPaths> locate_daemon(const LocateOptions& options);

}  // namespace imex::cli
