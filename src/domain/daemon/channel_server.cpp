#include "channel_server.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "descriptor_reserve.hpp"
#include "memory/abort_page.hpp"
#include "os/file.hpp"
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

/// Whether both names lead to the same socket file.
bool is_one_socket(const std::string& one, const std::string& other) noexcept {
  struct stat a{}, b{};
  return ::lstat(one.c_str(), &a) == 0 && ::lstat(other.c_str(), &b) == 0 && S_ISSOCK(a.st_mode) &&
         a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

ChannelServer::ChannelServer(net::EventLoop& loop, FrameSockets& sockets, std::string directory,
                             ChannelClients& clients, LogSink log, ListeningSockets inherited)
    : loop_(loop),
      sockets_(sockets),
      directory_(std::move(directory)),
      clients_(clients),
      log_(std::move(log)),
      inherited_(std::move(inherited)) {}

/// The directories stay: a container that has one mounted must find the next daemon's socket in it.
ChannelServer::~ChannelServer() {
  for (const auto& [channel, listener] : listeners_) remove_files(channel);
}

std::string ChannelServer::path(std::uint32_t channel) const {
  return fmt::format("{}/channel{}", directory_, channel);
}
std::string ChannelServer::own_directory(std::uint32_t channel) const {
  return path(channel) + ".d";
}
std::string ChannelServer::own_path(std::uint32_t channel) const {
  return fmt::format("{}/channel{}", own_directory(channel), channel);
}

Result<void> ChannelServer::open(std::uint32_t channel, std::uint32_t mode, std::uint32_t owner) {
  if (is_open(channel)) return {};
  Listener listener;
  auto inherited = inherited_.extract(path(channel));
  if (inherited && is_one_socket(path(channel), own_path(channel))) {
    listener.socket = std::move(inherited.mapped());
  } else {
    IMEX_TRY(listener.socket, listen(channel, mode, owner));
  }
  listener.watch = std::make_unique<net::FdWatch>(loop_, listener.socket.get());
  listener.retry = std::make_unique<net::Timer>(loop_);
  listener.watch->on_readable([this, channel] { accept(channel); });
  listeners_.emplace(channel, std::move(listener));
  return {};
}

Result<os::UniqueFd> ChannelServer::listen(std::uint32_t channel, std::uint32_t mode,
                                           std::uint32_t owner) {
  const bool own = owner == kAnyUser || owner == ::geteuid();
  if (!own && ::geteuid() != 0) {
    return fail(Errc::kPermissionDenied,
                fmt::format("channel {} for user {}: only a daemon that runs as root can give it",
                            channel, owner));
  }
  const std::string first = own_path(channel);
  IMEX_CHECK_OK(os::make_directories(own_directory(channel), 0755));
  // A file for another user appears closed to all and is opened by changing its owner: in no moment
  // can a third one connect.
  IMEX_TRY(os::UniqueFd socket, os::listen_unix(first, mode));
  const std::string beside = own_directory(channel) + "/.name";
  const auto give_up = [&](std::string what) -> Result<os::UniqueFd> {
    Error error = system_error(errno, std::move(what));
    ::unlink(first.c_str());
    ::unlink(beside.c_str());
    return fail(std::move(error));
  };
  // The second name replaces a stale file in one step. Linked before the owner changes: linking
  // another user's file may be forbidden.
  ::unlink(beside.c_str());
  if (::link(first.c_str(), beside.c_str()) != 0) return give_up("name " + path(channel));
  if (!own && ::chown(first.c_str(), owner, static_cast<gid_t>(-1)) != 0) {
    return give_up("give " + path(channel) + " to its user");
  }
  if (::rename(beside.c_str(), path(channel).c_str()) != 0) {
    return give_up("name " + path(channel));
  }
  return socket;
}

void ChannelServer::close(std::uint32_t channel) {
  if (listeners_.erase(channel) == 0) return;
  remove_files(channel);
  ::rmdir(own_directory(channel).c_str());
}

void ChannelServer::remove_files(std::uint32_t channel) const noexcept {
  ::unlink(path(channel).c_str());
  ::unlink(own_path(channel).c_str());
}

ListeningSockets ChannelServer::hand_over() {
  ListeningSockets sockets;
  for (auto& [channel, listener] : std::exchange(listeners_, {})) {
    listener.watch.reset();
    sockets.emplace(path(channel), std::move(listener.socket));
  }
  return sockets;
}

/// Level-triggered, the listener would spin: it rests instead, the client stays in the queue.
void ChannelServer::rest(std::uint32_t channel, Listener& listener) {
  listener.watch->on_readable({});
  listener.retry->arm(loop_.now() + kAcceptRest, [this, channel] {
    const auto again = listeners_.find(channel);
    if (again == listeners_.end()) return;
    again->second.watch->on_readable([this, channel] { accept(channel); });
  });
}

void ChannelServer::accept(std::uint32_t channel) {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    const auto found = listeners_.find(channel);
    if (found == listeners_.end()) return;
    Listener& listener = found->second;
    auto socket = os::accept_unix(listener.socket.get());
    if (!socket && socket.error().code == Errc::kResourceExhausted) return;  // nobody waits
    if (!socket) {
      log_(kLogWarning, fmt::format("channel {}: {}", channel, socket.error().message));
      return rest(channel, listener);
    }
    if (DescriptorReserve::used_up_by(socket->get())) {
      log_(kLogWarning, fmt::format("channel {}: a client is turned away: no descriptor is left "
                                    "for it",
                                    channel));
      return rest(channel, listener);
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

bool ChannelServer::on_exhausted(ConnectionId connection, const Frame& frame) {
  Reply reply;
  reply.code = Errc::kResourceExhausted;
  reply.text = make_error_text(
      "the daemon has no descriptor left for this; end sessions or exports, or raise its limit of "
      "open files");
  sockets_.send(connection, Frame{frame.request_id, reply});
  return true;
}

void ChannelServer::on_closed(ConnectionId connection) {
  credentials_.erase(connection);
  clients_.on_client_closed(connection);
}

}  // namespace imex::domain
