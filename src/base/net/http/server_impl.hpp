/// What the server and its connections share. Not for other rooms: names Boost.
#pragma once

#include <atomic>
#include <thread>
#include <unordered_set>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "net/http/server.hpp"
#include "tls_context.hpp"
#include "worker_pool.hpp"

namespace imex::net::http {

using Clock = std::chrono::steady_clock;
using IoContext = boost::asio::io_context;
// The executor's own type, not the type-erased default: a third less per operation.
using Protocol = boost::asio::generic::stream_protocol;
using Socket = boost::asio::basic_stream_socket<Protocol, IoContext::executor_type>;
using Acceptor = boost::asio::basic_socket_acceptor<Protocol, IoContext::executor_type>;
using SteadyTimer = boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>,
                                                      IoContext::executor_type>;

class Connection;

/// One address that is listened on.
struct Listening {
  Listening(IoContext& io, Listener chosen) : options(std::move(chosen)), acceptor(io), rest(io) {}

  const Listener options;
  Acceptor acceptor;
  SteadyTimer rest;  ///< after a failed accept
  std::uint16_t port = 0;
  std::string files_seen;  ///< fingerprint of the certificate files in use
  Mutex mutex;
  TlsContext tls IMEX_GUARDED_BY(mutex);  ///< null: no TLS
};

/// Fields without a lock belong to the network's thread once the server runs, or never change.
struct Server::Impl {
  Impl(ServerOptions chosen, Router routes);
  ~Impl();

  // Start and end, on the owner's thread.
  [[nodiscard]] Result<void> listen(const Listener& listener);
  [[nodiscard]] Result<void> reload_tls(Listening& listening);
  void run();
  void stop(Nanos grace);

  // For connections, on the network's thread.
  [[nodiscard]] Response error(unsigned status, std::string_view message) const;
  void forget(const std::shared_ptr<Connection>& connection);
  void problem(Error error) const;
  /// The header Date, made once a second.
  [[nodiscard]] const std::string& date();

  const ServerOptions options;
  const Router router;
  // Shared: a stream's push may come while the server ends.
  const std::shared_ptr<IoContext> io = std::make_shared<IoContext>(1);
  WorkerPool pool;
  std::vector<std::unique_ptr<Listening>> listening;
  std::unordered_set<std::shared_ptr<Connection>> connections;
  bool draining = false;

  std::atomic<bool> abandoned{false};  ///< stop() ran out of grace; queued requests are dropped
  std::atomic<std::size_t> streams{0};
  std::atomic<std::uint64_t> refused{0};

  Mutex mutex;
  CondVar connection_ended;
  std::size_t connection_count IMEX_GUARDED_BY(mutex) = 0;

 private:
  void accept(Listening& from);
  void admit(Listening& from, Socket socket);
  void sweep();
  void check_certificates(Clock::time_point now);

  boost::asio::executor_work_guard<IoContext::executor_type> work_;
  SteadyTimer sweep_timer_;
  Clock::time_point certificates_checked_{};
  std::time_t date_at_ = 0;
  std::string date_;
  std::thread thread_;
  bool stopped_ = false;  ///< owner's thread
};

}  // namespace imex::net::http
