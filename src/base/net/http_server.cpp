#include "net/http_server.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <optional>
#include <set>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include "event_loop_impl.hpp"

namespace imex::net {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Protocol = asio::generic::stream_protocol;
using Stream = beast::basic_stream<Protocol>;
using Acceptor = asio::basic_socket_acceptor<Protocol>;

namespace {

constexpr std::size_t kConnectionsMax = 64;
constexpr std::size_t kRequestBytesMax = 8192;
constexpr auto kSilenceMax = std::chrono::seconds(5);
constexpr auto kAcceptRest = std::chrono::milliseconds(100);

Result<Protocol::endpoint> parse_endpoint(const std::string& address) {
  if (address.starts_with("unix:")) {
    const std::string path = address.substr(5);
    if (path.empty() || path.size() > 107) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("listen on '{}': a socket path has 1 to 107 bytes", address));
    }
    return Protocol::endpoint(asio::local::stream_protocol::endpoint(path));
  }
  const auto colon = address.rfind(':');
  std::uint16_t port = 0;
  const char* end = address.data() + address.size();
  if (colon != std::string::npos) {
    const auto [stop, problem] = std::from_chars(address.data() + colon + 1, end, port);
    std::string host = address.substr(0, colon);
    if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
    boost::system::error_code bad_address;
    const auto ip = asio::ip::make_address(host, bad_address);
    if (problem == std::errc() && stop == end && !bad_address) {
      return Protocol::endpoint(asio::ip::tcp::endpoint(ip, port));
    }
  }
  return fail(Errc::kInvalidArgument,
              fmt::format("listen on '{}': want unix:PATH or IP:PORT", address));
}

}  // namespace

struct HttpServer::Impl : std::enable_shared_from_this<HttpServer::Impl> {
  struct Connection;

  Impl(EventLoop& on, Handler chosen)
      : loop(on), acceptor(on.impl().io), handler(std::move(chosen)), retry(on) {}

  void accept();
  void close();

  EventLoop& loop;
  Acceptor acceptor;
  Handler handler;
  Timer retry;
  std::set<std::shared_ptr<Connection>> connections;
  std::string socket_path;  ///< removed at the end; empty: TCP
  std::uint16_t port = 0;
  bool closed = false;
};

struct HttpServer::Impl::Connection : std::enable_shared_from_this<HttpServer::Impl::Connection> {
  Connection(std::shared_ptr<Impl> owner, Protocol::socket socket)
      : server(std::move(owner)), stream(std::move(socket)) {}

  void read() {
    parser.emplace();
    parser->header_limit(kRequestBytesMax);
    parser->body_limit(0);
    stream.expires_after(kSilenceMax);
    http::async_read(stream, buffer, *parser, [self = shared_from_this()](auto error, std::size_t) {
      if (error || self->server->closed) return self->end();
      self->answer();
    });
  }

  void answer() {
    const auto& request = parser->get();
    const bool head = request.method() == http::verb::head;
    HttpResponse result{405, "text/plain; charset=utf-8", "only GET is served here\n"};
    if (head || request.method() == http::verb::get) {
      const auto target = request.target();
      const std::string_view path(target.data(), target.size());
      result = server->handler(path.substr(0, path.find('?')));
    }
    response.emplace();
    response->version(request.version());
    response->result(result.status);
    response->set(http::field::content_type, result.content_type);
    response->keep_alive(request.keep_alive());
    response->content_length(result.body.size());
    if (!head) response->body() = std::move(result.body);
    serializer.emplace(*response);
    serializer->split(head);
    const auto written = [self = shared_from_this()](auto error, std::size_t) {
      if (error || !self->response->keep_alive() || self->server->closed) return self->end();
      self->read();
    };
    if (head) {
      http::async_write_header(stream, *serializer, written);
    } else {
      http::async_write(stream, *serializer, written);
    }
  }

  void end() {
    boost::system::error_code ignored;
    stream.socket().close(ignored);
    server->connections.erase(shared_from_this());
  }

  std::shared_ptr<Impl> server;
  Stream stream;
  beast::flat_buffer buffer{kRequestBytesMax};
  std::optional<http::request_parser<http::empty_body>> parser;
  std::optional<http::response<http::string_body>> response;
  std::optional<http::response_serializer<http::string_body>> serializer;
};

void HttpServer::Impl::accept() {
  acceptor.async_accept([self = shared_from_this()](auto error, Protocol::socket socket) {
    if (self->closed) return;
    if (error) {  // out of descriptors, most likely: it stays in the queue until there is one
      self->retry.arm(self->loop.now() + kAcceptRest, [server = self.get()] { server->accept(); });
      return;
    }
    // Over the limit the connection is closed at once.
    if (self->connections.size() < kConnectionsMax) {
      auto connection = std::make_shared<Connection>(self, std::move(socket));
      self->connections.insert(connection);
      connection->read();
    }
    self->accept();
  });
}

void HttpServer::Impl::close() {
  closed = true;
  retry.cancel();
  boost::system::error_code ignored;
  acceptor.close(ignored);
  for (const auto& connection : connections) connection->stream.socket().close(ignored);
  connections.clear();
  if (!socket_path.empty()) ::unlink(socket_path.c_str());
}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(EventLoop& loop, const std::string& address,
                                                       Handler handler) {
  IMEX_TRY(const Protocol::endpoint endpoint, parse_endpoint(address));
  auto impl = std::make_shared<Impl>(loop, std::move(handler));
  const bool local = address.starts_with("unix:");
  if (local) {
    impl->socket_path = address.substr(5);
    ::unlink(impl->socket_path.c_str());  // the run directory's lock says that nobody uses it
  }
  boost::system::error_code error;
  impl->acceptor.open(endpoint.protocol(), error);
  if (!error && !local) impl->acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) impl->acceptor.bind(endpoint, error);
  if (!error && local && ::chmod(impl->socket_path.c_str(), 0600) != 0) {
    error.assign(errno, boost::system::system_category());
  }
  if (!error) impl->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return fail(system_error(error.value(), "listen on " + address));
  if (!local) {
    const Protocol::endpoint bound = impl->acceptor.local_endpoint(error);
    asio::ip::tcp::endpoint tcp;
    if (!error && bound.size() <= tcp.capacity()) {
      tcp.resize(bound.size());
      std::memcpy(tcp.data(), bound.data(), bound.size());
      impl->port = tcp.port();
    }
  }
  impl->accept();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() { impl_->close(); }
std::uint16_t HttpServer::port() const noexcept { return impl_->port; }

}  // namespace imex::net
