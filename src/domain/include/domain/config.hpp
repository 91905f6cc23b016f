/// Everything a node daemon is told: the KEY=VALUE file of nvidia-imex and our IMEX_X_ keys.
/// One table (config.cpp) has name, type, default, range and help of every key; parsing,
/// `imex config show` and docs/reference/configuration.md come from it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/time.hpp"
#include "domain/membership.hpp"

namespace imex::domain {

/// Under which name the program was called decides the defaults that differ (one key each).
enum class Personality : std::uint8_t { kImexd, kNvidiaImex };

enum class AuthSource : std::uint8_t { kNone, kFile, kEnvPath, kEnvValue };
struct TlsFiles {
  std::string key, certificate,
      authority;  ///< meaning by AuthSource: path, variable with path, variable with PEM
};

struct DaemonConfig {
  Personality personality = Personality::kImexd;
  std::string path;  ///< of the file; empty: defaults only

  // Logs and statistics (imex-service section 10).
  int log_level = 4;       ///< 0 off .. 4 info
  std::string log_file;    ///< empty: standard error
  std::string stats_file;  ///< empty: standard error; equal to log_file: both in one
  bool log_append = true;
  std::uint32_t log_max_mb = 1024;
  std::uint32_t log_rotate_count = 10;
  bool log_syslog = false;
  bool log_json = false;   ///< --log-format json
  bool daemonize = false;  ///< nvidia-imex: true

  // Addresses.
  std::string bind_ip;  ///< empty: by interface addresses
  std::uint16_t port = 50000;
  std::string node_list_path = "/etc/nvidia-imex/nodes_config.cfg";
  std::string network_interface;

  // Domain.
  Quorum quorum = Quorum::kRecovery;
  Nanos grace = Nanos(-1);  ///< IMEX_NODE_DISCONNECTED_GRACE_TIME
  std::optional<Uuid>
      domain_id;  ///< IMEX_X_DOMAIN_ID, else COMPUTE_DOMAIN_UUID, else none: the lists decide
  ListRule list_rule = ListRule::kPrefix;  ///< IMEX_X_LIST_RULE identical|prefix
  bool watch_list = true;                  ///< IMEX_X_WATCH_LIST; nvidia-imex: false
  bool assigned_only = true;               ///< IMEX_X_DOMAIN_STATE assigned|all; nvidia-imex: all
  bool reload_on_hup = true;               ///< IMEX_X_SIGHUP reload|dump; nvidia-imex: dump
  bool reresolve_identity =
      true;  ///< IMEX_X_IDENTITY_CHECK: recompute own id on SIGUSR1; nvidia-imex: false
  Nanos lease = std::chrono::seconds(30);  ///< IMEX_X_LEASE
  bool lease_when_silent = true;           ///< IMEX_X_LEASE_SILENT; nvidia-imex: false
  Nanos reconnect_window =
      std::chrono::milliseconds(500);  ///< IMEX_X_RECONNECT_WINDOW; nvidia-imex: 5 s
  Nanos heartbeat_interval = std::chrono::seconds(1);  ///< IMEX_X_HEARTBEAT_INTERVAL
  Nanos heartbeat_timeout = std::chrono::seconds(3);   ///< IMEX_X_HEARTBEAT_TIMEOUT

  // Security of the peer port.
  /// IMEX_ENABLE_AUTH_ENCRYPTION; imexd without the key: true when a source and all six keys are
  /// given.
  bool auth = false;
  std::string auth_mode = "SSL_TLS";
  AuthSource auth_source = AuthSource::kNone;
  TlsFiles server_tls, client_tls;
  std::string target_override;

  // Command service.
  bool command_enabled = true;
  std::string
      command_bind_ip;  ///< empty: nvidia-imex all interfaces (its documented rule); imexd: bind_ip
  std::uint16_t command_port = 50005;
  std::string command_socket;  ///< IMEX_CMD_UNIX_DOMAIN_PATH

  /// Kerberos was asked for: parses, but the start must fail (74), never run unprotected.
  [[nodiscard]] bool wants_gss() const noexcept { return auth && auth_mode.starts_with("GSS_"); }

  // Ours.
  std::string state_dir;                  ///< IMEX_X_STATE_DIR; empty: see run_directory()
  std::string hosts_file = "/etc/hosts";  ///< IMEX_X_HOSTS_FILE
  bool channel0 = false;                  ///< IMEX_X_CHANNEL0
  std::uint32_t channel0_mode = 0600;     ///< IMEX_X_CHANNEL0_MODE, octal
  std::string fabric_file;           ///< IMEX_X_FABRIC_FILE; empty: simulated GPUs in one partition
  std::uint32_t simulated_gpus = 4;  ///< IMEX_X_SIMULATED_GPUS
  std::uint32_t channel_count = 2048;  ///< IMEX_X_CHANNEL_COUNT
  // Limits of each channel: IMEX_X_SESSIONS_MAX, IMEX_X_EXPORTS_MAX, IMEX_X_IMPORTS_MAX,
  // IMEX_X_EXPORT_BYTES_MAX.
  std::uint32_t sessions_max = 1024, exports_max = 65'536, imports_max = 65'536;
  std::uint64_t export_bytes_max = UINT64_MAX;
  bool kill_silent_importers = true;  ///< IMEX_X_REVOKE_KILL
  std::string
      metrics_listen;   ///< IMEX_X_METRICS: unix:PATH or 127.0.0.1:PORT; empty: run directory
  bool no_gpu = false;  ///< --nogpu
};

/// One key as `imex config show` prints it.
struct ConfigValue {
  std::string key, value, source, help;  ///< source: "default", "FILE:LINE", "option --port"
};
struct LoadedConfig {
  DaemonConfig config;
  std::vector<ConfigValue> values;    ///< every key of the table, in its order; secrets as ***
  std::vector<std::string> warnings;  ///< unknown keys, keys without effect here
};

/// Reads the text of a file. All problems are reported at once, each with file, line and key.
/// Errors: kInvalidArgument.
[[nodiscard]] Result<LoadedConfig> parse_config(std::string_view text, const std::string& path,
                                                Personality personality);
/// Also takes the domain id from COMPUTE_DOMAIN_UUID where the file has none.
/// Errors: kNotFound, kPermissionDenied, kInvalidArgument.
[[nodiscard]] Result<LoadedConfig> load_config(const std::string& path, Personality personality);

/// The reference page in Markdown: every key with its values, default and meaning.
[[nodiscard]] std::string config_reference(Personality personality);

/// <state-dir>/run, else /run/imex/<bind address> (root) or $XDG_RUNTIME_DIR/imex/<bind address>.
[[nodiscard]] std::string run_directory(const DaemonConfig& config, std::string_view bind_address);

}  // namespace imex::domain
