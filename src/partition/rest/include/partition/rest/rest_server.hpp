/// The REST API of the controller over HTTP: tokens, roles, routes, error bodies, metrics, and the
/// document that describes it all. What the operations do stands in partition/service.
///
///     IMEX_TRY(auto rest, RestServer::start(options, operations_of(service), registry, log));
///     log.info("REST API", {{"port", rest->port()}});
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "log/log.hpp"
#include "metrics/registry.hpp"
#include "net/http/server.hpp"
#include "partition/rest/identity.hpp"
#include "partition/service/service.hpp"

namespace imex::partition {

struct RestOptions {
  std::vector<net::http::Listener> listeners{{.address = "127.0.0.1:8388"}};
  /// /metrics, and health again; empty: none. Not behind tokens: keep it off public networks.
  std::vector<net::http::Listener> metrics_listeners{};
  std::string api_name = "nico";  ///< the path element after the org
  std::vector<RestIssuer> issuers{};
  std::chrono::seconds clock_skew{60};
  /// Writes that wait together are committed together: more threads than cores.
  std::size_t threads = 16;
  std::size_t queue_max = 1024;
  std::size_t body_bytes_max = 10U << 20U;
  Nanos request_timeout = std::chrono::seconds(60);
  /// Whether requests can be served now; the error's message is the answer of /readyz. On a thread
  /// of the pool.
  std::function<Result<void>()> ready{};
  std::string version = "0.3.0";  ///< of the product, in the OpenAPI document
  /// Routes besides the API (the map, watches); they see to their own authorisation.
  std::function<void(net::http::Router&)> more_routes{};
};

/// An operation that can be called; from Service::operations(), or of a test.
struct RestOperation {
  std::string_view method;
  std::string_view path;  ///< below the org: "/vpc/{id}"
  std::string_view name;  ///< as in the OpenAPI document
  std::function<Answer(const Request&)> run;
};
/// All of the service, which must outlive them.
[[nodiscard]] std::vector<RestOperation> operations_of(Service& service);

class RestServer {
 public:
  /// `registry` and `log` must outlive it. Errors: those of net::http::Server::start(); kInternal
  /// when an operation has no row in the table of routes.
  [[nodiscard]] static Result<std::unique_ptr<RestServer>> start(
      RestOptions options, std::vector<RestOperation> operations, metrics::Registry& registry,
      log::Logger& log);
  ~RestServer();
  RestServer(const RestServer&) = delete;
  RestServer& operator=(const RestServer&) = delete;

  [[nodiscard]] std::uint16_t port(std::size_t listener = 0) const noexcept;
  [[nodiscard]] std::uint16_t metrics_port() const noexcept;
  /// Readiness ends at once; requests that have begun finish until `grace` has passed.
  void stop(Nanos grace);

 private:
  struct State;
  explicit RestServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The OpenAPI 3.1 document of these operations.
[[nodiscard]] std::string openapi_document(const RestOptions& options,
                                           const std::vector<RestOperation>& operations);

}  // namespace imex::partition
