/// One connection of the server: reads a request, has it answered, writes the answer, again. Not
/// for other rooms: names Boost.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server_impl.hpp"
#include "stream_state.hpp"

namespace imex::net::http {

/// Everything happens on the network's thread. Alive as long as its coroutine runs.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// `tls`: null for a plain connection.
  Connection(Server::Impl& server, Socket socket, const TlsContext& tls);

  void start();
  /// Ends now if nothing is under way, else after the answer that is.
  void drain();
  /// Closes the socket; whatever waits on it returns.
  void cut() noexcept;
  void check_deadline(Clock::time_point now);

 private:
  template <class T>
  using Awaitable = boost::asio::awaitable<T, IoContext::executor_type>;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using ErrorCode = boost::system::error_code;

  /// What the connection waits for, and so what a passed deadline means.
  enum class Phase { kIdle, kReading, kHandling, kWriting, kStreaming };
  /// A request on its way from the parser to its answer.
  struct Incoming {
    Request request;
    const Router::Route* route = nullptr;
    std::optional<Response> refusal;  ///< answered without a handler, and the connection closed
    bool keep_alive = false;
    bool is_old = false;  ///< HTTP/1.0
    Clock::time_point began;
  };

  Awaitable<void> serve();
  Awaitable<bool> shake_hands();
  Awaitable<bool> serve_one();
  Awaitable<bool> wait_for_request();
  Awaitable<bool> read_request(Incoming& incoming);
  Awaitable<ErrorCode> feed(Parser& parser, bool header_only);
  Awaitable<Response> answer(Incoming& incoming);
  Awaitable<bool> write(const Incoming& incoming, const Response& response);
  Awaitable<bool> write_stream(bool chunked, const std::shared_ptr<ResponseStream::State>& stream);
  Awaitable<bool> write_pieces(bool chunked, const ResponseStream::State::Taken& taken);
  Awaitable<void> watch_peer();
  Awaitable<void> close_gently();
  Awaitable<std::size_t> read_some(std::span<char> room);
  Awaitable<bool> write_all(std::span<const boost::asio::const_buffer> pieces);
  Awaitable<void> wait_for_wake();

  void refuse(Incoming& incoming, unsigned status, std::string_view message) const;
  void refuse_unparsed(Incoming& incoming, const ErrorCode& problem) const;
  void take_header(Parser& parser, Incoming& incoming);
  void take_target(std::string_view target, Incoming& incoming) const;
  [[nodiscard]] std::string head_of(const Incoming& incoming, const Response& response);
  void enter(Phase phase, Nanos time);
  [[nodiscard]] Socket& socket() noexcept;

  Server::Impl& server_;
  Socket plain_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
  Peer peer_;
  boost::beast::flat_buffer buffer_;  ///< received, not parsed yet
  SteadyTimer wake_;                  ///< never expires; cancelled to wake what waits for it
  std::optional<Response> result_;    ///< of the handler
  std::shared_ptr<ResponseStream::State> stream_;
  Phase phase_ = Phase::kIdle;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool timed_out_ = false, peer_gone_ = false, cut_ = false, last_ = false;
};

}  // namespace imex::net::http
