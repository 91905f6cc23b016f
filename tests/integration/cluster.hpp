/// Real daemons on this machine, for end-to-end tests: spawned from the build's bin folder, each
/// with a loopback address of this process alone, a state directory and a log of its own; all gone
/// when the object goes.
///
///     test::Cluster cluster(2);
///     cluster.start();                      // waits for READY of each
///     ASSERT_TRUE(cluster.wait_up());       // every ordered pair CONNECTED
///     cluster[0].kill(SIGKILL);
///
/// Waits are for events (sd_notify, the status stream), each with a deadline. Use from the main
/// thread: the daemons die with the thread that spawned them.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "domain/command_client.hpp"
#include "os/fd.hpp"
#include "os/process.hpp"

namespace imex::test {

using domain::PeerReport;
using domain::StatusReport;

/// Long enough for a loaded machine; nothing waits for it that goes well.
inline constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(20);

/// A directory that goes with its owner.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Writes `name` by rename; returns its path.
  std::string write(const std::string& name, const std::string& text, unsigned mode = 0644) const;

 private:
  std::string path_;
};

/// Asks again and again until `done` holds; false at the deadline. For states that nobody
/// announces.
[[nodiscard]] bool eventually(const std::function<bool()>& done,
                              std::chrono::milliseconds timeout = kPatience);

struct Outcome {
  int status = -1;  ///< as the shell has it; -1: still running at the deadline
  std::string out, err;
};
/// Runs a program of the bin folder to its end.
[[nodiscard]] Outcome run_program(std::vector<std::string> arguments,
                                  std::chrono::milliseconds timeout = kPatience);

/// A port that was free on `address` a moment ago.
[[nodiscard]] std::uint16_t free_port(const std::string& address);

/// One daemon: its configuration, and its process while it runs.
class TestDaemon {
 public:
  TestDaemon(std::string directory, std::string address, std::uint16_t port,
             std::uint16_t command_port, std::string list_path);
  TestDaemon(TestDaemon&&) = default;

  /// Lines of the configuration file; set before start().
  std::map<std::string, std::string> keys;
  std::map<std::string, std::string> environment;
  std::vector<std::string> arguments;  ///< after --config FILE
  std::string program = "imexd";       ///< in the bin folder
  std::vector<std::string> wrapper;    ///< before the program: {"/usr/bin/setpriv", ...}

  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] const std::string& directory() const noexcept { return directory_; }
  [[nodiscard]] std::string config_path() const { return directory_ + "/imexd.cfg"; }
  [[nodiscard]] std::string last_error_path() const {
    return keys.at("IMEX_X_STATE_DIR") + "/run/last-error.json";
  }
  [[nodiscard]] std::string run_directory() const { return directory_ + "/state/run"; }
  [[nodiscard]] std::string channel_path(unsigned channel) const;
  [[nodiscard]] std::string log() const;

  void write_config() const;
  /// Writes the configuration and spawns.
  void spawn();
  /// Until it says READY; false when it ended or the deadline passed.
  [[nodiscard]] bool wait_ready(std::chrono::milliseconds timeout = kPatience);
  void kill(int signal_number);
  /// Exit status (128 + signal), or nothing at the deadline.
  [[nodiscard]] std::optional<int> wait_exit(std::chrono::milliseconds timeout = kPatience);
  /// SIGTERM and the exit status.
  [[nodiscard]] std::optional<int> stop();
  [[nodiscard]] std::int32_t pid() const { return child_ ? child_->pid() : -1; }

  [[nodiscard]] Result<StatusReport> status() const;
  [[nodiscard]] Result<domain::HealthReport> health() const;
  /// Follows the status until `seen` holds; false at the deadline. Also while the daemon restarts.
  [[nodiscard]] bool wait_status(const std::function<bool(const StatusReport&)>& seen,
                                 std::chrono::milliseconds timeout = kPatience) const;
  /// Until the pair from this node to `peer` is in that state.
  [[nodiscard]] bool wait_pair(std::size_t peer, domain::PairState state,
                               std::chrono::milliseconds timeout = kPatience) const;
  /// Until the log contains `text`.
  [[nodiscard]] bool wait_log(const std::string& text,
                              std::chrono::milliseconds timeout = kPatience) const;

 private:
  [[nodiscard]] Result<domain::CommandClient> connect() const;

  std::string directory_, address_;
  std::optional<os::Child> child_;
  os::UniqueFd notify_;
};

class Cluster {
 public:
  /// `count` nodes that list each other by address, in order.
  explicit Cluster(std::size_t count);

  [[nodiscard]] TestDaemon& operator[](std::size_t index) { return daemons_.at(index); }
  [[nodiscard]] std::size_t size() const noexcept { return daemons_.size(); }
  [[nodiscard]] const TemporaryDirectory& directory() const noexcept { return directory_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] const std::string& list_path() const noexcept { return list_path_; }
  /// "127.x.y.N" of node N - 1.
  [[nodiscard]] std::string address(std::size_t index) const;
  void write_list(const std::vector<std::string>& entries) const;
  /// A key for all.
  void set(const std::string& key, const std::string& value);

  /// Spawns all and waits until each is READY; a failure ends the test with the logs.
  void start();
  /// Until all rows of the matrix are CONNECTED.
  [[nodiscard]] bool wait_up(std::chrono::milliseconds timeout = kPatience);

 private:
  TemporaryDirectory directory_;
  std::string subnet_, list_path_;
  std::uint16_t port_ = 0;
  std::vector<TestDaemon> daemons_;
};

}  // namespace imex::test
