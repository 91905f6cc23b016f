// HTTP below Transport: endpoints with a back-off each, cancellation, certificates that change.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/mutex.hpp"
#include "net/http/client.hpp"
#include "transport.hpp"

namespace imex::fabric::nmxm {
namespace {

namespace http = net::http;

/// An attempt that got less time than this tells nothing about the endpoint.
constexpr std::chrono::seconds kFairAttempt(1);

http::Method method_of(Verb verb) noexcept {
  switch (verb) {
    case Verb::kGet:
      return http::Method::kGet;
    case Verb::kPost:
      return http::Method::kPost;
    case Verb::kPut:
      return http::Method::kPut;
    case Verb::kDelete:
      return http::Method::kDelete;
  }
  return http::Method::kGet;
}

/// When each file was last written; what cannot be read has the oldest time.
using FileTimes = std::vector<std::filesystem::file_time_type>;
FileTimes file_times(const Tls& tls) {
  FileTimes times;
  for (const std::string* path : {&tls.authority_file, &tls.certificate_file, &tls.key_file}) {
    std::error_code error;
    const auto time = path->empty() ? std::filesystem::file_time_type::min()
                                    : std::filesystem::last_write_time(*path, error);
    times.push_back(error ? std::filesystem::file_time_type::min() : time);
  }
  return times;
}

/// Two clients: a change must not meet a connection that the server is about to close, after which
/// nobody knows whether it was read.
struct Clients {
  std::unique_ptr<http::Client> reads, changes;
};

Result<Clients> make_clients(const Options& options, const std::string& url) {
  http::ClientOptions client{.url = url,
                             .tls = {.authority = options.tls.authority_file,
                                     .certificate = options.tls.certificate_file,
                                     .key = options.tls.key_file,
                                     .server_name = options.tls.server_name,
                                     .verify = options.tls.verify},
                             .basic_user = options.user,
                             .basic_password = options.password,
                             .body_bytes_max = options.answer_bytes_max};
  Clients clients;
  IMEX_TRY(clients.reads, http::Client::make(client));
  client.idle_connections_max = 0;
  IMEX_TRY(clients.changes, http::Client::make(client));
  return clients;
}

class HttpTransport final : public Transport {
 public:
  struct Endpoint {
    std::string url;
    std::shared_ptr<Clients> clients;
    Backoff backoff;
  };
  HttpTransport(const Options& options, std::vector<Endpoint> endpoints, FileTimes times)
      : options_(options), endpoints_(std::move(endpoints)), times_(std::move(times)) {}

  Outcome<Reply> send(const Request& request, const CallScope& scope) override;

 private:
  [[nodiscard]] Outcome<Reply> send_to(http::Client& client, const std::string& url,
                                       const Request& request, const CallScope& scope);
  [[nodiscard]] Failure all_in_back_off(const std::string& what);
  void reload_changed_files();
  [[nodiscard]] std::shared_ptr<Clients> clients_if_due(std::size_t index);
  void note(std::size_t index, bool reached);

  const Options options_;
  Mutex mutex_;
  std::vector<Endpoint> endpoints_ IMEX_GUARDED_BY(mutex_);
  FileTimes times_ IMEX_GUARDED_BY(mutex_);
};

Outcome<Reply> HttpTransport::send(const Request& request, const CallScope& scope) {
  const std::string what =
      fmt::format("{} {}", http::method_name(method_of(request.verb)), request.path);
  reload_changed_files();
  std::optional<Failure> last;
  for (std::size_t i = 0; i < options_.endpoints.size(); ++i) {
    if (auto may = scope.check(what); !may)
      return tl::unexpected(last ? *std::move(last) : std::move(may).error());
    const std::shared_ptr<Clients> clients = clients_if_due(i);
    if (!clients) continue;
    http::Client& client = is_change(request.verb) ? *clients->changes : *clients->reads;
    const auto began = std::chrono::steady_clock::now();
    auto reply =
        send_to(client, options_.endpoints[i], request, scope.within(options_.request_timeout));
    if (!reply && reply.error().error.code == Errc::kAborted) return reply;
    const bool fair = std::chrono::steady_clock::now() - began >= kFairAttempt;
    if (reply || fair || reply.error().error.code != Errc::kDeadlineExceeded)
      note(i, reply.has_value());
    if (reply) return reply;
    last = std::move(reply).error();
    if (last->effect != Effect::kNone) break;
  }
  return tl::unexpected(last ? *std::move(last) : all_in_back_off(what));
}

Outcome<Reply> HttpTransport::send_to(http::Client& client, const std::string& url,
                                      const Request& request, const CallScope& scope) {
  const std::string what =
      fmt::format("{} {}{}", http::method_name(method_of(request.verb)), url, request.path);
  auto cancel = http::Cancel::make();
  if (!cancel) return tl::unexpected(Failure{.error = std::move(cancel).error()});
  http::ClientRequest sent{
      .method = method_of(request.verb), .path = request.path, .body = request.body};
  sent.headers.set("Accept", "*/*");
  if (request.body.empty()) sent.headers.set("Content-Type", "application/json");
  Result<http::ClientResponse> answer = [&] {
    const OnCancel raise(scope, [&cancel] { cancel->raise(); });
    return client.send(sent, scope.deadline, &*cancel);
  }();
  if (!answer) {
    Failure failure{.error = std::move(answer).error().context(what), .retry = NmxRetry::kBackOff};
    if (is_change(request.verb)) failure.effect = Effect::kUnknown;
    return tl::unexpected(std::move(failure));
  }
  Reply reply{.status = answer->status, .body = std::move(answer->body)};
  if (const auto location = answer->headers.find("Location")) reply.location = *location;
  return reply;
}

Failure HttpTransport::all_in_back_off(const std::string& what) {
  const MutexLock lock(mutex_);
  Time earliest = kNever;
  for (const Endpoint& endpoint : endpoints_)
    earliest = std::min(earliest, endpoint.backoff.not_before());
  const Nanos wait = std::max(Nanos(0), earliest - options_.clock());
  return {.error = {Errc::kUnavailable,
                    fmt::format(
                        "{}: no NMX-M answers: {} endpoint(s) in back-off, next attempt in {} ms",
                        what, endpoints_.size(), wait.count() / 1'000'000),
                    "see the log for what each endpoint said"},
          .retry = NmxRetry::kBackOff,
          .retry_after = wait};
}

void HttpTransport::reload_changed_files() {
  const FileTimes now = file_times(options_.tls);
  const MutexLock lock(mutex_);
  if (now == times_) return;
  std::vector<std::shared_ptr<Clients>> fresh;
  for (const Endpoint& endpoint : endpoints_) {
    auto clients = make_clients(options_, endpoint.url);
    if (!clients)
      return;  // in the middle of being replaced: the former ones are good until the next look
    fresh.push_back(std::make_shared<Clients>(*std::move(clients)));
  }
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    endpoints_[i].clients = std::move(fresh[i]);
    endpoints_[i].backoff.succeeded();  // what was wrong may have been the files
  }
  times_ = now;
}

std::shared_ptr<Clients> HttpTransport::clients_if_due(std::size_t index) {
  const MutexLock lock(mutex_);
  const Endpoint& endpoint = endpoints_[index];
  return endpoint.backoff.may_try(options_.clock()) ? endpoint.clients : nullptr;
}

void HttpTransport::note(std::size_t index, bool reached) {
  const MutexLock lock(mutex_);
  if (reached)
    endpoints_[index].backoff.succeeded();
  else
    endpoints_[index].backoff.failed(options_.clock());
}

}  // namespace

Result<std::unique_ptr<Transport>> make_http_transport(const Options& options) {
  FileTimes times = file_times(options.tls);
  std::vector<HttpTransport::Endpoint> endpoints;
  for (const std::string& url : options.endpoints) {
    IMEX_TRY(Clients clients, make_clients(options, url));
    endpoints.push_back({url, std::make_shared<Clients>(std::move(clients)),
                         Backoff(options.backoff, *options.random)});
  }
  return std::make_unique<HttpTransport>(options, std::move(endpoints), std::move(times));
}

}  // namespace imex::fabric::nmxm
