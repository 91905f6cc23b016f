// The control thread while the daemon is away: it connects again, proves which session it is, and
// registers what the process still has. Nobody else sends anything meanwhile: turns are given again
// once the new connection is in order.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "session_core.hpp"

namespace imex::domain::client {

namespace {

constexpr auto kPauseMin = std::chrono::milliseconds(10);
constexpr auto kPauseMax = std::chrono::milliseconds(250);
constexpr auto kConnectTimeout = std::chrono::milliseconds(250);
constexpr auto kTurnWait = std::chrono::seconds(1);

/// Answers that may change while the daemon finishes starting.
bool may_pass(Errc code) {
  return code == Errc::kUnavailable || code == Errc::kResourceExhausted ||
         code == Errc::kFailedPrecondition || code == Errc::kDeadlineExceeded;
}

}  // namespace

void SessionCore::await_turns() {
  drain_events();   // the last one may say why the connection ended
  cancel_.raise();  // whoever waits for an answer gives up now
  {
    const MutexLock lock(mutex_);
    while (turns_ != 0) {
      ++turn_waiters_;
      static_cast<void>(changed_.wait_until(mutex_, Clock::now() + kTurnWait));
      --turn_waiters_;
    }
  }
  cancel_.lower();
  wire_is_idle_ = true;
  pause_ = std::chrono::milliseconds(0);
}

void SessionCore::reconnect() {
  if (!wire_is_idle_) await_turns();
  while (!revocations_.empty() && !stopping()) {
    static_cast<void>(revocations_.front().record->segment->quiesce(revocations_.front().deadline));
    finish_revocations();
  }
  SteadyTime lease_end;
  {
    const MutexLock lock(mutex_);
    lease_end = lease_end_;
  }
  if (orderly_end_) return lose_daemon(*orderly_end_);
  if (Clock::now() >= lease_end) return lose_daemon(Errc::kUnavailable);

  std::array items{os::PollItem{.fd = wake_.fd()}};
  static_cast<void>(os::poll_any(items, std::min(Clock::now() + pause_, lease_end)));
  wake_.lower();
  if (stopping()) return;
  pause_ = std::clamp(pause_ * 2, kPauseMin, kPauseMax);
  const auto outcome = try_resume();
  {
    const MutexLock lock(mutex_);
    resuming_ = false;
    changed_.notify_all();
  }
  if (!outcome) return;
  if (*outcome != Errc::kOk) return lose_daemon(*outcome);
  wire_is_idle_ = false;
  events_.push({.kind = SessionEvent::Kind::kDaemonResumed});
}

std::optional<Errc> SessionCore::try_resume() {
  auto wire = RequestWire::connect(channel_path_, kConnectTimeout);
  if (!wire) return std::nullopt;
  Open ask;
  ask.session_id = identity_.id;
  ask.token = identity_.token;
  ask.gpu_index = identity_.gpu_index;
  ask.gpu_uid = identity_.gpu_uid;
  const std::array fds{page_.fd(), pidfd_.get()};
  auto answer = wire->call(ask, fds, deadline(), wake_.fd());
  if (!answer) {
    if (answer.error().code == Errc::kVersionMismatch) return Errc::kVersionMismatch;
    return std::nullopt;
  }
  if (may_pass(answer->reply.code)) return std::nullopt;
  if (answer->reply.code != Errc::kOk) return answer->reply.code;
  {
    const MutexLock lock(mutex_);
    resuming_ = true;
  }

  auto events = RequestWire::connect(channel_path_, kConnectTimeout);
  if (!events) return std::nullopt;
  answer = events->call(AttachEvents{identity_.id, identity_.token}, {}, deadline(), wake_.fd());
  if (!answer || answer->reply.code != Errc::kOk) return std::nullopt;
  // The former connection ends only now: to a daemon that never went away its end would have been
  // the death of this process.
  wire_ = std::move(*wire);
  event_socket_ = events->release();
  if (!register_again() || !publish_up()) return std::nullopt;
  return Errc::kOk;
}

Result<Answer> SessionCore::ask_again(const Message& message, std::span<const int> fds) {
  return wire_.call(message, fds, deadline(), wake_.fd());
}

Result<void> SessionCore::register_again() {
  std::vector<std::shared_ptr<ExportRecord>> exports;
  std::vector<std::shared_ptr<ImportRecord>> imports;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, record] : exports_) exports.push_back(record);
    for (const auto& [id, record] : imports_) {
      if (!record->over) imports.push_back(record);
    }
  }
  // Exports first: our own imports may be of them, and peers wait for them.
  for (const auto& record : exports) IMEX_CHECK_OK(register_export(record));
  for (const auto& record : imports) IMEX_CHECK_OK(register_import(record));
  // That was all: nobody need wait for this process any more. Where it cannot be said, the lease
  // bounds the wait.
  if (await_unmapped()) return wire_.post(RevokeAck{}, deadline());
  return {};
}

/// Imports that the program drops right now are in no table, and may be mapped for a moment longer.
bool SessionCore::await_unmapped() {
  const SteadyTime until = Clock::now() + kTurnWait;
  const MutexLock lock(mutex_);
  while (unmapping_ != 0 && Clock::now() < until) {
    ++turn_waiters_;
    static_cast<void>(changed_.wait_until(mutex_, until));
    --turn_waiters_;
  }
  return unmapping_ == 0;
}

Result<void> SessionCore::register_export(const std::shared_ptr<ExportRecord>& record) {
  ExportRequest ask;
  ask.export_id = record->id;
  ask.rank = record->rank;
  ask.scope = record->scope;
  ask.size_bytes = record->allocation->size();
  {
    const MutexLock lock(mutex_);
    ask.generation = record->generation;
    ask.revoking = record->phase == ExportRecord::Phase::kLive ? 0 : 1;
    // This daemon does not know yet what the former one had found out; it tells so anew.
    if (record->phase == ExportRecord::Phase::kQuiescent)
      record->phase = ExportRecord::Phase::kRevoking;
  }
  const auto [data, control] = record->allocation->fds();
  const std::array fds{data, control};
  IMEX_TRY(const Answer answer, ask_again(ask, fds));
  if (answer.reply.code == Errc::kOk) return {};
  // Not shared any more: nobody can import it, and whoever has it mapped was told. Importers are
  // not known here, so it never becomes quiescent.
  Event event;
  event.kind = Event::Kind::kExportRevoked;
  event.id = record->id;
  event.rank = kNoRank;
  event.reason = answer.reply.code;
  trip(record->scope, answer.reply.code, kNoRank);
  on_export_event(event, true);
  return {};
}

Result<void> SessionCore::register_import(const std::shared_ptr<ImportRecord>& record) {
  ImportRequest ask;
  ask.handle = record->handle;
  ask.import_id = record->id;
  ask.rank = record->rank;
  ask.scope = record->scope;
  IMEX_TRY(const Answer answer, ask_again(ask, {}));
  const Errc code = answer.reply.code;
  // kUnavailable: the exporter is not back yet; the daemon tells when it is clear that it is lost.
  if (code == Errc::kOk || code == Errc::kUnavailable) return {};
  if (code == Errc::kRevoked) {
    trip(record->scope, Errc::kRevoked, record->exporter_rank);
    Event event;
    event.kind = Event::Kind::kRevokeImport;
    event.id = record->id;
    event.rank = record->exporter_rank;
    event.reason = code;
    begin_revocation(record, event);
    return {};
  }
  trip(record->scope, Errc::kPeerLost, record->exporter_rank);
  end_import_of(record, SessionEvent::Kind::kExporterLost, record->exporter_rank, code);
  return {};
}

Result<void> SessionCore::publish_up() {
  for (;;) {
    std::vector<Message> owed;
    {
      const MutexLock lock(mutex_);
      if (owed_.empty()) {
        link_ = LinkState::kUp;
        changed_.notify_all();
        return {};
      }
      owed.swap(owed_);
    }
    for (const Message& each : owed) IMEX_CHECK_OK(ask_again(each, {}));
  }
}

void SessionCore::lose_daemon(Errc reason) {
  std::array<bool, memory::kAbortCellCount> used{};
  {
    const MutexLock lock(mutex_);
    link_ = LinkState::kLost;
    lost_reason_ = reason;
    owed_.clear();
    for (std::size_t i = 0; i != used.size(); ++i) used[i] = scope_uses_[i] != 0;
    changed_.notify_all();
  }
  wire_is_idle_ = false;
  event_socket_.reset();
  wire_ = RequestWire();
  // Nobody watches the peers any more, and theirs were told that we are lost: waits end likewise.
  const bool released = reason == Errc::kRevoked;
  for (std::uint32_t i = 0; i != used.size(); ++i) {
    if (used[i]) trip(i, released ? Errc::kRevoked : Errc::kPeerLost, kNoRank);
  }
  events_.push(
      {.kind = released ? SessionEvent::Kind::kChannelReleased : SessionEvent::Kind::kDaemonLost,
       .reason = reason});
}

}  // namespace imex::domain::client
