/// What the broker remembers, private to broker*.cpp. The rules are spread over files by subject:
/// broker.cpp (events, timers, ids), broker_sessions.cpp, broker_exports.cpp, broker_imports.cpp,
/// broker_links.cpp (other daemons), broker_resume.cpp (after a restart), broker_revoke.cpp.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "domain/broker.hpp"
#include "seal.hpp"

namespace imex::domain {

/// Bounds that no configuration raises.
struct BrokerBounds {
  static constexpr std::size_t kPendingPerSession = 64;  ///< imports that wait for somebody
  static constexpr std::size_t kPendingTotal = 4096;
  static constexpr std::size_t kConnectionsIdle = 256;  ///< per channel, not opened yet
  static constexpr std::size_t kOwedPerPeer = 65'536;
  static constexpr std::size_t kLinksPerPeer = 4;
  static constexpr std::size_t kPeers = 65'535;
  static constexpr std::uint64_t kIdBlock = 1024;
  static constexpr std::uint64_t kIdReserve = 512;  ///< fewer left: the next block is journalled
  static constexpr Nanos kOpenTimeout = std::chrono::seconds(10);
};

struct Timer {
  enum class Kind : std::uint8_t { kOpening, kPending, kImport, kRemote, kConfirm, kResume };
  Time at = kNever;
  Kind kind = Kind::kOpening;
  std::uint64_t id = 0;  ///< connection, pending request or import
  NodeId node = 0;       ///< kRemote, kConfirm
  friend auto operator<=>(const Timer&, const Timer&) = default;
};

struct Connection {
  std::uint32_t channel = 0;
  std::uint32_t uid = 0;
  SessionId session = 0;  ///< 0: not opened yet
  bool events = false;    ///< second connection of the session
  NodeId peer = kNoNode;  ///< set: a link, not a client
  Time open_by = kNever;
};

struct Grant {
  std::uint32_t uid = kAnyUser;
  std::set<std::uint64_t> gpu_uids;  ///< empty: all
  friend bool operator==(const Grant&, const Grant&) = default;
};

struct Channel {
  enum class Phase : std::uint8_t { kClosed, kOpen, kClosing };
  Phase phase = Phase::kClosed;
  Grant grant;
  std::optional<Grant> next;  ///< granted anew while the former workload still leaves
  ChannelUsage usage;
  std::set<SessionId> sessions;
  std::size_t idle_connections = 0;
  std::uint32_t remote_importers = 0;
  std::uint32_t unsettled = 0;  ///< sessions, see Session::unsettled
};

struct Session {
  BrokerMemory::Session who;
  FdToken abort_page = 0;
  ConnectionId main = 0, events = 0;
  bool awaited = false;  ///< of the journal, not back yet
  bool resumed = false;  ///< may register former exports and imports again
  /// Of the life before, and may have mapped what it has not registered again: until it says that
  /// this was all, is gone, or the time for coming back is over.
  bool unsettled = false;
  bool kill_sent = false;
  std::uint32_t pending = 0;
  std::set<ExportId> exports;
  std::set<ImportId> imports;
};

struct RemoteKey {
  NodeId node = kNoNode;
  ImportId import_id = 0;
  friend auto operator<=>(const RemoteKey&, const RemoteKey&) = default;
};

enum class RevokeOutcome : std::uint32_t { kAcknowledged = 0, kKilled = 1, kSilent = 2 };

struct ExportEntry {
  enum class Phase : std::uint8_t { kLive, kRevoking, kQuiescent };
  SessionId session = 0;
  ExportRequest request;
  Phase phase = Phase::kLive;
  FdToken data = 0, control = 0;
  std::set<ImportId> importers;
  std::set<RemoteKey> remote_importers;
  std::uint32_t outcomes[3] = {0, 0, 0};  ///< of the revocation; by RevokeOutcome
};

/// An import by a session of this node.
struct ImportEntry {
  enum class Phase : std::uint8_t {
    kLive,
    kUnconfirmed,  ///< registered again; its exporter has not done so yet
    kRevoking,     ///< told to unmap, not acknowledged
    kOver,         ///< export ended or revoked; counted until the client unimports
  };
  Phase phase = Phase::kLive;
  SessionId session = 0;
  HandleFields handle;
  Handle bytes;
  std::uint32_t rank = 0, scope = 0;
  std::uint32_t exporter_rank = kNoRank;
  fabric::Partition exporter_partition;  ///< exporter on another node: as it last said
  bool kill_sent = false;
  Time deadline = kNever;
};

/// An import of this node's memory by a session of another node.
struct RemoteImporter {
  Uuid instance;
  ExportId export_id = 0;
  std::uint32_t channel = 0;
  std::uint32_t generation = 0;
  std::uint32_t rank = 0;
  fabric::Partition partition;
  bool confirmed = true;  ///< false after a reconnect until registered again
  Time deadline = kNever;
};

/// Imports whose export has not been registered again yet.
struct Waiting {
  std::set<ImportId> imports;
  std::set<RemoteKey> remote;
};

/// An import request that cannot be answered yet.
struct PendingImport {
  ConnectionId connection = 0;
  std::uint32_t request_id = 0;
  SessionId session = 0;  ///< 0: asked by another daemon
  ImportRequest request;
  HandleFields handle;
  ImportId import_id = 0;          ///< exporter on another node: what it will be known by there
  std::optional<LinkImport> link;  ///< asked by another daemon
  NodeId node = kNoNode;           ///< of that daemon, or of the exporter
  bool sent = false;
  Time deadline = kNever;
};

struct Peer {
  Uuid instance;  ///< nil: not known
  Uuid boot_id;
  std::string address;
  std::vector<ConnectionId> links;               ///< the last one is used
  std::map<ImportId, Message> owed_as_exporter;  ///< LinkExportEnded
  std::map<ImportId, Message>
      owed_as_importer;         ///< LinkImportEnded, LinkImportMoved, LinkRevokeAck
  std::uint32_t importers = 0;  ///< remote importers on that node
  Time confirm_by = kNever;
};

/// Descriptors that came with an event: what is not taken is released when the step ends.
class FdBag {
 public:
  FdBag(std::vector<BrokerEffect>& out, std::vector<FdToken> fds)
      : out_(out), fds_(std::move(fds)) {}
  FdBag(const FdBag&) = delete;
  FdBag& operator=(const FdBag&) = delete;
  ~FdBag() {
    for (const FdToken fd : fds_) {
      if (fd != 0) out_.emplace_back(ReleaseFd{fd});
    }
  }
  /// Exactly two, both valid.
  [[nodiscard]] bool is_pair() const { return fds_.size() == 2 && fds_[0] != 0 && fds_[1] != 0; }
  [[nodiscard]] FdToken take(std::size_t index) { return std::exchange(fds_[index], 0); }
  [[nodiscard]] const std::vector<FdToken>& peek() const { return fds_; }

 private:
  std::vector<BrokerEffect>& out_;
  std::vector<FdToken> fds_;
};

enum class SessionEnd : std::uint8_t { kLost, kOrderly };

struct Broker::State {
  State(BrokerConfig config_in, Random& random, Time start, std::optional<BrokerMemory> memory);

  BrokerConfig config;
  Seal sealer;
  Time now;
  std::vector<BrokerEffect> out;
  BrokerStats stats;
  bool journal_broken = false;
  bool shut_down = false;

  std::map<std::uint64_t, fabric::Gpu> gpus;  ///< by uid
  std::map<std::uint32_t, Channel> channels;
  std::map<ConnectionId, Connection> connections;
  std::map<SessionId, Session> sessions;
  std::map<ExportId, ExportEntry> exports;
  std::map<ImportId, ImportEntry> imports;
  std::map<RemoteKey, RemoteImporter> remote_importers;
  std::map<ExportId, Waiting> waiting;
  std::map<std::uint32_t, PendingImport> pending;  ///< key is the request id on the link
  std::map<NodeId, Peer> peers;
  std::set<Timer> timers;
  std::uint32_t next_pending;
  /// Released channels to look at when the step is done (ending a session inside the end of another
  /// would pull the ground from under the outer one).
  std::set<std::uint32_t> closing_due;

  // ids: numbers below `ids_written` may be given out; `ids_asked` is on its way to the journal
  std::uint64_t id_next = 1, ids_written = 1, ids_asked = 1;
  std::uint64_t ids_of_memory = 1;  ///< numbers below were given out before this life began
  Time resume_until{};              ///< former sessions may come back until then
  bool resume_open = false;
  std::size_t unsettled_sessions = 0;
  std::set<NodeId> unsettled_nodes;  ///< imported in the life before; as Session::unsettled
  /// Ended in order since the life before, while importers may still come that have not heard of
  /// it: exports, and all exports of these sessions. Bounded by the ids of the life before.
  std::set<ExportId> ended_in_order;
  std::set<SessionId> left_in_order;
  bool awaited_announced = false;

  // broker.cpp
  void begin_step(Time at);
  void finish_step();
  void on(ChannelOpened& e);
  void on(ChannelClosed& e);
  void on(ClientConnected& e);
  void on(FrameArrived& e);
  void on(ConnectionClosed& e);
  void on(ProcessExited& e);
  void on(LinkConnected& e);
  void on(PeerInstanceEnded& e);
  void on(PeerSilent& e);
  void on(PeerKnown& e);
  void on(FabricChanged& e);
  void on(ShutdownRequested& e);
  void on(TimePassed& e);
  void on_timer(const Timer& timer);
  void arm(Time at, Timer::Kind kind, std::uint64_t id, NodeId node = 0);
  void disarm(Time at, Timer::Kind kind, std::uint64_t id, NodeId node = 0);
  [[nodiscard]] std::optional<std::uint32_t> next_number();
  [[nodiscard]] bool issued_before(std::uint64_t id) const;
  void emit(BrokerEffect effect) { out.push_back(std::move(effect)); }
  void log(int level, std::string text) { emit(LogLine{level, std::move(text)}); }
  void release(FdToken& fd);
  void send(ConnectionId connection, std::uint32_t request_id, Message message,
            std::vector<FdToken> fds = {});
  void refuse(ConnectionId connection, std::uint32_t request_id, const Error& error);
  void trip(SessionId session, std::uint32_t scope, Errc code, std::uint32_t rank);
  void tell(SessionId session, const Event& event);
  [[nodiscard]] const fabric::Gpu* gpu(std::uint64_t uid) const;

  // broker_sessions.cpp
  void client_frame(ConnectionId id, FrameArrived& e, FdBag& fds);
  void session_frame(ConnectionId id, Session& session, FrameArrived& e, FdBag& fds);
  void protocol_error(ConnectionId id, std::uint32_t request_id, std::string text);
  [[nodiscard]] Result<void> open(ConnectionId id, std::uint32_t request_id, const Open& m,
                                  FdBag& fds);
  [[nodiscard]] Result<void> open_new(ConnectionId id, std::uint32_t request_id, const Open& m,
                                      FdBag& fds);
  [[nodiscard]] Result<void> resume(ConnectionId id, std::uint32_t request_id, const Open& m,
                                    FdBag& fds);
  [[nodiscard]] Result<void> attach_events(ConnectionId id, std::uint32_t request_id,
                                           const AttachEvents& m);
  [[nodiscard]] Result<SessionId> prove(const Connection& connection, SessionId session,
                                        const Secret& token);
  [[nodiscard]] Result<const fabric::Gpu*> choose_gpu(const Channel& channel, const Open& m) const;
  void answer_open(const Session& session, std::uint32_t request_id);
  void mark_opened(ConnectionId id, SessionId session, bool events);
  void close_connection(ConnectionId id);
  void forget_connection(ConnectionId id);
  void end_session(SessionId id, SessionEnd how);
  void close_channel(std::uint32_t channel);
  void finish_closing(std::uint32_t channel);

  // broker_exports.cpp
  [[nodiscard]] Result<void> export_memory(SessionId session, ConnectionId id,
                                           std::uint32_t request_id, const ExportRequest& m,
                                           FdBag& fds);
  [[nodiscard]] Result<void> check_export(const Session& session, const ExportRequest& m,
                                          std::uint64_t former_bytes, bool anew) const;
  [[nodiscard]] Result<void> check_again(const Session& session, const ExportRequest& m) const;
  [[nodiscard]] Handle handle_of(ExportId id, const ExportEntry& entry) const;
  void export_registered(ExportId id);
  void end_export(ExportId id, Errc reason);
  void trip_importers(const ExportEntry& entry, Errc code, std::uint32_t rank);

  // broker_imports.cpp
  void import_memory(Session& session, ConnectionId id, std::uint32_t request_id,
                     const ImportRequest& m);
  [[nodiscard]] Result<void> try_import(Session& session, ConnectionId id, std::uint32_t request_id,
                                        const ImportRequest& m);
  [[nodiscard]] Result<void> import_here(Session& session, ConnectionId id,
                                         std::uint32_t request_id, const ImportRequest& m,
                                         const HandleFields& handle);
  [[nodiscard]] Result<void> import_there(Session& session, ConnectionId id,
                                          std::uint32_t request_id, const ImportRequest& m,
                                          const HandleFields& handle);
  [[nodiscard]] Result<void> import_again(Session& session, ConnectionId id,
                                          std::uint32_t request_id, const ImportRequest& m,
                                          const HandleFields& handle);
  [[nodiscard]] Result<void> check_handle_of_own(const Handle& bytes, const HandleFields& handle,
                                                 std::uint32_t channel) const;
  /// nullptr: the exporter may still come back and register it.
  [[nodiscard]] Result<ExportEntry*> find_export(const HandleFields& handle);
  [[nodiscard]] Result<void> check_partitions(std::uint64_t exporter_gpu,
                                              const fabric::Partition& importer,
                                              bool importer_attached) const;
  [[nodiscard]] Result<void> check_import_limits(const Session& session) const;
  [[nodiscard]] bool may_come_back(ExportId id) const;
  [[nodiscard]] Result<std::uint32_t> park(PendingImport request);
  void unpark(std::uint32_t key);
  void fail_pending(std::uint32_t key, const Error& error);
  void retry_pending_for(ExportId id);
  ImportEntry& add_import(ImportId id, Session& session, const ImportRequest& m,
                          const HandleFields& handle);
  void answer_import(ConnectionId id, std::uint32_t request_id, ImportId import_id,
                     const ExportEntry& entry, bool with_fds);
  void confirm_import(ImportId id, ExportId export_id, ExportEntry& entry);
  void lose_import(ImportId id, Errc reason);
  void unimport(ImportId id, bool lost);
  void importer_lost(ExportId id, const ExportEntry& entry, std::uint32_t rank);
  void lose_waiting(ExportId id, Errc reason);

  // broker_links.cpp
  void link_frame(ConnectionId id, NodeId node, FrameArrived& e, FdBag& fds);
  void link_import(ConnectionId id, std::uint32_t request_id, NodeId node, const LinkImport& m);
  [[nodiscard]] Result<void> try_link_import(ConnectionId id, std::uint32_t request_id, NodeId node,
                                             const LinkImport& m);
  void refuse_link(NodeId node, std::uint32_t request_id, ImportId import_id, const Error& error);
  void link_import_reply(std::uint32_t request_id, NodeId node, const LinkImportReply& m,
                         FdBag& fds);
  void finish_link_import(std::uint32_t key, const LinkImportReply& m, FdBag& fds);
  void link_registered(ImportId id, const LinkImportReply& m);
  void link_import_ended(NodeId node, const LinkImportEnded& m);
  void link_import_moved(NodeId node, const LinkImportMoved& m);
  void link_export_ended(NodeId node, const LinkExportEnded& m);
  void link_revoke_ack(NodeId node, const LinkRevokeAck& m);
  void send_link_import(std::uint32_t key);
  void register_over_link(ImportId id);
  [[nodiscard]] bool link_up(NodeId node) const;
  void send_to_peer(NodeId node, std::uint32_t request_id, Message message,
                    std::vector<FdToken> fds = {});
  void tell_exporter(NodeId node, const Uuid& instance, ImportId id, Message message);
  void tell_importer(NodeId node, ImportId id, Message message);
  void drop_remote(const RemoteKey& key);
  void lose_remote(const RemoteKey& key);
  void add_remote(const RemoteKey& key, RemoteImporter importer);
  void end_peer_instance(NodeId node, const Uuid& instance, Errc reason);
  void end_unconfirmed(NodeId node);

  // broker_resume.cpp
  void remember(const BrokerMemory& memory);
  void end_resume_window();
  [[nodiscard]] bool end_former_export(const Session& session, ExportId id);
  void note_departure(const Session& session);
  [[nodiscard]] bool has_ended_in_order(ExportId id) const;
  [[nodiscard]] bool tell_of_former_end(const RemoteKey& importer, ExportId id);
  void settle(Session& session);
  void settle_node(NodeId node);
  void say_settled(NodeId node);
  void register_imports_over_link(NodeId node, const Uuid& instance);
  [[nodiscard]] bool importers_unknown(const ExportEntry& entry) const;

  // broker_revoke.cpp
  [[nodiscard]] bool still_shared(const ExportEntry& entry) const;
  void trip_revoked(const ExportEntry& entry);
  void start_revocation(ExportId id);
  void expect_remote_ack(const RemoteKey& key);
  void revoke_import(ImportId id);
  void revoke_moved_imports();
  void import_deadline(ImportId id);
  void finish_revoked(ImportId id, RevokeOutcome outcome);
  void count_outcome(ExportId id, RevokeOutcome outcome);
  void check_quiescent(ExportId id);
  void check_all_quiescent();
  [[nodiscard]] bool kill(SessionId session);
};

}  // namespace imex::domain
