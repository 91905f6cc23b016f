#include "test_daemon.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <spawn.h>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "os/file.hpp"
#include "os/process.hpp"
#include "os/socket.hpp"

namespace imex::domain::client {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

enum class Tag : std::uint64_t { kListener = 1, kConnection = 2, kPidfd = 3, kCommand = 4 };
constexpr NodeId kSilentPeer = 9;
constexpr unsigned kTagShift = 60;
constexpr std::uint64_t tagged(Tag tag, std::uint64_t id) {
  return static_cast<std::uint64_t>(tag) << kTagShift | id;
}
constexpr std::uint64_t id_of(std::uint64_t value) { return value & ((1ULL << kTagShift) - 1); }

}  // namespace

/// From start() to kill(): all that dies with a daemon.
struct TestDaemon::Life {
  explicit Life(TestDaemon& daemon_in) : daemon(daemon_in) {}

  TestDaemon& daemon;
  os::UniqueFd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  os::EventFd command = std::move(os::EventFd::make()).value();
  std::map<std::uint32_t, os::UniqueFd> listeners;
  std::map<ConnectionId, os::UniqueFd> connections;
  std::map<FdToken, os::UniqueFd> fds;
  std::map<SessionId, memory::AbortPage> pages;
  std::map<SessionId, int> watched;
  std::map<SessionId, int> pid_of;
  ConnectionId next_connection = 1;
  FdToken next_token = 1;
  std::optional<Broker> broker;

  std::mutex mutex;
  std::condition_variable done;
  std::function<void(Life&)> action;  // guarded by mutex
  bool ending = false;                // the loop's own

  void watch(int fd, std::uint64_t value) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = value;
    IMEX_ASSERT(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0, "descriptor is watched");
  }
  void unwatch(int fd) const { ::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, fd, nullptr); }

  void open();
  void run();
  void accept(std::uint32_t channel);
  void receive(ConnectionId id);
  void step(BrokerEvent event);
  void on(SendFrame& e);
  void on(CloseConnection& e);
  void on(ReleaseFd& e) { fds.erase(e.fd); }
  void on(AdoptSession& e);
  void on(DropSession& e);
  void on(SetAbort& e);
  void on(KillProcess& e);
  void on(JournalSession& e);
  void on(JournalSessionEnded& e);
  void on(JournalNextId& e) { daemon.next_id_ = e.next_id; }
  void on(JournalImporter&) {}
  void on(LogLine&) {}
  std::vector<BrokerEvent> later;  // what effects lead to
};

void TestDaemon::Life::open() {
  std::optional<BrokerMemory> memory;
  if (daemon.has_journal_) {
    memory.emplace();
    memory->next_id = daemon.next_id_;
    for (auto& [id, session] : daemon.sessions_) {
      BrokerMemory::Session again = session;
      again.pidfd = next_token++;
      fds.emplace(again.pidfd, std::move(daemon.pidfds_.at(id).duplicate()).value());
      memory->sessions.push_back(again);
    }
  }
  daemon.has_journal_ = true;
  broker.emplace(daemon.config_, daemon.random_, os::now(), std::move(memory));
  step(FabricChanged{daemon.gpus_});
  for (std::uint32_t number = 0; number != daemon.options_.channel_count; ++number) {
    step(ChannelOpened{number, {}, kAnyUser});
    auto listener = os::listen_unix(daemon.channel(number), 0600);
    IMEX_ASSERT(listener.has_value(), "channel socket can be made");
    watch(listener->get(), tagged(Tag::kListener, number));
    listeners.emplace(number, std::move(*listener));
  }
  watch(command.fd(), tagged(Tag::kCommand, 0));
}

void TestDaemon::Life::run() {
  while (!ending) {
    const Time next = broker->next_deadline();
    int timeout_ms = -1;
    if (next != kNever) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - os::now());
      timeout_ms = static_cast<int>(std::max<std::int64_t>(0, left.count()));
    }
    std::array<epoll_event, 64> events;
    const int count =
        ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
    for (int i = 0; i < count && !ending; ++i) {
      const std::uint64_t value = events[static_cast<std::size_t>(i)].data.u64;
      const std::uint64_t id = id_of(value);
      switch (static_cast<Tag>(value >> kTagShift)) {
        case Tag::kListener:
          accept(static_cast<std::uint32_t>(id));
          break;
        case Tag::kConnection:
          receive(id);
          break;
        case Tag::kPidfd:
          if (const auto found = watched.find(id); found != watched.end()) {
            unwatch(found->second);
            watched.erase(found);
            step(ProcessExited{id});
          }
          break;
        case Tag::kCommand: {
          command.lower();
          const std::unique_lock lock(mutex);
          if (action) action(*this);
          action = nullptr;
          done.notify_all();
          break;
        }
      }
    }
    if (!ending && broker->next_deadline() <= os::now()) step(TimePassed{});
  }
}

void TestDaemon::Life::accept(std::uint32_t channel) {
  auto socket = os::accept_unix(listeners.at(channel).get());
  if (!socket) return;
  const auto who = os::peer_credentials(socket->get());
  const ConnectionId id = next_connection++;
  watch(socket->get(), tagged(Tag::kConnection, id));
  connections.emplace(id, std::move(*socket));
  step(ClientConnected{id, channel, who ? who->uid : kAnyUser});
}

void TestDaemon::Life::receive(ConnectionId id) {
  const auto found = connections.find(id);
  if (found == connections.end()) return;
  FrameBytes bytes;
  auto packet = os::receive_packet(found->second.get(), bytes, false);
  if (!packet && packet.error().code == Errc::kResourceExhausted) return;
  auto frame = packet ? decode(std::span(bytes).first(packet->bytes))
                      : Result<Frame>(fail(Errc::kDataLoss, ""));
  if (!frame) {
    connections.erase(found);
    return step(ConnectionClosed{id});
  }
  std::vector<FdToken> tokens;
  for (os::UniqueFd& fd : packet->fds) {
    tokens.push_back(next_token);
    fds.emplace(next_token++, std::move(fd));
  }
  step(FrameArrived{id, std::move(*frame), std::move(tokens)});
}

void TestDaemon::Life::step(BrokerEvent event) {
  later.push_back(std::move(event));
  while (!later.empty()) {
    BrokerEvent next = std::move(later.front());
    later.erase(later.begin());
    for (BrokerEffect& effect : broker->step(std::move(next), os::now())) {
      std::visit([this](auto& each) { on(each); }, effect);
    }
  }
}

void TestDaemon::Life::on(SendFrame& e) {
  const auto found = connections.find(e.connection);
  if (found == connections.end()) return;
  std::vector<int> passed;
  for (const FdToken token : e.fds) passed.push_back(fds.at(token).get());
  if (os::send_packet(found->second.get(), encode(e.frame), passed, false)) return;
  connections.erase(found);
  later.emplace_back(ConnectionClosed{e.connection});
}

void TestDaemon::Life::on(CloseConnection& e) { connections.erase(e.connection); }

void TestDaemon::Life::on(AdoptSession& e) {
  pages.erase(e.session);
  if (e.abort_page != 0) {
    auto page = memory::AbortPage::adopt(fds.at(e.abort_page).get());
    if (page) pages.emplace(e.session, std::move(*page));
  }
  if (const auto old = watched.find(e.session); old != watched.end()) unwatch(old->second);
  const int pidfd = fds.at(e.pidfd).get();
  watched[e.session] = pidfd;
  watch(pidfd, tagged(Tag::kPidfd, e.session));
}

void TestDaemon::Life::on(DropSession& e) {
  pages.erase(e.session);
  if (const auto found = watched.find(e.session); found != watched.end()) {
    unwatch(found->second);
    watched.erase(found);
  }
}

void TestDaemon::Life::on(SetAbort& e) {
  const auto page = pages.find(e.session);
  if (page != pages.end()) page->second.trip(e.scope, {e.code, e.rank});
}

void TestDaemon::Life::on(KillProcess& e) {
  if (const auto found = watched.find(e.session); found != watched.end()) {
    static_cast<void>(os::signal_pidfd(found->second, SIGKILL));
  }
}

void TestDaemon::Life::on(JournalSession& e) {
  daemon.sessions_[e.session.id] = e.session;
  daemon.pidfds_[e.session.id] = std::move(fds.at(e.session.pidfd).duplicate()).value();
}

void TestDaemon::Life::on(JournalSessionEnded& e) {
  daemon.sessions_.erase(e.session);
  daemon.pidfds_.erase(e.session);
}

// ---- from the test ----

TestDaemon::TestDaemon(Options options)
    : options_(options), folder_(std::move(os::make_temporary_directory("imex-client")).value()) {
  config_.domain_id = os::random_uuid();
  config_.instance = os::random_uuid();
  config_.boot_id = std::move(os::boot_id()).value();
  random_.fill(config_.key);
  config_.node = 3;
  config_.lease = options_.lease;
  config_.link_timeout = options_.link_timeout;
  config_.kill_silent_importers = options_.kill_silent_importers;
  const fabric::Partition together{os::random_uuid(), 1};
  for (std::uint32_t i = 0; i != options_.gpu_count; ++i) {
    gpus_.push_back({.index = i, .uid = 100 + i, .partition = together});
  }
  start();
}

TestDaemon::~TestDaemon() {
  kill();
  static_cast<void>(os::remove_tree(folder_));
}

std::string TestDaemon::channel(std::uint32_t number) const {
  return fmt::format("{}/channel{}", folder_, number);
}

void TestDaemon::start() {
  life_ = std::make_unique<Life>(*this);
  life_->open();
  thread_ = std::thread([life = life_.get()] { life->run(); });
}

void TestDaemon::kill() {
  if (life_ == nullptr) return;
  in_loop([](Life& life) { life.ending = true; });
  thread_.join();
  life_.reset();
}

void TestDaemon::lose_journal() {
  sessions_.clear();
  pidfds_.clear();
  next_id_ = 1;
  has_journal_ = false;
  config_.instance = os::random_uuid();
  random_.fill(config_.key);
}

void TestDaemon::shut_down() {
  in_loop([](Life& life) { life.step(ShutdownRequested{}); });
  kill();
}

std::shared_ptr<void> TestDaemon::hang() {
  auto gate = std::make_shared<std::mutex>();
  gate->lock();
  {
    const std::scoped_lock lock(life_->mutex);
    life_->action = [gate](Life&) { const std::scoped_lock until_released(*gate); };
  }
  life_->command.raise();
  return {gate.get(), [gate](void*) { gate->unlock(); }};
}

void TestDaemon::move_gpu(std::uint32_t index, std::uint32_t clique) {
  gpus_.at(index).partition.clique_id = clique;
  in_loop([this](Life& life) { life.step(FabricChanged{gpus_}); });
}

void TestDaemon::release_channel(std::uint32_t number) {
  in_loop([this, number](Life& life) {
    life.listeners.erase(number);
    static_cast<void>(::unlink(channel(number).c_str()));
    life.step(ChannelClosed{number});
  });
}

Handle TestDaemon::join_silent_peer() {
  peer_instance_ = os::random_uuid();
  in_loop([this](Life& life) {
    life.step(PeerKnown{kSilentPeer, peer_instance_, config_.boot_id, "127.88.0.9"});
  });
  Handle handle;
  ByteWriter(handle.bytes)
      .put(std::uint64_t{0x0102'0304'0506'0708})
      .put(kSilentPeer)
      .skip(6)
      .put(std::uint32_t{0})
      .put(std::uint64_t{900})
      .put(std::uint32_t{1})
      .put_bytes(peer_instance_.bytes);
  return handle;
}

void TestDaemon::end_silent_peer() {
  in_loop([this](Life& life) {
    life.step(PeerInstanceEnded{kSilentPeer, peer_instance_, Errc::kPeerLost});
  });
}

void TestDaemon::drop_event_connections() {
  in_loop([](Life& life) {
    // Each session makes two, in this order.
    for (auto it = life.connections.begin(); it != life.connections.end();) {
      const ConnectionId id = it->first;
      if (id % 2 != 0) {
        ++it;
        continue;
      }
      it = life.connections.erase(it);
      life.step(ConnectionClosed{id});
    }
  });
}

BrokerSize TestDaemon::size() {
  BrokerSize size;
  in_loop([&size](Life& life) { size = life.broker->size(); });
  return size;
}

BrokerStats TestDaemon::stats() {
  BrokerStats stats;
  in_loop([&stats](Life& life) { stats = life.broker->stats(); });
  return stats;
}

bool TestDaemon::reaches(const std::function<bool(const BrokerSize&)>& fits) {
  const auto until = Clock::now() + 10s;
  while (!fits(size())) {
    if (Clock::now() >= until) return false;
    std::this_thread::yield();
  }
  return true;
}

void TestDaemon::in_loop(const std::function<void(Life&)>& action) {
  std::unique_lock lock(life_->mutex);
  life_->action = action;
  life_->command.raise();
  life_->done.wait(lock, [this] { return life_->action == nullptr; });
}

// ---- Peer ----

Peer::Peer(std::vector<std::string> arguments) {
  int in[2], out[2];
  IMEX_ASSERT(::pipe2(in, O_CLOEXEC) == 0 && ::pipe2(out, O_CLOEXEC) == 0, "pipes can be made");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  std::vector<char*> argv;
  for (std::string& each : arguments) argv.push_back(each.data());
  argv.push_back(nullptr);
  const int rc = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  in_ = os::UniqueFd(in[1]);
  out_ = os::UniqueFd(out[0]);
  IMEX_ASSERT(rc == 0, "the peer program is beside the test");
}

Peer::~Peer() { kill(); }

void Peer::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::optional<std::string> Peer::line() {
  const auto until = Clock::now() + 60s;
  for (;;) {
    if (const auto end = read_.find('\n'); end != std::string::npos) {
      std::string result = read_.substr(0, end);
      read_.erase(0, end + 1);
      return result;
    }
    std::array items{os::PollItem{.fd = out_.get()}};
    if (!os::poll_any(items, until) || (!items[0].readable && !items[0].hung_up))
      return std::nullopt;
    std::array<char, 512> buffer;
    const ssize_t got = ::read(out_.get(), buffer.data(), buffer.size());
    if (got <= 0) return std::nullopt;
    read_.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

void Peer::tell(const std::string& line) {
  const std::string whole = line + "\n";
  static_cast<void>(::write(in_.get(), whole.data(), whole.size()));
}

int Peer::finish() {
  in_.reset();
  auto pidfd = os::open_pidfd(pid_);
  if (!pidfd) return -1;
  std::array items{os::PollItem{.fd = pidfd->get()}};
  if (!os::poll_any(items, Clock::now() + 10s) || !items[0].readable) return -1;
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

}  // namespace imex::domain::client
