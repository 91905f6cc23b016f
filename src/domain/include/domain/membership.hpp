/// Who is in the domain and who can be reached, as a pure state machine.
///
/// Every node dials every other; the state of the pair (this node -> peer) is kept here and
/// reported in this node's row of the connectivity matrix. No I/O, no clock: step(event, now)
/// returns effects. Rules: imex-service sections 3, 5, 7, 8, 18.
///
/// What the driver of the machine owes it:
/// - each Resolve is answered by SlotResolved, each Dial by HelloAnswered or DialFailed, each
///   HelloReceived stream ends in InboundClosed (a missing answer is covered by dial_timeout);
/// - a StreamLost or InboundClosed that follows HangUp or DropInbound may be sent or left out;
/// - Tick at or after next_deadline(). Late or repeated events are harmless.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/random.hpp"
#include "base/time.hpp"
#include "base/uuid.hpp"
#include "domain/frame.hpp"
#include "domain/node_list.hpp"

namespace imex::domain {

/// Numbers are DCGM's (imex-service section 3).
enum class DaemonStatus : std::uint8_t {
  kInitializing = 0,
  kStartingAuthServer = 1,
  kWaitingForPeers = 2,
  kWaitingForRecovery = 3,
  kInitGpu = 4,
  kReady = 5,
  kShuttingDown = 6,
  kUnavailable = 7,
};
[[nodiscard]] std::string_view status_word(DaemonStatus status) noexcept;  ///< "READY"

enum class PairState : std::uint8_t {
  kInvalid = 0,          ///< I    the reporting node could not be asked
  kNeverConnected = 1,   ///< N
  kRecovering = 2,       ///< R    lost, clean-up not triggered
  kDisconnected = 3,     ///< D    lost, cleaned up
  kAuthenticating = 4,   ///< A
  kVersionMismatch = 5,  ///< !V!
  kMapMismatch = 6,      ///< !M!
  kConnected = 7,        ///< C
};
[[nodiscard]] std::string_view pair_code(PairState state) noexcept;  ///< "C", "!M!"
[[nodiscard]] std::string_view pair_word(PairState state) noexcept;  ///< "CONNECTED"

enum class Quorum : std::uint8_t { kNone, kRecovery, kFull };

inline constexpr std::uint32_t kProtocolMin = 1, kProtocolMax = 1;

struct MembershipConfig {
  /// Configured identity of the domain. Nil: none configured, so that the node lists alone decide
  /// who belongs together (a difference is then a map mismatch, and a list may grow without a new
  /// id).
  Uuid domain_id;
  Uuid instance;
  Uuid boot_id;
  /// What this daemon speaks. Another range than the default is for tests of rolling upgrades.
  std::uint32_t protocol_min = kProtocolMin, protocol_max = kProtocolMax;
  std::string version;    ///< shown to people: "0.1.0"
  std::string link_path;  ///< Unix socket for daemons of the same boot id
  Quorum quorum = Quorum::kRecovery;
  ListRule list_rule = ListRule::kPrefix;
  Nanos dial_backoff_min = std::chrono::milliseconds(100);
  Nanos dial_backoff_max = std::chrono::seconds(3);
  Nanos dial_timeout = std::chrono::seconds(5);  ///< from Resolve or Dial to its answer
  /// How long a slot without address rests before its name is asked for again (at most; the first
  /// questions follow the dial back-off). A peer that dials us or ReconnectRequested ends the rest.
  Nanos unassigned_rest = std::chrono::seconds(15);
  /// ReconnectRequested runs at once, then at most once per window; the last of a series is never
  /// lost. nvidia-imex: 5 s.
  Nanos reconnect_window = std::chrono::milliseconds(500);
  Nanos heartbeat_interval = std::chrono::seconds(1);
  Nanos heartbeat_timeout = std::chrono::seconds(3);
  /// A daemon that is gone while its machine answers is ended after this.
  Nanos lease = std::chrono::seconds(30);
  /// The lease also ends a machine that is silent (imexd). False: only grace or a new instance do.
  bool lease_when_silent = true;
  Nanos grace = Nanos(-1);  ///< IMEX_NODE_DISCONNECTED_GRACE_TIME; negative: never on mere loss
  Nanos recovery_wait_max = std::chrono::seconds(0);  ///< 0: wait for former importers for ever
  std::set<NodeId> former_importers;  ///< of the journal; with quorum RECOVERY they are waited for
};

/// What both sides say of themselves when a stream opens.
struct Hello {
  std::uint32_t protocol_min = kProtocolMin, protocol_max = kProtocolMax;
  std::string version;
  Uuid domain_id, instance, boot_id;
  NodeId node = kNoNode;    ///< of the speaker
  NodeId target = kNoNode;  ///< slot that was dialled
  NodeList list;
  std::string link_path;
};
enum class HelloVerdict : std::uint8_t {
  kAccepted = 0,
  kVersionMismatch = 1,
  kMapMismatch = 2,
  kForeignDomain = 3,
  kSelf = 4,
  kDuplicateId = 5,
  kNotReady = 6,
};

// ---- events ----
/// The list as read, and which slot is ours. Also sent when only the own slot was computed anew.
/// Slots whose name does not resolve (or resolves to kUnassignedAddress) are unassigned: no
/// failure, not dialled until they resolve. An address literal is always assigned.
struct ListChanged {
  NodeList list;
  NodeId self = kNoNode;
};
/// Answer to Resolve; also accepted unasked. Empty or kUnassignedAddress: unassigned.
struct SlotResolved {
  NodeId node = kNoNode;
  std::string address;
};
/// `refused`: the machine answered that nobody listens (ECONNREFUSED), so it is not silent.
struct DialFailed {
  NodeId node = kNoNode;
  std::uint64_t attempt = 0;
  std::string why;
  bool refused = false;
};
/// The acceptor's answer on a stream that we dialled.
struct HelloAnswered {
  NodeId node = kNoNode;
  std::uint64_t attempt = 0;
  HelloVerdict verdict = HelloVerdict::kAccepted;
  Hello hello;
};
/// Our stream to `node` broke. `refused_or_reset`: the machine answers, the daemon does not.
struct StreamLost {
  NodeId node = kNoNode;
  std::uint64_t attempt = 0;
  bool refused_or_reset = false;
};
/// Somebody dialled us; answered by the effect AnswerHello with the same stream id.
struct HelloReceived {
  std::uint64_t stream = 0;
  Hello hello;
};
struct InboundClosed {
  std::uint64_t stream = 0;
};
/// On any stream of that pair of nodes; `instance` is the one whose hello opened or answered it.
struct HeartbeatReceived {
  NodeId node = kNoNode;
  Uuid instance;
  DaemonStatus status = DaemonStatus::kReady;
};
struct GoodbyeReceived {
  NodeId node = kNoNode;
  Uuid instance;
};  ///< orderly shutdown of the peer
struct ReconnectRequested {
};  ///< SIGUSR1, hosts file changed: rebuild all outgoing streams at once
struct GpusReady {};  ///< INIT_GPU is done
struct StopRequested {};
struct Tick {};

using MembershipEvent =
    std::variant<ListChanged, SlotResolved, DialFailed, HelloAnswered, StreamLost, HelloReceived,
                 InboundClosed, HeartbeatReceived, GoodbyeReceived, ReconnectRequested, GpusReady,
                 StopRequested, Tick>;

// ---- effects ----
struct Resolve {
  NodeId node = kNoNode;
  std::string name;
};
/// Open a brand-new stream and send the Hello. `attempt` comes back in the answers. The name as it
/// stands in the list (for TLS) is hello.list.entries[node].text. An earlier stream to the node
/// stays open until HangUp names its attempt.
struct Dial {
  NodeId node = kNoNode;
  std::string address;
  std::uint64_t attempt = 0;
  Hello hello;
};
struct HangUp {
  NodeId node = kNoNode;
  std::uint64_t attempt = 0;
};
struct AnswerHello {
  std::uint64_t stream = 0;
  HelloVerdict verdict = HelloVerdict::kAccepted;
  Hello hello;
};
struct DropInbound {
  std::uint64_t stream = 0;
};
/// On exactly one stream: the one dialled as `attempt`, or, with attempt 0, the accepted `stream`.
struct SendHeartbeat {
  NodeId node = kNoNode;
  DaemonStatus status = DaemonStatus::kReady;
  std::uint64_t attempt = 0, stream = 0;
};
struct SendGoodbye {
  NodeId node = kNoNode;
  std::uint64_t attempt = 0, stream = 0;
};  ///< as SendHeartbeat
/// For the broker and the channel registry. `returned`: the same instance is back after an outage,
/// nothing of it was cleaned up (links to it may have to be opened again).
struct PeerJoined {
  NodeId node = kNoNode;
  Uuid instance, boot_id;
  std::string address, link_path;
  bool returned = false;
};
struct PeerEnded {
  NodeId node = kNoNode;
  Uuid instance;
  Errc reason = Errc::kPeerLost;
};
struct PeerWentSilent {
  NodeId node = kNoNode;
  Uuid instance;
};
/// kInitGpu asks for the GPUs; answer with GpusReady.
struct StatusChanged {
  DaemonStatus status = DaemonStatus::kInitializing;
};
/// Own slot id is now another one, or peers keep refusing us as a duplicate of a live node (75), or
/// most peers of a full quorum have another list (76): the daemon must not go on. Exit codes of
/// imex-service section 18. The machine answers no further events but StopRequested.
struct IdentityLost {
  int exit_code = 75;
  std::string why;
};
struct MembershipLog {
  int level = 4;
  std::string text;
};

using MembershipEffect =
    std::variant<Resolve, Dial, HangUp, AnswerHello, DropInbound, SendHeartbeat, SendGoodbye,
                 PeerJoined, PeerEnded, PeerWentSilent, StatusChanged, IdentityLost, MembershipLog>;

/// One slot as this node sees it.
struct PeerView {
  NodeId node = kNoNode;
  std::string host;     ///< as in the list
  std::string address;  ///< last resolved; empty: unassigned. Own slot: never empty
  PairState state = PairState::kNeverConnected;
  DaemonStatus status = DaemonStatus::kUnavailable;  ///< last heard
  std::string version;
  Uuid instance, boot_id;
  Time since{};  ///< last change of state
  std::uint64_t attempts = 0;
  std::string last_error;
};

class Membership {
 public:
  Membership(MembershipConfig config, Random& random, Time now);
  ~Membership();
  Membership(Membership&&) noexcept;

  [[nodiscard]] std::vector<MembershipEffect> step(MembershipEvent event, Time now);
  [[nodiscard]] Time next_deadline() const noexcept;

  [[nodiscard]] DaemonStatus status() const noexcept;
  [[nodiscard]] NodeId self() const noexcept;
  /// All slots in order, own one included (always kConnected once READY).
  [[nodiscard]] std::vector<PeerView> peers() const;
  [[nodiscard]] std::uint64_t list_epoch() const noexcept;  ///< +1 with each list that differs

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace imex::domain
