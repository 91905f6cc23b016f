#include "last_error.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include "base/version.hpp"
#include "config/key_value.hpp"
#include "domain/daemon.hpp"
#include "os/file.hpp"

namespace imex::domain {

namespace {

constexpr std::array<std::pair<int, std::string_view>, 12> kExitCodeNames = {{
    {ExitCode::kOk, "ok"},
    {ExitCode::kUsage, "usage"},
    {ExitCode::kBadConfig, "bad_config"},
    {ExitCode::kBadNodeList, "bad_node_list"},
    {ExitCode::kPortInUse, "port_in_use"},
    {ExitCode::kInternal, "internal"},
    {ExitCode::kNoInterface, "no_matching_interface"},
    {ExitCode::kSessionInUse, "session_in_use"},
    {ExitCode::kDriverMismatch, "driver_mismatch"},
    {ExitCode::kSecurity, "security"},
    {ExitCode::kIdentityChanged, "node_id_changed"},
    {ExitCode::kListMismatch, "list_mismatch"},
}};

std::string file_in(const std::string& run_directory) { return run_directory + "/last-error.json"; }

/// The state directory of a configuration that could not be read as a whole.
std::string configured_state_dir(const std::string& path) {
  const auto text = os::read_file(path, config::kTextBytesMax);
  if (!text) return {};
  config::Findings ignored;
  for (const config::Assignment& each : config::parse_key_values(*text, path, ignored)) {
    if (each.key == "IMEX_X_STATE_DIR") return each.value;
  }
  return {};
}

}  // namespace

std::string_view exit_code_name(int exit_status) noexcept {
  for (const auto& [status, name] : kExitCodeNames) {
    if (status == exit_status) return name;
  }
  return "internal";
}

std::string last_error_json(int exit_status, const Error& error) {
  const auto now =
      std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  nlohmann::ordered_json json;
  json["code"] = exit_code_name(exit_status);
  json["exit_status"] = exit_status;
  json["message"] = error.message;
  json["hint"] = error.hint;
  json["time"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
  json["pid"] = ::getpid();
  json["version"] = build_info().version;
  // Names of files may hold any bytes; JSON holds text.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<void> write_last_error(const std::string& run_directory, int exit_status,
                              const Error& error) {
  IMEX_CHECK_OK(os::make_directories(run_directory, 0755));
  const std::string text = last_error_json(exit_status, error);
  return os::replace_file(file_in(run_directory), std::as_bytes(std::span(text)), 0644);
}

bool is_served(const std::string& run_directory) { return os::is_locked(run_directory + "/lock"); }

void clear_last_error(const std::string& run_directory) noexcept {
  ::unlink(file_in(run_directory).c_str());
}

void report_failed_start(const std::string& config_path, const std::string& state_dir,
                         int exit_status, const Error& error) {
  DaemonConfig config;
  config.state_dir = state_dir.empty() ? configured_state_dir(config_path) : state_dir;
  const std::string directory = run_directory(config, {});
  if (is_served(directory)) return;
  // What hinders it is very likely what the error says; standard error has that already.
  [[maybe_unused]] const auto written = write_last_error(directory, exit_status, error);
}

}  // namespace imex::domain
