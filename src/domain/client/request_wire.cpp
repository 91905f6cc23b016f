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
  Waiter waiter;
  std::uint32_t id = 0;
  {
    const MutexLock lock(inbox_->mutex);
    id = inbox_->next_id();
    inbox_->waiting.emplace(id, &waiter);
  }
  if (auto sent = send(Frame{id, message}, fds, deadline, cancel_fd); !sent) {
    const MutexLock lock(inbox_->mutex);
    leave(id);
    return fail(std::move(sent).error());
  }
  return wait(id, waiter, message, deadline, cancel_fd);
}

Result<Answer> RequestWire::wait(std::uint32_t request_id, Waiter& waiter, const Message& message,
                                 SteadyTime deadline, int cancel_fd) {
  bool reader = false;
  {
    const MutexLock lock(inbox_->mutex);
    waiter.asleep = true;
    while (!waiter.answer && inbox_->reading && Clock::now() < deadline) {
      static_cast<void>(waiter.wake.wait_until(inbox_->mutex, deadline));
    }
    waiter.asleep = false;
    reader = !waiter.answer && !inbox_->reading;
    if (reader) inbox_->reading = true;
  }
  Result<void> read;
  if (reader) read = read_until(request_id, deadline, cancel_fd);
  const MutexLock lock(inbox_->mutex);
  if (reader) inbox_->reading = false;
  leave(request_id);
  if (waiter.answer) return std::move(*waiter.answer);
  if (!read) return fail(std::move(read).error());
  inbox_->silent = true;
  remember_unanswered(request_id, message);
  return fail(Errc::kDeadlineExceeded, "the daemon did not answer in time",
              "the daemon may be stopped or overloaded; raise SessionOptions::timeout if not");
}

/// The call is over. If nobody reads now, somebody who sleeps must.
void RequestWire::leave(std::uint32_t request_id) {
  inbox_->waiting.erase(request_id);
  if (inbox_->reading) return;
  const auto next =
      std::ranges::find_if(inbox_->waiting, [](const auto& each) { return each.second->asleep; });
  if (next != inbox_->waiting.end()) next->second->wake.notify_one();
}

Result<void> RequestWire::read_until(std::uint32_t request_id, SteadyTime deadline, int cancel_fd) {
  const auto spin_until = may_spin() ? Clock::now() + kSpin : Clock::time_point::min();
  for (;;) {
    auto got = take(request_id);
    if (got && *got) return {};
    if (got) continue;
    if (got.error().code != Errc::kResourceExhausted) return fail(std::move(got).error());
    if (Clock::now() < spin_until) continue;

    std::array items{os::PollItem{.fd = socket_.get()}, os::PollItem{.fd = cancel_fd}};
    IMEX_CHECK_OK(os::poll_any(items, deadline));
    if (items[1].readable) return fail(Errc::kUnavailable, "the connection to the daemon ended");
    if (items[0].readable || items[0].hung_up) continue;
    if (Clock::now() >= deadline) return {};
  }
}

Result<bool> RequestWire::take(std::uint32_t request_id) {
  IMEX_TRY(ReceivedFrame received, receive_frame(socket_.get()));
  const MutexLock lock(inbox_->mutex);
  inbox_->silent = false;
  auto* reply = std::get_if<Reply>(&received.frame.message);
  // Events go to the second connection; one sent before that was attached is void with it.
  if (reply == nullptr) return false;
  const std::uint32_t id = received.frame.request_id;
  const auto asked = inbox_->waiting.find(id);
  if (asked == inbox_->waiting.end()) {
    undo_late(id, *reply);
    return false;
  }
  Waiter& waiter = *asked->second;
  if (waiter.answer) return fail(Errc::kDataLoss, fmt::format("request {} is answered twice", id));
  waiter.answer = Answer{*reply, std::move(received.fds)};
  if (id == request_id) return true;
  waiter.wake.notify_one();
  return false;
}

bool RequestWire::silent() const {
  if (inbox_ == nullptr) return false;
  const MutexLock lock(inbox_->mutex);
  return inbox_->silent;
}

void RequestWire::remember_unanswered(std::uint32_t request_id, const Message& message) {
  const bool is_import = std::holds_alternative<ImportRequest>(message);
  if (!is_import && !std::holds_alternative<ExportRequest>(message)) return;
  if (inbox_->unanswered.size() == kUnansweredMax) inbox_->unanswered.pop_front();
  inbox_->unanswered.push_back({request_id, is_import});
}

void RequestWire::undo_late(std::uint32_t request_id, const Reply& reply) {
  const auto late = std::ranges::find(inbox_->unanswered, request_id, &Unanswered::request_id);
  if (late == inbox_->unanswered.end()) return;
  const bool is_import = late->is_import;
  inbox_->unanswered.erase(late);
  if (reply.code != Errc::kOk) return;
  const Message undo =
      is_import ? Message(UnimportRequest{reply.id}) : Message(UnexportRequest{reply.id});
  // Answered like any request; nobody asks for that answer. A full socket keeps it until the
  // session ends.
  static_cast<void>(send(Frame{inbox_->next_id(), undo}, {}, Clock::now(), -1));
}

}  // namespace imex::domain::client
