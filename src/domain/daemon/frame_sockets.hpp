/// The connected sockets that carry frames: clients of the channels and links to other daemons.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "daemon_log.hpp"
#include "domain/broker.hpp"
#include "fd_table.hpp"
#include "net/event_loop.hpp"
#include "os/socket.hpp"

namespace imex::domain {

/// Told about one connection, on the loop. May close the connection from inside.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  virtual void on_frame(ConnectionId connection, Frame frame, std::vector<os::UniqueFd> fds) = 0;
  /// Descriptors of this frame were not taken, because the process has too few left. Whether the
  /// sink has answered; if not, the connection ends.
  virtual bool on_exhausted(ConnectionId connection, const Frame& frame) {
    static_cast<void>(connection);
    static_cast<void>(frame);
    return false;
  }
  /// End-of-file, bytes that are no frame, or a queue that overflowed; the socket is closed
  /// already. Not called for close().
  virtual void on_closed(ConnectionId connection) = 0;
};

/// Owns the sockets. Bounds: 32 frames are read per connection and round; 1024 frames wait per
/// connection for a peer that does not read, then the connection is closed.
class FrameSockets {
 public:
  FrameSockets(net::EventLoop& loop, const FdTable& fds, LogSink log)
      : loop_(loop), fds_(fds), log_(std::move(log)) {}

  /// The socket must be connected; it is read without waiting. Borrows the sink.
  ConnectionId add(os::UniqueFd socket, FrameSink& sink);
  /// Another listener to a connection, once a handshake is over.
  void hand_over(ConnectionId connection, FrameSink& sink);
  /// Sends now or as soon as there is room. Unknown connections are ignored: they ended meanwhile.
  void send(ConnectionId connection, const Frame& frame, const std::vector<FdToken>& fds = {});
  void close(ConnectionId connection);
  [[nodiscard]] std::size_t size() const noexcept { return connections_.size(); }
  [[nodiscard]] std::size_t queued_frames() const noexcept { return queued_frames_; }

 private:
  struct Waiting {
    FrameBytes bytes;
    std::vector<os::UniqueFd> fds;  ///< own copies: the broker may release its own meanwhile
  };
  struct Connection {
    Connection(net::EventLoop& loop, os::UniqueFd owned, FrameSink& to)
        : socket(std::move(owned)), watch(loop, socket.get()), sink(&to) {}
    os::UniqueFd socket;
    net::FdWatch watch;  ///< before the socket closes
    FrameSink* sink;
    std::deque<Waiting> waiting;
  };

  void read(ConnectionId id);
  /// False: the connection is to end.
  [[nodiscard]] bool read_one(ConnectionId id, Connection& connection, bool& more);
  [[nodiscard]] bool exhausted(ConnectionId id, Connection& connection, const Frame& frame);
  void flush(ConnectionId id);
  void queue(ConnectionId id, Connection& connection, const FrameBytes& bytes,
             const std::vector<int>& fds);
  void lose(ConnectionId id);
  void end_later(ConnectionId id);

  net::EventLoop& loop_;
  const FdTable& fds_;
  LogSink log_;
  ConnectionId last_ = 0;
  std::size_t queued_frames_ = 0;
  std::unordered_map<ConnectionId, std::unique_ptr<Connection>> connections_;
  /// Weak copies let posted work see that this object is gone.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace imex::domain
