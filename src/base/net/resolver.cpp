#include "net/resolver.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/mutex.hpp"
#include "os/file.hpp"

namespace imex::net {

namespace {

constexpr std::size_t kHostsBytesMax = 1U << 20U;
/// Negative answers kept; beyond it the oldest names are asked for again.
constexpr std::size_t kUnknownMax = 4096;

/// Idle threads go after this, so that a daemon that has found its peers has none.
constexpr auto kThreadIdle = std::chrono::seconds(2);

std::string numeric_host(const addrinfo& info) {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(info.ai_addr, info.ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    return {};
  }
  return text.data();
}

std::string look_up(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  const bool dotted = name.find('.') != std::string::npos;
  const std::string question = dotted && name.back() != '.' ? name + "." : name;
  addrinfo* found = nullptr;
  if (::getaddrinfo(question.c_str(), nullptr, &hints, &found) != 0 || found == nullptr) return {};
  std::string address = numeric_host(*found);
  ::freeaddrinfo(found);
  return address;
}

}  // namespace

std::string canonical_address(std::string_view text) {
  const auto scope_at = text.find('%');
  const std::string address(text.substr(0, scope_at));
  const std::string scope(scope_at == std::string_view::npos ? "" : text.substr(scope_at));
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  std::array<char, INET6_ADDRSTRLEN> out{};
  for (const int family : {AF_INET, AF_INET6}) {
    if (family == AF_INET && !scope.empty()) continue;
    if (::inet_pton(family, address.c_str(), bytes.data()) == 1 &&
        ::inet_ntop(family, bytes.data(), out.data(), out.size()) != nullptr) {
      return out.data() + scope;
    }
  }
  return {};
}

std::string endpoint_text(std::string_view address, std::uint16_t port) {
  const bool v6 = address.find(':') != std::string_view::npos;
  return v6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

HostsTable parse_hosts(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\v\f";
  HostsTable table;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    line = line.substr(0, line.find('#'));
    std::string address;
    for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
      const auto stop = line.find_first_of(kBlanks, at);
      const std::string word(line.substr(at, stop - at));
      if (address.empty()) {
        address = canonical_address(word);
        if (address.empty()) break;
      } else {
        table[word].push_back(address);
      }
      at = stop == std::string_view::npos ? stop : line.find_first_not_of(kBlanks, stop);
    }
  }
  return table;
}

/// What the threads see. They hold it, not the Resolver.
struct Resolver::Shared {
  struct Worker {
    std::thread thread;
    /// Inside getaddrinfo(), which nobody can call off.
    bool asking = false;
  };

  explicit Shared(Resolver& resolver) : owner(&resolver), loop(&resolver.loop_) {}

  Mutex mutex;
  CondVar wanted;
  std::deque<std::string> names IMEX_GUARDED_BY(mutex);
  std::map<std::thread::id, Worker> workers IMEX_GUARDED_BY(mutex);
  /// Null once the Resolver is gone; the loop may be gone as well then.
  Resolver* owner IMEX_GUARDED_BY(mutex);
  EventLoop* loop IMEX_GUARDED_BY(mutex);

  /// Threads that take the next name; one that was just started is on its way there.
  [[nodiscard]] std::size_t idle() const IMEX_REQUIRES(mutex);
  static void work(const std::shared_ptr<Shared>& self);
  [[nodiscard]] bool next(std::string& name);
  static void deliver(const std::shared_ptr<Shared>& self, std::string name, std::string address);
};

std::size_t Resolver::Shared::idle() const {
  return static_cast<std::size_t>(std::count_if(
      workers.begin(), workers.end(), [](const auto& worker) { return !worker.second.asking; }));
}

bool Resolver::Shared::next(std::string& name) {
  MutexLock lock(mutex);
  const auto deadline = std::chrono::steady_clock::now() + kThreadIdle;
  while (names.empty() && loop != nullptr) {
    if (!wanted.wait_until(mutex, deadline)) break;
  }
  if (loop == nullptr) return false;  // the destructor joins this thread
  const auto self = workers.find(std::this_thread::get_id());
  if (names.empty()) {
    self->second.thread.detach();
    workers.erase(self);
    return false;
  }
  self->second.asking = true;
  name = std::move(names.front());
  names.pop_front();
  return true;
}

void Resolver::Shared::deliver(const std::shared_ptr<Shared>& self, std::string name,
                               std::string address) {
  MutexLock lock(self->mutex);
  if (self->loop == nullptr) return;
  self->workers.find(std::this_thread::get_id())->second.asking = false;
  self->loop->post([self, name = std::move(name), address = std::move(address)] {
    Resolver* resolver = nullptr;
    {
      MutexLock inner(self->mutex);
      resolver = self->owner;
    }
    // On the loop's thread, as the destructor: it cannot go away meanwhile.
    if (resolver != nullptr) resolver->finish(name, address);
  });
}

void Resolver::Shared::work(const std::shared_ptr<Shared>& self) {
  std::string name;
  while (self->next(name)) deliver(self, name, look_up(name));
}

Resolver::Resolver(EventLoop& loop, Config config)
    : loop_(loop), config_(std::move(config)), shared_(std::make_shared<Shared>(*this)) {
  load_hosts();
}

Resolver::~Resolver() {
  std::map<std::thread::id, Shared::Worker> workers;
  {
    MutexLock lock(shared_->mutex);
    shared_->owner = nullptr;
    shared_->loop = nullptr;
    workers.swap(shared_->workers);
    shared_->wanted.notify_all();
  }
  // A thread that ends beside the process has its libc state taken for a leak. One that waits for a
  // name server is left to itself: it may wait for long and touches nothing of ours any more.
  for (auto& [id, worker] : workers) {
    if (worker.asking) {
      worker.thread.detach();
    } else {
      worker.thread.join();
    }
  }
}

void Resolver::load_hosts() {
  const auto text = os::read_file(config_.hosts_path, kHostsBytesMax);
  hosts_ = text ? parse_hosts(*text) : HostsTable{};
}

void Resolver::forget() {
  unknown_until_.clear();
  load_hosts();
}

std::string Resolver::resolve_locally(const std::string& name) {
  std::string literal = canonical_address(name);
  if (!literal.empty()) return literal;
  const auto entry = hosts_.find(name);
  return entry == hosts_.end() ? std::string() : entry->second.front();
}

void Resolver::resolve(const std::string& name, Callback callback) {
  const std::string local = resolve_locally(name);
  const auto unknown = unknown_until_.find(name);
  const bool known_unknown = unknown != unknown_until_.end() && loop_.now() < unknown->second;
  const bool hosts_only =
      !config_.hosts_only_prefix.empty() && name.starts_with(config_.hosts_only_prefix);
  const bool full = waiting_.size() >= config_.waiting_max;
  auto& waiting = waiting_[name];
  waiting.callbacks.push_back(std::move(callback));
  if (waiting.deadline) return;  // asked for already
  waiting.deadline = std::make_unique<Timer>(loop_);
  if (!local.empty() || known_unknown || hosts_only || full) {
    waiting.deadline->arm(loop_.now(), [this, name, local] { finish(name, local); });
    return;
  }
  waiting.deadline->arm(loop_.now() + config_.timeout, [this, name] { finish(name, {}); });
  ask(name);
}

void Resolver::ask(const std::string& name) {
  MutexLock lock(shared_->mutex);
  shared_->names.push_back(name);
  if (shared_->names.size() > shared_->idle() && shared_->workers.size() < config_.threads_max) {
    // The lock is held: the thread finds itself in the map.
    std::thread thread([shared = shared_] { Shared::work(shared); });
    const auto id = thread.get_id();
    shared_->workers[id].thread = std::move(thread);
  }
  shared_->wanted.notify_one();
}

void Resolver::finish(const std::string& name, const std::string& address) {
  if (address.empty()) {
    if (unknown_until_.size() >= kUnknownMax) unknown_until_.clear();
    unknown_until_[name] = loop_.now() + config_.negative_ttl;
  } else {
    unknown_until_.erase(name);
  }
  const auto waiting = waiting_.find(name);
  if (waiting == waiting_.end()) return;  // answered late: it only mends the negative cache
  const std::vector<Callback> callbacks = std::move(waiting->second.callbacks);
  waiting_.erase(waiting);
  for (const Callback& callback : callbacks) callback(address);
}

}  // namespace imex::net
