/// A synchronous HTTP/1.1 client for one origin, with connections that stay open between requests.
///
///     IMEX_TRY(auto client, Client::make({.url = "https://10.0.0.1:8080/nmx/v1"}));
///     IMEX_TRY(auto answer, client->send({.path = "/partitions"}, after(5s)));
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "base/time.hpp"
#include "log/secret.hpp"
#include "net/http/message.hpp"
#include "os/poll.hpp"

namespace imex::net::http {

struct ClientTls {
  std::string authority{};           ///< PEM file; empty: the system's authorities
  std::string certificate{}, key{};  ///< PEM files for mutual TLS; both or none
  std::string server_name{};         ///< expected in the certificate; empty: the host of the URL
  bool verify = true;                ///< false: whoever answers is believed
};

struct ClientOptions {
  /// "http://host:port/prefix", "https://…", or "unix:PATH". The prefix goes before every path.
  std::string url{};
  ClientTls tls{};
  std::string basic_user{};  ///< empty: no basic authentication
  log::Secret basic_password{};
  log::Secret bearer_token{};  ///< empty: none
  std::size_t header_bytes_max = 64U << 10U;
  std::size_t body_bytes_max = 64U << 20U;
  std::size_t idle_connections_max = 8;
  Nanos idle_timeout = std::chrono::seconds(30);  ///< below those of servers, usually 60 s
};

/// Ends the waits of whoever was given it. Stays raised.
class Cancel {
 public:
  /// Errors: kResourceExhausted (descriptors).
  [[nodiscard]] static Result<Cancel> make();
  /// From any thread.
  void raise() noexcept { event_.raise(); }
  /// Readable once raised.
  [[nodiscard]] int fd() const noexcept { return event_.fd(); }

 private:
  explicit Cancel(os::EventFd event) noexcept : event_(std::move(event)) {}
  os::EventFd event_;
};

struct ClientRequest {
  Method method = Method::kGet;
  std::string path;  ///< encoded already, with the query: "/partitions?domain=…"
  std::string body{};
  std::string content_type = "application/json";  ///< with a body
  Headers headers{};
};

struct ClientResponse {
  unsigned status = 0;
  Headers headers{};
  std::string body{};
};

/// Thread-safe: each request has a connection of its own while it lasts.
class Client {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Connects to nobody yet. Errors: kInvalidArgument, those of the certificate files.
  [[nodiscard]] static Result<std::unique_ptr<Client>> make(ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Any status is an answer. A connection that the server closed while it was idle is replaced by
  /// a new one, once, and only if no byte of an answer has come and the method is GET, HEAD, PUT,
  /// DELETE or OPTIONS; all other retries are the caller's. Errors: kUnavailable (nobody there,
  /// connection lost; the request may have taken effect), kDeadlineExceeded, kAborted (cancelled),
  /// kPermissionDenied (TLS: not who was expected), kDataLoss (no HTTP), kResourceExhausted (answer
  /// over the limit).
  [[nodiscard]] Result<ClientResponse> send(const ClientRequest& request, Deadline deadline,
                                            const Cancel* cancel = nullptr);

  /// Closes idle connections: after a change of certificates or addresses.
  void forget_connections();

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace imex::net::http
