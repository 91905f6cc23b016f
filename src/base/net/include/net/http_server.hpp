/// A minimal HTTP/1.1 server for GET: metrics and health of a daemon, on loopback or a Unix socket.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/event_loop.hpp"

namespace imex::net {

struct HttpResponse {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

/// Runs on the loop. Bounds: 64 connections, 8 KiB of request, 5 s of silence; what exceeds them is
/// closed. Methods other than GET and HEAD get 405.
class HttpServer {
 public:
  /// Called on the loop with the path (without the query).
  using Handler = std::function<HttpResponse(std::string_view path)>;

  /// `address`: "unix:PATH" (a stale socket is replaced; mode 0600) or "IP:PORT", "[IP]:PORT".
  /// Errors: kInvalidArgument, kAlreadyExists (in use), those of bind.
  [[nodiscard]] static Result<std::unique_ptr<HttpServer>> listen(EventLoop& loop,
                                                                  const std::string& address,
                                                                  Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// TCP port that was bound; 0 for a Unix socket.
  [[nodiscard]] std::uint16_t port() const noexcept;

 private:
  struct Impl;
  explicit HttpServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace imex::net
