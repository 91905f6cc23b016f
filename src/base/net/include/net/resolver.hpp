/// Host names to addresses, off the loop, in bounded time, without flooding a name server.
///
/// The hosts file is read first and answers at once. What it does not know goes to the system's
/// resolver on a few threads; a dotted name is asked for as it stands, never through the search
/// list (with Kubernetes' ndots:5 each unknown name would cost ten queries). Names that only ever
/// stand in the hosts file (Config::hosts_only_prefix) are not asked for at all. Answers "no such
/// name" are remembered for a few seconds.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/event_loop.hpp"

namespace imex::net {

/// IPv4 or IPv6 literal (with %scope) in its shortest form; nothing if it is none.
[[nodiscard]] std::string canonical_address(std::string_view text);

/// "IP:port", "[IP]:port".
[[nodiscard]] std::string endpoint_text(std::string_view address, std::uint16_t port);

/// Names to addresses, in the order of the file. Bad lines are skipped, as in the C library.
using HostsTable = std::map<std::string, std::vector<std::string>, std::less<>>;
[[nodiscard]] HostsTable parse_hosts(std::string_view text);

class Resolver {
 public:
  struct Config {
    std::string hosts_path = "/etc/hosts";
    std::string hosts_only_prefix;  ///< empty: none
    Nanos timeout = std::chrono::seconds(2);
    Nanos negative_ttl = std::chrono::seconds(5);
    std::size_t threads_max = 4;
    std::size_t waiting_max = 4096;  ///< beyond it names count as unknown
  };
  /// The first address, or empty: unknown, or no answer in time.
  using Callback = std::function<void(std::string address)>;

  Resolver(EventLoop& loop, Config config);
  /// Callbacks do not come any more. A lookup that hangs in the C library ends by itself later.
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// The callback comes on the loop, always later, never from inside this call.
  void resolve(const std::string& name, Callback callback);
  /// What a literal or the hosts file says, at once; empty if neither knows.
  [[nodiscard]] std::string resolve_locally(const std::string& name);
  /// Reads the hosts file anew and forgets negative answers.
  void forget();

 private:
  struct Shared;
  struct Waiting {
    std::vector<Callback> callbacks;
    std::unique_ptr<Timer> deadline;
  };
  void load_hosts();
  void ask(const std::string& name);
  void finish(const std::string& name, const std::string& address);

  EventLoop& loop_;
  Config config_;
  HostsTable hosts_;
  std::map<std::string, Time> unknown_until_;
  std::map<std::string, Waiting> waiting_;
  std::shared_ptr<Shared> shared_;  ///< with threads that may outlive this object
};

}  // namespace imex::net
