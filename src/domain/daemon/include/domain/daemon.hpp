/// The node daemon as a process: one event loop that owns the state of one or several domains.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "domain/config.hpp"

namespace imex::domain {

/// Exit codes of imex-service.md, section 18.
struct ExitCode {
  static constexpr int kOk = 0;
  static constexpr int kUsage = 64;
  static constexpr int kBadConfig = 65;
  static constexpr int kBadNodeList = 66;
  static constexpr int kPortInUse = 69;
  static constexpr int kInternal = 70;
  static constexpr int kNoInterface = 71;
  static constexpr int kSessionInUse = 72;
  static constexpr int kDriverMismatch = 73;
  static constexpr int kSecurity = 74;
  static constexpr int kIdentityChanged = 75;
  static constexpr int kListMismatch = 76;
};

/// For a start that fails before run_daemon_process(): leaves the same last-error.json as that
/// does. `state_dir` empty: that of the configuration file, as far as the file can be read.
void report_failed_start(const std::string& config_path, const std::string& state_dir,
                         int exit_status, const Error& error);

struct DaemonProcess {
  std::vector<LoadedConfig> domains;  ///< at least one
  /// Absolute path and arguments of this program, for an upgrade by exec on SIGUSR2.
  std::string program;
  std::vector<std::string> arguments;
  /// Called once, when all domains are READY.
  std::function<void()> on_ready{};
};

/// Runs until a signal ends it or it cannot go on; returns the exit code. Call it from the main
/// thread, before any other thread exists. Signals: SIGTERM, SIGINT and SIGQUIT stop in order
/// within two seconds; SIGHUP, SIGUSR1 and SIGUSR2 as in imex-service.md section 9 and docs/guide.
[[nodiscard]] int run_daemon_process(DaemonProcess process);

}  // namespace imex::domain
