#include "connection.hpp"

#include <algorithm>
#include <array>
#include <exception>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include "net/resolver.hpp"
#include "os/socket.hpp"

namespace imex::net::http {

namespace asio = boost::asio;
namespace beast = boost::beast;

namespace {

constexpr asio::as_tuple_t<asio::use_awaitable_t<IoContext::executor_type>> kAwait;

constexpr std::size_t kReadBytes = 4096;
constexpr std::size_t kBodyReadBytes = 64U << 10U;
/// A body up to this size is copied behind its head: one buffer to send instead of two.
constexpr std::size_t kJoinedBytesMax = 16U << 10U;
/// What a peer may still be sending when it has got an error is read, up to here, so that the
/// kernel does not reset the connection before the answer was read.
constexpr std::size_t kLingerBytesMax = 4U << 20U;
constexpr auto kLingerTime = std::chrono::seconds(2);

std::string address_of(const Socket& socket) {
  boost::system::error_code error;
  const Protocol::endpoint from = socket.remote_endpoint(error);
  if (error) return "unknown";
  if (from.protocol().family() == AF_UNIX) return "unix";
  asio::ip::tcp::endpoint tcp;
  if (from.size() > tcp.capacity()) return "unknown";
  tcp.resize(from.size());
  std::memcpy(tcp.data(), from.data(), from.size());
  return endpoint_text(tcp.address().to_string(), tcp.port());
}

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

/// A value as it may stand in a header: no line breaks, which could start a field of their own.
std::string field_value(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

bool has_no_body(unsigned status) { return status < 200 || status == 204 || status == 304; }

/// What an exception of a handler, which is a bug, becomes.
Response call(const Handler& handler, const Request& request, const Server::Impl& server) {
  try {
    return handler(request);
  } catch (const std::exception& thrown) {
    server.problem(
        {Errc::kInternal, fmt::format("{} {}: the handler threw: {}", method_name(request.method),
                                      request.route, thrown.what())});
  }
  return server.error(500, "internal error");
}

}  // namespace

Connection::Connection(Server::Impl& server, Socket socket, const TlsContext& tls)
    : server_(server), plain_(std::move(socket)), wake_(*server.io, Clock::time_point::max()) {
  boost::system::error_code ignored;
  plain_.set_option(asio::ip::tcp::no_delay(true), ignored);
  plain_.set_option(asio::socket_base::keep_alive(true), ignored);
  peer_.address = address_of(plain_);
  if (peer_.address == "unix") {
    if (const auto who = os::peer_credentials(plain_.native_handle())) peer_.uid = who->uid;
  }
  if (tls) tls_.emplace(plain_, SSL_new(tls.get()));
}

Socket& Connection::socket() noexcept { return plain_; }

void Connection::start() {
  asio::co_spawn(
      *server_.io,
      [self = shared_from_this()]() -> Awaitable<void> {
        co_await self->serve();
        self->server_.forget(self);
      },
      asio::detached);
}

void Connection::enter(Phase phase, Nanos time) {
  phase_ = phase;
  deadline_ = time == Nanos::max() ? Clock::time_point::max() : Clock::now() + time;
}

void Connection::drain() {
  last_ = true;
  if (phase_ == Phase::kIdle && buffer_.size() == 0) return cut();
  if (!stream_) return;
  {
    const MutexLock lock(stream_->mutex);
    stream_->closed = true;
  }
  wake_.cancel();
}

void Connection::cut() noexcept {
  cut_ = true;
  boost::system::error_code ignored;
  socket().close(ignored);
  wake_.cancel();
}

void Connection::check_deadline(Clock::time_point now) {
  if (now < deadline_) return;
  deadline_ = Clock::time_point::max();
  if (phase_ != Phase::kReading) return cut();
  timed_out_ = true;  // the read returns, and a 408 goes out
  boost::system::error_code ignored;
  socket().cancel(ignored);
}

auto Connection::serve() -> Awaitable<void> {
  if (tls_) {
    const bool shaken = co_await shake_hands();
    if (!shaken) {
      cut();
      co_return;
    }
  }
  for (bool more = true; more;) more = co_await serve_one();
  if (!cut_) co_await close_gently();
  cut();
}

auto Connection::shake_hands() -> Awaitable<bool> {
  enter(Phase::kIdle, server_.options.header_timeout);
  const auto [error] = co_await tls_->async_handshake(asio::ssl::stream_base::server, kAwait);
  if (error) co_return false;
  peer_.certificate_subject = peer_subject(tls_->native_handle());
  co_return true;
}

/// Whether another request may follow on this connection.
auto Connection::serve_one() -> Awaitable<bool> {
  const bool begun = co_await wait_for_request();
  if (!begun) co_return false;
  Incoming incoming;
  incoming.began = Clock::now();
  const bool complete = co_await read_request(incoming);
  if (!complete) co_return false;

  Response response;
  if (incoming.refusal) {
    incoming.keep_alive = false;
    response = std::move(*incoming.refusal);
  } else {
    response = co_await answer(incoming);
  }
  if (last_ || response.stream) incoming.keep_alive = false;
  const bool written = co_await write(incoming, response);
  if (server_.options.observer) {
    server_.options.observer({incoming.request.method, incoming.request.route, response.status,
                              Clock::now() - incoming.began, incoming.request.body.size(),
                              response.body.size()});
  }
  co_return written&& incoming.keep_alive;
}

/// False: the peer has gone, or was idle for too long.
auto Connection::wait_for_request() -> Awaitable<bool> {
  if (buffer_.size() > 0) co_return true;  // pipelined
  if (last_) co_return false;
  if (buffer_.capacity() > 2 * kReadBytes) buffer_.shrink_to_fit();
  enter(Phase::kIdle, server_.options.idle_timeout);
  const auto room = buffer_.prepare(kReadBytes);
  const std::size_t bytes = co_await read_some({static_cast<char*>(room.data()), room.size()});
  buffer_.commit(bytes);
  co_return bytes > 0;
}

/// False: the peer has gone before it had said all.
auto Connection::read_request(Incoming& incoming) -> Awaitable<bool> {
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(server_.options.header_bytes_max));
  parser.body_limit(boost::none);  // known once the route is
  parser.eager(false);
  timed_out_ = false;
  enter(Phase::kReading, server_.options.header_timeout);
  ErrorCode problem = co_await feed(parser, true);
  if (!problem) {
    take_header(parser, incoming);
    if (incoming.refusal) co_return true;
    parser.eager(true);
    enter(Phase::kReading, server_.options.body_timeout);
    if (!parser.is_done() && buffer_.size() == 0 &&
        incoming.request.headers.find("Expect").value_or("") == "100-continue") {
      static constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
      const std::array pieces = {asio::const_buffer(kGoOn.data(), kGoOn.size())};
      const bool written = co_await write_all(pieces);
      if (!written) co_return false;
    }
    problem = co_await feed(parser, false);
  }
  if (problem == beast::http::error::partial_message) {
    if (!timed_out_) co_return false;
    refuse(incoming, 408, "the request took too long to come");
  } else if (problem) {
    refuse_unparsed(incoming, problem);
  } else {
    incoming.request.body = std::move(parser.get().body());
  }
  co_return true;
}

/// Parses what is there and reads more until the header, or all, is complete.
auto Connection::feed(Parser& parser, bool header_only) -> Awaitable<ErrorCode> {
  const std::size_t read_bytes = header_only ? kReadBytes : kBodyReadBytes;
  for (;;) {
    if (header_only ? parser.is_header_done() : parser.is_done()) co_return ErrorCode();
    ErrorCode error;
    std::size_t used = 0;
    if (buffer_.size() > 0) {
      used = parser.put(buffer_.data(), error);
      buffer_.consume(used);
      if (error == beast::http::error::need_more) error.clear();
      if (error) co_return error;
      if (used > 0) continue;
    }
    // A byte that came together with the deadline does not earn another wait.
    if (timed_out_ || cut_) co_return beast::http::error::partial_message;
    const auto room = buffer_.prepare(read_bytes);
    const std::size_t bytes = co_await read_some({static_cast<char*>(room.data()), room.size()});
    buffer_.commit(bytes);
    if (bytes == 0) co_return beast::http::error::partial_message;
  }
}

void Connection::refuse(Incoming& incoming, unsigned status, std::string_view message) const {
  incoming.refusal = server_.error(status, message);
}

void Connection::refuse_unparsed(Incoming& incoming, const ErrorCode& problem) const {
  using beast::http::error;
  if (problem == error::header_limit || problem == error::buffer_overflow) {
    return refuse(
        incoming, 431,
        fmt::format("the header is longer than {} bytes", server_.options.header_bytes_max));
  }
  if (problem == error::body_limit) return refuse(incoming, 413, "the body is too long");
  if (problem == error::bad_version) return refuse(incoming, 505, "only HTTP/1.0 and HTTP/1.1");
  refuse(incoming, 400, fmt::format("not a request: {}", problem.message()));
}

void Connection::take_header(Parser& parser, Incoming& incoming) {
  const auto& message = parser.get();
  Request& request = incoming.request;
  incoming.keep_alive = parser.keep_alive();
  incoming.is_old = message.version() < 11;
  request.peer = peer_;
  request.deadline = Clock::now() + server_.options.handler_timeout;
  for (const auto& field : message) {
    request.headers.add(std::string(view(field.name_string())), std::string(view(field.value())));
  }
  if (message.version() != 11 && message.version() != 10) {
    return refuse(incoming, 505, "only HTTP/1.0 and HTTP/1.1");
  }
  if (request.headers.count("Host") > 1 || (!incoming.is_old && !request.headers.find("Host"))) {
    return refuse(incoming, 400, "one header Host is needed");
  }
  if (request.headers.find("Transfer-Encoding") && !parser.chunked()) {
    return refuse(incoming, 501, "of transfer encodings only chunked is known");
  }
  // No route serves TRACE, so a method that nobody knows is answered as that is: 405 with those
  // that the path has, or 404.
  request.method = method_from_name(view(message.method_string())).value_or(Method::kTrace);
  take_target(view(message.target()), incoming);
  if (incoming.refusal) return;
  std::size_t limit = incoming.route->options.body_bytes_max;
  if (limit == 0) limit = server_.options.body_bytes_max;
  if (parser.content_length().value_or(0) > limit) {
    return refuse(incoming, 413, fmt::format("the body is longer than {} bytes", limit));
  }
  parser.body_limit(limit);
}

void Connection::take_target(std::string_view target, Incoming& incoming) const {
  Request& request = incoming.request;
  request.target = target;
  for (const std::string_view scheme : {"http://", "https://"}) {  // as a proxy would be asked
    if (!target.starts_with(scheme)) continue;
    target.remove_prefix(scheme.size());
    const auto slash = target.find('/');
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  const auto mark = target.find('?');
  request.path = target.substr(0, mark);
  auto found = server_.router.find(request.method, request.path);
  if (auto* bad = std::get_if<Router::BadPath>(&found)) return refuse(incoming, 400, bad->problem);
  if (std::holds_alternative<Router::NoSuchPath>(found)) {
    return refuse(incoming, 404, "no such path");
  }
  if (auto* other = std::get_if<Router::NoSuchMethod>(&found)) {
    refuse(incoming, 405, fmt::format("this path knows {}", other->allow));
    incoming.refusal->headers.set("Allow", std::move(other->allow));
    return;
  }
  auto& match = std::get<Router::Match>(found);
  incoming.route = match.route;
  request.route = match.route->pattern;
  request.parameters = std::move(match.parameters);
  if (mark == std::string_view::npos) return;
  auto query = Query::parse(target.substr(mark + 1));
  if (!query) return refuse(incoming, 400, query.error().message);
  request.query = std::move(*query);
}

auto Connection::answer(Incoming& incoming) -> Awaitable<Response> {
  enter(Phase::kHandling, Nanos::max());
  const Handler& handler = incoming.route->handler;
  if (incoming.route->options.immediate) co_return call(handler, incoming.request, server_);
  // `incoming` outlives the job: this coroutine goes on only after it.
  const bool taken = server_.pool.submit([self = shared_from_this(), &handler, &incoming] {
    Response response = self->server_.abandoned ? self->server_.error(503, "the server is stopping")
                                                : call(handler, incoming.request, self->server_);
    IoContext& io = *self->server_.io;
    asio::post(io, [self, response = std::move(response)]() mutable {
      self->result_ = std::move(response);
      self->wake_.cancel();
    });
  });
  if (!taken) {
    server_.refused.fetch_add(1, std::memory_order_relaxed);
    Response busy = server_.error(503, "too many requests are waiting");
    busy.headers.set("Retry-After", "1");
    co_return busy;
  }
  while (!result_) co_await wait_for_wake();
  Response response = std::move(*result_);
  result_.reset();
  co_return response;
}

std::string Connection::head_of(const Incoming& incoming, const Response& response) {
  std::string head;
  head.reserve(256);
  fmt::format_to(std::back_inserter(head), "HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status,
                 status_text(response.status), server_.date());
  if (response.stream) {
    if (!incoming.is_old) head += "Transfer-Encoding: chunked\r\n";
    head += "Cache-Control: no-store\r\n";
  } else if (!has_no_body(response.status)) {
    fmt::format_to(std::back_inserter(head), "Content-Length: {}\r\n", response.body.size());
  }
  if (!has_no_body(response.status)) {
    fmt::format_to(std::back_inserter(head), "Content-Type: {}\r\n", response.content_type);
  }
  for (const auto& [name, value] : response.headers) {
    fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, field_value(value));
  }
  if (!incoming.keep_alive) {
    head += "Connection: close\r\n";
  } else if (incoming.is_old) {
    head += "Connection: keep-alive\r\n";
  }
  head += "\r\n";
  return head;
}

auto Connection::write(const Incoming& incoming, const Response& response) -> Awaitable<bool> {
  enter(Phase::kWriting, server_.options.write_timeout);
  std::string head = head_of(incoming, response);
  const bool bare = incoming.request.method == Method::kHead || has_no_body(response.status);
  const auto& stream = response.stream.state();
  if (stream && !bare) {
    const std::array pieces = {asio::const_buffer(head.data(), head.size())};
    bool written = co_await write_all(pieces);
    if (written) written = co_await write_stream(!incoming.is_old, stream);
    stream->end();
    co_return written;
  }
  if (stream) stream->end();
  const bool joined = !bare && response.body.size() <= kJoinedBytesMax;
  if (joined) head += response.body;
  const std::string_view apart = bare || joined ? std::string_view() : response.body;
  const std::array pieces = {asio::const_buffer(head.data(), head.size()),
                             asio::const_buffer(apart.data(), apart.size())};
  co_return co_await write_all(std::span(pieces).first(apart.empty() ? 1 : 2));
}

auto Connection::write_stream(bool chunked, const std::shared_ptr<ResponseStream::State>& stream)
    -> Awaitable<bool> {
  stream_ = stream;
  server_.streams.fetch_add(1, std::memory_order_relaxed);
  asio::co_spawn(
      *server_.io,
      [self = shared_from_this()]() -> Awaitable<void> { co_await self->watch_peer(); },
      asio::detached);
  // A push may come when the connection, and even the server, are gone.
  stream->attach([io = server_.io, connection = weak_from_this()] {
    asio::post(*io, [connection] {
      if (const auto self = connection.lock()) self->wake_.cancel();
    });
  });
  if (last_) drain();
  bool good = true;
  while (good && !peer_gone_ && !cut_) {
    const ResponseStream::State::Taken taken = stream->take();
    if (!taken.pieces.empty() || taken.last) {
      enter(Phase::kStreaming, server_.options.write_timeout);
      good = co_await write_pieces(chunked, taken);
      if (taken.last) break;
    } else {
      enter(Phase::kStreaming, Nanos::max());
      co_await wait_for_wake();
    }
  }
  server_.streams.fetch_sub(1, std::memory_order_relaxed);
  stream_.reset();
  enter(Phase::kWriting, server_.options.write_timeout);
  co_return good && !peer_gone_;
}

auto Connection::write_pieces(bool chunked, const ResponseStream::State::Taken& taken)
    -> Awaitable<bool> {
  std::size_t bytes = 0;
  for (const auto& piece : taken.pieces) bytes += piece->size();
  std::string frame;
  if (chunked && bytes > 0) frame = fmt::format("{:x}\r\n", bytes);
  const std::string_view end = !chunked ? "" : taken.last ? "\r\n0\r\n\r\n" : "\r\n";
  const std::string_view tail = bytes > 0 || end.empty() ? end : end.substr(2);
  std::vector<asio::const_buffer> pieces;
  pieces.reserve(taken.pieces.size() + 2);
  pieces.push_back(asio::buffer(std::as_const(frame)));
  for (const auto& piece : taken.pieces) pieces.push_back(asio::buffer(*piece));
  pieces.emplace_back(tail.data(), tail.size());
  co_return co_await write_all(pieces);
}

/// While a stream is open nothing is expected from the peer but its end.
auto Connection::watch_peer() -> Awaitable<void> {
  std::array<char, 64> ignored{};
  for (std::size_t bytes = 1; bytes > 0;) bytes = co_await read_some(ignored);
  peer_gone_ = true;
  wake_.cancel();
}

/// The peer reads the answer before it sees the connection end.
auto Connection::close_gently() -> Awaitable<void> {
  enter(Phase::kWriting, kLingerTime);
  if (tls_) {
    if (!peer_gone_) static_cast<void>(co_await tls_->async_shutdown(kAwait));
    co_return;
  }
  boost::system::error_code ignored;
  plain_.shutdown(asio::socket_base::shutdown_send, ignored);
  std::vector<char> rest(kReadBytes);
  std::size_t total = 0;
  for (std::size_t bytes = peer_gone_ ? 0 : 1; bytes > 0 && total < kLingerBytesMax;) {
    bytes = co_await read_some(rest);
    total += bytes;
  }
}

/// 0: end of file, cancelled, or an error.
auto Connection::read_some(std::span<char> room) -> Awaitable<std::size_t> {
  const auto where = asio::buffer(room.data(), room.size());
  if (tls_) {
    const auto [error, bytes] = co_await tls_->async_read_some(where, kAwait);
    co_return error ? 0 : bytes;
  }
  const auto [error, bytes] = co_await plain_.async_read_some(where, kAwait);
  co_return error ? 0 : bytes;
}

auto Connection::write_all(std::span<const asio::const_buffer> pieces) -> Awaitable<bool> {
  if (tls_) {
    const auto [error, bytes] = co_await asio::async_write(*tls_, pieces, kAwait);
    co_return !error;
  }
  const auto [error, bytes] = co_await asio::async_write(plain_, pieces, kAwait);
  co_return !error;
}

auto Connection::wait_for_wake() -> Awaitable<void> {
  static_cast<void>(co_await wake_.async_wait(kAwait));
}

}  // namespace imex::net::http
