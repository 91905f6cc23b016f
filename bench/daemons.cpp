#include "bench/daemons.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "base/random.hpp"
#include "os/file.hpp"
#include "os/random.hpp"
#include "os/socket.hpp"

namespace imex::bench {
namespace {

constexpr std::chrono::seconds kStopTimeout{10};

/// Where readiness arrives: a datagram socket, as systemd's NOTIFY_SOCKET.
Result<os::UniqueFd> listen_for_readiness(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(Errc::kInvalidArgument,
                fmt::format("temporary directory too long for a socket: {}", path),
                "set TMPDIR to a shorter path");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  os::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail(system_error(errno, fmt::format("bind {}", path)));
  }
  return socket;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

Daemons::Daemons(std::string program, std::string directory, os::UniqueFd notify)
    : program_(std::move(program)), directory_(std::move(directory)), notify_(std::move(notify)) {}

Daemons& Daemons::operator=(Daemons&& other) noexcept {
  std::swap(program_, other.program_);
  std::swap(directory_, other.directory_);
  std::swap(notify_, other.notify_);
  std::swap(children_, other.children_);
  return *this;
}

Daemons::~Daemons() {
  if (directory_.empty()) return;
  // All at once first, so that they stop side by side; a child that stays is killed by its owner.
  for (const auto& child : children_) {
    if (!child.empty()) static_cast<void>(child.front().kill(SIGTERM));
  }
  for (auto& child : children_) {
    if (!child.empty()) static_cast<void>(child.front().wait(kStopTimeout));
  }
  children_.clear();
  static_cast<void>(os::remove_tree(directory_));
}

Result<Daemons> Daemons::prepare(std::string program, std::uint32_t count) {
  IMEX_TRY(const std::string directory, os::make_temporary_directory("imex-bench"));
  IMEX_TRY(auto notify, listen_for_readiness(directory + "/notify"));
  Daemons daemons(std::move(program), directory, std::move(notify));
  // A network of its own for each run: 127.88.N.0/24, so that runs side by side do not meet.
  os::SystemRandom random;
  const auto network = 1 + random.below(254);
  std::string list;
  for (std::uint32_t node = 0; node < count; ++node)
    list += fmt::format("127.88.{}.{}\n", network, node + 1);
  IMEX_CHECK_OK(os::replace_file(directory + "/nodes.cfg", bytes_of(list)));
  for (std::uint32_t node = 0; node < count; ++node) {
    IMEX_CHECK_OK(os::make_directories(daemons.node_directory(node)));
    const std::string config = fmt::format(
        "DAEMONIZE=0\nLOG_LEVEL=2\nLOG_FILE_NAME={0}/log\nSTATS_FILE_NAME={0}/stats\n"
        "BIND_INTERFACE_IP=127.88.{1}.{2}\nIMEX_NODE_CONFIG_FILE={3}/nodes.cfg\n"
        "IMEX_X_STATE_DIR={0}\nIMEX_X_CHANNEL0=1\n",
        daemons.node_directory(node), network, node + 1, directory);
    IMEX_CHECK_OK(os::replace_file(daemons.node_directory(node) + "/imexd.cfg", bytes_of(config)));
  }
  daemons.children_.resize(count);
  return daemons;
}

std::string Daemons::node_directory(std::uint32_t index) const {
  return fmt::format("{}/n{}", directory_, index);
}
std::string Daemons::channel(std::uint32_t index) const {
  return node_directory(index) + "/run/channels/channel0";
}
std::string Daemons::command_socket(std::uint32_t index) const {
  return node_directory(index) + "/run/command.sock";
}

Result<void> Daemons::start(std::uint32_t index) {
  os::Child::Options options;
  options.arguments = {program_, "-c", node_directory(index) + "/imexd.cfg"};
  options.environment = {{"NOTIFY_SOCKET", directory_ + "/notify"}};
  IMEX_TRY(auto child, os::Child::start(options));
  children_[index].clear();
  children_[index].push_back(std::move(child));
  return {};
}

Result<void> Daemons::wait_ready(std::uint32_t count, std::chrono::seconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  char message[512];
  while (count != 0) {
    if (auto readable = os::wait_readable(notify_.get(), deadline); !readable) {
      return fail(std::move(readable).error().context("wait for imexd to become ready"));
    }
    const ssize_t bytes = ::recv(notify_.get(), message, sizeof message, MSG_DONTWAIT);
    if (bytes < 0) return fail(system_error(errno, "receive readiness"));
    if (std::string_view(message, static_cast<std::size_t>(bytes)).find("READY=1") !=
        std::string_view::npos)
      --count;
  }
  return {};
}

Result<void> Daemons::stop(std::uint32_t index) {
  os::Child& child = children_[index].front();
  IMEX_CHECK_OK(child.kill(SIGTERM));
  const bool ended =
      child.wait(std::chrono::duration_cast<std::chrono::milliseconds>(kStopTimeout)).has_value();
  children_[index].clear();
  if (!ended) return fail(Errc::kDeadlineExceeded, "imexd did not stop within 10 s of SIGTERM");
  return {};
}

Result<void> Daemons::start_all() {
  std::vector<std::string> sockets;
  for (std::uint32_t node = 0; node < count(); ++node) {
    IMEX_CHECK_OK(start(node));
    sockets.push_back(command_socket(node));
  }
  constexpr std::chrono::seconds kTimeout{30};
  IMEX_CHECK_OK(wait_ready(count(), kTimeout));
  if (count() > 1) IMEX_CHECK_OK(wait_until_up(sockets, count(), kTimeout));
  return {};
}

}  // namespace imex::bench
