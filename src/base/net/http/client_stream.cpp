#include "client_stream.hpp"

#include <array>
#include <climits>
#include <cstdint>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "net/resolver.hpp"
#include "os/poll.hpp"
#include "os/stream.hpp"

namespace imex::net::http {

namespace {

/// OpenSSL's own BIO for sockets writes without MSG_NOSIGNAL: a lost connection would kill the
/// process. This one keeps the descriptor in the BIO's data and owns nothing.
int bio_write(BIO* bio, const char* bytes, int count) {
  BIO_clear_retry_flags(bio);
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
  const auto sent = os::send_some(fd, {bytes, static_cast<std::size_t>(count)});
  if (!sent) return -1;
  if (*sent == 0) BIO_set_retry_write(bio);
  return *sent == 0 ? -1 : static_cast<int>(*sent);
}

int bio_read(BIO* bio, char* room, int count) {
  BIO_clear_retry_flags(bio);
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
  const auto received = os::receive_some(fd, {room, static_cast<std::size_t>(count)});
  if (!received) return -1;
  if (!*received) BIO_set_retry_read(bio);
  return *received ? static_cast<int>(**received) : -1;
}

long bio_control(BIO* /*bio*/, int command, long /*number*/, void* /*unused*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

const BIO_METHOD* bio_method() {
  static const std::unique_ptr<BIO_METHOD, decltype(&BIO_meth_free)> method = [] {
    std::unique_ptr<BIO_METHOD, decltype(&BIO_meth_free)> made(
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "imex socket"), BIO_meth_free);
    BIO_meth_set_write(made.get(), bio_write);
    BIO_meth_set_read(made.get(), bio_read);
    BIO_meth_set_ctrl(made.get(), bio_control);
    return made;
  }();
  return method.get();
}

BIO* make_bio(int fd) {
  BIO* bio = BIO_new(bio_method());
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)));
  BIO_set_init(bio, 1);
  return bio;
}

}  // namespace

Result<void> ClientStream::wait(bool for_write, const Limits& limits) const {
  std::array<os::PollItem, 2> items{
      {{.fd = socket_.get(), .want_read = !for_write, .want_write = for_write},
       {.fd = limits.cancel == nullptr ? -1 : limits.cancel->fd()}}};
  IMEX_CHECK_OK(os::poll_any(items, limits.deadline));
  if (items[1].readable) return fail(Errc::kAborted, "called off");
  if (items[0].readable || items[0].writable || items[0].hung_up) return {};
  return fail(Errc::kDeadlineExceeded, "no answer within the deadline");
}

Result<std::unique_ptr<ClientStream>> ClientStream::connect(const std::string& address,
                                                            std::uint16_t port,
                                                            const Limits& limits) {
  const std::string to = endpoint_text(address, port);
  IMEX_TRY(os::UniqueFd socket, os::begin_connect(address, port));
  std::unique_ptr<ClientStream> stream(new ClientStream(std::move(socket)));
  if (auto writable = stream->wait(true, limits); !writable) {
    return fail(std::move(writable).error().context("connect to " + to));
  }
  if (auto done = os::finish_connect(stream->socket_.get()); !done) {
    return fail(std::move(done).error().context("connect to " + to));
  }
  return stream;
}

Result<std::unique_ptr<ClientStream>> ClientStream::adopt(os::UniqueFd socket) {
  IMEX_CHECK_OK(os::set_non_blocking(socket.get()));
  return std::unique_ptr<ClientStream>(new ClientStream(std::move(socket)));
}

Result<void> ClientStream::go_on(int returned, const char* what, const Limits& limits) {
  switch (SSL_get_error(ssl_.get(), returned)) {
    case SSL_ERROR_WANT_READ:
      return wait(false, limits);
    case SSL_ERROR_WANT_WRITE:
      return wait(true, limits);
    case SSL_ERROR_SYSCALL:
      return fail(Errc::kUnavailable, fmt::format("{}: the connection ended", what));
    default:
      break;
  }
  const long verified = SSL_get_verify_result(ssl_.get());
  if (verified != X509_V_OK) {
    ERR_clear_error();
    return fail(Errc::kPermissionDenied,
                fmt::format("{}: the server's certificate is not accepted: {}", what,
                            X509_verify_cert_error_string(verified)),
                "check the authority's file, the name in the certificate and its dates");
  }
  return fail(Errc::kUnavailable, fmt::format("{}: {}", what, tls_problem()));
}

Result<void> ClientStream::secure(const TlsContext& context, bool verify,
                                  const std::string& server_name, const Limits& limits) {
  ssl_.reset(SSL_new(context.get()));
  BIO* bio = make_bio(socket_.get());
  if (!ssl_ || bio == nullptr) {
    return fail(Errc::kInternal, "make a TLS connection: " + tls_problem());
  }
  SSL_set_bio(ssl_.get(), bio, bio);
  const std::string literal = canonical_address(server_name);
  if (literal.empty()) {  // what the macro SSL_set_tlsext_host_name does, without its C cast
    SSL_ctrl(ssl_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
             const_cast<char*>(server_name.c_str()));
  }
  if (verify) {
    X509_VERIFY_PARAM* rules = SSL_get0_param(ssl_.get());
    const int set = literal.empty() ? X509_VERIFY_PARAM_set1_host(rules, server_name.c_str(), 0)
                                    : X509_VERIFY_PARAM_set1_ip_asc(rules, literal.c_str());
    if (set != 1) return fail(Errc::kInvalidArgument, "TLS: odd server name: " + server_name);
  }
  for (;;) {
    ERR_clear_error();
    const int done = SSL_connect(ssl_.get());
    if (done == 1) return {};
    IMEX_CHECK_OK(go_on(done, "TLS handshake", limits));
  }
}

Result<void> ClientStream::write(std::string_view bytes, const Limits& limits) {
  while (!bytes.empty()) {
    if (!ssl_) {
      IMEX_TRY(const std::size_t sent, os::send_some(socket_.get(), bytes));
      bytes.remove_prefix(sent);
      if (sent == 0) IMEX_CHECK_OK(wait(true, limits));
      continue;
    }
    ERR_clear_error();
    const int some = static_cast<int>(std::min<std::size_t>(bytes.size(), INT_MAX));
    const int sent = SSL_write(ssl_.get(), bytes.data(), some);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else {
      IMEX_CHECK_OK(go_on(sent, "write", limits));
    }
  }
  return {};
}

Result<std::size_t> ClientStream::read(std::span<char> room, const Limits& limits) {
  for (;;) {
    if (!ssl_) {
      IMEX_TRY(const auto received, os::receive_some(socket_.get(), room));
      if (received) return *received;
      IMEX_CHECK_OK(wait(false, limits));
      continue;
    }
    ERR_clear_error();
    const int bytes = SSL_read(ssl_.get(), room.data(),
                               static_cast<int>(std::min<std::size_t>(room.size(), INT_MAX)));
    if (bytes > 0) return static_cast<std::size_t>(bytes);
    if (SSL_get_error(ssl_.get(), bytes) == SSL_ERROR_ZERO_RETURN) return std::size_t{0};
    IMEX_CHECK_OK(go_on(bytes, "read", limits));
  }
}

bool ClientStream::quiet() const {
  std::array<os::PollItem, 1> item{{{.fd = socket_.get()}}};
  if (!os::poll_any(item, std::chrono::steady_clock::now())) return false;
  if (item[0].hung_up) return false;
  if (!ssl_) return !item[0].readable;
  if (!item[0].readable) return SSL_pending(ssl_.get()) == 0;
  // TLS 1.3 sends session tickets after the handshake: bytes need not mean an answer or the end.
  ERR_clear_error();
  char first = 0;
  const int peeked = SSL_peek(ssl_.get(), &first, 1);
  const bool only_tickets = peeked <= 0 && SSL_get_error(ssl_.get(), peeked) == SSL_ERROR_WANT_READ;
  ERR_clear_error();
  return only_tickets;
}

}  // namespace imex::net::http
