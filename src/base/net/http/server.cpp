#include "net/http/server.hpp"

#include <array>
#include <charconv>
#include <ctime>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include "connection.hpp"
#include "os/file.hpp"
#include "os/socket.hpp"
#include "os/thread.hpp"
#include "server_impl.hpp"

namespace imex::net::http {

namespace asio = boost::asio;

namespace {

constexpr auto kSweepInterval = std::chrono::milliseconds(250);
constexpr auto kRestAfterFailure = std::chrono::milliseconds(100);
constexpr std::string_view kUnixPrefix = "unix:";

Result<asio::ip::tcp::endpoint> parse_address(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon != std::string::npos) {
    std::uint16_t port = 0;
    const char* end = address.data() + address.size();
    const auto [stop, problem] = std::from_chars(address.data() + colon + 1, end, port);
    std::string host = address.substr(0, colon);
    if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
    boost::system::error_code bad;
    const auto ip = asio::ip::make_address(host, bad);
    if (problem == std::errc() && stop == end && !bad) return asio::ip::tcp::endpoint(ip, port);
  }
  return fail(Errc::kInvalidArgument,
              fmt::format("listen on '{}': want unix:PATH, IP:PORT or [IP]:PORT", address));
}

Result<void> open_unix(Acceptor& acceptor, const Listener& listener) {
  const std::string path = listener.address.substr(kUnixPrefix.size());
  IMEX_TRY(os::UniqueFd fd,
           os::listen_unix(path, listener.unix_mode, 1024, os::UnixSocket::kStream));
  boost::system::error_code error;
  acceptor.assign(asio::local::stream_protocol(), fd.get(), error);
  if (error) return fail(system_error(error.value(), "listen on " + listener.address));
  static_cast<void>(fd.release());
  return {};
}

Result<std::uint16_t> open_tcp(Acceptor& acceptor, const std::string& address) {
  IMEX_TRY(const asio::ip::tcp::endpoint endpoint, parse_address(address));
  boost::system::error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error && endpoint.address().is_v6()) {
    // "[::]:80" and "0.0.0.0:80" can then be listened on by one server.
    acceptor.set_option(asio::ip::v6_only(true), error);
  }
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(4096, error);
  if (error) return fail(system_error(error.value(), "listen on " + address));
  const Protocol::endpoint bound = acceptor.local_endpoint(error);
  asio::ip::tcp::endpoint tcp;
  if (error || bound.size() > tcp.capacity()) return fail(Errc::kInternal, "no local address");
  tcp.resize(bound.size());
  std::memcpy(tcp.data(), bound.data(), bound.size());
  return tcp.port();
}

}  // namespace

Server::Impl::Impl(ServerOptions chosen, Router routes)
    : options(std::move(chosen)),
      router(std::move(routes)),
      pool(std::max<std::size_t>(options.threads, 1), options.queue_max),
      work_(io->get_executor()),
      sweep_timer_(*io) {}

Server::Impl::~Impl() { stop(Nanos::zero()); }

Result<void> Server::Impl::listen(const Listener& listener) {
  auto added = std::make_unique<Listening>(*io, listener);
  if (listener.tls) IMEX_CHECK_OK(reload_tls(*added));
  if (listener.address.starts_with(kUnixPrefix)) {
    IMEX_CHECK_OK(open_unix(added->acceptor, listener));
  } else {
    IMEX_TRY(added->port, open_tcp(added->acceptor, listener.address));
  }
  listening.push_back(std::move(added));
  return {};
}

Result<void> Server::Impl::reload_tls(Listening& where) {
  IMEX_TRY(TlsContext made, make_server_context(*where.options.tls));
  const MutexLock lock(where.mutex);
  where.tls = std::move(made);
  return {};
}

void Server::Impl::run() {
  for (const auto& one : listening) {
    if (one->options.tls) one->files_seen = fingerprint(*one->options.tls);
    accept(*one);
  }
  sweep();
  const os::SignalsBlocked blocked;
  thread_ = std::thread([this] {
    os::name_this_thread("http-io");
    io->run();
  });
}

void Server::Impl::accept(Listening& from) {
  from.acceptor.async_accept([this, &from](boost::system::error_code error, Socket socket) {
    if (draining) return;
    if (!error) {
      admit(from, std::move(socket));
      return accept(from);
    }
    if (error == asio::error::connection_aborted) return accept(from);
    // Out of descriptors, most likely: who connected waits in the queue until there is one.
    problem(system_error(error.value(), "accept on " + from.options.address));
    from.rest.expires_after(kRestAfterFailure);
    from.rest.async_wait([this, &from](boost::system::error_code cancelled) {
      if (!cancelled && !draining) accept(from);
    });
  });
}

void Server::Impl::admit(Listening& from, Socket socket) {
  TlsContext tls;
  {
    const MutexLock lock(from.mutex);
    tls = from.tls;
  }
  if (connections.size() >= options.connections_max) {
    refused.fetch_add(1, std::memory_order_relaxed);
    static constexpr std::string_view kBusy =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
        "Content-Length: 0\r\n\r\n";
    boost::system::error_code ignored;
    socket.non_blocking(true, ignored);
    if (!tls) socket.write_some(asio::buffer(kBusy.data(), kBusy.size()), ignored);
    return;
  }
  auto connection = std::make_shared<Connection>(*this, std::move(socket), tls);
  connections.insert(connection);
  {
    const MutexLock lock(mutex);
    ++connection_count;
  }
  connection->start();
}

void Server::Impl::forget(const std::shared_ptr<Connection>& connection) {
  connections.erase(connection);
  {
    const MutexLock lock(mutex);
    --connection_count;
  }
  connection_ended.notify_all();
}

/// Looks at all deadlines now and then: cheaper than a timer per request, and never early.
void Server::Impl::sweep() {
  const auto now = Clock::now();
  for (const auto& connection : connections) connection->check_deadline(now);
  check_certificates(now);
  sweep_timer_.expires_after(kSweepInterval);
  sweep_timer_.async_wait([this](boost::system::error_code cancelled) {
    if (!cancelled) sweep();
  });
}

void Server::Impl::check_certificates(Clock::time_point now) {
  if (now - certificates_checked_ < options.tls_check_interval) return;
  certificates_checked_ = now;
  for (const auto& one : listening) {
    if (!one->options.tls) continue;
    std::string found = fingerprint(*one->options.tls);
    if (found == one->files_seen) continue;
    one->files_seen = std::move(found);
    if (auto done = reload_tls(*one); !done) {
      problem(std::move(done).error().context("new certificates are not used"));
    }
  }
}

Response Server::Impl::error(unsigned status, std::string_view message) const {
  if (options.error_body) return options.error_body(status, message);
  return Response::text(status, fmt::format("{}\n", message));
}

void Server::Impl::problem(Error error) const {
  if (options.on_problem) options.on_problem(error);
}

const std::string& Server::Impl::date() {
  const std::time_t now = std::time(nullptr);
  if (now == date_at_) return date_;
  date_at_ = now;
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  // Not strftime, whose names follow the locale.
  static constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  date_ = fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                      kDays[static_cast<std::size_t>(parts.tm_wday)], parts.tm_mday,
                      kMonths[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900,
                      parts.tm_hour, parts.tm_min, parts.tm_sec);
  return date_;
}

void Server::Impl::stop(Nanos grace) {
  if (std::exchange(stopped_, true)) return;
  const auto drain_all = [this] {
    draining = true;
    boost::system::error_code ignored;
    for (const auto& one : listening) {
      one->acceptor.close(ignored);
      one->rest.cancel();
    }
    // Copied: a connection may end, and be forgotten, inside drain().
    const auto all = std::vector(connections.begin(), connections.end());
    for (const auto& connection : all) connection->drain();
  };
  const auto cut_all = [this] {
    sweep_timer_.cancel();
    const auto all = std::vector(connections.begin(), connections.end());
    for (const auto& connection : all) connection->cut();
  };
  if (thread_.joinable()) {
    asio::post(*io, drain_all);
    const auto deadline = Clock::now() + grace;
    const MutexLock lock(mutex);
    while (connection_count > 0 && connection_ended.wait_until(mutex, deadline)) {
    }
  }
  abandoned = true;
  asio::post(*io, cut_all);
  pool.stop();
  work_.reset();
  if (thread_.joinable()) thread_.join();
  for (const auto& one : listening) {
    if (!one->options.address.starts_with(kUnixPrefix)) continue;
    os::remove_file(one->options.address.substr(kUnixPrefix.size()));
  }
}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Router router) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(router));
  if (impl->options.listeners.empty()) {
    return fail(Errc::kInvalidArgument, "an HTTP server needs an address to listen on");
  }
  for (const Listener& listener : impl->options.listeners) IMEX_CHECK_OK(impl->listen(listener));
  impl->run();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

std::uint16_t Server::port(std::size_t listener) const noexcept {
  return listener < impl_->listening.size() ? impl_->listening[listener]->port : std::uint16_t{0};
}

void Server::stop(Nanos grace) { impl_->stop(grace); }

Result<void> Server::reload_tls() {
  for (const auto& one : impl_->listening) {
    if (one->options.tls) IMEX_CHECK_OK(impl_->reload_tls(*one));
  }
  return {};
}

Server::Counts Server::counts() const {
  Counts counts;
  {
    const MutexLock lock(impl_->mutex);
    counts.connections = impl_->connection_count;
  }
  counts.streams = impl_->streams.load(std::memory_order_relaxed);
  counts.queued = impl_->pool.queued();
  counts.refused = impl_->refused.load(std::memory_order_relaxed);
  return counts;
}

}  // namespace imex::net::http
