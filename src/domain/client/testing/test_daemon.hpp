/// The shipped Broker behind real sockets, in a thread of the test: what imexd is to a session,
/// without its configuration, peers and journal file. Tests make it die, hang, forget and revoke.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "domain/broker.hpp"
#include "memory/abort_page.hpp"
#include "os/fd.hpp"
#include "os/poll.hpp"
#include "os/random.hpp"

namespace imex::domain::client {

class TestDaemon {
 public:
  struct Options {
    std::chrono::milliseconds lease{30'000};
    bool kill_silent_importers = false;
    std::chrono::milliseconds link_timeout{2'000};  ///< of an import from a silent peer
    std::uint32_t channel_count = 2;
    std::uint32_t gpu_count = 4;  ///< uids 100, 101, ...; all in clique 1
  };
  explicit TestDaemon(Options options);
  TestDaemon() : TestDaemon(Options{}) {}
  ~TestDaemon();

  [[nodiscard]] std::string channel(std::uint32_t number) const;

  /// Goes on from the journal of the life before, if there is one.
  void start();
  /// As by SIGKILL: every descriptor closes, nobody is told.
  void kill();
  /// The next start() is a new instance.
  void lose_journal();
  /// In order, and then dead.
  void shut_down();
  /// Neither reads nor writes until the returned object goes: SIGSTOP.
  [[nodiscard]] std::shared_ptr<void> hang();
  void move_gpu(std::uint32_t index, std::uint32_t clique);
  /// The workload's grant ends, as `imex channel release` does it.
  void release_channel(std::uint32_t number);
  /// Membership knows a daemon of this machine that answers no import, as while it restarts.
  /// Returns a handle of its, on channel 0.
  [[nodiscard]] Handle join_silent_peer();
  void end_silent_peer();
  /// Ends the second connections (in a test that opened one session, alone), as nothing in the
  /// product does on purpose.
  void drop_event_connections();

  [[nodiscard]] BrokerSize size();
  [[nodiscard]] BrokerStats stats();
  /// Waits until the broker holds what `fits` wants; false after ten seconds.
  [[nodiscard]] bool reaches(const std::function<bool(const BrokerSize&)>& fits);

 private:
  struct Life;
  void in_loop(const std::function<void(Life&)>& action);

  const Options options_;
  std::string folder_;
  BrokerConfig config_;
  os::SystemRandom random_;
  std::vector<fabric::Gpu> gpus_;
  Uuid peer_instance_;

  /// The journal. Written by the loop, read while it does not run.
  std::map<SessionId, BrokerMemory::Session> sessions_;
  std::map<SessionId, os::UniqueFd> pidfds_;
  std::uint64_t next_id_ = 1;
  bool has_journal_ = false;

  std::unique_ptr<Life> life_;
  std::thread thread_;
};

/// A child that runs a program with pipes at its standard input and output.
class Peer {
 public:
  explicit Peer(std::vector<std::string> arguments);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();  ///< SIGKILL and wait
  /// The next line it prints; nothing at its end or after a minute.
  [[nodiscard]] std::optional<std::string> line();
  void tell(const std::string& line);
  void kill();
  /// Closes its input and waits: status as in the shell; -1 after ten seconds.
  [[nodiscard]] int finish();

 private:
  int pid_ = -1;
  os::UniqueFd in_, out_;
  std::string read_;
};

/// Descriptors open in this process.
[[nodiscard]] std::size_t open_descriptors();

}  // namespace imex::domain::client
