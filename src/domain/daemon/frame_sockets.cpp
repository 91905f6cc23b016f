#include "frame_sockets.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "descriptor_reserve.hpp"

namespace imex::domain {

namespace {

constexpr int kFramesPerRound = 32;
constexpr std::size_t kFramesWaitingMax = 1024;

/// Asks the kernel for the limit once for a message, and not for one without descriptors.
bool touches_reserve(const std::vector<os::UniqueFd>& fds) noexcept {
  const auto highest = std::ranges::max_element(fds, {}, &os::UniqueFd::get);
  return highest != fds.end() && DescriptorReserve::touched_by(highest->get());
}

}  // namespace

ConnectionId FrameSockets::add(os::UniqueFd socket, FrameSink& sink) {
  const ConnectionId id = ++last_;
  auto connection = std::make_unique<Connection>(loop_, std::move(socket), sink);
  connection->watch.on_readable([this, id] { read(id); });
  connections_.emplace(id, std::move(connection));
  return id;
}

void FrameSockets::hand_over(ConnectionId connection, FrameSink& sink) {
  const auto found = connections_.find(connection);
  if (found != connections_.end()) found->second->sink = &sink;
}

void FrameSockets::close(ConnectionId connection) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  queued_frames_ -= found->second->waiting.size();
  connections_.erase(found);
}

void FrameSockets::lose(ConnectionId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  FrameSink* sink = found->second->sink;
  close(id);
  sink->on_closed(id);
}

/// From inside send(): the caller is in the middle of the effects of a step.
void FrameSockets::end_later(ConnectionId id) {
  loop_.post([this, id, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) lose(id);
  });
}

void FrameSockets::read(ConnectionId id) {
  loop_.stay_awake();
  bool more = true;
  for (int i = 0; i < kFramesPerRound && more; ++i) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;  // the sink closed it
    if (!read_one(id, *found->second, more)) return lose(id);
  }
}

bool FrameSockets::read_one(ConnectionId id, Connection& connection, bool& more) {
  std::array<std::byte, kFrameBytes + 1> buffer;  // one more: a longer packet is seen as such
  auto packet = os::receive_packet(connection.socket.get(), buffer, false);
  if (!packet) {
    more = false;
    return packet.error().code == Errc::kResourceExhausted;  // nothing there: not an end
  }
  if (packet->bytes == 0 && !packet->truncated) return false;
  auto frame = decode(std::span(buffer).first(packet->bytes));
  // A whole frame that was cut has lost descriptors: there was no room for them in this process, or
  // more came than any frame has.
  const bool cut = packet->truncated && packet->bytes == kFrameBytes;
  if (frame && (cut || touches_reserve(packet->fds))) return exhausted(id, connection, *frame);
  if (packet->truncated || !frame) {
    log_(kLogWarning, fmt::format("connection {} ends: {}", id,
                                  packet->truncated ? "descriptors or bytes were cut off"
                                                    : frame.error().message));
    return false;
  }
  if (packet->fds.size() > frame_descriptors_max(frame->message)) {
    log_(kLogWarning, fmt::format("connection {} ends: {} descriptors with a frame of type {}", id,
                                  packet->fds.size(), frame->message.index() + 1));
    return false;
  }
  connection.sink->on_frame(id, std::move(*frame), std::move(packet->fds));
  return true;
}

bool FrameSockets::exhausted(ConnectionId id, Connection& connection, const Frame& frame) {
  log_(kLogWarning,
       fmt::format("connection {}: the descriptors of a request were not taken: this process has "
                   "too few left",
                   id));
  return connection.sink->on_exhausted(id, frame);
}

void FrameSockets::send(ConnectionId connection, const Frame& frame,
                        const std::vector<FdToken>& fds) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  Connection& to = *found->second;
  const FrameBytes bytes = encode(frame);
  std::vector<int> raw;
  for (const FdToken token : fds) raw.push_back(fds_.get(token));
  if (!to.waiting.empty()) return queue(connection, to, bytes, raw);
  const auto sent = os::send_packet(to.socket.get(), bytes, raw, false);
  if (sent) return;
  if (sent.error().code == Errc::kResourceExhausted) return queue(connection, to, bytes, raw);
  end_later(connection);
}

void FrameSockets::queue(ConnectionId id, Connection& connection, const FrameBytes& bytes,
                         const std::vector<int>& fds) {
  Waiting waiting{bytes, {}};
  bool complete = connection.waiting.size() < kFramesWaitingMax;
  for (const int fd : fds) {
    // Borrowed only to make a copy of it.
    os::UniqueFd borrowed(fd);
    auto copy = borrowed.duplicate();
    static_cast<void>(borrowed.release());
    complete = complete && copy;
    if (copy) waiting.fds.push_back(std::move(*copy));
  }
  if (!complete) {
    log_(kLogWarning, fmt::format("connection {} ends: the other side does not read ({} frames "
                                  "wait), or no descriptor is left",
                                  id, connection.waiting.size()));
    return end_later(id);
  }
  connection.waiting.push_back(std::move(waiting));
  ++queued_frames_;
  if (connection.waiting.size() == 1) connection.watch.on_writable([this, id] { flush(id); });
}

void FrameSockets::flush(ConnectionId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  while (!connection.waiting.empty()) {
    const Waiting& next = connection.waiting.front();
    std::vector<int> raw;
    for (const os::UniqueFd& fd : next.fds) raw.push_back(fd.get());
    const auto sent = os::send_packet(connection.socket.get(), next.bytes, raw, false);
    if (!sent && sent.error().code == Errc::kResourceExhausted) return;
    if (!sent) return lose(id);
    connection.waiting.pop_front();
    --queued_frames_;
  }
  connection.watch.on_writable({});
}

}  // namespace imex::domain
