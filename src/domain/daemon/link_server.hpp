/// Links between daemons of one machine: requests and descriptors in both directions.
///
/// One socket per pair: the daemon with the lower node id connects, and connects again while the
/// peer is joined. Both sides show domain, boot, instance and node in a LinkHello and check the
/// other's user; a foreign one is closed without a word.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "frame_sockets.hpp"

namespace imex::domain {

/// Told about links that stand, on the loop.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  virtual void on_link(ConnectionId connection, NodeId node, const Uuid& instance) = 0;
  virtual void on_link_frame(ConnectionId connection, NodeId node, Frame frame,
                             std::vector<os::UniqueFd> fds) = 0;
  virtual void on_link_closed(ConnectionId connection) = 0;
  /// The instance that membership knows as alive on `node`; nil: none.
  [[nodiscard]] virtual Uuid instance_of(NodeId node) const = 0;
};

class LinkServer final : public FrameSink {
 public:
  struct Identity {
    Uuid domain_id, instance, boot_id;
    NodeId node = kNoNode;
  };
  LinkServer(net::EventLoop& loop, FrameSockets& sockets, Identity identity, LinkEvents& events,
             LogSink log);
  ~LinkServer() override;

  [[nodiscard]] Result<void> listen(const std::string& path);
  /// A peer on this machine is alive at `path`.
  void join(NodeId node, const Uuid& instance, std::string path);
  /// That life is over; its link closes.
  void leave(NodeId node);
  /// The broker closed a link: it is made again while the peer is joined.
  void closed(ConnectionId connection);
  [[nodiscard]] std::size_t size() const noexcept { return links_.size(); }

 private:
  struct Peer {
    Uuid instance;
    std::string path;
    ConnectionId dialled = 0;
    Nanos backoff{};
    std::unique_ptr<net::Timer> retry;
    std::string last_error;
  };
  void accept();
  void dial(NodeId node);
  void retry(NodeId node, const std::string& why);
  void on_frame(ConnectionId connection, Frame frame, std::vector<os::UniqueFd> fds) override;
  void on_closed(ConnectionId connection) override;
  void on_hello(ConnectionId connection, const LinkHello& hello);
  void forget(ConnectionId connection);
  [[nodiscard]] LinkHello hello_to(NodeId node) const;

  net::EventLoop& loop_;
  FrameSockets& sockets_;
  Identity identity_;
  LinkEvents& events_;
  LogSink log_;
  std::string path_;
  os::UniqueFd listener_;
  std::unique_ptr<net::FdWatch> watch_;
  net::Timer accept_again_;
  std::map<NodeId, Peer> peers_;
  std::map<ConnectionId, NodeId> greeting_;  ///< no hello yet; kNoNode: it connected to us
  std::map<ConnectionId, NodeId> links_;
};

}  // namespace imex::domain
