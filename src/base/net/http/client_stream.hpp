/// One connection of the client, plain or TLS, whose every wait ends at a deadline or when it is
/// called off. Not for other rooms: names OpenSSL.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "net/http/client.hpp"
#include "os/fd.hpp"
#include "tls_context.hpp"

namespace imex::net::http {

class ClientStream {
 public:
  struct Limits {
    std::chrono::steady_clock::time_point deadline;
    const Cancel* cancel = nullptr;
  };

  /// `address`: a literal. Errors: kUnavailable, kDeadlineExceeded, kAborted.
  [[nodiscard]] static Result<std::unique_ptr<ClientStream>> connect(const std::string& address,
                                                                     std::uint16_t port,
                                                                     const Limits& limits);
  /// Of a socket that is connected.
  [[nodiscard]] static Result<std::unique_ptr<ClientStream>> adopt(os::UniqueFd socket);

  /// Goes over to TLS. Errors: kPermissionDenied (not who was expected), those of connect().
  [[nodiscard]] Result<void> secure(const TlsContext& context, bool verify,
                                    const std::string& server_name, const Limits& limits);
  [[nodiscard]] Result<void> write(std::string_view bytes, const Limits& limits);
  /// 0: end of file. Errors: kUnavailable, kDeadlineExceeded, kAborted.
  [[nodiscard]] Result<std::size_t> read(std::span<char> room, const Limits& limits);
  /// Open, and nothing has come that was not read.
  [[nodiscard]] bool quiet() const;

 private:
  struct FreeSsl {
    void operator()(SSL* ssl) const noexcept { SSL_free(ssl); }
  };
  explicit ClientStream(os::UniqueFd socket) noexcept : socket_(std::move(socket)) {}
  [[nodiscard]] Result<void> wait(bool for_write, const Limits& limits) const;
  /// What a return value of OpenSSL asks for: waits, or says what went wrong.
  [[nodiscard]] Result<void> go_on(int returned, const char* what, const Limits& limits);

  os::UniqueFd socket_;
  std::unique_ptr<SSL, FreeSsl> ssl_;
};

}  // namespace imex::net::http
