/// The engine behind imex::Session: requests on the caller's thread, everything else on one control
/// thread.
///
/// Two connections lead to the daemon. On the first, whoever calls sends a request and waits for
/// the answer itself; several threads may, and an import that waits for another daemon holds up
/// nobody else. On the second, the control
/// thread sleeps until the daemon has something to say, and sleeps without a deadline: an idle
/// session costs no CPU. When the daemon goes away, the control thread connects again with growing
/// pauses for as long as the lease lasts and registers everything anew; callers wait meanwhile.
///
/// Life: Session, Export, Import and Operation share the core; the control thread does not count.
/// So the session ends with the last of them, in whatever order they go, and never on the control
/// thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <imex/session.hpp>

#include "base/mutex.hpp"
#include "domain/frame.hpp"
#include "event_queue.hpp"
#include "memory/abort_page.hpp"
#include "memory/host_allocation.hpp"
#include "memory/imported_segment.hpp"
#include "os/poll.hpp"
#include "request_wire.hpp"

namespace imex::domain::client {

/// An export as the daemon knows it. `id` and what follows up to `allocation` are constant; the
/// rest is guarded by the core's mutex.
struct ExportRecord {
  ExportId id = 0;
  std::uint32_t rank = kNoRank;
  std::uint32_t scope = kNoScope;
  std::shared_ptr<memory::HostAllocation> allocation;  // shared with the user's Allocation

  enum class Phase : std::uint8_t { kLive, kRevoking, kQuiescent };
  Phase phase = Phase::kLive;
  std::uint32_t generation = 0;
  memory::PageHold pages;  ///< unless kQuiescent: the pages are shared under this export
};

/// An import. All but `over` is constant; that is guarded by the core's mutex.
struct ImportRecord {
  ImportId id = 0;
  Handle handle;
  std::uint32_t rank = kNoRank;
  std::uint32_t scope = 0;  ///< kNoScope unless `on_loss` is kFailFast
  LossPolicy on_loss = LossPolicy::kFailFast;
  std::uint32_t exporter_rank = kNoRank;
  std::unique_ptr<memory::ImportedSegment> segment;

  bool over = false;  ///< exporter lost or memory revoked: not registered again
};

/// What an imex::Export owns. Its end is the end of the export.
struct ExportState {
  ExportState(std::shared_ptr<SessionCore> core_in, std::shared_ptr<ExportRecord> record_in,
              const Handle& handle_in, std::uint32_t generation_in);
  ExportState(const ExportState&) = delete;
  ExportState& operator=(const ExportState&) = delete;
  ~ExportState();

  const std::shared_ptr<SessionCore> core;     // shared: see "Life" above
  const std::shared_ptr<ExportRecord> record;  // shared with the core's table
  Handle handle;                               ///< changed by re_export() only
  std::uint32_t generation;
};

/// What an imex::Import and its Operations own. Its end unmaps.
struct ImportState {
  ImportState(std::shared_ptr<SessionCore> core_in, std::shared_ptr<ImportRecord> record_in);
  ImportState(const ImportState&) = delete;
  ImportState& operator=(const ImportState&) = delete;
  ~ImportState();

  const std::shared_ptr<SessionCore> core;  // shared: see "Life" above
  std::shared_ptr<ImportRecord> record;     // shared with the core's table and a revocation
};

class SessionCore {
 public:
  [[nodiscard]] static Result<std::shared_ptr<SessionCore>> open(const SessionOptions& options);
  SessionCore(const SessionCore&) = delete;
  SessionCore& operator=(const SessionCore&) = delete;
  ~SessionCore();

  [[nodiscard]] static Result<std::shared_ptr<ExportState>> export_memory(
      const std::shared_ptr<SessionCore>& core, std::shared_ptr<memory::HostAllocation> allocation,
      const ExportOptions& options);
  [[nodiscard]] static Result<std::shared_ptr<ImportState>> import_memory(
      const std::shared_ptr<SessionCore>& core, const Handle& handle, const ImportOptions& options);
  [[nodiscard]] Result<void> re_export(ExportState& state);
  void end_export(const ExportRecord& record);
  void end_import(std::shared_ptr<ImportRecord> record);

  [[nodiscard]] AbortScope default_scope() const noexcept { return {page_.cell(0), 0}; }
  [[nodiscard]] Result<AbortScope> create_scope();
  void release_scope(AbortScope scope) noexcept;
  [[nodiscard]] EventQueue& events() noexcept { return events_; }

  /// The Session object goes; exports and imports may stay.
  void detach() {
    if (check_process()) events_.set_callback(nullptr);
  }

  /// What the daemon said when the session was opened; constant.
  [[nodiscard]] const Reply& identity() const noexcept { return identity_; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class LinkState : std::uint8_t {
    kUp,
    kAway,  ///< the daemon does not answer; the lease runs
    kLost,  ///< for good
  };

  SessionCore(const SessionOptions& options, memory::AbortPage page, os::UniqueFd pidfd,
              os::EventFd wake, os::EventFd cancel, os::EventFd ready);

  // ---- session_core.cpp: requests, on the caller's thread ----

  void await_return() IMEX_EXCLUDES(mutex_);
  [[nodiscard]] Result<void> check_process() const;
  [[nodiscard]] Result<std::uint32_t> check_scope(const std::optional<AbortScope>& scope,
                                                  std::uint32_t without) const;
  [[nodiscard]] SteadyTime deadline() const { return Clock::now() + timeout_; }
  /// One request, asked again if the daemon goes away and comes back before the deadline. On return
  /// the turn is still held when it succeeded, so that nothing is missed between an answer and its
  /// entry in a table. Turns are shared: they only keep the control thread from replacing the wire.
  class Turn;
  [[nodiscard]] Result<Answer> request(Turn& turn, const Message& message, std::span<const int> fds,
                                       std::string_view what, SteadyTime deadline);
  /// Tells the daemon that an export or import ended; now if it is there, else when it is back.
  void tell_end(const Message& message);
  enum class Patience : std::uint8_t { kWaitForDaemon, kOnlyWhileUp };
  [[nodiscard]] Result<void> take_turn(SteadyTime deadline, Patience patience)
      IMEX_EXCLUDES(mutex_);
  void give_turn() IMEX_EXCLUDES(mutex_);
  [[nodiscard]] Error lost_error() const IMEX_REQUIRES(mutex_);
  [[nodiscard]] Result<std::unique_ptr<memory::ImportedSegment>> map_segment(const Answer& answer);
  void link_failed() IMEX_EXCLUDES(mutex_);

  // ---- control_thread.cpp: on the control thread ----

  [[nodiscard]] Result<void> start_thread();
  void run();
  void listen();
  void drain_events();
  void handle(const Event& event, bool again);
  void on_import_event(const Event& event, bool again);
  void on_export_event(const Event& event, bool again);
  void begin_revocation(std::shared_ptr<ImportRecord> record, const Event& event);
  void end_import_of(const std::shared_ptr<ImportRecord>& record, SessionEvent::Kind kind,
                     std::uint32_t rank, Errc reason);
  void finish_revocations();
  void acknowledge(ImportId id);
  void handle_early();
  void trip(std::uint32_t scope, Errc code, std::uint32_t rank) const noexcept;
  [[nodiscard]] SteadyTime next_wake() const;

  // ---- resume.cpp: on the control thread ----

  void reconnect();
  void await_turns();
  /// kOk: the session is back. Nothing: try again later. Else: it is lost, and why.
  [[nodiscard]] std::optional<Errc> try_resume();
  [[nodiscard]] Result<void> register_again();
  [[nodiscard]] bool await_unmapped() IMEX_EXCLUDES(mutex_);
  [[nodiscard]] Result<void> register_export(const std::shared_ptr<ExportRecord>& record);
  [[nodiscard]] Result<void> register_import(const std::shared_ptr<ImportRecord>& record);
  [[nodiscard]] Result<Answer> ask_again(const Message& message, std::span<const int> fds);
  [[nodiscard]] Result<void> publish_up();
  /// For good: kUnavailable, what the daemon answered to a resume, or kRevoked (channel released).
  void lose_daemon(Errc reason);
  [[nodiscard]] bool stopping() const noexcept {
    return stopping_.load(std::memory_order_acquire);  // pairs with the store in the destructor
  }

  // Constant after open().
  const std::string channel_path_;
  const std::chrono::milliseconds timeout_;
  const std::int32_t process_id_;
  const memory::AbortPage page_;
  const os::UniqueFd pidfd_;  // of this process
  Reply identity_;
  std::chrono::milliseconds lease_{0};

  // Self-synchronised.
  EventQueue events_;
  os::EventFd wake_;                   // somebody wants the control thread to look around
  os::EventFd cancel_;                 // the link broke: a request in progress ends
  std::atomic<bool> stopping_{false};  // written by the destructor, read by the control thread

  // Used by whoever holds a turn. Only the control thread replaces it, while the daemon is away and
  // nobody has a turn; so that thread may post() on it without one.
  RequestWire wire_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::uint32_t turns_ IMEX_GUARDED_BY(mutex_) = 0;  ///< requests on their way; given while kUp
  std::uint32_t turn_waiters_ IMEX_GUARDED_BY(mutex_) = 0;
  LinkState link_ IMEX_GUARDED_BY(mutex_) = LinkState::kUp;
  /// The daemon is back and knows this session again, not yet all that it has.
  bool resuming_ IMEX_GUARDED_BY(mutex_) = false;
  SteadyTime lease_end_ IMEX_GUARDED_BY(mutex_){};
  Errc lost_reason_ IMEX_GUARDED_BY(mutex_) = Errc::kOk;
  std::map<ExportId, std::shared_ptr<ExportRecord>> exports_ IMEX_GUARDED_BY(mutex_);
  std::map<ImportId, std::shared_ptr<ImportRecord>> imports_ IMEX_GUARDED_BY(mutex_);
  /// Events whose subject no table knows yet, because the answer that names it is still with the
  /// thread that asked. Bounded by what the daemon sends while requests are on their way.
  std::vector<Event> early_ IMEX_GUARDED_BY(mutex_);
  static constexpr std::size_t kEarlyMax = 4096;
  std::uint32_t unmapping_ IMEX_GUARDED_BY(mutex_) =
      0;  ///< imports in no table, perhaps still mapped
  /// Ended while the daemon was away: told to it before anybody else may ask.
  std::vector<Message> owed_ IMEX_GUARDED_BY(mutex_);
  std::uint64_t scopes_taken_ IMEX_GUARDED_BY(mutex_) =
      1;  ///< bit set of indices; 0 is the default
  std::array<std::uint32_t, memory::kAbortCellCount> scope_uses_ IMEX_GUARDED_BY(mutex_){};

  // The control thread alone.
  os::UniqueFd event_socket_;
  /// Said by the daemon before it ended the connection: kUnavailable (it shuts down) or kRevoked
  /// (the channel was released). Then nobody waits for it to come back.
  std::optional<Errc> orderly_end_;
  bool wire_is_idle_ = false;  ///< away, and nobody uses the wire any more
  std::chrono::milliseconds pause_{0};
  struct Revocation {
    std::shared_ptr<ImportRecord> record;
    Event event;
    SteadyTime deadline;
  };
  std::vector<Revocation> revocations_;

  std::unique_ptr<std::thread> thread_;  // by pointer: a forked child must let go of it
};

/// The right to use the first connection; several at once.
class SessionCore::Turn {
 public:
  explicit Turn(SessionCore& core) noexcept : core_(core) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { give(); }
  [[nodiscard]] Result<void> take(SteadyTime deadline,
                                  Patience patience = Patience::kWaitForDaemon);
  void give();

 private:
  SessionCore& core_;
  bool held_ = false;
};

}  // namespace imex::domain::client
