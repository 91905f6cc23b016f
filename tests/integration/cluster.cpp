#include "cluster.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "os/file.hpp"

namespace imex::test {

using domain::DaemonStatus;
using domain::PairState;
using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

milliseconds left(SteadyClock::time_point deadline) {
  const auto rest = std::chrono::duration_cast<milliseconds>(deadline - SteadyClock::now());
  return std::max(rest, milliseconds(0));
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  auto made = os::make_temporary_directory("imex-e2e-");
  if (!made) throw std::runtime_error(made.error().to_string());
  path_ = *made;
}

TemporaryDirectory::~TemporaryDirectory() {
  if (const auto removed = os::remove_tree(path_); !removed) {
    ADD_FAILURE() << removed.error().to_string();
  }
}

std::string TemporaryDirectory::write(const std::string& name, const std::string& text,
                                      unsigned mode) const {
  const std::string path = path_ + "/" + name;
  const auto written = os::replace_file(path, std::as_bytes(std::span(text)), mode);
  EXPECT_TRUE(written) << written.error().to_string();
  return path;
}

bool eventually(const std::function<bool()>& done, milliseconds timeout) {
  const auto deadline = SteadyClock::now() + timeout;
  while (!done()) {
    if (SteadyClock::now() >= deadline) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

Outcome run_program(std::vector<std::string> arguments, milliseconds timeout) {
  const TemporaryDirectory directory;
  Outcome outcome;
  const auto capture = [&](const char* name) {
    auto file = os::open_for_append(directory.path() + "/" + name, true);
    if (!file) throw std::runtime_error(file.error().to_string());
    return std::move(*file);
  };
  const os::UniqueFd out = capture("out"), err = capture("err");
  os::Child::Options options;
  options.arguments = std::move(arguments);
  options.arguments.front().insert(0, std::string(IMEX_BIN_DIR) + "/");
  options.stdout_fd = out.get();
  options.stderr_fd = err.get();
  auto child = os::Child::start(options);
  if (!child) throw std::runtime_error(child.error().to_string());
  outcome.status = child->wait(timeout).value_or(-1);
  outcome.out = os::read_file(directory.path() + "/out").value();
  outcome.err = os::read_file(directory.path() + "/err").value();
  return outcome;
}

std::uint16_t free_port(const std::string& address) {
  const os::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  ::inet_pton(AF_INET, address.c_str(), &where.sin_addr);
  socklen_t size = sizeof where;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&where), size) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&where), &size) != 0) {
    throw std::runtime_error("no free port on " + address);
  }
  return ntohs(where.sin_port);
}

// ---- one daemon ----

TestDaemon::TestDaemon(std::string directory, std::string address, std::uint16_t port,
                       std::uint16_t command_port, std::string list_path)
    : directory_(std::move(directory)), address_(std::move(address)) {
  keys = {{"IMEX_NODE_CONFIG_FILE", std::move(list_path)},
          {"BIND_INTERFACE_IP", address_},
          {"SERVER_PORT", std::to_string(port)},
          {"IMEX_CMD_PORT", std::to_string(command_port)},
          {"IMEX_CMD_BIND_INTERFACE_IP", address_},
          {"IMEX_CMD_UNIX_DOMAIN_PATH", directory_ + "/command.sock"},
          {"IMEX_X_STATE_DIR", directory_ + "/state"},
          {"IMEX_X_CHANNEL0", "1"},
          {"DAEMONIZE", "0"},
          {"LOG_LEVEL", "4"},
          {"LOG_FILE_NAME", directory_ + "/daemon.log"},
          {"STATS_FILE_NAME", directory_ + "/stats.log"}};
  if (auto made = os::make_directories(directory_); !made) {
    throw std::runtime_error(made.error().to_string());
  }
}

std::string TestDaemon::channel_path(unsigned channel) const {
  return fmt::format("{}/channels/channel{}", run_directory(), channel);
}

std::string TestDaemon::log() const {
  const auto text = os::read_file(directory_ + "/daemon.log");
  return text ? *text : std::string();
}

void TestDaemon::write_config() const {
  std::ofstream config(config_path(), std::ios::trunc);
  for (const auto& [key, value] : keys) config << key << '=' << value << '\n';
}

void TestDaemon::spawn() {
  write_config();
  const std::string path = directory_ + "/notify.sock";
  ::unlink(path.c_str());
  notify_ = os::UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  path.copy(where.sun_path, sizeof where.sun_path - 1);
  ASSERT_EQ(::bind(notify_.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where), 0);

  os::Child::Options options;
  options.arguments = wrapper;
  options.arguments.insert(options.arguments.end(),
                           {std::string(IMEX_BIN_DIR) + "/" + program, "-c", config_path()});
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  options.environment.assign(environment.begin(), environment.end());
  options.environment.emplace_back("NOTIFY_SOCKET", path);
  auto child = os::Child::start(options);
  ASSERT_TRUE(child) << child.error().to_string();
  child_.emplace(std::move(*child));
}

bool TestDaemon::wait_ready(milliseconds timeout) {
  const auto deadline = SteadyClock::now() + timeout;
  while (SteadyClock::now() < deadline) {
    pollfd ready{notify_.get(), POLLIN, 0};
    // In slices, because a daemon that ends says nothing.
    if (::poll(&ready, 1, 50) == 1) {
      std::array<char, 256> text{};
      const auto size = ::recv(notify_.get(), text.data(), text.size(), 0);
      const std::string_view said(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
      if (said.find("READY=1") != std::string_view::npos) return true;
    }
    if (!child_ || child_->wait(milliseconds(0))) return false;
  }
  return false;
}

void TestDaemon::kill(int signal_number) {
  const auto sent = child_->kill(signal_number);
  ASSERT_TRUE(sent) << sent.error().to_string();
}

std::optional<int> TestDaemon::wait_exit(milliseconds timeout) {
  return child_ ? child_->wait(timeout) : std::nullopt;
}

std::optional<int> TestDaemon::stop() {
  kill(SIGTERM);
  return wait_exit();
}

Result<domain::CommandClient> TestDaemon::connect() const {
  domain::CommandEndpoint endpoint;
  endpoint.socket = directory_ + "/command.sock";
  return domain::CommandClient::connect(endpoint);
}

Result<StatusReport> TestDaemon::status() const {
  IMEX_TRY(auto client, connect());
  return client.status();
}

Result<domain::HealthReport> TestDaemon::health() const {
  IMEX_TRY(auto client, connect());
  return client.health();
}

bool TestDaemon::wait_status(const std::function<bool(const StatusReport&)>& seen,
                             milliseconds timeout) const {
  const auto deadline = SteadyClock::now() + timeout;
  while (SteadyClock::now() < deadline) {
    auto client = connect();
    bool held = false;
    if (client) {
      const auto watched = client->watch(
          [&](const StatusReport& report) {
            held = seen(report);
            return !held;
          },
          std::min(left(deadline), milliseconds(1000)));
      static_cast<void>(watched);  // a daemon that restarts breaks the stream: asked again
    }
    if (held) return true;
    if (!client) ::poll(nullptr, 0, 5);  // no socket file yet
  }
  return false;
}

bool TestDaemon::wait_pair(std::size_t peer, PairState state, milliseconds timeout) const {
  return wait_status(
      [&](const StatusReport& report) {
        return peer < report.peers.size() && report.peers[peer].state == state;
      },
      timeout);
}

bool TestDaemon::wait_log(const std::string& text, milliseconds timeout) const {
  bool found = log().find(text) != std::string::npos;
  const os::UniqueFd inotify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  const std::string path = directory_ + "/daemon.log";
  ::inotify_add_watch(inotify.get(), path.c_str(), IN_MODIFY);
  const auto deadline = SteadyClock::now() + timeout;
  while (!found && SteadyClock::now() < deadline) {
    found = log().find(text) != std::string::npos;
    if (found) break;
    pollfd changed{inotify.get(), POLLIN, 0};
    ::poll(&changed, 1, static_cast<int>(left(deadline).count()));
    std::array<char, 4096> events{};
    while (::read(inotify.get(), events.data(), events.size()) > 0) {
    }
  }
  return found;
}

// ---- all of them ----

Cluster::Cluster(std::size_t count)
    : subnet_(fmt::format("127.{}.{}", 64 + (::getpid() >> 8) % 32, ::getpid() & 0xff)),
      list_path_(directory_.path() + "/nodes.cfg"),
      port_(free_port(subnet_ + ".1")) {
  const std::uint16_t command_port = free_port(subnet_ + ".1");
  std::vector<std::string> entries;
  for (std::size_t i = 0; i < count; ++i) {
    entries.push_back(address(i));
    daemons_.emplace_back(fmt::format("{}/{}", directory_.path(), i), address(i), port_,
                          command_port, list_path_);
  }
  write_list(entries);
}

std::string Cluster::address(std::size_t index) const {
  return fmt::format("{}.{}", subnet_, index + 1);
}

void Cluster::write_list(const std::vector<std::string>& entries) const {
  std::string text;
  for (const std::string& entry : entries) text.append(entry).push_back('\n');
  directory_.write("nodes.cfg", text);
}

void Cluster::set(const std::string& key, const std::string& value) {
  for (TestDaemon& daemon : daemons_) daemon.keys[key] = value;
}

void Cluster::start() {
  for (TestDaemon& daemon : daemons_) daemon.spawn();
  for (TestDaemon& daemon : daemons_) {
    ASSERT_TRUE(daemon.wait_ready()) << daemon.address() << ":\n" << daemon.log();
  }
}

bool Cluster::wait_up(milliseconds timeout) {
  const auto deadline = SteadyClock::now() + timeout;
  const auto all_connected = [](const StatusReport& report) {
    return report.status == DaemonStatus::kReady &&
           std::ranges::all_of(report.peers, [](const PeerReport& peer) {
             return peer.state == PairState::kConnected;
           });
  };
  return std::ranges::all_of(daemons_, [&](const TestDaemon& daemon) {
    return daemon.wait_status(all_connected, left(deadline));
  });
}

}  // namespace imex::test
