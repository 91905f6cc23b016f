/// The rules of sharing on one node, as a pure state machine: who may export, who may import what,
/// and what happens when a process, a daemon or a partition goes away.
///
/// No I/O, no clock, no thread: step(event, now) changes the state and returns effects, in order.
/// The daemon carries them out; the simulation drives the same code. Descriptors are tokens whose
/// owner is the caller: an event hands tokens in, the broker holds or releases each exactly once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <imex/handle.hpp>

#include "base/random.hpp"
#include "base/time.hpp"
#include "base/uuid.hpp"
#include "domain/frame.hpp"
#include "fabric/view.hpp"

namespace imex::domain {

/// A connection accepted by the daemon (client or link); never reused within a daemon's life.
using ConnectionId = std::uint64_t;
/// A descriptor held by the daemon; 0: none.
using FdToken = std::uint64_t;

struct ChannelLimits {
  std::uint32_t sessions_max = 1024;
  std::uint32_t exports_max = 65'536;
  std::uint32_t imports_max = 65'536;
  std::uint64_t export_bytes_max = UINT64_MAX;
};

struct BrokerConfig {
  Uuid domain_id;
  Uuid instance;  ///< of this daemon; continues over a resume
  Uuid boot_id;
  Secret key{};  ///< of handles and session tokens; never leaves the daemon's journal
  NodeId node = 0;
  Nanos lease = std::chrono::seconds(30);
  Nanos revoke_timeout = std::chrono::milliseconds(100);
  Nanos link_timeout = std::chrono::seconds(2);  ///< an import that waits for another daemon
  bool kill_silent_importers = true;
  ChannelLimits limits;
};

/// What the journal gives back to a daemon that resumes.
struct BrokerMemory {
  struct Session {
    SessionId id = 0;
    std::uint32_t channel = 0;
    std::uint32_t uid = 0;
    std::uint64_t gpu_uid = 0;
    FdToken pidfd =
        0;  ///< reopened by the daemon and checked for start time; 0: the process is gone
  };
  std::vector<Session> sessions;
  std::uint64_t next_id = 1;      ///< of the last JournalNextId; 1 if there was none
  std::vector<NodeId> importers;  ///< nodes whose last JournalImporter said `present`
};

// ---- events ----

struct ChannelOpened {  ///< granted (or channel 0 by configuration): sessions may be opened on it
  std::uint32_t channel = 0;
  std::vector<std::uint64_t> gpu_uids;  ///< that it may claim; empty: all of the node
  std::uint32_t uid = 0;                ///< user; kAnyUser: whoever can open the socket
};
inline constexpr std::uint32_t kAnyUser = 0xffff'ffffU;
struct ChannelClosed {
  std::uint32_t channel = 0;
};  ///< released: its sessions end
struct ClientConnected {
  ConnectionId connection = 0;
  std::uint32_t channel = 0;
  std::uint32_t uid = 0;
};
struct FrameArrived {
  ConnectionId connection = 0;
  Frame frame;
  std::vector<FdToken> fds;
};
/// Undecodable bytes, or end-of-file, or a send that failed.
struct ConnectionClosed {
  ConnectionId connection = 0;
};
struct ProcessExited {
  SessionId session = 0;
};  ///< its pidfd became readable
struct LinkConnected {  ///< after both LinkHello were checked; imports to that node may flow
  ConnectionId connection = 0;
  NodeId node = kNoNode;
  Uuid instance;
};
/// From membership: the daemon instance of `node` is gone for good (new instance answered, lease or
/// grace time over, slot removed from the list, orderly shutdown).
struct PeerInstanceEnded {
  NodeId node = kNoNode;
  Uuid instance;
  Errc reason = Errc::kPeerLost;
};
/// From membership: the machine does not answer (heartbeat time-out). Scopes that span it abort,
/// mappings stay.
struct PeerSilent {
  NodeId node = kNoNode;
  Uuid instance;
};
/// From membership: what a node that is reachable looks like (to refuse imports with the true
/// cause).
struct PeerKnown {
  NodeId node = kNoNode;
  Uuid instance;
  Uuid boot_id;
  std::string address;
};
struct FabricChanged {
  std::vector<fabric::Gpu> gpus;
};
struct ShutdownRequested {};
struct TimePassed {};  ///< at or after next_deadline()

using BrokerEvent =
    std::variant<ChannelOpened, ChannelClosed, ClientConnected, FrameArrived, ConnectionClosed,
                 ProcessExited, LinkConnected, PeerInstanceEnded, PeerSilent, PeerKnown,
                 FabricChanged, ShutdownRequested, TimePassed>;

// ---- effects ----

/// `fds` are duplicated by the kernel in sending; the broker keeps its tokens unless it releases
/// them.
struct SendFrame {
  ConnectionId connection = 0;
  Frame frame;
  std::vector<FdToken> fds;
};
struct CloseConnection {
  ConnectionId connection = 0;
};
struct ReleaseFd {
  FdToken fd = 0;
};
/// Map the abort page once, for SetAbort, and watch the pidfd. Comes again with new descriptors
/// when the session resumes (forget the old ones). abort_page 0: a session of the journal that has
/// not come back yet; only its pidfd is watched. Such sessions are adopted by the first step of a
/// Broker.
struct AdoptSession {
  SessionId session = 0;
  FdToken abort_page = 0;
  FdToken pidfd = 0;
};
struct DropSession {
  SessionId session = 0;
};  ///< unmap its abort page, stop watching its pidfd
/// Write the abort cell (first value stays) and wake sleepers on it.
struct SetAbort {
  SessionId session = 0;
  std::uint32_t scope = 0;
  Errc code = Errc::kPeerLost;
  std::uint32_t rank = 0;
};
/// Kill a silent importer; answer with ProcessExited when it is gone. Failure is only logged.
struct KillProcess {
  SessionId session = 0;
};
/// Append to the journal before the effects that follow. If that fails, call
/// Broker::set_journal_broken(true) before the next step and carry out the rest: a session that
/// could not be written works, but cannot be resumed; ids of a block that could not be written are
/// never used.
struct JournalSession {
  BrokerMemory::Session session;
};
struct JournalSessionEnded {
  SessionId session = 0;
};
/// All id numbers below may be in use. Written a block ahead: the step that emits it does not use
/// it, so the very first step of a new instance (fabric, channels) must not be an Open.
struct JournalNextId {
  std::uint64_t next_id = 0;
};
/// Importers of this node's memory, for quorum RECOVERY and for the next life of the daemon.
struct JournalImporter {
  NodeId node = kNoNode;
  bool present = false;
};
struct LogLine {
  int level = 0;
  std::string text;
};  ///< 2 error, 3 warning, 4 info, 5 debug

using BrokerEffect = std::variant<SendFrame, CloseConnection, ReleaseFd, AdoptSession, DropSession,
                                  SetAbort, KillProcess, JournalSession, JournalSessionEnded,
                                  JournalNextId, JournalImporter, LogLine>;

// ---- what can be seen from outside ----

struct ChannelUsage {
  std::uint32_t channel = 0;
  std::uint32_t sessions = 0, exports = 0, imports = 0;
  std::uint64_t export_bytes = 0;
  std::uint64_t refused = 0;
};
struct BrokerStats {
  std::uint64_t imports_done = 0;
  std::map<Errc, std::uint64_t> imports_failed;
  std::uint64_t exports_done = 0;
  std::uint64_t revocations = 0, importers_killed = 0, importers_silent = 0;
  std::uint64_t sessions_lost = 0, sessions_resumed = 0;
};

/// How much the broker holds, for metrics and for the bound on its memory.
struct BrokerSize {
  std::size_t channels = 0, connections = 0, sessions = 0, exports = 0, imports = 0;
  std::size_t remote_importers = 0;  ///< imports of this node's memory by other nodes
  std::size_t pending_imports = 0;   ///< requests that wait for another daemon or a resume
  std::size_t owed = 0;              ///< notices for links that are down
  std::size_t peers = 0, fds = 0;
};

class Broker {
 public:
  /// `memory`: of the journal when the daemon resumes its instance; such sessions have until
  /// now + lease to come back.
  Broker(BrokerConfig config, Random& random, Time now,
         std::optional<BrokerMemory> memory = std::nullopt);
  ~Broker();
  Broker(Broker&&) noexcept;

  [[nodiscard]] std::vector<BrokerEffect> step(BrokerEvent event, Time now);
  /// When TimePassed is due; kNever if nothing waits.
  [[nodiscard]] Time next_deadline() const noexcept;

  /// While true, new sessions are refused with kResourceExhausted, and exports and imports once the
  /// written ids are used up (journal on a full disk); what exists goes on. Set by the daemon;
  /// false again once the whole state was written anew.
  void set_journal_broken(bool broken) noexcept;

  [[nodiscard]] std::vector<ChannelUsage> usage() const;
  [[nodiscard]] const BrokerStats& stats() const noexcept;
  [[nodiscard]] BrokerSize size() const noexcept;
  /// Nodes that import from this one now, or did in the life before and have not yet said what they
  /// still import.
  [[nodiscard]] std::vector<NodeId> importer_nodes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace imex::domain
