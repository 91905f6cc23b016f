#include "bench/control/request_load.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/text.hpp"
#include "os/poll.hpp"
#include "os/stream.hpp"

namespace imex::bench {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kAnswerWait{10};
constexpr std::string_view kHeadEnd = "\r\n\r\n", kLength = "content-length:";

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// The value of Content-Length in a head; nothing: there is none.
std::optional<std::size_t> content_length(std::string_view head) {
  const auto at = std::search(head.begin(), head.end(), kLength.begin(), kLength.end(),
                              [](char a, char b) { return lower(a) == b; });
  if (at == head.end()) return std::nullopt;
  std::string_view digits(at + static_cast<std::ptrdiff_t>(kLength.size()), head.end());
  digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
  std::size_t length = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), length).ec != std::errc())
    return std::nullopt;
  return length;
}

/// One connection: a request on its way, or the answer to it.
class Caller {
 public:
  /// Errors: those of connecting.
  static Result<Caller> connect(const RequestLoadOptions& options, std::size_t index) {
    IMEX_TRY(auto socket, os::begin_connect(options.address, options.port));
    std::array<os::PollItem, 1> item{
        {{.fd = socket.get(), .want_read = false, .want_write = true}}};
    IMEX_CHECK_OK(os::poll_any(item, steady_clock::now() + kAnswerWait));
    IMEX_CHECK_OK(os::finish_connect(socket.get()));
    return Caller(options, index, std::move(socket));
  }

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] bool sending() const { return sent_ < request_.size(); }
  [[nodiscard]] steady_clock::time_point began() const { return began_; }
  [[nodiscard]] os::UniqueFd release() && { return std::move(socket_); }

  void begin() {
    request_ = options_->request(index_, number_++);
    sent_ = 0;
    answer_.clear();
    began_ = steady_clock::now();
  }
  Result<void> send() {
    while (sending()) {
      IMEX_TRY(const std::size_t bytes,
               os::send_some(fd(), std::string_view(request_).substr(sent_)));
      if (bytes == 0) return {};
      sent_ += bytes;
    }
    return {};
  }
  /// Whether the answer is complete.
  Result<bool> receive() {
    std::array<char, 16384> room;
    for (;;) {
      IMEX_TRY(const auto bytes, os::receive_some(fd(), room));
      if (!bytes) return false;
      if (*bytes == 0) return fail(Errc::kUnavailable, "the server closed a connection");
      answer_.append(room.data(), *bytes);
      IMEX_TRY(const bool whole, is_whole());
      if (whole) return true;
    }
  }

 private:
  Caller(const RequestLoadOptions& options, std::size_t index, os::UniqueFd socket)
      : options_(&options), index_(index), socket_(std::move(socket)) {}

  Result<bool> is_whole() const {
    const auto end = answer_.find(kHeadEnd);
    if (end == std::string::npos) return false;
    const auto length = content_length(std::string_view(answer_).substr(0, end));
    if (!length) return fail(Errc::kDataLoss, "an answer without Content-Length");
    if (answer_.size() < end + kHeadEnd.size() + *length) return false;
    const std::string wanted = fmt::format("HTTP/1.1 {} ", options_->status);
    if (!answer_.starts_with(wanted)) {
      return fail(Errc::kDataLoss, fmt::format("want status {}, got: {}", options_->status,
                                               printable(answer_.substr(0, 400))));
    }
    return true;
  }

  const RequestLoadOptions* options_;
  std::size_t index_;
  std::uint64_t number_ = 0;
  os::UniqueFd socket_;
  std::string request_, answer_;
  std::size_t sent_ = 0;
  steady_clock::time_point began_{};
};

Result<std::vector<Caller>> connect_all(const RequestLoadOptions& options, std::size_t count) {
  std::vector<Caller> callers;
  callers.reserve(count);
  for (std::size_t i = 0; i != count; ++i) {
    IMEX_TRY(Caller caller, Caller::connect(options, i));
    callers.push_back(std::move(caller));
  }
  return callers;
}

/// Lets each connection go on as far as it can; calls `done(caller)` for each complete answer,
/// which says whether there is more to ask. Until nobody asks any more.
template <class Done>
Result<void> serve(std::vector<Caller>& callers, Done done) {
  std::vector<os::PollItem> items(callers.size());
  std::size_t busy = callers.size();
  for (std::size_t i = 0; i != callers.size(); ++i) {
    callers[i].begin();
    IMEX_CHECK_OK(callers[i].send());
    items[i].fd = callers[i].fd();
  }
  while (busy != 0) {
    for (std::size_t i = 0; i != callers.size(); ++i) items[i].want_write = callers[i].sending();
    IMEX_CHECK_OK(os::poll_any(items, steady_clock::now() + kAnswerWait));
    bool any = false;
    for (std::size_t i = 0; i != callers.size(); ++i) {
      if (items[i].fd < 0 || !(items[i].readable || items[i].writable || items[i].hung_up))
        continue;
      any = true;
      IMEX_CHECK_OK(callers[i].send());
      if (callers[i].sending()) continue;
      IMEX_TRY(const bool whole, callers[i].receive());
      if (!whole) continue;
      if (done(callers[i])) {
        callers[i].begin();
        IMEX_CHECK_OK(callers[i].send());
      } else {
        items[i].fd = -1;
        --busy;
      }
    }
    if (!any) return fail(Errc::kDeadlineExceeded, "no answer for 10 s");
  }
  return {};
}

}  // namespace

Result<RequestLoad> run_request_load(const RequestLoadOptions& options) {
  IMEX_TRY(auto callers, connect_all(options, options.connections));
  RequestLoad load;
  const auto begin = steady_clock::now();
  const auto end = begin + options.time;
  IMEX_CHECK_OK(serve(callers, [&](const Caller& caller) {
    const auto now = steady_clock::now();
    load.samples.push_back(
        std::chrono::duration_cast<std::chrono::nanoseconds>(now - caller.began()).count());
    return now < end;
  }));
  load.seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
  return load;
}

Result<std::vector<os::UniqueFd>> open_idle_connections(const RequestLoadOptions& options,
                                                        std::size_t count) {
  IMEX_TRY(auto callers, connect_all(options, count));
  IMEX_CHECK_OK(serve(callers, [](const Caller&) { return false; }));
  std::vector<os::UniqueFd> sockets;
  for (Caller& caller : callers) sockets.push_back(std::move(caller).release());
  return sockets;
}

}  // namespace imex::bench
