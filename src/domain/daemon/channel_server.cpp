#include "channel_server.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

#include "memory/abort_page.hpp"
#include "os/process.hpp"

namespace imex::domain {

namespace {

constexpr int kAcceptsPerRound = 16;
/// Rest of a listener whose process has no descriptor left for the next client.
constexpr auto kAcceptRest = std::chrono::milliseconds(50);

/// The descriptors of an Open, as far as the kernel knows them.
Result<void> check_open(const std::vector<os::UniqueFd>& fds, const os::PeerCredentials& caller) {
  if (fds.size() != 2) {
    return fail(Errc::kInvalidArgument, "an open needs an abort page and a pidfd");
  }
  IMEX_CHECK_OK([&]() -> Result<void> {
    IMEX_TRY([[maybe_unused]] const auto page, memory::AbortPage::adopt(fds[0].get()));
    return {};
  }());
  IMEX_TRY(const std::int32_t pid, os::pid_of_pidfd(fds[1].get()));
  // 0 on both sides: a sibling PID namespace. The kernel refuses signals through such a pidfd.
  if (pid != caller.pid) {
    return fail(Errc::kPermissionDenied,
                fmt::format("the pidfd names process {}, the caller is {}", pid, caller.pid));
  }
  return {};
}

}  // namespace

ChannelServer::ChannelServer(net::EventLoop& loop, FrameSockets& sockets, std::string directory,
                             ChannelClients& clients, LogSink log)
    : loop_(loop),
      sockets_(sockets),
      directory_(std::move(directory)),
      clients_(clients),
      log_(std::move(log)) {}

ChannelServer::~ChannelServer() {
  while (!listeners_.empty()) close(listeners_.begin()->first);
}

std::string ChannelServer::path(std::uint32_t channel) const {
  return fmt::format("{}/channel{}", directory_, channel);
}

Result<void> ChannelServer::open(std::uint32_t channel, std::uint32_t mode, std::uint32_t owner) {
  if (is_open(channel)) return {};
  const bool own = owner == kAnyUser || owner == ::geteuid();
  if (!own && ::geteuid() != 0) {
    return fail(Errc::kPermissionDenied,
                fmt::format("channel {} for user {}: only a daemon that runs as root can give it",
                            channel, owner));
  }
  Listener listener;
  // A file for another user appears closed to all and is opened by changing its owner: in no moment
  // can a third one connect.
  IMEX_TRY(listener.socket, os::listen_unix(path(channel), mode));
  if (!own && ::chown(path(channel).c_str(), owner, static_cast<gid_t>(-1)) != 0) {
    const int problem = errno;
    ::unlink(path(channel).c_str());
    return fail(system_error(problem, "give " + path(channel) + " to its user"));
  }
  listener.watch = std::make_unique<net::FdWatch>(loop_, listener.socket.get());
  listener.retry = std::make_unique<net::Timer>(loop_);
  listener.watch->on_readable([this, channel] { accept(channel); });
  listeners_.emplace(channel, std::move(listener));
  return {};
}

void ChannelServer::close(std::uint32_t channel) {
  const auto found = listeners_.find(channel);
  if (found == listeners_.end()) return;
  ::unlink(path(channel).c_str());
  found->second.watch.reset();
  listeners_.erase(found);
}

void ChannelServer::accept(std::uint32_t channel) {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    const auto found = listeners_.find(channel);
    if (found == listeners_.end()) return;
    Listener& listener = found->second;
    auto socket = os::accept_unix(listener.socket.get());
    if (!socket && socket.error().code == Errc::kResourceExhausted) return;  // nobody waits
    if (!socket) {
      // Level-triggered, the listener would spin: it rests instead, the client stays in the queue.
      log_(kLogWarning, fmt::format("channel {}: {}", channel, socket.error().message));
      listener.watch->on_readable({});
      listener.retry->arm(loop_.now() + kAcceptRest, [this, channel] {
        const auto again = listeners_.find(channel);
        if (again == listeners_.end()) return;
        again->second.watch->on_readable([this, channel] { accept(channel); });
      });
      return;
    }
    const auto caller = os::peer_credentials(socket->get());
    if (!caller) continue;  // gone already
    const ConnectionId id = sockets_.add(std::move(*socket), *this);
    credentials_.emplace(id, *caller);
    clients_.on_client(id, channel, caller->uid);
  }
}

void ChannelServer::on_frame(ConnectionId connection, Frame frame, std::vector<os::UniqueFd> fds) {
  if (std::holds_alternative<Open>(frame.message)) {
    if (const auto checked = check_open(fds, credentials_.at(connection)); !checked) {
      log_(kLogWarning, fmt::format("session refused: {}", checked.error().message));
      Reply reply;
      reply.code = checked.error().code;
      reply.text = make_error_text(checked.error().message);
      return sockets_.send(connection, Frame{frame.request_id, reply});
    }
  }
  clients_.on_client_frame(connection, std::move(frame), std::move(fds));
}

void ChannelServer::on_closed(ConnectionId connection) {
  credentials_.erase(connection);
  clients_.on_client_closed(connection);
}

}  // namespace imex::domain
