#include "net/http/client.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <optional>
#include <utility>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <fmt/format.h>

#include "base/mutex.hpp"
#include "client_stream.hpp"
#include "net/event_loop.hpp"
#include "net/resolver.hpp"
#include "os/socket.hpp"
#include "tls_context.hpp"

namespace imex::net::http {

namespace beast = boost::beast;

namespace {

using SteadyClock = std::chrono::steady_clock;

/// Where a URL points.
struct Origin {
  bool tls = false;
  std::string unix_path;  ///< empty: host and port
  std::string host;
  std::uint16_t port = 0;
  std::string prefix;  ///< without a slash at its end
};

Result<Origin> parse_url(std::string_view url) {
  Origin origin;
  if (url.starts_with("unix:")) {
    origin.unix_path = url.substr(5);
    origin.host = "localhost";
    return origin;
  }
  const auto wrong = [&] {
    return fail(Errc::kInvalidArgument,
                fmt::format("'{}': want http://HOST[:PORT][/PREFIX], https://… or unix:PATH", url));
  };
  std::string_view rest = url;
  if (rest.starts_with("https://")) {
    origin.tls = true;
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else {
    return wrong();
  }
  const std::string_view authority = rest.substr(0, rest.find('/'));
  rest.remove_prefix(authority.size());
  while (rest.ends_with('/')) rest.remove_suffix(1);
  origin.prefix = rest;
  std::string_view host = authority, port = origin.tls ? "443" : "80";
  const auto bracket = authority.rfind(']');
  const auto colon = authority.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    host = authority.substr(0, colon);
    port = authority.substr(colon + 1);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  origin.host = host;
  const auto [end, problem] = std::from_chars(port.data(), port.data() + port.size(), origin.port);
  const bool odd = host.find_first_of("@ \t\r\n?#") != std::string_view::npos;
  if (host.empty() || odd || problem != std::errc() || end != port.data() + port.size() ||
      origin.port == 0) {
    return wrong();
  }
  return origin;
}

std::string base64(std::string_view text) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8U | (i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      const bool padding = i + k > text.size();
      out.push_back(padding ? '=' : kDigits[bits >> (18U - 6U * k) & 63U]);
    }
  }
  return out;
}

bool may_repeat(Method method) { return method != Method::kPost && method != Method::kPatch; }

/// The first address of a name, within the deadline.
Result<std::string> resolve(const std::string& host, Client::Deadline deadline) {
  if (std::string literal = canonical_address(host); !literal.empty()) return literal;
  EventLoop loop(EventLoop::Options{.busy_poll = Nanos::zero()});
  Resolver resolver(loop, {});
  std::optional<std::string> address;
  resolver.resolve(host, [&](std::string found) {
    address = std::move(found);
    loop.stop();
  });
  const Nanos left = deadline - SteadyClock::now();
  static_cast<void>(loop.run_until([&] { return address.has_value(); }, loop.now() + left));
  if (!address) {
    return fail(Errc::kDeadlineExceeded, fmt::format("the name {} was not answered", host));
  }
  if (address->empty()) {
    return fail(Errc::kUnavailable, fmt::format("no address is known for the name {}", host),
                "check the name and the name server");
  }
  return std::move(*address);
}

bool has_line_break(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos;
}

}  // namespace

Result<Cancel> Cancel::make() {
  IMEX_TRY(os::EventFd event, os::EventFd::make());
  return Cancel(std::move(event));
}

struct Client::Impl {
  struct Idle {
    std::unique_ptr<ClientStream> stream;
    SteadyClock::time_point since;
  };
  /// What one request needs to know while it waits.
  struct Call {
    const ClientRequest& request;
    std::string bytes;  ///< head and body
    Deadline deadline;
    const Cancel* cancel;
    bool answered = false;  ///< a byte of the answer has come
  };

  [[nodiscard]] Result<std::unique_ptr<ClientStream>> connect(const Call& call) const;
  [[nodiscard]] std::unique_ptr<ClientStream> reuse();
  void keep(std::unique_ptr<ClientStream> stream);
  [[nodiscard]] Result<std::string> head_of(const ClientRequest& request) const;
  [[nodiscard]] Result<ClientResponse> exchange(Call& call, std::unique_ptr<ClientStream> stream);
  [[nodiscard]] Error named(Error error, const ClientRequest& request) const;

  ClientOptions options;
  Origin origin;
  TlsContext tls;  ///< null: plain
  Mutex mutex;
  std::deque<Idle> idle IMEX_GUARDED_BY(mutex);  ///< latest at the end
};

Result<std::unique_ptr<ClientStream>> Client::Impl::connect(const Call& call) const {
  const ClientStream::Limits limits{call.deadline, call.cancel};
  if (!origin.unix_path.empty()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(call.deadline - SteadyClock::now());
    IMEX_TRY(os::UniqueFd fd,
             os::connect_unix(origin.unix_path, std::max(left, std::chrono::milliseconds(0)),
                              os::UnixSocket::kStream));
    return ClientStream::adopt(std::move(fd));
  }
  IMEX_TRY(const std::string address, resolve(origin.host, call.deadline));
  IMEX_TRY(auto stream, ClientStream::connect(address, origin.port, limits));
  if (tls) {
    const std::string& name =
        options.tls.server_name.empty() ? origin.host : options.tls.server_name;
    IMEX_CHECK_OK(stream->secure(tls, options.tls.verify, name, limits));
  }
  return stream;
}

std::unique_ptr<ClientStream> Client::Impl::reuse() {
  const MutexLock lock(mutex);
  const auto oldest = SteadyClock::now() - options.idle_timeout;
  while (!idle.empty() && idle.front().since < oldest) idle.pop_front();
  while (!idle.empty()) {
    auto stream = std::move(idle.back().stream);
    idle.pop_back();
    if (stream->quiet()) return stream;  // else the server has closed it, or said what it must not
  }
  return nullptr;
}

void Client::Impl::keep(std::unique_ptr<ClientStream> stream) {
  const MutexLock lock(mutex);
  idle.push_back({std::move(stream), SteadyClock::now()});
  while (idle.size() > options.idle_connections_max) idle.pop_front();
}

Result<std::string> Client::Impl::head_of(const ClientRequest& request) const {
  const bool bad_path = !request.path.starts_with('/') ||
                        request.path.find(' ') != std::string::npos || has_line_break(request.path);
  if (bad_path) {
    return fail(Errc::kInvalidArgument, "the path must start with a slash and be encoded");
  }
  const bool plain_port = origin.port == (origin.tls ? 443 : 80) || origin.port == 0;
  const std::string host =
      origin.host.find(':') == std::string::npos ? origin.host : "[" + origin.host + "]";
  std::string head = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}{}\r\nUser-Agent: imex\r\n",
                                 method_name(request.method), origin.prefix, request.path, host,
                                 plain_port ? "" : fmt::format(":{}", origin.port));
  if (!options.basic_user.empty()) {
    head += fmt::format("Authorization: Basic {}\r\n",
                        base64(options.basic_user + ":" + options.basic_password.reveal()));
  } else if (!options.bearer_token.empty()) {
    head += fmt::format("Authorization: Bearer {}\r\n", options.bearer_token.reveal());
  }
  for (const auto& [name, value] : request.headers) {
    if (has_line_break(name) || has_line_break(value)) {
      return fail(Errc::kInvalidArgument, fmt::format("header {}: a line break in it", name));
    }
    head += fmt::format("{}: {}\r\n", name, value);
  }
  const bool sends = request.method == Method::kPost || request.method == Method::kPut ||
                     request.method == Method::kPatch;
  if (!request.body.empty()) head += fmt::format("Content-Type: {}\r\n", request.content_type);
  if (sends || !request.body.empty()) {
    head += fmt::format("Content-Length: {}\r\n", request.body.size());
  }
  head += "\r\n";
  return head;
}

Result<ClientResponse> Client::Impl::exchange(Call& call, std::unique_ptr<ClientStream> stream) {
  using beast::http::error;
  const ClientStream::Limits limits{call.deadline, call.cancel};
  IMEX_CHECK_OK(stream->write(call.bytes, limits));

  beast::http::response_parser<beast::http::string_body> parser;
  parser.header_limit(static_cast<std::uint32_t>(options.header_bytes_max));
  parser.body_limit(options.body_bytes_max);
  parser.skip(call.request.method == Method::kHead);
  std::string pending;
  std::array<char, 16384> room;  // NOLINT(cppcoreguidelines-pro-type-member-init): read into
  while (!parser.is_done()) {
    boost::system::error_code problem;
    std::size_t used = 0;
    if (!pending.empty()) used = parser.put({pending.data(), pending.size()}, problem);
    pending.erase(0, used);
    if (problem == error::need_more) problem.clear();
    if (problem == error::body_limit || problem == error::header_limit ||
        problem == error::buffer_overflow) {
      return fail(Errc::kResourceExhausted,
                  fmt::format("the answer is longer than {} bytes", options.body_bytes_max));
    }
    if (problem) return fail(Errc::kDataLoss, "not an HTTP answer: " + problem.message());
    if (used > 0) continue;
    IMEX_TRY(const std::size_t bytes, stream->read(room, limits));
    call.answered = call.answered || bytes > 0;
    pending.append(room.data(), bytes);
    if (bytes > 0) continue;
    // Without a length the end of the connection is the end of the body.
    if (parser.got_some()) parser.put_eof(problem);
    if (!parser.is_done() || problem) {
      return fail(Errc::kUnavailable, "the server closed the connection before it had answered");
    }
  }
  ClientResponse response;
  auto& message = parser.get();
  if (message.result_int() == 100)
    return fail(Errc::kDataLoss, "an interim answer nobody asked for");
  response.status = message.result_int();
  for (const auto& field : message) {
    response.headers.add(std::string(field.name_string()), std::string(field.value()));
  }
  if (parser.keep_alive() && pending.empty()) keep(std::move(stream));
  response.body = std::move(message.body());
  return response;
}

Error Client::Impl::named(Error error, const ClientRequest& request) const {
  const std::string where = origin.unix_path.empty() ? endpoint_text(origin.host, origin.port)
                                                     : "unix:" + origin.unix_path;
  const std::string_view path = std::string_view(request.path);
  return std::move(error).context(fmt::format("{} {}{} at {}", method_name(request.method),
                                              origin.prefix, path.substr(0, path.find('?')),
                                              where));
}

Result<std::unique_ptr<Client>> Client::make(ClientOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  IMEX_TRY(impl->origin, parse_url(impl->options.url));
  if (impl->origin.tls) {
    IMEX_TRY(impl->tls, make_client_context(impl->options.tls));
  }
  const std::string all = impl->options.basic_user + impl->options.bearer_token.reveal();
  if (has_line_break(all) || impl->options.basic_user.find(':') != std::string::npos) {
    return fail(Errc::kInvalidArgument, "the user's name or the token has a character it must not");
  }
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

Result<ClientResponse> Client::send(const ClientRequest& request, Deadline deadline,
                                    const Cancel* cancel) {
  auto head = impl_->head_of(request);
  if (!head) return fail(impl_->named(std::move(head).error(), request));
  Impl::Call call{request, std::move(*head) + request.body, deadline, cancel};
  if (auto stream = impl_->reuse()) {
    auto answer = impl_->exchange(call, std::move(stream));
    if (answer) return answer;
    // It was closed on the way to it, most likely.
    const bool again =
        answer.error().code == Errc::kUnavailable && !call.answered && may_repeat(request.method);
    if (!again) return fail(impl_->named(std::move(answer).error(), request));
  }
  auto fresh = impl_->connect(call);
  if (!fresh) return fail(impl_->named(std::move(fresh).error(), request));
  auto answer = impl_->exchange(call, std::move(*fresh));
  if (!answer) return fail(impl_->named(std::move(answer).error(), request));
  return answer;
}

void Client::forget_connections() {
  const MutexLock lock(impl_->mutex);
  impl_->idle.clear();
}

}  // namespace imex::net::http
