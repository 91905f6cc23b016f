/// The controller's configuration file.
///
///     [controller]
///     store = "/var/lib/imex/controller.db"     # or postgresql://…
///     listen = "0.0.0.0:8388"
///     metrics_listen = "127.0.0.1:9360"
///     site = "here"                             # made if there is none; endpoints belong to it
///     provider_org = "operator"
///
///     [nvlink_config]                           # the keys of partition-api.md 4.1, and ours
///     enabled = true
///     monitor_run_interval = "60s"
///
///     [[endpoint]]
///     kind = "nmx-c"                            # or "nmx-m"
///     url = "https://10.0.0.11:9370"
///     chassis_serial = "1821220000000"
///
///     [administration]                          # gRPC forge.Forge, for imex-admin and
///     nico-admin-cli listen = ["0.0.0.0:1079"] tls_cert_path = "/etc/imex/forge.crt"     # and
///     tls_key_path, tls_ca_cert_path of the callers admins = ["cn:ops-*"]                     #
///     names of certificates site_agents = ["san:spiffe://site/agent"]
///
///     [[issuer]]                                # of tokens for the REST API
///     issuer = "https://sso.example"
///     jwks = "https://sso.example/keys"         # or a file
///     org_claim = "org"
///     roles_claim = "roles"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "partition/controller/settings.hpp"
#include "partition/model/inventory.hpp"

namespace imex::partition {

/// Files that say who a manager must be and who we are; empty: the next wider setting.
struct ManagerIdentity {
  std::string ca_certificate_path{};
  std::string client_certificate_path{};
  std::string client_key_path{};
  std::string authority{};
  friend bool operator==(const ManagerIdentity&, const ManagerIdentity&) = default;
};

struct ConfiguredEndpoint {
  FabricProtocol protocol = FabricProtocol::kNmxC;
  std::string url{};
  std::string chassis_serial{};
  ManagerIdentity identity{};
  /// "user:password" in one line, for NMX-M; readable by its owner alone.
  std::string credentials_file{};
  bool verify_server = true;
};

/// Whose tokens the REST API believes, and what they entitle to (partition-api.md 2.2).
struct ConfiguredIssuer {
  std::string name{};
  std::string issuer{};
  /// File or URL of the keys.
  std::string jwks{};
  std::vector<std::string> audiences{}, scopes{};
  /// Every token belongs to this org; empty: `org_claim` says.
  std::string org{};
  std::string org_claim{};
  std::vector<std::string> roles{};
  std::string roles_claim{};
  bool service_account = false;
};

/// Who may administer, and where. Nobody unless `listen` is set.
struct AdministrationConfig {
  std::vector<std::string> listen{};  ///< HOST:PORT or unix:PATH
  std::string certificate_path{}, key_path{}, ca_certificate_path{};
  /// For development: without TLS, on loopback and Unix sockets, whoever connects is an operator.
  bool trust_local = false;
  std::vector<std::string> admins{}, site_agents{};  ///< as forge::parse_caller_rule() reads them
};

struct ControllerConfig {
  ControllerSettings settings{};
  /// NICo's code calls its metrics carbide_…; both names are served.
  bool carbide_metrics = false;
  /// Of all endpoints that say nothing else.
  ManagerIdentity identity{};
  /// "Disable TLS verification", as NICo's manual has it.
  bool allow_insecure = false;
  std::uint16_t nmx_c_endpoint_port = 9370;
  std::vector<ConfiguredEndpoint> endpoints{};
  std::vector<ConfiguredIssuer> issuers{};
  AdministrationConfig administration{};

  std::string store = "imex-controller.db";
  std::string key_file{};
  std::string listen = "127.0.0.1:8388";
  std::string metrics_listen = "127.0.0.1:9360";
  std::string site = "site";
  std::string provider_org = "operator";
};

/// Durations: "60s", "2m", "7d", "2w", or bare seconds. Errors: kInvalidArgument with all problems,
/// each with its line: not TOML, unknown key, wrong kind or range, certificate without key.
[[nodiscard]] Result<ControllerConfig> parse_controller_config(std::string_view text,
                                                               const std::string& path);

}  // namespace imex::partition
