#include "session_core.hpp"

#include <bit>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/result.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"

namespace imex::domain::client {

namespace {

constexpr std::uint32_t kScopesMax = memory::kAbortCellCount;
static_assert(kScopesMax == kAbortScopesMax, "the page has a cell for each scope of the protocol");
/// The turn is waited for in pieces where there is no deadline of the caller's own.
constexpr auto kLongWait = std::chrono::seconds(1);

const char* phase_name(ExportRecord::Phase phase) {
  switch (phase) {
    case ExportRecord::Phase::kLive:
      return "live";
    case ExportRecord::Phase::kRevoking:
      return "still being withdrawn";
    case ExportRecord::Phase::kQuiescent:
      return "quiescent";
  }
  return "unknown";
}

}  // namespace

// ---- records ----

ExportState::ExportState(std::shared_ptr<SessionCore> core_in,
                         std::shared_ptr<ExportRecord> record_in, const Handle& handle_in,
                         std::uint32_t generation_in)
    : core(std::move(core_in)),
      record(std::move(record_in)),
      handle(handle_in),
      generation(generation_in) {}

ExportState::~ExportState() { core->end_export(*record); }

ImportState::ImportState(std::shared_ptr<SessionCore> core_in,
                         std::shared_ptr<ImportRecord> record_in)
    : core(std::move(core_in)), record(std::move(record_in)) {}

ImportState::~ImportState() { core->end_import(std::move(record)); }

// ---- opening and ending ----

SessionCore::SessionCore(const SessionOptions& options, memory::AbortPage page, os::UniqueFd pidfd,
                         os::EventFd wake, os::EventFd cancel, os::EventFd ready)
    : channel_path_(std::filesystem::absolute(options.channel).string()),
      timeout_(options.timeout),
      process_id_(os::process_id()),
      page_(std::move(page)),
      pidfd_(std::move(pidfd)),
      events_(std::move(ready)),
      wake_(std::move(wake)),
      cancel_(std::move(cancel)) {}

Result<std::shared_ptr<SessionCore>> SessionCore::open(const SessionOptions& options) {
  if (options.channel.empty()) {
    return fail(Errc::kInvalidArgument, "open session: no path of a channel",
                "set SessionOptions::channel to the socket that the workload was given");
  }
  if (options.timeout <= std::chrono::milliseconds(0)) {
    return fail(Errc::kInvalidArgument,
                fmt::format("open session: timeout of {} ms", options.timeout.count()));
  }
  const SteadyTime until = Clock::now() + options.timeout;
  IMEX_TRY(auto page, memory::AbortPage::create(static_cast<std::uint32_t>(os::process_id())));
  IMEX_TRY(auto pidfd, os::open_pidfd(os::process_id()));
  IMEX_TRY(auto wake, os::EventFd::make());
  IMEX_TRY(auto cancel, os::EventFd::make());
  IMEX_TRY(auto ready, os::EventFd::make());
  // Private constructor: make_shared cannot call it.
  std::shared_ptr<SessionCore> core(new SessionCore(options, std::move(page), std::move(pidfd),
                                                    std::move(wake), std::move(cancel),
                                                    std::move(ready)));
  const std::string what = fmt::format("open session on '{}'", options.channel);
  const auto in_context = [&what](Error error) { return fail(std::move(error).context(what)); };

  auto wire = RequestWire::connect(options.channel, options.timeout);
  if (!wire) return in_context(std::move(wire).error());
  Open ask;
  ask.gpu_index = options.gpu_index;
  ask.gpu_uid = options.gpu_uid;
  const std::array fds{core->page_.fd(), core->pidfd_.get()};
  auto answer = wire->call(ask, fds, until, -1);
  if (!answer) return in_context(std::move(answer).error());
  if (answer->reply.code != Errc::kOk) return fail(error_of(answer->reply, what));
  core->identity_ = answer->reply;
  core->lease_ = std::chrono::milliseconds(answer->reply.lease_ms);

  auto events = RequestWire::connect(options.channel, options.timeout);
  if (!events) return in_context(std::move(events).error());
  answer = events->call(AttachEvents{core->identity_.id, core->identity_.token}, {}, until, -1);
  if (!answer) return in_context(std::move(answer).error());
  if (answer->reply.code != Errc::kOk) return fail(error_of(answer->reply, what));
  core->wire_ = std::move(*wire);
  core->event_socket_ = events->release();
  IMEX_CHECK_OK(core->start_thread());
  return core;
}

SessionCore::~SessionCore() {
  if (thread_ == nullptr) return;  // open() failed: the daemon sees the end of the connection
  if (os::process_id() != process_id_) {
    // A forked child: the thread and the session are the parent's.
    static_cast<void>(thread_.release());
    return;
  }
  await_return();
  stopping_.store(true, std::memory_order_release);
  wake_.raise();
  thread_->join();
  const MutexLock lock(mutex_);
  IMEX_ASSERT(exports_.empty() && imports_.empty(), "exports and imports hold the session");
  if (link_ == LinkState::kUp) {
    static_cast<void>(wire_.post(Close{}, Clock::now() + kLongWait));
  }
}

/// A daemon that is just coming back would take an end now for the death of this process, and one
/// that restarts could not be told what ended in order: it is waited for as with any request.
void SessionCore::await_return() {
  const SteadyTime until = Clock::now() + kLongWait;
  const MutexLock lock(mutex_);
  for (;;) {
    const bool owes = link_ == LinkState::kAway && !owed_.empty();
    const SteadyTime end = owes ? lease_end_ - lease_ + timeout_ : until;
    if (!(owes || resuming_) || Clock::now() >= end) return;
    static_cast<void>(changed_.wait_until(mutex_, end));
  }
}

Result<void> SessionCore::check_process() const {
  if (os::process_id() == process_id_) return {};
  return fail(Errc::kFailedPrecondition,
              fmt::format("session of process {} used in process {}, a child of fork()",
                          process_id_, os::process_id()),
              "open a session of its own in each process, after fork()");
}

// ---- who uses the first connection ----

Error SessionCore::lost_error() const {
  if (lost_reason_ == Errc::kRevoked) {
    return {Errc::kRevoked,
            fmt::format("channel {} was released; the daemon of '{}' goes on without this session",
                        identity_.channel, channel_path_),
            "whoever launched this workload ended its grant: have it granted anew, then open a "
            "session on the new channel",
            kNoRank};
  }
  return {Errc::kStale,
          fmt::format("the daemon of '{}' did not come back within its lease ({})", channel_path_,
                      errc_name(lost_reason_)),
          "open a new session; handles of this one are dead, mappings stay until they are dropped"};
}

Result<void> SessionCore::take_turn(SteadyTime until, Patience patience) {
  const MutexLock lock(mutex_);
  while (link_ != LinkState::kUp) {
    if (link_ == LinkState::kLost) return fail(lost_error());
    if (link_ == LinkState::kAway && patience == Patience::kOnlyWhileUp) {
      return fail(Errc::kUnavailable, "the daemon is away");
    }
    if (Clock::now() >= until) {
      return fail(Errc::kUnavailable, fmt::format("the daemon of '{}' is away", channel_path_),
                  "what is mapped goes on; ask again, the session resumes when the daemon is back");
    }
    ++turn_waiters_;
    static_cast<void>(changed_.wait_until(mutex_, until));
    --turn_waiters_;
  }
  ++turns_;
  return {};
}

void SessionCore::give_turn() {
  bool early = false;
  {
    const MutexLock lock(mutex_);
    --turns_;
    early = !early_.empty();
    if (turn_waiters_ != 0) changed_.notify_all();
  }
  if (early) wake_.raise();
}

Result<void> SessionCore::Turn::take(SteadyTime until, Patience patience) {
  IMEX_CHECK_OK(core_.take_turn(until, patience));
  held_ = true;
  return {};
}

void SessionCore::Turn::give() {
  if (std::exchange(held_, false)) core_.give_turn();
}

void SessionCore::link_failed() {
  {
    const MutexLock lock(mutex_);
    if (link_ == LinkState::kUp) {
      link_ = LinkState::kAway;
      lease_end_ = Clock::now() + lease_;
    }
  }
  wake_.raise();
}

Result<Answer> SessionCore::request(Turn& turn, const Message& message, std::span<const int> fds,
                                    std::string_view what, SteadyTime until) {
  for (;;) {
    if (auto taken = turn.take(until); !taken) {
      return fail(std::move(taken).error().context(what));
    }
    auto answer = wire_.call(message, fds, until, cancel_.fd());
    if (answer && answer->reply.code == Errc::kOk) return answer;
    if (answer) return fail(error_of(answer->reply, what));
    const Errc code = answer.error().code;
    if (code == Errc::kDeadlineExceeded) return fail(std::move(answer).error().context(what));
    // The connection is of no use any more. A daemon that comes back knows nothing of what was not
    // registered again, so asking again does nothing twice.
    link_failed();
    turn.give();
    if (code != Errc::kUnavailable) return fail(std::move(answer).error().context(what));
  }
}

void SessionCore::tell_end(const Message& message) {
  Turn turn(*this);
  auto taken = turn.take(deadline(), Patience::kOnlyWhileUp);
  if (taken) {
    // A daemon that has just been silent for a whole timeout is not waited for again.
    const SteadyTime until = wire_.silent() ? Clock::now() : deadline();
    auto answer = wire_.call(message, {}, until, cancel_.fd());
    if (answer || answer.error().code == Errc::kDeadlineExceeded) return;
    link_failed();
  } else if (taken.error().code != Errc::kUnavailable) {
    return;  // lost, or the daemon hangs: it drops everything with the session
  }
  const MutexLock lock(mutex_);
  if (link_ == LinkState::kAway) owed_.push_back(message);
}

// ---- exports ----

Result<std::shared_ptr<ExportState>> SessionCore::export_memory(
    const std::shared_ptr<SessionCore>& core, std::shared_ptr<memory::HostAllocation> allocation,
    const ExportOptions& options) {
  IMEX_CHECK_OK(core->check_process());
  IMEX_TRY(const std::uint32_t scope, core->check_scope(options.scope, kNoScope));
  if (allocation->generation() == 0) IMEX_CHECK_OK(allocation->publish(1, options.rank));
  auto record = std::make_shared<ExportRecord>();
  record->rank = options.rank;
  record->scope = scope;
  record->pages = memory::HostAllocation::hold_pages(allocation);
  record->generation = allocation->generation();
  record->allocation = std::move(allocation);

  ExportRequest ask;
  ask.generation = record->generation;
  ask.rank = options.rank;
  ask.scope = scope;
  ask.size_bytes = record->allocation->size();
  const auto [data, control] = record->allocation->fds();
  const std::array fds{data, control};
  Turn turn(*core);
  IMEX_TRY(const Answer answer, core->request(turn, ask, fds, "export memory", core->deadline()));
  record->id = answer.reply.id;
  {
    const MutexLock lock(core->mutex_);
    if (core->link_ == LinkState::kLost) return fail(core->lost_error().context("export memory"));
    core->exports_.emplace(record->id, record);
    if (scope != kNoScope) ++core->scope_uses_[scope];
  }
  return std::make_shared<ExportState>(core, record, answer.reply.handle, record->generation);
}

void SessionCore::end_export(const ExportRecord& record) {
  if (os::process_id() != process_id_) return;
  {
    const MutexLock lock(mutex_);
    exports_.erase(record.id);
    if (record.scope != kNoScope) --scope_uses_[record.scope];
    if (link_ == LinkState::kLost) return;
  }
  tell_end(UnexportRequest{record.id});
}

Result<void> SessionCore::re_export(ExportState& state) {
  IMEX_CHECK_OK(check_process());
  ExportRecord& record = *state.record;
  std::uint32_t former = 0;
  {
    const MutexLock lock(mutex_);
    former = record.generation;
    if (record.phase != ExportRecord::Phase::kQuiescent) {
      return fail(Errc::kFailedPrecondition,
                  fmt::format("export {} again: it is {}", record.id, phase_name(record.phase)),
                  "wait for the event kExportQuiescent");
    }
  }
  const std::string what = fmt::format("export {} again", record.id);
  // Another export of the same allocation may have moved it already.
  auto pages = memory::HostAllocation::hold_pages_after(record.allocation, former);
  if (!pages) return fail(std::move(pages).error().context(what));
  ExportRequest ask;
  ask.export_id = record.id;
  ask.generation = record.allocation->generation();
  ask.rank = record.rank;
  ask.scope = record.scope;
  ask.size_bytes = record.allocation->size();
  const auto [data, control] = record.allocation->fds();
  const std::array fds{data, control};
  Turn turn(*this);
  IMEX_TRY(const Answer answer, request(turn, ask, fds, what, deadline()));
  const MutexLock lock(mutex_);
  record.pages = std::move(*pages);
  record.generation = ask.generation;
  record.phase = ExportRecord::Phase::kLive;
  state.generation = ask.generation;
  state.handle = answer.reply.handle;
  return {};
}

// ---- imports ----

Result<std::unique_ptr<memory::ImportedSegment>> SessionCore::map_segment(const Answer& answer) {
  if (answer.fds.size() != 2) {
    return fail(Errc::kResourceExhausted,
                fmt::format("{} of 2 descriptors arrived", answer.fds.size()),
                "raise the limit of open files (ulimit -n)");
  }
  return memory::ImportedSegment::map(
      answer.fds[0].get(), answer.fds[1].get(),
      {.size_bytes = answer.reply.size_bytes, .generation = answer.reply.generation});
}

Result<std::shared_ptr<ImportState>> SessionCore::import_memory(
    const std::shared_ptr<SessionCore>& core, const Handle& handle, const ImportOptions& options) {
  IMEX_CHECK_OK(core->check_process());
  const bool fails_fast = options.on_loss == LossPolicy::kFailFast;
  if (options.scope && !fails_fast) {
    return fail(Errc::kInvalidArgument, "import memory: a scope, and a policy that trips none",
                "leave ImportOptions::scope unset, or take LossPolicy::kFailFast");
  }
  IMEX_TRY(const std::uint32_t scope, core->check_scope(options.scope, fails_fast ? 0 : kNoScope));
  ImportRequest ask;
  ask.handle = handle;
  ask.rank = options.rank;
  ask.scope = scope;
  Turn turn(*core);
  IMEX_TRY(const Answer answer, core->request(turn, ask, {}, "import memory", core->deadline()));
  auto segment = core->map_segment(answer);
  if (!segment) {
    turn.give();
    core->tell_end(UnimportRequest{answer.reply.id});
    return fail(std::move(segment).error().context("import memory"));
  }
  auto record = std::make_shared<ImportRecord>();
  record->id = answer.reply.id;
  record->handle = handle;
  record->rank = options.rank;
  record->scope = scope;
  record->on_loss = options.on_loss;
  record->exporter_rank = answer.reply.rank;
  record->segment = std::move(*segment);
  {
    const MutexLock lock(core->mutex_);
    if (core->link_ == LinkState::kLost) return fail(core->lost_error().context("import memory"));
    core->imports_.emplace(record->id, record);
    if (scope != kNoScope) ++core->scope_uses_[scope];
  }
  return std::make_shared<ImportState>(core, std::move(record));
}

void SessionCore::end_import(std::shared_ptr<ImportRecord> record) {
  if (os::process_id() != process_id_) return;  // unmaps the child's copy, says nothing
  const ImportId id = record->id;
  bool lost = false;
  {
    const MutexLock lock(mutex_);
    imports_.erase(id);
    ++unmapping_;
    if (record->scope != kNoScope) --scope_uses_[record->scope];
    lost = link_ == LinkState::kLost;
  }
  // A revocation that runs still holds the record; the pages must be gone before the daemon hears
  // that they are.
  if (record.use_count() > 1) record->segment->revoke();
  record.reset();
  {
    const MutexLock lock(mutex_);
    if (--unmapping_ == 0 && turn_waiters_ != 0) changed_.notify_all();
  }
  if (!lost) tell_end(UnimportRequest{id});
}

// ---- scopes ----

Result<std::uint32_t> SessionCore::check_scope(const std::optional<AbortScope>& scope,
                                               std::uint32_t without) const {
  if (!scope) return without;
  const std::uint32_t index = scope->index();
  const MutexLock lock(mutex_);
  if (scope->cell() == nullptr || scope->cell() != page_.cell(index) ||
      (scopes_taken_ >> index & 1U) == 0) {
    return fail(Errc::kInvalidArgument,
                fmt::format("abort scope {} is not one of this session", index),
                "use default_scope() or create_scope() of the same session");
  }
  return index;
}

Result<AbortScope> SessionCore::create_scope() {
  IMEX_CHECK_OK(check_process());
  const MutexLock lock(mutex_);
  for (std::uint32_t index = 1; index != kScopesMax; ++index) {
    // A scope that was given back too early rests until its last import or export ended.
    if ((scopes_taken_ >> index & 1U) != 0 || scope_uses_[index] != 0) continue;
    scopes_taken_ |= std::uint64_t{1} << index;
    page_.reset(index);
    return AbortScope(page_.cell(index), index);
  }
  return fail(Errc::kResourceExhausted,
              fmt::format("all {} abort scopes of the session are in use", kScopesMax - 1),
              "give back those of communicators that ended");
}

void SessionCore::release_scope(AbortScope scope) noexcept {
  const std::uint32_t index = scope.index();
  if (index == 0 || index >= kScopesMax || scope.cell() != page_.cell(index)) return;
  const MutexLock lock(mutex_);
  scopes_taken_ &= ~(std::uint64_t{1} << index);
}

}  // namespace imex::domain::client
