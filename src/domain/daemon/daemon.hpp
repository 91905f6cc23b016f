/// One domain's daemon: composes the state machines and carries out their effects.
///
/// All on the loop. Events go into one queue; each step's effects are carried out in order before
/// the next event is taken, so that what a machine wants journalled is journalled before what
/// follows is sent, and no callback finds a machine in the middle of a step.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "channel_server.hpp"
#include "command_service.hpp"
#include "control_service.hpp"
#include "domain/broker.hpp"
#include "domain/channel_registry.hpp"
#include "domain/config.hpp"
#include "domain/membership.hpp"
#include "fabric/view.hpp"
#include "identity.hpp"
#include "journal_file.hpp"
#include "link_server.hpp"
#include "log/log.hpp"
#include "net/file_watch.hpp"
#include "net/http_server.hpp"
#include "os/random.hpp"
#include "peer_service.hpp"
#include "session_watch.hpp"
#include "statistics.hpp"

namespace imex::domain {

/// The peer servers of the process, by address and port: domains that listen on the same one share
/// it.
class PeerServers {
 public:
  PeerServers(net::EventLoop& loop, LogSink log) : loop_(loop), log_(std::move(log)) {}
  /// Errors: those of PeerServer::start().
  [[nodiscard]] Result<std::shared_ptr<PeerServer>> get(const std::string& address,
                                                        std::uint16_t port,
                                                        const std::optional<net::TlsIdentity>& tls);

 private:
  net::EventLoop& loop_;
  LogSink log_;
  std::map<std::string, std::weak_ptr<PeerServer>> servers_;
};

class Daemon final : ChannelClients,
                     LinkEvents,
                     PeerAcceptor,
                     PeerDials,
                     CommandSource,
                     ControlSource {
 public:
  struct Events {
    std::function<void()> ready;
    /// Cannot go on (or not even start).
    std::function<void(int exit_code, const Error& error)> failed;
  };
  Daemon(net::EventLoop& loop, PeerServers& servers, log::Logger& log, log::Logger& statistics,
         LoadedConfig config, ListeningSockets& inherited, Events events);
  ~Daemon() override;

  /// Goes on by itself; names that need a name server are waited for, bounded.
  void start();
  /// SIGUSR1: new credentials, new connections, own id looked up anew.
  void reconnect();
  /// SIGHUP of imexd: credentials and node list.
  void reload();
  /// Tells peers and clients; then flushed() becomes true, at the latest when the caller gives up.
  void begin_stop();
  [[nodiscard]] bool flushed() const;
  /// Before close() in an upgrade: the channels' listeners, whose files then stay.
  [[nodiscard]] ListeningSockets hand_over();
  /// After begin_stop() or instead of it (upgrade): closes everything; the journal stays as it is.
  void close();
  [[nodiscard]] bool is_ready() const;
  [[nodiscard]] const DaemonConfig& config() const noexcept { return config_; }
  [[nodiscard]] const std::string& run_directory() const noexcept { return run_directory_; }

 private:
  using AnyEvent = std::variant<MembershipEvent, BrokerEvent, RegistryEvent>;
  struct Queued {
    AnyEvent event;
    std::string_view name;  ///< for statistics; static storage
    Time since;
  };
  /// A stream whose hello was accepted: who speaks there.
  struct Speaker {
    NodeId node = kNoNode;
    Uuid instance;
  };
  struct Route {
    std::uint64_t attempt = 0, stream = 0;  ///< as in SendHeartbeat
  };

  // Start (daemon_start.cpp).
  void fail_start(int exit_code, const Error& error);
  void give_up(int exit_code, const Error& error);
  void start_on(OwnSlot own);
  [[nodiscard]] bool prepare_run_directory(const OwnSlot& own);
  [[nodiscard]] bool open_machines(const OwnSlot& own);
  [[nodiscard]] bool open_services(const OwnSlot& own);
  [[nodiscard]] bool open_commands();
  [[nodiscard]] BrokerMemory recall_sessions();
  [[nodiscard]] Result<std::unique_ptr<fabric::FabricView>> open_fabric();
  void restore_channels();
  void log_configuration() const;

  // Read at the start and again (daemon_changes.cpp).
  [[nodiscard]] Result<void> load_security();
  [[nodiscard]] Result<NodeList> load_node_list() const;
  void watch_files();
  void list_changed();
  void hosts_changed();
  void look_up_identity();

  // Events and effects (daemon_events.cpp).
  void enqueue(AnyEvent event, std::string_view name);
  void pump();
  void handle(Queued& queued);
  void rearm();
  void run_timers();
  void every_second();
  void watch_log();
  template <class Effects>
  void carry_out(Effects effects);
  void journal(const JournalRecord& record);
  void journal_broke(const Error& error);
  void note_peers();
  void say(int level, std::string_view text) const;

  void on(const Resolve& e);
  void on(const Dial& e);
  void on(const HangUp& e);
  void on(const AnswerHello& e);
  void on(const DropInbound& e);
  void on(const SendHeartbeat& e);
  void on(const SendGoodbye& e);
  void on(const PeerJoined& e);
  void on(const PeerEnded& e);
  void on(const PeerWentSilent& e);
  void on(const StatusChanged& e);
  void on(const IdentityLost& e);
  void on(const MembershipLog& e);
  void on(const SendFrame& e);
  void on(const CloseConnection& e);
  void on(const ReleaseFd& e);
  void on(const AdoptSession& e);
  void on(const DropSession& e);
  void on(const SetAbort& e);
  void on(const KillProcess& e);
  void on(const JournalSession& e);
  void on(const JournalSessionEnded& e);
  void on(const JournalNextId& e);
  void on(const JournalImporter& e);
  void on(const LogLine& e);
  void on(const SendRegistryMessage& e);
  void on(const GrantDone& e);
  void on(const JournalAssignment& e);

  // Ways in (daemon_peers.cpp, daemon_events.cpp).
  void on_client(ConnectionId connection, std::uint32_t channel, std::uint32_t uid) override;
  void on_client_frame(ConnectionId connection, Frame frame,
                       std::vector<os::UniqueFd> fds) override;
  void on_client_closed(ConnectionId connection) override;
  void on_link(ConnectionId connection, NodeId node, const Uuid& instance) override;
  void on_link_frame(ConnectionId connection, NodeId node, Frame frame,
                     std::vector<os::UniqueFd> fds) override;
  void on_link_closed(ConnectionId connection) override;
  [[nodiscard]] Uuid instance_of(NodeId node) const override;
  [[nodiscard]] int affinity(const Hello& hello) const override;
  void on_hello(std::uint64_t stream, Hello hello) override;
  void on_message(std::uint64_t stream, PeerPayload payload) override;
  void on_closed(std::uint64_t stream) override;
  void on_answer(std::uint64_t attempt, PeerHello answer) override;
  void on_dial_message(std::uint64_t attempt, PeerPayload payload) override;
  void on_dial_closed(std::uint64_t attempt, const std::string& why, bool refused) override;
  void take(const Speaker& from, PeerPayload payload);
  void send_on(NodeId node, const Route& route, const PeerPayload& payload);
  void forget_route(NodeId node, const Route& route);

  // Grants (daemon_control.cpp).
  void grant(GrantAsked asked, std::function<void(Result<GrantGiven>)> done) override;
  Result<void> release(const std::string& workload) override;
  [[nodiscard]] std::vector<GrantGiven> grants() const override;
  [[nodiscard]] Result<GrantRecord> check_grant(const GrantAsked& asked) const;
  [[nodiscard]] Result<GrantGiven> open_grant(GrantRecord grant);

  // What can be seen (daemon_report.cpp).
  void fill_status(command::v1::Status& status) const override;
  void fill_health(command::v1::Health& health) const override;
  [[nodiscard]] std::vector<std::string> problems() const;
  [[nodiscard]] net::HttpResponse answer_http(std::string_view path) const;

  net::EventLoop& loop_;
  PeerServers& servers_;
  log::Logger& log_;
  log::Logger& statistics_log_;
  LoadedConfig loaded_;
  ListeningSockets& inherited_;  ///< of all domains of the process
  DaemonConfig& config_ = loaded_.config;
  Events events_;
  os::SystemRandom random_;

  // Known from the start on.
  net::Resolver resolver_;
  OwnSlotFinder finder_;
  NodeList list_;
  OwnSlot own_;
  std::optional<net::TlsIdentity> server_tls_, client_tls_;
  Time credentials_loaded_{0};
  std::uint64_t log_lines_lost_ = 0;  ///< as of the last second
  bool log_broken_ = false;
  std::string last_error_;
  std::string run_directory_;    ///< as configured
  std::string short_directory_;  ///< the same through a descriptor when it is too long for sockets
  os::UniqueFd directory_fd_, lock_;
  Uuid boot_id_, domain_id_, instance_;

  // Set by start_on(), in this order, and gone in the reverse one.
  std::optional<JournalFile> journal_;
  FdTable fds_;
  std::unique_ptr<fabric::FabricView> fabric_;
  std::unique_ptr<FrameSockets> sockets_;
  std::unique_ptr<ChannelServer> channels_;
  std::unique_ptr<LinkServer> links_;
  std::unique_ptr<SessionWatch> sessions_;
  std::optional<Membership> membership_;
  std::optional<Broker> broker_;
  std::optional<ChannelRegistry> registry_;
  std::unique_ptr<PeerDialer> dialer_;
  std::shared_ptr<PeerServer> server_;
  std::unique_ptr<CommandService> commands_;
  std::unique_ptr<ControlService> control_;
  std::unique_ptr<net::HttpServer> metrics_;
  std::unique_ptr<net::FileWatch> list_watch_, hosts_watch_;

  std::deque<Queued> queue_;
  bool pumping_ = false;
  bool importing_ = false;  ///< the step under way is one of an import
  net::Timer machines_timer_, second_timer_;
  Time machines_due_ = kNever;
  Time statistics_due_{0};
  Statistics statistics_;

  std::map<std::uint64_t, NodeId> dials_;           ///< attempt -> node dialled
  std::map<std::uint64_t, Speaker> dial_speakers_;  ///< attempt -> who answered
  std::map<std::uint64_t, Speaker> hellos_;         ///< inbound stream -> who said hello
  std::set<std::uint64_t> accepted_;                ///< inbound streams whose hello was accepted
  std::map<NodeId, Route> routes_;                  ///< where a message to a node goes
  RegistryPeers registry_peers_;
  struct WaitingGrant {
    GrantRecord grant;
    std::function<void(Result<GrantGiven>)> done;
  };
  std::map<std::uint64_t, WaitingGrant> waiting_grants_;
  std::uint64_t last_grant_ = 0;
  bool stopping_ = false, closed_ = false, failed_ = false;
};

}  // namespace imex::domain
