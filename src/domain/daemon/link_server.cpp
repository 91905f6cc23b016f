#include "link_server.hpp"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

namespace imex::domain {

namespace {

constexpr Nanos kBackoffMin = std::chrono::milliseconds(10);
constexpr Nanos kBackoffMax = std::chrono::seconds(1);
/// A Unix socket answers at once or its queue is full; the loop must not wait for it.
constexpr auto kConnectTimeout = std::chrono::milliseconds(2);
constexpr auto kAcceptRest = std::chrono::milliseconds(50);
constexpr std::size_t kGreetingMax = 256;

/// The daemon's own user, or root.
bool is_trusted(const os::PeerCredentials& peer) noexcept {
  return peer.uid == ::geteuid() || peer.uid == 0;
}

}  // namespace

LinkServer::LinkServer(net::EventLoop& loop, FrameSockets& sockets, Identity identity,
                       LinkEvents& events, LogSink log)
    : loop_(loop),
      sockets_(sockets),
      identity_(identity),
      events_(events),
      log_(std::move(log)),
      accept_again_(loop) {}

LinkServer::~LinkServer() {
  watch_.reset();
  if (listener_) ::unlink(path_.c_str());
}

LinkHello LinkServer::hello_to(NodeId node) const {
  return {identity_.domain_id, identity_.instance, identity_.boot_id, identity_.node, node};
}

Result<void> LinkServer::listen(const std::string& path) {
  path_ = path;
  IMEX_TRY(listener_, os::listen_unix(path, 0600));
  watch_ = std::make_unique<net::FdWatch>(loop_, listener_.get());
  watch_->on_readable([this] { accept(); });
  return {};
}

void LinkServer::accept() {
  auto socket = os::accept_unix(listener_.get());
  if (!socket) {
    if (socket.error().code == Errc::kResourceExhausted) return;
    log_(kLogWarning, fmt::format("link: {}", socket.error().message));
    watch_->on_readable({});
    accept_again_.arm(loop_.now() + kAcceptRest,
                      [this] { watch_->on_readable([this] { accept(); }); });
    return;
  }
  const auto peer = os::peer_credentials(socket->get());
  if (!peer || !is_trusted(*peer) || greeting_.size() >= kGreetingMax) return;
  greeting_.emplace(sockets_.add(std::move(*socket), *this), kNoNode);
}

void LinkServer::join(NodeId node, const Uuid& instance, std::string path) {
  Peer& peer = peers_[node];
  const bool same = peer.instance == instance && peer.path == path;
  if (same && (peer.dialled != 0 || (peer.retry && peer.retry->armed()))) return;
  peer.instance = instance;
  peer.path = std::move(path);
  peer.backoff = kBackoffMin;
  peer.last_error.clear();
  if (!peer.retry) peer.retry = std::make_unique<net::Timer>(loop_);
  if (identity_.node < node) dial(node);
}

void LinkServer::leave(NodeId node) {
  std::vector<ConnectionId> ending;
  for (const auto& [connection, of] : links_) {
    if (of == node) ending.push_back(connection);
  }
  for (const auto& [connection, of] : greeting_) {
    if (of == node) ending.push_back(connection);
  }
  peers_.erase(node);
  for (const ConnectionId connection : ending) {
    const bool stood = links_.contains(connection);
    sockets_.close(connection);
    forget(connection);
    if (stood) events_.on_link_closed(connection);
  }
}

void LinkServer::dial(NodeId node) {
  Peer& peer = peers_.at(node);
  auto socket = os::connect_unix(peer.path, kConnectTimeout);
  if (!socket) return retry(node, socket.error().message);
  const auto credentials = os::peer_credentials(socket->get());
  if (!credentials || !is_trusted(*credentials)) {
    return retry(node, fmt::format("{} belongs to another user", peer.path));
  }
  peer.dialled = sockets_.add(std::move(*socket), *this);
  greeting_.emplace(peer.dialled, node);
  sockets_.send(peer.dialled, Frame{0, hello_to(node)});
}

void LinkServer::retry(NodeId node, const std::string& why) {
  const auto found = peers_.find(node);
  if (found == peers_.end() || identity_.node > node) return;
  Peer& peer = found->second;
  peer.dialled = 0;
  // The first retries are a race with a daemon that has not heard of us yet: not worth a line.
  if (peer.backoff > std::chrono::milliseconds(100) && why != peer.last_error) {
    log_(kLogWarning, fmt::format("no link to node {} on this machine: {}", node, why));
    peer.last_error = why;
  }
  peer.retry->arm(loop_.now() + peer.backoff, [this, node] { dial(node); });
  peer.backoff = std::min(peer.backoff * 2, kBackoffMax);
}

void LinkServer::on_frame(ConnectionId connection, Frame frame, std::vector<os::UniqueFd> fds) {
  if (const auto link = links_.find(connection); link != links_.end()) {
    return events_.on_link_frame(connection, link->second, std::move(frame), std::move(fds));
  }
  if (const auto* hello = std::get_if<LinkHello>(&frame.message)) {
    return on_hello(connection, *hello);
  }
  sockets_.close(connection);
  on_closed(connection);
}

void LinkServer::on_hello(ConnectionId connection, const LinkHello& hello) {
  const NodeId dialled = greeting_.at(connection);
  const bool ours = hello.domain_id == identity_.domain_id && hello.boot_id == identity_.boot_id &&
                    hello.target == identity_.node && hello.node != identity_.node &&
                    (dialled == kNoNode || dialled == hello.node) &&
                    hello.instance == events_.instance_of(hello.node);
  if (!ours) {  // perhaps membership has not met it yet: whoever dialled tries again
    sockets_.close(connection);
    return on_closed(connection);
  }
  greeting_.erase(connection);
  links_.emplace(connection, hello.node);
  if (dialled == kNoNode) {
    sockets_.send(connection, Frame{0, hello_to(hello.node)});
  } else {
    peers_.at(dialled).backoff = kBackoffMin;
  }
  events_.on_link(connection, hello.node, hello.instance);
}

void LinkServer::forget(ConnectionId connection) {
  greeting_.erase(connection);
  links_.erase(connection);
}

void LinkServer::closed(ConnectionId connection) {
  forget(connection);
  for (auto& [node, peer] : peers_) {
    if (peer.dialled == connection) return retry(node, "the other side closed the link");
  }
}

void LinkServer::on_closed(ConnectionId connection) {
  const bool stood = links_.contains(connection);
  closed(connection);
  if (stood) events_.on_link_closed(connection);
}

}  // namespace imex::domain
