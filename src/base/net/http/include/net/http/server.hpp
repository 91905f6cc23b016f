/// An HTTP/1.1 server: handlers are plain functions on a small pool of threads, one thread owns all
/// connections.
///
///     Router router;
///     router.add(Method::kGet, "/healthz", health, {.immediate = true});
///     IMEX_TRY(auto server, Server::start({.listeners = {{.address = "127.0.0.1:0"}}},
///                                         std::move(router)));
///     log.info("listening", {{"port", server->port()}});
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.hpp"
#include "net/http/router.hpp"

namespace imex::net::http {

/// Files in PEM form. They are read again when they change; a set that does not fit together is
/// reported and the former one stays.
struct TlsFiles {
  std::string certificate{};  ///< with the chain below it
  std::string key{};
  std::string client_authority{};           ///< empty: clients are not asked for a certificate
  bool client_certificate_required = true;  ///< with client_authority
};

struct Listener {
  std::string address{};  ///< "IP:PORT", "[IP]:PORT" or "unix:PATH"
  std::optional<TlsFiles> tls{};
  std::uint32_t unix_mode = 0600;
};

/// What the observer learns of each request once its answer was written (or the peer had gone).
struct Exchange {
  Method method;
  std::string_view route;  ///< the pattern; empty: none matched
  unsigned status;
  Nanos duration;  ///< from the first byte of the request to the last of the answer
  std::size_t request_bytes, response_bytes;  ///< of the bodies
};

struct ServerOptions {
  std::vector<Listener> listeners{};
  std::size_t threads = 4;               ///< that run handlers
  std::size_t queue_max = 1024;          ///< requests that wait for one of them; beyond: 503
  std::size_t connections_max = 16'384;  ///< beyond: 503, or closed
  std::size_t header_bytes_max = 32U << 10U;
  std::size_t body_bytes_max = 10U << 20U;           ///< of routes that set none
  Nanos header_timeout = std::chrono::seconds(10);   ///< from the first byte of a request, and TLS
  Nanos body_timeout = std::chrono::seconds(60);     ///< from the end of the header
  Nanos idle_timeout = std::chrono::seconds(75);     ///< between requests
  Nanos write_timeout = std::chrono::seconds(60);    ///< of an answer, or of one piece of a stream
  Nanos handler_timeout = std::chrono::seconds(60);  ///< Request::deadline; nobody is interrupted
  /// Body of the server's own answers: 400, 404, 405, 408, 413, 431, 500, 503.
  std::function<Response(unsigned status, std::string_view message)> error_body{};
  /// On the network's thread: must not block.
  std::function<void(const Exchange&)> observer{};
  /// What an operator should hear of: bad certificates, no descriptors left, a handler that threw.
  std::function<void(const Error&)> on_problem{};
  /// How often certificate files are looked at.
  Nanos tls_check_interval = std::chrono::seconds(5);
};

class Server {
 public:
  /// Listens, and serves until stop(). Errors: kInvalidArgument, kAlreadyExists (in use), those of
  /// bind and of the certificate files.
  [[nodiscard]] static Result<std::unique_ptr<Server>> start(ServerOptions options, Router router);
  /// stop() without grace.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// TCP port of a listener; 0 for a Unix socket.
  [[nodiscard]] std::uint16_t port(std::size_t listener = 0) const noexcept;

  /// Takes no more connections, ends idle ones and streams, lets requests that have begun finish
  /// until `grace` has passed, then cuts what is left. A handler that runs is always waited for.
  /// Not from a handler. Again is fine.
  void stop(Nanos grace);

  /// Reads the certificate files now. Errors: what does not fit; the former ones stay in use.
  [[nodiscard]] Result<void> reload_tls();

  struct Counts {
    std::size_t connections = 0, streams = 0, queued = 0;
    std::uint64_t refused = 0;  ///< connections over the limit, requests over the queue
  };
  [[nodiscard]] Counts counts() const;

  struct Impl;

 private:
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace imex::net::http
