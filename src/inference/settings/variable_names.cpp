#include "variable_names.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace imex::inference {

namespace {

/// With either prefix: those of a run, then those of a server.
constexpr std::string_view kModelNames[] = {"MODEL_PATH",
                                            "MODEL_PROFILE",
                                            "TENSOR_PARALLEL_SIZE",
                                            "PIPELINE_PARALLEL_SIZE",
                                            "NUM_COMPUTE_NODES",
                                            "MAX_MODEL_LEN",
                                            "LOG_LEVEL",
                                            "JSONL_LOGGING",
                                            "DISABLE_MODEL_DOWNLOAD",
                                            "SERVED_MODEL_NAME",
                                            "MODEL_NAME",
                                            "SERVER_PORT",
                                            "HTTP_API_PORT",
                                            "HEALTH_PORT",
                                            "REPOSITORY_OVERRIDE",
                                            "DISABLE_CUDA_GRAPH",
                                            "KVCACHE_PERCENT",
                                            "SSL_MODE",
                                            "SSL_KEY_PATH",
                                            "SSL_CERTS_PATH",
                                            "SSL_CA_CERTS_PATH",
                                            "CORS_ALLOW_ORIGINS",
                                            "CORS_ALLOW_METHODS",
                                            "CORS_ALLOW_HEADERS",
                                            "CORS_EXPOSE_HEADERS",
                                            "CORS_MAX_AGE",
                                            "PASSTHROUGH_ARGS"};

/// Of daemons, communicators, libraries, tests and scripts.
constexpr std::string_view kOtherNames[] = {"NIM_CACHE_PATH",
                                            "IMEX_CACHE_DIR",
                                            "IMEX_STATE_DIR",
                                            "IMEX_CHANNEL",
                                            "IMEX_CHECK",
                                            "IMEX_CHECKED",
                                            "IMEX_RECORD_DIR",
                                            "IMEX_NCCL_TIMEOUT_MS",
                                            "IMEX_DAEMON_SOCKETS",
                                            "IMEX_DAEMON_SUCCESSOR",
                                            "IMEX_NODE_CONFIG_FILE",
                                            "IMEX_NODE_DISCONNECTED_GRACE_TIME",
                                            "IMEX_WAIT_FOR_QUORUM",
                                            "IMEX_ENABLE_AUTH_ENCRYPTION",
                                            "IMEX_AUTH_ENCRYPTION_MODE",
                                            "IMEX_AUTH_SOURCE",
                                            "IMEX_SERVER_KEY",
                                            "IMEX_SERVER_CERT",
                                            "IMEX_SERVER_CERT_AUTH",
                                            "IMEX_CLIENT_KEY",
                                            "IMEX_CLIENT_CERT",
                                            "IMEX_CLIENT_CERT_AUTH",
                                            "IMEX_SECURITY_TARGET_OVERRIDE",
                                            "IMEX_CMD_ENABLED",
                                            "IMEX_CMD_PORT",
                                            "IMEX_CMD_BIND_INTERFACE_IP",
                                            "IMEX_CMD_UNIX_DOMAIN_PATH",
                                            "IMEX_GSS_SERVICE_NAME",
                                            "IMEX_GSS_TIMEOUT_SEC",
                                            "IMEX_GSS_RETRY_INTERVAL_SEC",
                                            "IMEX_GSS_SEC_CONTEXT_LIFETIME_SEC",
                                            "IMEX_GSS_SHUTDOWN_ON_FAILURE",
                                            "IMEX_SHARED",
                                            "IMEX_EXAMPLES",
                                            "IMEX_SIM_SEED",
                                            "IMEX_SIMULATION_SEED",
                                            "IMEX_SOAK_SEED",
                                            "IMEX_SOAK_SECONDS",
                                            "IMEX_LITMUS_ROUNDS",
                                            "IMEX_TOKENIZER_CASES",
                                            "IMEX_TIDY_STRICT"};

/// The daemon's own keys and those of tests: too many and too changing for a list here.
constexpr std::string_view kOtherPrefixes[] = {"IMEX_X_", "IMEX_TEST_"};

const std::vector<std::string>& known_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all(std::begin(kOtherNames), std::end(kOtherNames));
    for (const std::string_view name : kModelNames) {
      all.push_back(fmt::format("IMEX_{}", name));
      all.push_back(fmt::format("NIM_{}", name));
    }
    return all;
  }();
  return names;
}

bool is_service_link(std::string_view name) {
  if (name.ends_with("_SERVICE_HOST") || name.find("_SERVICE_PORT") != std::string_view::npos) {
    return true;
  }
  // NAME_PORT_8000_TCP, and with _ADDR, _PORT or _PROTO behind it
  const std::size_t port = name.find("_PORT_");
  if (port == std::string_view::npos) return false;
  const std::string_view rest = name.substr(port + 6);
  const std::size_t digits = rest.find_first_not_of("0123456789");
  return digits != 0 && digits != std::string_view::npos &&
         (rest.substr(digits).starts_with("_TCP") || rest.substr(digits).starts_with("_UDP"));
}

/// Levenshtein's: insertions, deletions and replacements from one to the other.
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

bool is_known_variable(std::string_view name) {
  return std::ranges::find(known_names(), name) != known_names().end() || is_service_link(name) ||
         std::ranges::any_of(kOtherPrefixes, [&](auto prefix) { return name.starts_with(prefix); });
}

std::string unknown_variable(std::string_view name) {
  constexpr std::size_t kShownMax = 80;
  const std::string_view compared = name.substr(0, kShownMax);
  const auto nearest = std::ranges::min_element(
      known_names(), {}, [&](const std::string& known) { return edits_between(compared, known); });
  return fmt::format("unknown variable {} is ignored; the nearest known one is {}", compared,
                     *nearest);
}

bool is_secret_variable(std::string_view name) noexcept {
  return name == "HF_TOKEN" || name == "NGC_API_KEY" || name == "NGC_CLI_API_KEY" ||
         name.starts_with("AWS_");
}

}  // namespace imex::inference
