#include "nmxm_server.hpp"

#include "net/http/server.hpp"
#include "os/process.hpp"

namespace imex::rack {

namespace http = net::http;

struct NmxmServer::Impl {
  std::unique_ptr<http::Server> server;
};

namespace {

http::Response to_http(NmxmResponse from) {
  http::Response response;
  response.status = from.status;
  response.content_type = std::move(from.content_type);
  response.body = std::move(from.body);
  if (!from.location.empty()) response.headers.add("Location", from.location);
  if (from.ask_credentials) response.headers.add("WWW-Authenticate", "Basic realm=\"nmx\"");
  return response;
}

NmxmRequest from_http(const http::Request& request) {
  NmxmRequest asked{.method = std::string(http::method_name(request.method)), .path = request.path};
  asked.query = request.query.items();
  asked.body = request.body;
  asked.authorization = request.headers.find("Authorization").value_or("");
  return asked;
}

}  // namespace

Result<std::unique_ptr<NmxmServer>> NmxmServer::start(NmxmManager& manager,
                                                      const ManagerOptions& options,
                                                      log::Logger& log,
                                                      std::function<void()> wake) {
  http::Router router;
  const auto handler = [&manager, wake](const http::Request& request) {
    NmxmResponse response =
        manager.answer(from_http(request), os::now(), std::chrono::system_clock::now());
    wake();
    return to_http(std::move(response));
  };
  for (const auto method :
       {http::Method::kGet, http::Method::kPost, http::Method::kPut, http::Method::kDelete}) {
    router.add(method, "/nmx/v1/{rest...}", handler);
  }
  http::ServerOptions server;
  http::Listener listener;
  listener.address = options.listen;
  if (!options.certificate.empty())
    listener.tls = http::TlsFiles{options.certificate, options.key, {}, false};
  server.listeners.push_back(std::move(listener));
  server.threads = 2;
  server.error_body = [](unsigned status, std::string_view message) {
    return to_http(nmxm_error(status, message));
  };
  server.on_problem = [&log](const Error& error) {
    log.limited(log::Level::kWarn, "the manager's server", {{"reason", error.to_string()}});
  };
  auto impl = std::make_unique<Impl>();
  IMEX_TRY(impl->server, http::Server::start(std::move(server), std::move(router)));
  return std::unique_ptr<NmxmServer>(new NmxmServer(std::move(impl)));
}

NmxmServer::NmxmServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NmxmServer::~NmxmServer() = default;
std::uint16_t NmxmServer::port() const noexcept { return impl_->server->port(); }

}  // namespace imex::rack
