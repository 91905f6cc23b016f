#include "domain/config.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "config/option_table.hpp"
#include "os/file.hpp"

namespace imex::domain {
namespace {

using Table = config::OptionTable<DaemonConfig>;
using config::DurationRange;
using config::IntegerRange;
using config::SizeRange;
using config::Word;

constexpr std::int64_t kU32Max = UINT32_MAX;
constexpr const char* kNoKerberos =
    "GSS modes are not served here; with security on the daemon refuses to start";

DaemonConfig defaults_of(Personality personality) {
  DaemonConfig c;
  c.personality = personality;
  if (personality == Personality::kImexd) return c;
  c.log_file = "/var/log/nvidia-imex.log";
  c.stats_file = "/var/log/nvidia-imex-stats.log";
  c.daemonize = true;
  c.list_rule = ListRule::kIdentical;
  c.watch_list = false;
  c.assigned_only = false;
  c.reload_on_hup = false;
  c.reresolve_identity = false;
  c.lease_when_silent = false;
  c.reconnect_window = std::chrono::seconds(5);
  return c;
}

void add_logs(Table& t) {
  t.integer("LOG_LEVEL", &DaemonConfig::log_level, IntegerRange{0, 4},
            "0 off, 1 critical, 2 error, 3 warning, 4 info.")
      .string("LOG_FILE_NAME", &DaemonConfig::log_file, "Log file; empty: standard error.")
      .string("STATS_FILE_NAME", &DaemonConfig::stats_file,
              "Statistics file; empty: standard error; may equal LOG_FILE_NAME.")
      .boolean("LOG_APPEND_TO_LOG", &DaemonConfig::log_append, "0 empties the log at start.")
      .integer("LOG_FILE_MAX_SIZE", &DaemonConfig::log_max_mb, IntegerRange{1, 1 << 20},
               "Size limit of the log in MB.")
      .integer("LOG_MAX_ROTATE_COUNT", &DaemonConfig::log_rotate_count, IntegerRange{0, 1000},
               "Rotated files kept; 0: logging stops at the size limit.")
      .boolean("LOG_USE_SYSLOG", &DaemonConfig::log_syslog, "1: syslog instead of the file.")
      .boolean("DAEMONIZE", &DaemonConfig::daemonize, "0: stay in the foreground.");
}

void add_addresses(Table& t) {
  t.string("BIND_INTERFACE_IP", &DaemonConfig::bind_ip,
           "Address to listen on; when it is in the node list it decides the own id. Empty: found "
           "from the list and the addresses of the interfaces.")
      .integer("SERVER_PORT", &DaemonConfig::port, IntegerRange{1, 65'535},
               "TCP port of the peers, the same on all nodes.")
      .string("IMEX_NODE_CONFIG_FILE", &DaemonConfig::node_list_path, "Path of the node list.")
      .string("NETWORK_INTERFACE", &DaemonConfig::network_interface,
              "Interface of IPv6 link-local addresses that several interfaces carry.");
}

void add_domain(Table& t) {
  t.choice("IMEX_WAIT_FOR_QUORUM", &DaemonConfig::quorum,
           std::vector<Word<Quorum>>{
               {"RECOVERY", Quorum::kRecovery}, {"NONE", Quorum::kNone}, {"FULL", Quorum::kFull}},
           "Whom to wait for before READY: nobody, former importers after an unclean stop, all.")
      .duration("IMEX_NODE_DISCONNECTED_GRACE_TIME", &DaemonConfig::grace,
                DurationRange{Nanos(0), std::chrono::hours(24 * 365), "never on mere loss"},
                "Seconds until what a lost node exported is cleaned up.")
      .custom(
          "IMEX_X_DOMAIN_ID", "UUID, or empty",
          [](DaemonConfig& c, std::string_view text) -> Result<void> {
            c.domain_id.reset();
            if (text.empty()) return {};
            IMEX_TRY(c.domain_id, Uuid::parse(text));
            return {};
          },
          [](const DaemonConfig& c) { return c.domain_id ? c.domain_id->to_string() : ""; },
          "Identity of the domain. Empty: COMPUTE_DOMAIN_UUID, else the node lists alone decide.")
      .choice("IMEX_X_LIST_RULE", &DaemonConfig::list_rule,
              std::vector<Word<ListRule>>{{"identical", ListRule::kIdentical},
                                          {"prefix", ListRule::kPrefix}},
              "How node lists must agree; prefix lets a list grow while daemons run.")
      .boolean("IMEX_X_WATCH_LIST", &DaemonConfig::watch_list,
               "Take changes of the node list without a restart.")
      .choice("IMEX_X_DOMAIN_STATE", &DaemonConfig::assigned_only,
              std::vector<Word<bool>>{{"assigned", true}, {"all", false}},
              "Whether slots without a daemon count for the state of the domain.")
      .choice("IMEX_X_SIGHUP", &DaemonConfig::reload_on_hup,
              std::vector<Word<bool>>{{"reload", true}, {"dump", false}},
              "What SIGHUP does: reload certificates and list, or dump the verbose ring.")
      .boolean("IMEX_X_IDENTITY_CHECK", &DaemonConfig::reresolve_identity,
               "Compute the own id anew on SIGUSR1; another one ends the daemon (75).")
      .duration("IMEX_X_RECONNECT_WINDOW", &DaemonConfig::reconnect_window,
                DurationRange{Nanos(0), std::chrono::minutes(10), {}},
                "SIGUSR1 rebuilds connections at most once in this time; the last one counts.");
}

void add_leases(Table& t) {
  t.duration("IMEX_X_LEASE", &DaemonConfig::lease,
             DurationRange{std::chrono::seconds(1), std::chrono::hours(24), {}},
             "How long a daemon that is gone may come back as the same instance.")
      .boolean("IMEX_X_LEASE_SILENT", &DaemonConfig::lease_when_silent,
               "The lease also ends a machine that is silent.")
      .duration("IMEX_X_HEARTBEAT_INTERVAL", &DaemonConfig::heartbeat_interval,
                DurationRange{std::chrono::milliseconds(10), std::chrono::minutes(1), {}},
                "Between two heartbeats to a peer.")
      .duration("IMEX_X_HEARTBEAT_TIMEOUT", &DaemonConfig::heartbeat_timeout,
                DurationRange{std::chrono::milliseconds(50), std::chrono::minutes(10), {}},
                "Silence after which communicators that span the machine abort.");
}

void add_security(Table& t) {
  t.boolean("IMEX_ENABLE_AUTH_ENCRYPTION", &DaemonConfig::auth, "1: mutual TLS between peers.")
      .string("IMEX_AUTH_ENCRYPTION_MODE", &DaemonConfig::auth_mode,
              "Mode when security is on; only SSL_TLS is served here.",
              "SSL_TLS, GSS_AUTH_ENCRYPT, GSS_AUTH_ONLY")
      .choice(
          "IMEX_AUTH_SOURCE", &DaemonConfig::auth_source,
          std::vector<Word<AuthSource>>{{"", AuthSource::kNone},
                                        {"FILE", AuthSource::kFile},
                                        {"ENV_PATH", AuthSource::kEnvPath},
                                        {"ENV_VAL", AuthSource::kEnvValue}},
          "What the six keys below hold: paths, or names of variables with a path or with PEM.");
  const auto tls = [&t](const char* name, TlsFiles DaemonConfig::* side,
                        std::string TlsFiles::* part, const char* help) {
    t.string(name, [side, part](DaemonConfig& c) -> std::string& { return c.*side.*part; }, help);
  };
  tls("IMEX_SERVER_KEY", &DaemonConfig::server_tls, &TlsFiles::key, "Private key, serving side.");
  tls("IMEX_SERVER_CERT", &DaemonConfig::server_tls, &TlsFiles::certificate,
      "Certificate, serving side.");
  tls("IMEX_SERVER_CERT_AUTH", &DaemonConfig::server_tls, &TlsFiles::authority,
      "Authority that the serving side trusts.");
  tls("IMEX_CLIENT_KEY", &DaemonConfig::client_tls, &TlsFiles::key, "Private key, dialling side.");
  tls("IMEX_CLIENT_CERT", &DaemonConfig::client_tls, &TlsFiles::certificate,
      "Certificate, dialling side.");
  tls("IMEX_CLIENT_CERT_AUTH", &DaemonConfig::client_tls, &TlsFiles::authority,
      "Authority that the dialling side trusts.");
  t.string("IMEX_SECURITY_TARGET_OVERRIDE", &DaemonConfig::target_override,
           "Name to look for in peers' certificates instead of the address dialled.")
      .without_effect("IMEX_GSS_SERVICE_NAME", "host", kNoKerberos, "Service of the principal.")
      .without_effect("IMEX_GSS_TIMEOUT_SEC", "-1", kNoKerberos, "Seconds of retrying.")
      .without_effect("IMEX_GSS_RETRY_INTERVAL_SEC", "5", kNoKerberos, "Seconds between tries.")
      .without_effect("IMEX_GSS_SEC_CONTEXT_LIFETIME_SEC", "-1", kNoKerberos, "Context life.")
      .without_effect("IMEX_GSS_SHUTDOWN_ON_FAILURE", "1", kNoKerberos, "1: exit on failure.");
}

void add_command(Table& t) {
  t.boolean("IMEX_CMD_ENABLED", &DaemonConfig::command_enabled, "Serve nvidia-imex-ctl.")
      .string("IMEX_CMD_BIND_INTERFACE_IP", &DaemonConfig::command_bind_ip,
              "Address of the command service. Empty: nvidia-imex all interfaces, imexd its own.")
      .integer("IMEX_CMD_PORT", &DaemonConfig::command_port, IntegerRange{1, 65'535},
               "TCP port of the command service.")
      .string("IMEX_CMD_UNIX_DOMAIN_PATH", &DaemonConfig::command_socket,
              "Unix socket of the command service, beside the port.");
}

Result<void> set_mode(DaemonConfig& c, std::string_view text) {
  std::uint32_t mode = 0;
  const bool digits = !text.empty() && text.size() <= 4 &&
                      text.find_first_not_of("01234567") == std::string_view::npos;
  for (const char d : digits ? text : std::string_view())
    mode = mode * 8 + static_cast<std::uint32_t>(d - '0');
  if (!digits || mode > 0777) {
    return fail(Errc::kInvalidArgument, fmt::format("'{}' is no octal mode from 0 to 777", text));
  }
  c.channel0_mode = mode;
  return {};
}

void add_ours(Table& t) {
  t.string(
       "IMEX_X_STATE_DIR", &DaemonConfig::state_dir,
       "State directory; the run directory lies in it. Empty: /run/imex or $XDG_RUNTIME_DIR/imex.")
      .string("IMEX_X_HOSTS_FILE", &DaemonConfig::hosts_file,
              "Hosts file that names of the node list are looked up in first; watched.")
      .boolean("IMEX_X_CHANNEL0", &DaemonConfig::channel0, "Channel 0 is open from the start.")
      .custom(
          "IMEX_X_CHANNEL0_MODE", "octal mode, 0 to 777", set_mode,
          [](const DaemonConfig& c) { return fmt::format("{:04o}", c.channel0_mode); },
          "Permissions of the socket of channel 0.")
      .string("IMEX_X_FABRIC_FILE", &DaemonConfig::fabric_file,
              "TOML file with GPUs and partitions. Empty: simulated GPUs in one partition.")
      .integer("IMEX_X_SIMULATED_GPUS", &DaemonConfig::simulated_gpus, IntegerRange{0, 64},
               "GPUs where there is no fabric file.")
      .integer("IMEX_X_CHANNEL_COUNT", &DaemonConfig::channel_count, IntegerRange{1, 1 << 20},
               "Channel numbers, 0 included.")
      .integer("IMEX_X_SESSIONS_MAX", &DaemonConfig::sessions_max, IntegerRange{1, kU32Max},
               "Sessions on one channel.")
      .integer("IMEX_X_EXPORTS_MAX", &DaemonConfig::exports_max, IntegerRange{1, kU32Max},
               "Exports on one channel.")
      .integer("IMEX_X_IMPORTS_MAX", &DaemonConfig::imports_max, IntegerRange{1, kU32Max},
               "Imports on one channel.")
      .size("IMEX_X_EXPORT_BYTES_MAX", &DaemonConfig::export_bytes_max, SizeRange{0, UINT64_MAX},
            "Bytes exported on one channel.")
      .boolean("IMEX_X_REVOKE_KILL", &DaemonConfig::kill_silent_importers,
               "Kill importers that do not give up revoked memory.")
      .string(
          "IMEX_X_METRICS", &DaemonConfig::metrics_listen,
          "Where /metrics is served: unix:PATH or 127.0.0.1:PORT. Empty: in the run directory.");
}

Table table_of(Personality personality) {
  Table table(defaults_of(personality));
  add_logs(table);
  add_addresses(table);
  add_domain(table);
  add_leases(table);
  add_security(table);
  add_command(table);
  add_ours(table);
  return table;
}

struct TlsKey {
  const char* name;
  const std::string& value;
};

std::array<TlsKey, 6> tls_keys(const DaemonConfig& c) {
  return {{{"IMEX_SERVER_KEY", c.server_tls.key},
           {"IMEX_SERVER_CERT", c.server_tls.certificate},
           {"IMEX_SERVER_CERT_AUTH", c.server_tls.authority},
           {"IMEX_CLIENT_KEY", c.client_tls.key},
           {"IMEX_CLIENT_CERT", c.client_tls.certificate},
           {"IMEX_CLIENT_CERT_AUTH", c.client_tls.authority}}};
}

/// Where a key stands, for messages about keys that do not fit together.
std::string place_of(const std::vector<config::OptionRow>& rows, std::string_view key,
                     const std::string& path) {
  for (const auto& row : rows) {
    if (row.key == key && row.source != "default") return row.source;
  }
  return path;
}

void check_security(Table::Loaded& loaded, const std::vector<config::OptionRow>& rows,
                    const std::string& path) {
  const DaemonConfig& c = loaded.config;
  constexpr const char* kMode = "IMEX_AUTH_ENCRYPTION_MODE";
  const bool known = c.auth_mode == "SSL_TLS" || c.auth_mode == "GSS_AUTH_ENCRYPT" ||
                     c.auth_mode == "GSS_AUTH_ONLY";
  if (!known) {
    config::Problem problem{
        place_of(rows, kMode, path), kMode,
        fmt::format("'{}' is none of SSL_TLS, GSS_AUTH_ENCRYPT, GSS_AUTH_ONLY", c.auth_mode)};
    if (c.auth)
      loaded.findings.error(std::move(problem));
    else if (!c.auth_mode.empty())
      loaded.findings.warning(std::move(problem));
  }
  if (!c.auth || c.auth_mode != "SSL_TLS") return;
  if (c.auth_source == AuthSource::kNone) {
    loaded.findings.error({place_of(rows, "IMEX_AUTH_SOURCE", path), "IMEX_AUTH_SOURCE",
                           "needed with SSL_TLS: FILE, ENV_PATH or ENV_VAL"});
  }
  for (const TlsKey& key : tls_keys(c)) {
    if (!key.value.empty()) continue;
    loaded.findings.error({place_of(rows, key.name, path), key.name,
                           "needed with SSL_TLS: both sides present certificates"});
  }
}

void check_times(Table::Loaded& loaded, const std::vector<config::OptionRow>& rows,
                 const std::string& path) {
  constexpr const char* kTimeout = "IMEX_X_HEARTBEAT_TIMEOUT";
  if (loaded.config.heartbeat_timeout >= 2 * loaded.config.heartbeat_interval) return;
  loaded.findings.error({place_of(rows, kTimeout, path), kTimeout,
                         "must be at least twice IMEX_X_HEARTBEAT_INTERVAL: one lost heartbeat is "
                         "no silence"});
}

/// imexd is secure by default where keys exist; nvidia-imex only when it is told to be.
void default_security(Table& table, Table::Loaded& loaded) {
  const auto rows = table.rows(loaded);
  const bool told = place_of(rows, "IMEX_ENABLE_AUTH_ENCRYPTION", {}) != "";
  const DaemonConfig& c = loaded.config;
  if (told || c.personality != Personality::kImexd || c.auth_source == AuthSource::kNone) return;
  for (const TlsKey& key : tls_keys(c)) {
    if (key.value.empty()) return;
  }
  table.apply(loaded, "IMEX_ENABLE_AUTH_ENCRYPTION", "1", "default: keys are configured");
}

Result<LoadedConfig> load_text(std::string_view text, const std::string& path,
                               Personality personality, const char* compute_domain) {
  Table table = table_of(personality);
  Table::Loaded loaded = table.defaults();
  loaded.config.path = path;
  table.apply_text(loaded, text, path);
  if (!loaded.config.domain_id && compute_domain != nullptr && *compute_domain != '\0') {
    // Set by the orchestrator for its own purposes, so a strange value is no reason not to start.
    if (Uuid::parse(compute_domain)) {
      table.apply(loaded, "IMEX_X_DOMAIN_ID", compute_domain, "environment COMPUTE_DOMAIN_UUID");
    } else {
      loaded.findings.warning({"environment", "COMPUTE_DOMAIN_UUID", "no UUID, ignored"});
    }
  }
  if (loaded.config.node_list_path.empty())
    loaded.config.node_list_path = DaemonConfig().node_list_path;
  default_security(table, loaded);
  const auto rows = table.rows(loaded);
  check_security(loaded, rows, path);
  check_times(loaded, rows, path);
  IMEX_CHECK_OK(loaded.findings.check());
  LoadedConfig result;
  result.config = std::move(loaded.config);
  result.warnings = loaded.findings.warning_lines();
  for (const auto& row : rows) {
    result.values.push_back({row.key, row.value, row.source, row.help});
  }
  return result;
}

}  // namespace

Result<LoadedConfig> parse_config(std::string_view text, const std::string& path,
                                  Personality personality) {
  return load_text(text, path, personality, nullptr);
}

Result<LoadedConfig> load_config(const std::string& path, Personality personality) {
  auto text = os::read_file(path, config::kTextBytesMax);
  if (!text) return fail(std::move(text).error().context("configuration"));
  return load_text(*text, path, personality, std::getenv("COMPUTE_DOMAIN_UUID"));
}

std::string config_reference(Personality personality) {
  const bool nvidia = personality == Personality::kNvidiaImex;
  return table_of(personality)
      .markdown(nvidia ? "Configuration of nvidia-imex" : "Configuration of imexd",
                "`KEY=VALUE` per line; lines that start with `#` are comments; unknown keys are "
                "ignored with a warning.");
}

std::string run_directory(const DaemonConfig& config, std::string_view bind_address) {
  if (!config.state_dir.empty()) return config.state_dir + "/run";
  const char* runtime = ::getuid() == 0 ? nullptr : std::getenv("XDG_RUNTIME_DIR");
  const bool usable = runtime != nullptr && *runtime == '/';
  return fmt::format("{}/imex/{}", usable ? runtime : "/run", bind_address);
}

}  // namespace imex::domain
