#include "request_wire.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "os/poll.hpp"
#include "os/process.hpp"
#include "os/socket.hpp"

namespace imex::domain::client {

namespace {

using Clock = std::chrono::steady_clock;

/// A daemon that is awake answers an import in 10 to 20 us; sleeping and waking cost 5 to 10 each.
constexpr auto kSpin = std::chrono::microseconds(30);

bool may_spin() {
  static const bool kSeveralCores = os::usable_cores() > 1;
  return kSeveralCores;
}

std::string_view hint_for(Errc code) {
  switch (code) {
    case Errc::kPermissionDenied:
      return "import through the channel that exported, with GPUs of one partition; open only the "
             "channel and GPU that this workload was granted";
    case Errc::kStale:
      return "ask the exporter for the handle that is valid now";
    case Errc::kNotFound:
      return "the export or session has ended; ask for a new handle";
    case Errc::kResourceExhausted:
      return "release exports, imports or sessions of this channel, or raise its limits";
    case Errc::kUnsupported:
      return "run both processes on one machine, or on machines that NVLink connects";
    case Errc::kUnavailable:
      return "try again; `imex domain show` tells which nodes are reachable";
    default:
      return "";
  }
}

}  // namespace

Error error_of(const Reply& reply, std::string_view what) {
  return Error{reply.code, fmt::format("{}: {}", what, view_error_text(reply.text)),
               std::string(hint_for(reply.code)), kNoRank};
}

Result<ReceivedFrame> receive_frame(int socket) {
  FrameBytes bytes;
  IMEX_TRY(os::Packet packet, os::receive_packet(socket, bytes, false));
  if (packet.bytes == 0) return fail(Errc::kUnavailable, "the daemon closed the connection");
  // Descriptors that did not fit our limit are missed by whoever counts them.
  IMEX_TRY(Frame frame, decode(std::span(bytes).first(std::min(packet.bytes, bytes.size()))));
  return ReceivedFrame{std::move(frame), std::move(packet.fds)};
}

Result<RequestWire> RequestWire::connect(const std::string& path,
                                         std::chrono::milliseconds timeout) {
  IMEX_TRY(os::UniqueFd socket, os::connect_unix(path, timeout));
  return RequestWire(std::move(socket));
}

Result<void> RequestWire::send(const Frame& frame, std::span<const int> fds, SteadyTime deadline,
                               int cancel_fd) const {
  const FrameBytes bytes = encode(frame);
  for (;;) {
    auto sent = os::send_packet(socket_.get(), bytes, fds, false);
    if (sent || sent.error().code != Errc::kResourceExhausted) return sent;
    // The daemon does not read: it hangs, or is stopped.
    std::array items{os::PollItem{.fd = socket_.get(), .want_read = false, .want_write = true},
                     os::PollItem{.fd = cancel_fd}};
    IMEX_CHECK_OK(os::poll_any(items, deadline));
    if (items[1].readable) return fail(Errc::kUnavailable, "the connection to the daemon ended");
    if (!items[0].writable && !items[0].hung_up && Clock::now() >= deadline) {
      return fail(Errc::kDeadlineExceeded, "the daemon takes no requests");
    }
  }
}

Result<void> RequestWire::post(const Message& message, SteadyTime deadline) const {
  return send(Frame{0, message}, {}, deadline, -1);
}

Result<Answer> RequestWire::call(const Message& message, std::span<const int> fds,
                                 SteadyTime deadline, int cancel_fd) {
  const std::uint32_t id = ++last_id_ != 0 ? last_id_ : ++last_id_;  // 0: not asked for
  IMEX_CHECK_OK(send(Frame{id, message}, fds, deadline, cancel_fd));
  const auto spin_until = may_spin() ? Clock::now() + kSpin : Clock::time_point::min();
  for (;;) {
    auto got = take(id);
    if (got && *got) return std::move(**got);
    if (got) continue;
    if (got.error().code != Errc::kResourceExhausted) return fail(std::move(got).error());
    if (Clock::now() < spin_until) continue;

    std::array items{os::PollItem{.fd = socket_.get()}, os::PollItem{.fd = cancel_fd}};
    IMEX_CHECK_OK(os::poll_any(items, deadline));
    if (items[1].readable) return fail(Errc::kUnavailable, "the connection to the daemon ended");
    if (items[0].readable || items[0].hung_up) continue;
    if (Clock::now() < deadline) continue;
    silent_ = true;
    remember_unanswered(id, message);
    return fail(Errc::kDeadlineExceeded, "the daemon did not answer in time",
                "the daemon may be stopped or overloaded; raise SessionOptions::timeout if not");
  }
}

Result<std::optional<Answer>> RequestWire::take(std::uint32_t request_id) {
  IMEX_TRY(ReceivedFrame received, receive_frame(socket_.get()));
  silent_ = false;
  auto* reply = std::get_if<Reply>(&received.frame.message);
  // Events go to the second connection; one sent before that was attached is void with it.
  if (reply == nullptr) return std::optional<Answer>();
  if (received.frame.request_id != request_id) {
    undo_late(received.frame.request_id, *reply);
    return std::optional<Answer>();
  }
  return std::optional(Answer{*reply, std::move(received.fds)});
}

void RequestWire::remember_unanswered(std::uint32_t request_id, const Message& message) {
  const bool is_import = std::holds_alternative<ImportRequest>(message);
  if (!is_import && !std::holds_alternative<ExportRequest>(message)) return;
  if (unanswered_.size() == kUnansweredMax) unanswered_.pop_front();
  unanswered_.push_back({request_id, is_import});
}

void RequestWire::undo_late(std::uint32_t request_id, const Reply& reply) {
  const auto late = std::ranges::find(unanswered_, request_id, &Unanswered::request_id);
  if (late == unanswered_.end()) return;
  const bool is_import = late->is_import;
  unanswered_.erase(late);
  if (reply.code != Errc::kOk) return;
  const Message undo =
      is_import ? Message(UnimportRequest{reply.id}) : Message(UnexportRequest{reply.id});
  // Answered like any request; nobody asks for that answer. A full socket keeps it until the
  // session ends.
  static_cast<void>(send(Frame{++last_id_, undo}, {}, Clock::now(), -1));
}

}  // namespace imex::domain::client
