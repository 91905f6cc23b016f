/// A process's place on a channel: exporting, importing, and being told of what ends.
///
///     auto session = imex::Session::open({.channel = "/run/imex/n0/channels/channel0"});
///     auto memory = imex::Allocation::create(1 << 21);
///     auto exported = session->export_memory(*memory, {.rank = 0});
///     send_to_peer(exported->handle());                    // by any means: 64 bytes
///     auto imported = session->import_memory(handle_from_peer, {.rank = 0});
///     imported->data();                                    // the peer's memory, mapped here
///
/// The daemon introduces processes and watches them; once memory is mapped no byte and no signal
/// passes through it. A daemon that restarts within its lease is not noticed except as latency of
/// calls made meanwhile, and an event afterwards.
///
/// Objects end in any order: the session itself ends with the last of Session, Exports, Imports and
/// Operations. Ending an Export or Import is one request; a daemon that hangs delays it by the
/// session's timeout once, one that is away not at all. A session that has such ends to tell of
/// waits with its own until the daemon is back or has been away for the timeout; a daemon that
/// comes back later takes them for losses. After fork() the child must not use a session of its
/// parent (kFailedPrecondition) and may drop the objects; it opens its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <imex/allocation.hpp>
#include <imex/export.h>
#include <imex/handle.hpp>
#include <imex/result.hpp>
#include <imex/wait.hpp>

namespace imex {

inline constexpr std::uint32_t kAnyGpu = 0xffff'ffffU;

struct SessionOptions {
  std::string channel;                ///< path of the channel's socket, .../channels/channelN
  std::uint32_t gpu_index = kAnyGpu;  ///< the GPU this session acts for; any the channel allows
  std::uint64_t gpu_uid = 0;          ///< the same by unique id; 0: by index
  std::chrono::milliseconds timeout{5'000};  ///< of open and of each later request
};

/// A set of imports and exports whose loss ends the same waits: one per communicator.
/// Trivially copyable handle of a cell in the session's abort page; valid while the Session lives.
class IMEX_API AbortScope {
 public:
  AbortScope() = default;
  AbortScope(AbortCell* cell, std::uint32_t index) noexcept : cell_(cell), index_(index) {}
  /// For WaitOptions::abort.
  [[nodiscard]] const AbortCell* cell() const noexcept { return cell_; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  /// The Error that waits of this scope return, once it was tripped.
  [[nodiscard]] std::optional<Error> error() const;
  /// Ends all waits of this scope in this process with kAborted. Any thread, any time.
  void abort(std::uint32_t by_rank = kNoRank) noexcept;

 private:
  AbortCell* cell_ = nullptr;
  std::uint32_t index_ = 0;
};

struct ExportOptions {
  std::uint32_t rank = kNoRank;  ///< told to importers when this process is lost
  /// Set: losing an importer trips this scope. Unset: it is an event only (servers with many
  /// clients).
  std::optional<AbortScope> scope{};
};

/// What the loss of an exporter does to one import. In each case the mapping stays readable. When
/// the memory is revoked (its GPU left the partition, the channel was released) it goes, and that
/// is always told as kImportRevoked; only kFailFast ends waits then as well.
enum class LossPolicy : std::uint8_t {
  kFailFast = 0,  ///< trips the scope, so waits end with kPeerLost, and tells kExporterLost
  kNotify = 1,    ///< tells kExporterLost; waits go on: many peers that come and go on their own
  kKeep = 2,      ///< neither: data that is complete and only read, whoever wrote it
};

struct ImportOptions {
  std::uint32_t rank = kNoRank;  ///< told to the exporter when this process is lost
  /// Tripped when the exporter is lost or the memory revoked. Unset: default_scope() with
  /// kFailFast, else none; set beside another policy: kInvalidArgument.
  std::optional<AbortScope> scope{};
  LossPolicy on_loss = LossPolicy::kFailFast;
};

struct SessionEvent {
  enum class Kind : std::uint8_t {
    kExporterLost =
        1,  ///< the process whose memory was imported is gone; the mapping stays readable
    kImporterLost = 2,   ///< a process that had imported from here is gone
    kImportRevoked = 3,  ///< the memory was withdrawn; its pages are no longer accessible here
    kExportRevoked = 4,  ///< an export from here is being withdrawn from all importers
    /// ... and is now: re_export() may follow. Comes again after kDaemonResumed: the daemon asks
    /// importers anew, and waits for its lease at most for those that neither come back nor end.
    kExportQuiescent = 5,
    /// The daemon did not come back within its lease, was replaced by a new instance, or shut down
    /// in order: handles are dead, mappings stay. Nobody watches the peers any more and theirs take
    /// this process for lost, so scopes in use are tripped: kPeerLost without a rank, or
    /// kUnavailable by a daemon that shut down. Requests fail with kStale: open a new session.
    kDaemonLost = 6,
    kDaemonResumed = 7,  ///< the daemon was away and is back; nothing was lost
    /// The channel was released: whoever launched the workload ended its grant. All exports and
    /// imports were revoked before. The daemon goes on; requests of this session fail with
    /// kRevoked.
    kChannelReleased = 8,
  };
  Kind kind;
  std::uint64_t id = 0;                ///< of the export or import concerned
  std::uint32_t rank = kNoRank;        ///< of the peer concerned
  Errc reason = Errc::kOk;             ///< kOk with a loss: it ended in order, nothing was aborted
  std::uint32_t silent_importers = 0;  ///< kExportQuiescent: importers that did not acknowledge
};

namespace domain::client {
class SessionCore;
struct ExportState;
struct ImportState;
}  // namespace domain::client

/// One exported allocation. Ends the export when destroyed; keeps the Allocation's memory alive.
/// Thread-safe, except beside Session::re_export(), which changes handle() and generation().
class IMEX_API Export {
 public:
  Export(Export&&) noexcept;
  Export& operator=(Export&&) noexcept;
  ~Export();
  [[nodiscard]] const Handle& handle() const noexcept;
  [[nodiscard]] std::uint64_t id() const noexcept;
  [[nodiscard]] std::uint32_t generation() const noexcept;

 private:
  friend class Session;
  explicit Export(std::shared_ptr<domain::client::ExportState> state) noexcept;
  std::shared_ptr<domain::client::ExportState> state_;
};

/// A peer's memory, mapped readable and writable. Unmaps when destroyed. After a revocation the
/// address range stays reserved but every access faults; see report_revoked_access().
class IMEX_API Import {
 public:
  Import(Import&&) noexcept;
  Import& operator=(Import&&) noexcept;
  ~Import();
  [[nodiscard]] std::byte* data() noexcept;
  [[nodiscard]] const std::byte* data() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] std::uint64_t id() const noexcept;
  [[nodiscard]] std::uint32_t exporter_rank() const noexcept;
  [[nodiscard]] std::uint32_t generation() const noexcept;

  /// Marks an operation that touches the memory: while one runs, a revocation waits (up to 50 ms)
  /// before it takes the pages away. Errors: kRevoked. Cheap: two uncontended atomic adds.
  class Operation;
  [[nodiscard]] Result<Operation> begin_operation();

 private:
  friend class Session;
  explicit Import(std::shared_ptr<domain::client::ImportState> state) noexcept;
  std::shared_ptr<domain::client::ImportState> state_;
};

class IMEX_API Import::Operation {
 public:
  explicit Operation(std::shared_ptr<domain::client::ImportState> state) noexcept;
  Operation(Operation&&) noexcept;
  Operation& operator=(Operation&&) noexcept;
  ~Operation();

 private:
  std::shared_ptr<domain::client::ImportState> state_;
};

/// Connection to the node daemon on one channel, acting for one GPU. Movable; all members are
/// thread-safe. Starts one control thread (blocked, no CPU) that listens to the daemon.
class IMEX_API Session {
 public:
  /// Errors: kNotFound (no such socket), kPermissionDenied (file mode, user, GPU not granted),
  /// kUnavailable (no daemon answers), kVersionMismatch, kResourceExhausted (session limit).
  [[nodiscard]] static Result<Session> open(const SessionOptions& options);

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// Another object for the same session, for a library that works on the caller's behalf: keeps
  /// the session open, and leaves events and their callback to the first.
  [[nodiscard]] Session share() const;

  /// Makes the allocation known to the domain. Cost: one request to the daemon (microseconds).
  /// Errors: kResourceExhausted (limit of the channel), kUnavailable (daemon away),
  /// kDeadlineExceeded.
  [[nodiscard]] Result<Export> export_memory(Allocation& allocation,
                                             const ExportOptions& options = {});

  /// Maps the memory behind `handle`. Errors: kPermissionDenied (forged, other channel, other
  /// partition), kStale (old generation, restarted daemon), kNotFound (export ended), kUnsupported
  /// (exporter on another machine without NVLink), kDataLoss (segment header does not fit),
  /// kResourceExhausted (64 imports of this session wait for other daemons already).
  [[nodiscard]] Result<Import> import_memory(const Handle& handle,
                                             const ImportOptions& options = {});

  /// After kExportQuiescent: copies the bytes to fresh pages at the same address, exports them
  /// under the next generation; the old pages are never written again by this process.
  /// An allocation with several exports, of any sessions, moves once all of them are quiescent or
  /// ended, so that no importer is left on pages that nobody writes; then each quiescent one may be
  /// exported anew. Errors: kFailedPrecondition (not quiescent; another export of the allocation
  /// still shares the pages: end it, or wait until it is quiescent too), kResourceExhausted.
  [[nodiscard]] Result<void> re_export(Export& exported);

  /// The scope of imports that name none.
  [[nodiscard]] AbortScope default_scope() const noexcept;
  /// Errors: kResourceExhausted after 62 scopes that live at once.
  [[nodiscard]] Result<AbortScope> create_scope();
  /// Gives the scope back; no import or export may use it any more.
  void release_scope(AbortScope scope) noexcept;

  /// Becomes readable when next_event() has something. Owned by the session.
  [[nodiscard]] int event_fd() const noexcept;
  /// The oldest event not yet taken. The queue holds 1024; then the oldest is dropped and counted.
  [[nodiscard]] std::optional<SessionEvent> next_event();
  /// Called on the control thread for each event, before it is queued. Must not block, must not
  /// call back into the session. Replaces the former callback.
  void on_event(std::function<void(const SessionEvent&)> callback);
  /// Events that the full queue dropped so far.
  [[nodiscard]] std::uint64_t events_dropped() const noexcept;

  [[nodiscard]] std::uint32_t channel() const noexcept;
  [[nodiscard]] std::uint16_t node_id() const noexcept;
  [[nodiscard]] std::uint32_t gpu_index() const noexcept;
  [[nodiscard]] std::uint64_t gpu_uid() const noexcept;

 private:
  explicit Session(std::shared_ptr<domain::client::SessionCore> core) noexcept;
  std::shared_ptr<domain::client::SessionCore> core_;
  bool shared_ = false;  ///< from share()
};

/// Installs a SIGSEGV handler that explains an access to revoked memory on standard error before
/// the former handler runs. Opt-in, process-wide, once.
[[nodiscard]] IMEX_API Result<void> report_revoked_access();

}  // namespace imex
