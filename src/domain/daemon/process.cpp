// The process around the daemons: loop, signals, order of the end.

#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include "daemon.hpp"
#include "descriptor_reserve.hpp"
#include "domain/daemon.hpp"

namespace imex::domain {

namespace {

/// Peers get this long to take the goodbye; with the services' own graces the whole stop stays
/// under two seconds.
constexpr Nanos kFlushMax = std::chrono::milliseconds(500);

log::Options log_options(const DaemonConfig& config) {
  log::Options options;
  options.threshold = static_cast<log::Level>(config.log_level);
  options.format = config.log_json ? log::Format::kJson : log::Format::kText;
  options.file = config.log_file;
  options.append = config.log_append;
  options.file_bytes_max = std::uint64_t{config.log_max_mb} << 20U;
  options.rotated_count = config.log_rotate_count;
  options.syslog = config.log_syslog;
  const bool nvidia = config.personality == Personality::kNvidiaImex;
  options.syslog_name = nvidia ? "nvidia-imex" : "imexd";
  return options;
}

class Process {
 public:
  explicit Process(DaemonProcess process);
  int run();

 private:
  void on_signal(int number);
  void on_ready();
  void on_failed(int exit_code, const Error& error);
  void stop();
  void dump_rings();
  int upgrade(ListeningSockets sockets);

  DaemonProcess process_;
  net::EventLoop loop_;
  log::Logger log_;
  std::unique_ptr<log::Logger> own_statistics_;  ///< null: into the log
  PeerServers servers_;
  ListeningSockets inherited_ = take_from_predecessor();
  std::vector<std::unique_ptr<Daemon>> daemons_;
  bool told_ready_ = false, ending_ = false, upgrading_ = false;
  int exit_code_ = ExitCode::kOk;
};

Process::Process(DaemonProcess process)
    : process_(std::move(process)),
      log_(log_options(process_.domains.front().config)),
      servers_(loop_, [this](int level, std::string_view text) {
        log_.log(static_cast<log::Level>(level), text);
      }) {
  const DaemonConfig& first = process_.domains.front().config;
  if (first.stats_file != first.log_file) {
    log::Options options = log_options(first);
    options.file = first.stats_file;
    options.headline = false;
    options.ring_bytes = 0;
    own_statistics_ = std::make_unique<log::Logger>(std::move(options));
  }
}

void Process::on_ready() {
  for (const auto& daemon : daemons_) {
    if (!daemon->is_ready()) return;
  }
  if (std::exchange(told_ready_, true)) return;
  inherited_.clear();  // sockets of channels that are no more
  if (process_.on_ready) process_.on_ready();
}

void Process::on_failed(int exit_code, const Error& error) {
  if (std::exchange(ending_, true)) return;
  exit_code_ = exit_code;
  const std::string why = error.to_string();
  log_.critical(fmt::format("exiting with status {}: {}", exit_code, why));
  // Who started it looks here, not into the log.
  if (!process_.domains.front().config.log_file.empty()) {
    fmt::print(stderr, "{}\n", why);
  }
  loop_.stop();
}

void Process::dump_rings() {
  const DaemonConfig& first = process_.domains.front().config;
  std::string path = first.log_file;
  if (path.ends_with(".log")) path.resize(path.size() - 4);
  path = path.empty() ? daemons_.front()->run_directory() + "/verbose.log" : path + "-verbose.log";
  if (auto dumped = log_.dump_ring(path); dumped) {
    log_.info(fmt::format("verbose ring written to {}", path));
  } else {
    log_.error(dumped.error().to_string());
  }
}

void Process::on_signal(int number) {
  if (ending_) return;
  switch (number) {
    case SIGHUP:
      for (const auto& daemon : daemons_) {
        if (daemon->config().reload_on_hup) daemon->reload();
      }
      if (!daemons_.front()->config().reload_on_hup) dump_rings();
      return;
    case SIGUSR1:
      for (const auto& daemon : daemons_) daemon->reconnect();
      return;
    case SIGUSR2:
      upgrading_ = ::access(process_.program.c_str(), X_OK) == 0;
      if (!upgrading_) {
        return log_.error(fmt::format("no upgrade: {} cannot be run", process_.program));
      }
      log_.info("upgrade: this process goes on as the same instance in a new program");
      break;
    default:
      log_.info(fmt::format("received signal {} ({})", number, ::strsignal(number)));
      break;
  }
  ending_ = true;
  loop_.stop();
}

void Process::stop() {
  for (const auto& daemon : daemons_) daemon->begin_stop();
  static_cast<void>(loop_.run_until(
      [this] {
        for (const auto& daemon : daemons_) {
          if (!daemon->flushed()) return false;
        }
        return true;
      },
      loop_.now() + kFlushMax));
}

int Process::upgrade(ListeningSockets sockets) {
  if (auto left = leave_to_successor(std::move(sockets)); !left) {
    log_.warn(std::move(left).error().context("the channels get new sockets").to_string());
  }
  ::setenv("IMEX_DAEMON_SUCCESSOR", "1", 1);  // it is the daemon already: no fork again
  std::vector<char*> arguments;
  for (std::string& argument : process_.arguments) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  ::execv(process_.program.c_str(), arguments.data());
  log_.critical(fmt::format("exec {}: {}", process_.program, std::strerror(errno)));
  return ExitCode::kInternal;
}

int Process::run() {
  const net::SignalWatch signals(loop_, {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2},
                                 [this](int number) { on_signal(number); });
  for (LoadedConfig& domain : process_.domains) {
    Daemon::Events events{[this] { on_ready(); },
                          [this](int code, const Error& error) { on_failed(code, error); }};
    daemons_.push_back(std::make_unique<Daemon>(loop_, servers_, log_,
                                                own_statistics_ ? *own_statistics_ : log_, domain,
                                                inherited_, std::move(events)));
  }
  for (const auto& daemon : daemons_) {
    if (!ending_) daemon->start();
  }
  if (!ending_) loop_.run();
  if (!upgrading_) stop();
  ListeningSockets sockets;
  for (const auto& daemon : daemons_) {
    if (upgrading_) sockets.merge(daemon->hand_over());
  }
  for (const auto& daemon : daemons_) daemon->close();
  if (!upgrading_ && process_.domains.front().config.personality == Personality::kNvidiaImex &&
      exit_code_ == ExitCode::kOk) {
    dump_rings();
  }
  log_.info("stopped");
  return upgrading_ ? upgrade(std::move(sockets)) : exit_code_;
}

}  // namespace

int run_daemon_process(DaemonProcess process) {
  // Before gRPC's first call: its own lines have no place in a daemon's log, and its fork support
  // costs a handler for each fork of a process that never forks.
  ::setenv("GRPC_VERBOSITY", "NONE", 0);
  ::setenv("GRPC_ENABLE_FORK_SUPPORT", "0", 0);
  // Nor have protobuf's: one for each bad text that somebody sends, as fast as they send.
  google::protobuf::SetLogHandler(nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its limit is an error of write(), as a full disk is
  DescriptorReserve::raise_limit();
  return Process(std::move(process)).run();
}

}  // namespace imex::domain
