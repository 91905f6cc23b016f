/// FabricManager over NMX-C, the gRPC service on the primary switch tray of one NVLink domain.
///
///     nmxc::Options options;
///     options.endpoints = {"https://10.0.0.11:9370", "https://10.0.0.12:9370"};
///     options.tls.authority_file = "/etc/imex/nmx-ca.pem";
///     IMEX_TRY(auto manager, nmxc::open(options));      // nothing is dialled before the first
///     call
///
/// Endpoints are addresses of one domain, in order of preference: both management ports of a tray,
/// or several trays. One is used at a time. Another one is tried when it cannot be reached, does
/// not answer Hello, answers that it is not ready, is on standby, or belongs to another domain;
/// each has a back-off of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "base/uuid.hpp"
#include "fabric/backoff.hpp"
#include "fabric/manager.hpp"
#include "log/log.hpp"
#include "log/secret.hpp"

namespace imex::fabric::nmxc {

/// Who the server must be and who we are. Files are read again for each connection, and a
/// connection is replaced within a heartbeat when they changed. Inline PEM (from a sealed
/// credential) wins over the file of the same kind.
struct Tls {
  std::string authority_file{};    ///< PEM; empty, with no inline text: the system's authorities
  std::string certificate_file{};  ///< PEM; with key_file or not at all
  std::string key_file{};
  log::Secret authority{}, certificate{}, key{};  ///< PEM text
  /// For SNI and verification; empty: the host of the endpoint.
  std::string server_name{};
};

enum class Dialect : std::uint8_t {
  kAuto,     ///< current, then draft where the service is not there
  kCurrent,  ///< protocol 2.20, service NMX_Controller
  kDraft,    ///< protocol 1.4, service NMXController
};

struct Options {
  /// "http://HOST[:PORT]" is plaintext, "https://HOST[:PORT]" TLS, with a client certificate mutual
  /// TLS. Default port 9370.
  std::vector<std::string> endpoints{};
  Tls tls{};
  std::string gateway_id = "imex";  ///< names this client; two clients should not share one
  /// What the domain must be. Nothing: the first answer decides for the life of the manager.
  std::optional<Uuid> domain_uuid{};
  Dialect dialect = Dialect::kAuto;
  Nanos connect_timeout = std::chrono::seconds(30);  ///< connection and Hello together
  /// While watched: how often liveness and state are asked for. Three silent ones end a stream.
  Nanos heartbeat = std::chrono::seconds(10);
  Nanos keepalive = std::chrono::seconds(10);  ///< HTTP/2 pings while a call runs; 0: none
  BackoffOptions backoff{};
  std::size_t answer_bytes_max = std::size_t{256} << 20U;

  // Replaced in tests; must outlive the manager.
  Random* random = nullptr;       ///< nothing: the kernel's
  std::function<Time()> clock{};  ///< for the back-off; nothing: the steady clock
  log::Logger* log = nullptr;     ///< nothing: silent
};

/// All that is wrong with the options in one error. Errors: kInvalidArgument.
[[nodiscard]] Result<void> validate(const Options& options);

/// Errors: those of validate(); kNotFound, kPermissionDenied: a TLS file cannot be read.
[[nodiscard]] Result<std::unique_ptr<FabricManager>> open(Options options);

}  // namespace imex::fabric::nmxc
