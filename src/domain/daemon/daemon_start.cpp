// From a configuration to a daemon that takes part: what must be there, in which order, and with
// which exit code it ends when it is not.

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/version.hpp"
#include "daemon.hpp"
#include "domain/daemon.hpp"
#include "fabric/file_view.hpp"
#include "fabric/simulated_view.hpp"
#include "last_error.hpp"
#include "os/file.hpp"
#include "os/process.hpp"
#include "server_socket.hpp"

namespace imex::domain {

namespace {

/// sun_path holds 107 bytes; the longest name below the run directory is channels/channel1048575.
constexpr std::size_t kDirectoryBytesMax = 107 - 24;
/// Kubernetes writes these names into the hosts file and nowhere else.
constexpr const char* kHostsOnlyPrefix = "compute-domain-daemon-";

net::Resolver::Config resolver_config(const DaemonConfig& config) {
  net::Resolver::Config resolver;
  resolver.hosts_path = config.hosts_file;
  resolver.hosts_only_prefix = kHostsOnlyPrefix;
  return resolver;
}

/// Those of this domain: other domains of the process have other run directories.
ListeningSockets take_inherited(ListeningSockets& all, const std::string& run_directory) {
  ListeningSockets own;
  for (auto each = all.begin(); each != all.end();) {
    const auto next = std::next(each);
    if (each->first.starts_with(run_directory + "/")) own.insert(all.extract(each));
    each = next;
  }
  return own;
}

}  // namespace

Result<std::shared_ptr<PeerServer>> PeerServers::get(const std::string& address, std::uint16_t port,
                                                     const std::optional<net::TlsIdentity>& tls) {
  const std::string endpoint = net::endpoint_text(address, port);
  if (auto server = servers_[endpoint].lock()) return server;
  IMEX_TRY(std::unique_ptr<PeerServer> started, PeerServer::start(loop_, address, port, tls, log_));
  std::shared_ptr<PeerServer> server = std::move(started);
  servers_[endpoint] = server;
  return server;
}

Daemon::Daemon(net::EventLoop& loop, PeerServers& servers, log::Logger& log,
               log::Logger& statistics, LoadedConfig config, ListeningSockets& inherited,
               Events events)
    : loop_(loop),
      servers_(servers),
      log_(log),
      statistics_log_(statistics),
      loaded_(std::move(config)),
      inherited_(inherited),
      events_(std::move(events)),
      resolver_(loop, resolver_config(config_)),
      finder_(resolver_, config_),
      machines_timer_(loop),
      second_timer_(loop) {}

Daemon::~Daemon() { close(); }

void Daemon::say(int level, std::string_view text) const {
  log_.log(static_cast<log::Level>(level), text);
}

void Daemon::fail_start(int exit_code, const Error& error) {
  if (failed_) return;
  log_.error(error.to_string());
  give_up(exit_code, error);
}

/// The own address may not be known yet: without a state directory the file then lies beside those
/// of all nodes.
void Daemon::give_up(int exit_code, const Error& error) {
  if (failed_) return;
  failed_ = true;
  last_error_ = error.to_string();
  const std::string directory =
      run_directory_.empty() ? domain::run_directory(config_, config_.bind_ip) : run_directory_;
  if (!lock_ && is_served(directory)) return events_.failed(exit_code, error);
  if (auto written = write_last_error(directory, exit_code, error); !written) {
    log_.warn(std::move(written).error().context("last-error.json").to_string());
  }
  events_.failed(exit_code, error);
}

void Daemon::log_configuration() const {
  log_.info(fmt::format("IMEX version {} is running with the following configuration options:",
                        build_info().version));
  for (const ConfigValue& value : loaded_.values) {
    std::string name = value.key;  // the two that operators look for have words of their own
    if (name == "LOG_LEVEL") name = "Logging level";
    if (name == "SERVER_PORT") name = "IMEX library communication bind port";
    log_.info(fmt::format("{} = {}", name, value.value));
  }
  for (const std::string& warning : loaded_.warnings) log_.warn(warning);
}

void Daemon::start() {
  log_configuration();
  if (auto secured = load_security(); !secured) {
    return fail_start(ExitCode::kSecurity, secured.error());
  }
  auto list = load_node_list();
  if (!list) return fail_start(ExitCode::kBadNodeList, list.error());
  list_ = std::move(*list);
  for (const NodeEntry& entry : list_.entries) {
    if (entry.is_name)
      log_.info(fmt::format("treating node entry '{}' as a host name", entry.text));
  }
  finder_.find(list_, [this](OwnSlot own) { start_on(std::move(own)); });
}

void Daemon::start_on(OwnSlot own) {
  if (own.node == kNoNode) {
    Error error{Errc::kNotFound,
                "No matching network interface found for any IP addresses in the node "
                "configuration file",
                fmt::format("list one of this machine's addresses in {}", config_.node_list_path),
                kNoRank};
    if (!config_.bind_ip.empty()) {
      error.message += fmt::format(" (BIND_INTERFACE_IP {})", config_.bind_ip);
    }
    return fail_start(ExitCode::kNoInterface, error);
  }
  own_ = own;
  log_.info(
      fmt::format("Identified this node as ID {}, using bind IP of '{}', and network "
                  "interface of '{}'",
                  own.node, own.address, config_.network_interface));
  auto server = servers_.get(own.address, config_.port, server_tls_);
  if (!server) {
    const bool taken = server.error().code == Errc::kAlreadyExists;
    return fail_start(taken ? ExitCode::kPortInUse : ExitCode::kInternal, server.error());
  }
  server_ = std::move(*server);
  if (!prepare_run_directory(own) || !open_machines(own) || !open_services(own)) return;
  watch_files();
  server_->add(*this);
  second_timer_.arm(loop_.now(), [this] { every_second(); });
  statistics_due_ = loop_.now() + std::chrono::seconds(30);
  enqueue(MembershipEvent(ListChanged{list_, own.node}), "ListChanged");
}

bool Daemon::prepare_run_directory(const OwnSlot& own) {
  const auto prepare = [&]() -> Result<void> {
    run_directory_ = domain::run_directory(config_, own.address);
    std::error_code ignored;
    run_directory_ = std::filesystem::absolute(run_directory_, ignored).string();
    IMEX_CHECK_OK(os::make_directories(run_directory_ + "/channels", 0755));
    short_directory_ = run_directory_;
    directory_fd_ = os::UniqueFd(::open(run_directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory_fd_) return fail(system_error(errno, "open " + run_directory_));
    if (run_directory_.size() > kDirectoryBytesMax) {
      short_directory_ = fmt::format("/proc/self/fd/{}", directory_fd_.get());
    }
    IMEX_TRY(boot_id_, os::boot_id());
    return {};
  };
  if (auto prepared = prepare(); !prepared) {
    fail_start(ExitCode::kInternal, std::move(prepared).error().context("run directory"));
    return false;
  }
  auto lock = os::lock_file(run_directory_ + "/lock");
  if (!lock) {
    const bool taken = lock.error().code == Errc::kAlreadyExists;
    fail_start(
        taken ? ExitCode::kSessionInUse : ExitCode::kInternal,
        std::move(lock).error().context(taken ? "another daemon runs here" : "run directory"));
    return false;
  }
  lock_ = std::move(*lock);
  return true;
}

/// Reopens the processes of the journal's sessions; a pid that now names another process is gone.
BrokerMemory Daemon::recall_sessions() {
  BrokerMemory memory;
  memory.next_id = journal_->state().next_id;
  const std::set<NodeId>& importers = journal_->state().importers;
  memory.importers.assign(importers.begin(), importers.end());
  for (const auto& [id, record] : journal_->state().sessions) {
    BrokerMemory::Session session{id, record.channel, record.uid, record.gpu_uid, 0};
    if (record.pid == 0) {
      // In a PID namespace beside ours: the process cannot be watched until it comes back with a
      // new pidfd. An eventfd that nobody raises stands in; the lease decides.
      os::UniqueFd stand_in(::eventfd(0, EFD_CLOEXEC));
      if (stand_in) session.pidfd = fds_.add(std::move(stand_in));
    } else if (auto pidfd = os::open_pidfd(record.pid)) {
      const auto started = os::process_start_ticks(record.pid);
      if (started && *started == record.pid_start_ticks)
        session.pidfd = fds_.add(std::move(*pidfd));
    }
    memory.sessions.push_back(session);
  }
  return memory;
}

Result<std::unique_ptr<fabric::FabricView>> Daemon::open_fabric() {
  if (config_.fabric_file.empty()) {
    return std::make_unique<fabric::SimulatedView>(domain_id_, own_.node, config_.simulated_gpus);
  }
  IMEX_TRY(auto view,
           fabric::FileView::open(loop_, config_.fabric_file, [this](const Error& error) {
             log_.error(fmt::format("fabric file: {}; the former state stays", error.message));
           }));
  return std::unique_ptr<fabric::FabricView>(std::move(view));
}

bool Daemon::open_machines(const OwnSlot& own) {
  domain_id_ = domain_identity(config_.domain_id, list_);
  JournalHeader header{boot_id_, domain_id_, os::random_uuid(), {}, own.node, list_.digest(), 0};
  random_.fill(header.key);
  auto opened =
      JournalFile::open(run_directory_ + "/persist.dat", header, config_.lease, loop_.now());
  if (!opened) {
    fail_start(ExitCode::kInternal, std::move(opened).error().context("journal"));
    return false;
  }
  journal_.emplace(std::move(opened->file));
  const bool resumed = opened->verdict == ResumeVerdict::kResumed;
  instance_ = journal_->state().header.instance;
  log_.info(fmt::format("{} instance {}: {}", resumed ? "resuming" : "new", instance_.to_string(),
                        resume_reason(opened->verdict)));
  auto fabric = open_fabric();
  if (!fabric) {
    fail_start(ExitCode::kBadConfig, std::move(fabric).error().context("IMEX_X_FABRIC_FILE"));
    return false;
  }
  fabric_ = std::move(*fabric);

  BrokerConfig broker;
  broker.domain_id = domain_id_;
  broker.instance = instance_;
  broker.boot_id = boot_id_;
  broker.key = journal_->state().header.key;
  broker.node = own.node;
  broker.lease = config_.lease;
  broker.kill_silent_importers = config_.kill_silent_importers;
  broker.limits = {config_.sessions_max, config_.exports_max, config_.imports_max,
                   config_.export_bytes_max};
  std::optional<BrokerMemory> memory;
  if (resumed) memory = recall_sessions();
  broker_.emplace(broker, random_, loop_.now(), std::move(memory));

  std::vector<ChannelAssignment> assignments;
  for (const auto& [workload, assignment] : journal_->state().assignments) {
    assignments.push_back(assignment);
  }
  std::set<std::string> granted;
  for (const auto& [workload, grant] : journal_->state().grants) granted.insert(workload);
  RegistryConfig registry;
  registry.self = own.node;
  registry.channels_max = config_.channel_count;
  registry_.emplace(registry, std::move(assignments), std::move(granted));

  MembershipConfig membership;
  membership.domain_id = config_.domain_id.value_or(Uuid{});
  membership.instance = instance_;
  membership.boot_id = boot_id_;
  membership.version = config_.no_gpu ? "NO_GPU" : std::string(build_info().version);
  membership.link_path = run_directory_ + "/link.sock";
  membership.quorum = config_.quorum;
  membership.list_rule = config_.list_rule;
  membership.reconnect_window = config_.reconnect_window;
  membership.heartbeat_interval = config_.heartbeat_interval;
  membership.heartbeat_timeout = config_.heartbeat_timeout;
  membership.lease = config_.lease;
  membership.lease_when_silent = config_.lease_when_silent;
  membership.grace = config_.grace;
  membership.former_importers = std::move(opened->former_importers);
  membership_.emplace(std::move(membership), random_, loop_.now());
  return true;
}

bool Daemon::open_services(const OwnSlot& own) {
  const LogSink log = [this](int level, std::string_view text) { say(level, text); };
  sockets_ = std::make_unique<FrameSockets>(loop_, fds_, log);
  channels_ = std::make_unique<ChannelServer>(loop_, *sockets_, run_directory_ + "/channels",
                                              static_cast<ChannelClients&>(*this), log,
                                              take_inherited(inherited_, run_directory_));
  sessions_ = std::make_unique<SessionWatch>(loop_, log, [this](SessionId session) {
    enqueue(BrokerEvent(ProcessExited{session}), "ProcessExited");
  });
  links_ = std::make_unique<LinkServer>(
      loop_, *sockets_, LinkServer::Identity{domain_id_, instance_, boot_id_, own.node},
      static_cast<LinkEvents&>(*this), log);
  dialer_ = std::make_unique<PeerDialer>(loop_, static_cast<PeerDials&>(*this));
  if (auto listening = links_->listen(run_directory_ + "/link.sock"); !listening) {
    fail_start(ExitCode::kInternal, listening.error());
    return false;
  }
  restore_channels();
  auto control = ControlService::start(loop_, short_directory_ + "/control.sock", *this, log);
  if (!control) {
    fail_start(ExitCode::kInternal, control.error());
    return false;
  }
  control_ = std::move(*control);
  const std::string metrics = config_.metrics_listen.empty()
                                  ? "unix:" + short_directory_ + "/metrics.sock"
                                  : config_.metrics_listen;
  auto http = net::HttpServer::listen(loop_, metrics,
                                      [this](std::string_view path) { return answer_http(path); });
  if (!http) {
    const bool taken = http.error().message.find("in use") != std::string::npos;
    fail_start(taken ? ExitCode::kPortInUse : ExitCode::kBadConfig,
               std::move(http).error().context("IMEX_X_METRICS"));
    return false;
  }
  metrics_ = std::move(*http);
  return open_commands();
}

bool Daemon::open_commands() {
  if (!config_.command_enabled) return true;
  const bool nvidia = config_.personality == Personality::kNvidiaImex;
  std::string address = config_.command_bind_ip;
  // All interfaces of both families, where the machine has both.
  if (address.empty() && nvidia) address = listen_tcp("::", 0) ? "::" : "0.0.0.0";
  if (address.empty()) address = own_.address;
  std::vector<ServerSocket> sockets;
  const auto add = [&](Result<ServerSocket> socket) {
    if (socket) {
      sockets.push_back(std::move(*socket));
      return true;
    }
    const bool taken = socket.error().code == Errc::kAlreadyExists;
    fail_start(taken ? ExitCode::kPortInUse : ExitCode::kBadConfig,
               std::move(socket).error().context("command service"));
    return false;
  };
  if (!add(listen_tcp(address, config_.command_port))) return false;
  if (!nvidia && !add(listen_local(short_directory_ + "/command.sock", 0666))) return false;
  const std::string& configured = config_.command_socket;
  if (!configured.empty() && !add(listen_local(configured, 0666))) return false;
  auto commands =
      CommandService::start(loop_, std::move(sockets), *this,
                            [this](int level, std::string_view text) { say(level, text); });
  if (!commands) {
    fail_start(ExitCode::kInternal, commands.error());
    return false;
  }
  commands_ = std::move(*commands);
  return true;
}

/// The GPUs first: the very first step of a new instance must not be an open.
void Daemon::restore_channels() {
  enqueue(BrokerEvent(FabricChanged{fabric_->gpus()}), "FabricChanged");
  fabric_->subscribe([this](const std::vector<fabric::Gpu>& gpus) {
    for (const fabric::Gpu& gpu : gpus) {
      log_.info("GPU state", {{"index", gpu.index},
                              {"uid", fmt::format("{:#x}", gpu.uid)},
                              {"partition", gpu.partition.to_string()},
                              {"attached", gpu.attached}});
    }
    enqueue(BrokerEvent(FabricChanged{gpus}), "FabricChanged");
  });
  if (config_.channel0) {
    if (auto opened = channels_->open(0, config_.channel0_mode, kAnyUser); opened) {
      enqueue(BrokerEvent(ChannelOpened{0, {}, kAnyUser}), "ChannelOpened");
    } else {
      log_.error(fmt::format("channel 0: {}", opened.error().to_string()));
    }
  }
  const auto grants = journal_->state().grants;
  for (const auto& [workload, grant] : grants) {
    if (auto opened = open_grant(grant); !opened) {
      log_.error(fmt::format("channel {} of '{}': {}", grant.channel, workload,
                             opened.error().to_string()));
    }
  }
}

}  // namespace imex::domain
