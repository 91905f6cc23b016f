#include "partition/rest/rest_server.hpp"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "json/json.hpp"
#include "jwt/verifier.hpp"
#include "rest_metrics.hpp"
#include "route_table.hpp"

namespace imex::partition {

namespace http = net::http;

namespace {

constexpr std::string_view kBearer = "Bearer ";

/// In the API's form, also for what HTTP itself refuses (partition-api.md 2.1).
http::Response error_answer(unsigned status, std::string_view message) {
  return http::Response::json(
      status, json::text_of({{"source", "nico"}, {"message", message}, {"data", nullptr}}));
}

http::Response unauthorised(std::string_view message) {
  http::Response response = error_answer(401, message);
  response.headers.set("WWW-Authenticate", "Bearer");
  return response;
}

bool starts_with_bearer(std::string_view text) {
  return text.size() > kBearer.size() &&
         std::ranges::equal(text.substr(0, kBearer.size()), kBearer, [](char a, char b) {
           return (a | 0x20) == (b | 0x20);  // the scheme's name is the same in any case
         });
}

/// Values of the path behind the org, in order.
std::vector<std::string> path_values(const http::Request& request) {
  std::vector<std::string> values;
  for (const auto& [name, value] : request.parameters) {
    if (name != "org") values.push_back(value);
  }
  return values;
}

http::Response response_of(Answer answer) {
  http::Response response;
  response.status = static_cast<unsigned>(answer.status);
  response.content_type = std::move(answer.content_type);
  response.body = std::move(answer.body);
  if (!answer.pagination.empty()) {
    response.headers.set("X-Pagination", std::move(answer.pagination));
  }
  return response;
}

std::string role_names(RoleSet roles) {
  std::string text;
  const auto add = [&](RoleSet role, std::string_view name) {
    if ((roles & role) != 0) text += fmt::format("{}{}", text.empty() ? "" : " or ", name);
  };
  add(kProviderAdmin, "PROVIDER_ADMIN");
  add(kProviderViewer, "PROVIDER_VIEWER");
  add(kTenantAdmin, "TENANT_ADMIN");
  return text;
}

jwt::Verifier::Options verifier_options(const RestOptions& options, log::Logger& log) {
  jwt::Verifier::Options chosen;
  chosen.clock_skew = options.clock_skew;
  for (const RestIssuer& issuer : options.issuers) chosen.issuers.push_back(issuer.keys);
  chosen.on_problem = [&log](const Error& error) {
    log.limited(log::Level::kWarn, "keys of an issuer cannot be had", {{"error", error.message}});
  };
  return chosen;
}

}  // namespace

struct RestServer::State {
  State(RestOptions chosen, std::vector<RestOperation> all, metrics::Registry& metrics,
        log::Logger& logger)
      : options(std::move(chosen)),
        operations(std::move(all)),
        registry(metrics),
        log(logger),
        verifier(verifier_options(options, logger)),
        measured(metrics),
        document(openapi_document(options, operations)) {}

  [[nodiscard]] Result<http::Router> api_routes();
  void add_health(http::Router& router);
  [[nodiscard]] http::ServerOptions server_options(std::vector<http::Listener> listeners);

  using Refusal = http::Response;
  /// The checks of 2.2 in their order, all before the role.
  [[nodiscard]] tl::expected<Caller, Refusal> authenticate(const http::Request& request);
  [[nodiscard]] http::Response run(const RestOperation& operation, const RouteRow& row,
                                   const http::Request& request);

  const RestOptions options;
  const std::vector<RestOperation> operations;
  metrics::Registry& registry;
  log::Logger& log;
  jwt::Verifier verifier;
  RestMetrics measured;
  const std::string document;
  std::atomic<bool> stopping = false;
  // Last: their handlers use all of the above.
  std::unique_ptr<http::Server> api, metrics_server;
};

tl::expected<Caller, http::Response> RestServer::State::authenticate(const http::Request& request) {
  const auto refused = [](http::Response response) {
    return tl::unexpected<http::Response>(std::move(response));
  };
  const std::string_view header = request.headers.find("Authorization").value_or("");
  if (!starts_with_bearer(header)) {
    return refused(unauthorised("the header Authorization must be 'Bearer TOKEN'"));
  }
  auto verified = verifier.verify(header.substr(kBearer.size()));
  if (!verified && verified.error().code == Errc::kUnavailable) {
    return refused(error_answer(503, "tokens cannot be checked now"));
  }
  if (!verified) return refused(unauthorised(verified.error().message));
  const jwt::Token& token = **verified;
  const RestIssuer& issuer = options.issuers[token.issuer_index];
  for (const std::string& scope : issuer.scopes) {
    if (std::ranges::find(token.scopes, scope) == token.scopes.end()) {
      return refused(error_answer(403, fmt::format("the token lacks the scope '{}'", scope)));
    }
  }
  const std::string_view org = request.parameter("org");
  if (org.empty()) return refused(error_answer(400, "the path names no org"));
  auto caller = caller_of(token, issuer, org);
  if (!caller) return refused(error_answer(403, caller.error().message));
  return std::move(*caller);
}

http::Response RestServer::State::run(const RestOperation& operation, const RouteRow& row,
                                      const http::Request& request) {
  auto caller = authenticate(request);
  if (!caller) return std::move(caller).error();
  if (!may_call(row.roles, caller->roles)) {
    return error_answer(403, fmt::format("this needs the role {}", role_names(row.roles)));
  }
  Request asked;
  asked.caller = std::move(*caller);
  asked.path = path_values(request);
  asked.query = Query(request.query.items());
  asked.body = request.body;
  return response_of(operation.run(asked));
}

Result<http::Router> RestServer::State::api_routes() {
  http::Router router;
  const std::string prefix = fmt::format("/v2/org/{{org}}/{}", options.api_name);
  for (const RestOperation& operation : operations) {
    const RouteRow* row = find_row(operation.name);
    const auto method = http::method_from_name(operation.method);
    if (row == nullptr || !method) {
      return fail(Errc::kInternal,
                  fmt::format("operation {} has no row in the table of routes", operation.name));
    }
    router.add(*method, prefix + std::string(operation.path),
               [this, &operation, row](const http::Request& request) {
                 return run(operation, *row, request);
               });
  }
  // "{org} not empty" is a check of its own, behind the token's.
  for (const auto method :
       {http::Method::kGet, http::Method::kPost, http::Method::kPatch, http::Method::kDelete}) {
    router.add(method, fmt::format("/v2/org//{}/{{rest...}}", options.api_name),
               [this](const http::Request& request) { return authenticate(request).error(); });
  }
  router.add(http::Method::kGet, "/openapi.json",
             [this](const http::Request&) { return http::Response::json(200, document); });
  add_health(router);
  if (options.more_routes) options.more_routes(router);
  return router;
}

void RestServer::State::add_health(http::Router& router) {
  router.add(http::Method::kGet, "/healthz",
             [](const http::Request&) { return http::Response::json(200, R"({"status":"ok"})"); },
             {.immediate = true});
  router.add(http::Method::kGet, "/readyz", [this](const http::Request&) {
    if (stopping) return error_answer(503, "stopping");
    if (options.ready) {
      if (const auto ready = options.ready(); !ready) {
        return error_answer(503, ready.error().message);
      }
    }
    return http::Response::json(200, R"({"status":"ok"})");
  });
}

http::ServerOptions RestServer::State::server_options(std::vector<http::Listener> listeners) {
  http::ServerOptions chosen;
  chosen.listeners = std::move(listeners);
  chosen.body_bytes_max = options.body_bytes_max;
  chosen.body_timeout = options.request_timeout;
  chosen.write_timeout = options.request_timeout;
  chosen.handler_timeout = options.request_timeout;
  chosen.queue_max = options.queue_max;
  chosen.error_body = error_answer;
  chosen.on_problem = [this](const Error& error) {
    log.limited(log::Level::kError, "REST server", {{"error", error.to_string()}});
  };
  return chosen;
}

Result<std::unique_ptr<RestServer>> RestServer::start(RestOptions options,
                                                      std::vector<RestOperation> operations,
                                                      metrics::Registry& registry,
                                                      log::Logger& log) {
  auto state = std::make_unique<State>(std::move(options), std::move(operations), registry, log);
  State* const raw = state.get();  // stays where it is: handlers keep the pointer
  IMEX_TRY(http::Router router, state->api_routes());
  http::ServerOptions chosen = state->server_options(state->options.listeners);
  chosen.threads = state->options.threads;
  chosen.observer = [raw](const http::Exchange& exchange) { raw->measured.record(exchange); };
  IMEX_TRY(state->api, http::Server::start(std::move(chosen), std::move(router)));
  if (!state->options.metrics_listeners.empty()) {
    http::Router more;
    more.add(http::Method::kGet, "/metrics", [raw](const http::Request&) {
      http::Response response;
      response.content_type = metrics::kContentType;
      response.body = raw->registry.text();
      return response;
    });
    state->add_health(more);
    http::ServerOptions second = state->server_options(state->options.metrics_listeners);
    second.threads = 1;
    IMEX_TRY(state->metrics_server, http::Server::start(std::move(second), std::move(more)));
  }
  return std::unique_ptr<RestServer>(new RestServer(std::move(state)));
}

RestServer::RestServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
RestServer::~RestServer() { stop(Nanos::zero()); }

std::uint16_t RestServer::port(std::size_t listener) const noexcept {
  return state_->api->port(listener);
}

std::uint16_t RestServer::metrics_port() const noexcept {
  return state_->metrics_server ? state_->metrics_server->port() : std::uint16_t{0};
}

void RestServer::stop(Nanos grace) {
  state_->stopping = true;
  state_->api->stop(grace);
  if (state_->metrics_server) state_->metrics_server->stop(Nanos::zero());
}

}  // namespace imex::partition
