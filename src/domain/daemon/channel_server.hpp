/// The channels of a node: listening sockets, one per channel, and who connects to them.
///
/// A channel is one socket file under two names: channels/channelN, and
/// channels/channelN.d/channelN in a directory of its own. A container that has the directory
/// mounted finds the socket again after a crash of the daemon, which must bind a new file; one that
/// has the file itself mounted does so only after an upgrade by exec, which keeps the socket.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "frame_sockets.hpp"
#include "inherited_sockets.hpp"

namespace imex::domain {

/// Told about clients, on the loop.
class ChannelClients {
 public:
  virtual ~ChannelClients() = default;
  virtual void on_client(ConnectionId connection, std::uint32_t channel, std::uint32_t uid) = 0;
  virtual void on_client_frame(ConnectionId connection, Frame frame,
                               std::vector<os::UniqueFd> fds) = 0;
  virtual void on_client_closed(ConnectionId connection) = 0;
};

/// Owns the listeners; connections belong to FrameSockets. Checks what only the system can tell of
/// an Open: that the abort page cannot be cut short under the daemon, and that the pidfd is the
/// caller's own, since the daemon may kill through it.
class ChannelServer final : public FrameSink {
 public:
  /// `inherited`: of the program before; used for channels that are opened again.
  ChannelServer(net::EventLoop& loop, FrameSockets& sockets, std::string directory,
                ChannelClients& clients, LogSink log, ListeningSockets inherited = {});
  ~ChannelServer() override;

  /// Makes the socket file. `owner` kAnyUser: the daemon's own user keeps the file. Errors:
  /// kPermissionDenied (another user's, and the daemon is not root), those of bind.
  [[nodiscard]] Result<void> open(std::uint32_t channel, std::uint32_t mode, std::uint32_t owner);
  /// Removes the files and the directory; connections go on until the broker closes them.
  void close(std::uint32_t channel);
  /// Gives up all listeners without removing a file.
  [[nodiscard]] ListeningSockets hand_over();
  /// The broker closed a connection.
  void forget(ConnectionId connection) { credentials_.erase(connection); }
  [[nodiscard]] std::string path(std::uint32_t channel) const;
  [[nodiscard]] bool is_open(std::uint32_t channel) const { return listeners_.contains(channel); }

 private:
  struct Listener {
    os::UniqueFd socket;
    std::unique_ptr<net::FdWatch> watch;  ///< before the socket closes
    std::unique_ptr<net::Timer> retry;
  };
  [[nodiscard]] Result<os::UniqueFd> listen(std::uint32_t channel, std::uint32_t mode,
                                            std::uint32_t owner);
  [[nodiscard]] std::string own_directory(std::uint32_t channel) const;
  [[nodiscard]] std::string own_path(std::uint32_t channel) const;
  void remove_files(std::uint32_t channel) const noexcept;
  void accept(std::uint32_t channel);
  void rest(std::uint32_t channel, Listener& listener);
  void on_frame(ConnectionId connection, Frame frame, std::vector<os::UniqueFd> fds) override;
  bool on_exhausted(ConnectionId connection, const Frame& frame) override;
  void on_closed(ConnectionId connection) override;

  net::EventLoop& loop_;
  FrameSockets& sockets_;
  std::string directory_;
  ChannelClients& clients_;
  LogSink log_;
  ListeningSockets inherited_;
  std::map<std::uint32_t, Listener> listeners_;
  std::unordered_map<ConnectionId, os::PeerCredentials> credentials_;
};

}  // namespace imex::domain
