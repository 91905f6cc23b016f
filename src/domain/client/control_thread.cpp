// The control thread while the daemon is there: it sleeps, hears of peers, and takes revoked pages
// away. What it does while the daemon is away stands in resume.cpp.
#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "os/thread.hpp"
#include "session_core.hpp"

namespace imex::domain::client {

namespace {

/// The daemon gives 100 ms; half of them are for operations that run.
constexpr auto kOperationGrace = std::chrono::milliseconds(50);
/// How often the end of those operations is looked for. Only during a revocation.
constexpr auto kRevocationStep = std::chrono::milliseconds(1);
constexpr auto kPostTimeout = std::chrono::seconds(1);
/// Events taken in one go, so that revocations and a stop are looked at in between.
constexpr int kBatch = 256;

}  // namespace

Result<void> SessionCore::start_thread() {
  const os::SignalsBlocked blocked;
  try {
    thread_ = std::make_unique<std::thread>([this] { run(); });
  } catch (const std::system_error& error) {
    return fail(Errc::kResourceExhausted,
                fmt::format("start the control thread: {}", error.code().message()));
  }
  return {};
}

void SessionCore::run() {
  os::name_this_thread("imex-control");
  while (!stopping()) {
    LinkState link = LinkState::kUp;
    {
      const MutexLock lock(mutex_);
      link = link_;
    }
    switch (link) {
      case LinkState::kUp:
        listen();
        break;
      case LinkState::kAway:
        reconnect();
        break;
      case LinkState::kLost:  // nothing will come but the end of the session
        std::array items{os::PollItem{.fd = wake_.fd()}};
        static_cast<void>(os::poll_any(items, kNoDeadline));
        wake_.lower();
        break;
    }
  }
}

SteadyTime SessionCore::next_wake() const {
  return revocations_.empty() ? kNoDeadline : Clock::now() + kRevocationStep;
}

void SessionCore::listen() {
  std::array items{os::PollItem{.fd = event_socket_.get()},
                   os::PollItem{.fd = wire_.fd(), .want_read = false},
                   os::PollItem{.fd = wake_.fd()}};
  if (!os::poll_any(items, next_wake())) return link_failed();
  if (items[2].readable) {
    wake_.lower();
    handle_early();
  }
  if (items[0].readable || items[0].hung_up) drain_events();
  if (items[1].hung_up) link_failed();
  finish_revocations();
}

void SessionCore::drain_events() {
  for (int i = 0; i != kBatch; ++i) {
    auto received = receive_frame(event_socket_.get());
    if (!received) {
      if (received.error().code != Errc::kResourceExhausted) link_failed();
      return;
    }
    // Anything but an event has no business here; a newer daemon may have reasons, so go on.
    if (const auto* event = std::get_if<Event>(&received->frame.message)) handle(*event, false);
  }
}

void SessionCore::handle_early() {
  std::vector<Event> early;
  {
    const MutexLock lock(mutex_);
    early.swap(early_);
  }
  for (const Event& event : early) handle(event, false);
}

/// What is unknown is kept while requests are on their way, and looked at again when one ends.
/// `again`: no request can make it known any more.
void SessionCore::handle(const Event& event, bool again) {
  switch (event.kind) {
    case Event::Kind::kExporterLost:
    case Event::Kind::kRevokeImport:
      return on_import_event(event, again);
    case Event::Kind::kImporterLost:
    case Event::Kind::kExportRevoked:
    case Event::Kind::kExportQuiescent:
      return on_export_event(event, again);
    case Event::Kind::kShuttingDown:
      orderly_end_ = Errc::kUnavailable;
      return;
    case Event::Kind::kChannelReleased:
      orderly_end_ = Errc::kRevoked;
      return;
  }
}

void SessionCore::on_import_event(const Event& event, bool again) {
  std::shared_ptr<ImportRecord> record;
  {
    const MutexLock lock(mutex_);
    if (const auto found = imports_.find(event.id); found != imports_.end()) {
      record = found->second;
    } else if (!again && turns_ != 0 && early_.size() < kEarlyMax) {
      return early_.push_back(event);
    }
  }
  const bool revoke = event.kind == Event::Kind::kRevokeImport;
  if (record == nullptr) {
    if (revoke) acknowledge(event.id);  // dropped meanwhile, or never mapped
    return;
  }
  if (revoke) return begin_revocation(std::move(record), event);
  // A daemon that restarted may not know whose memory it was.
  const std::uint32_t rank = event.rank != kNoRank ? event.rank : record->exporter_rank;
  end_import_of(record, SessionEvent::Kind::kExporterLost, rank, event.reason);
}

void SessionCore::end_import_of(const std::shared_ptr<ImportRecord>& record,
                                SessionEvent::Kind kind, std::uint32_t rank, Errc reason) {
  {
    const MutexLock lock(mutex_);
    record->over = true;
  }
  const bool lost = kind == SessionEvent::Kind::kExporterLost;
  if (lost && record->on_loss == LossPolicy::kKeep) return;
  events_.push({.kind = kind, .id = record->id, .rank = rank, .reason = reason});
}

void SessionCore::begin_revocation(std::shared_ptr<ImportRecord> record, const Event& event) {
  // The daemon has set the abort word: operations that wait return by themselves.
  record->segment->close();
  revocations_.push_back({std::move(record), event, Clock::now() + kOperationGrace});
}

void SessionCore::finish_revocations() {
  std::erase_if(revocations_, [this](const Revocation& each) {
    const SteadyTime now = Clock::now();
    memory::ImportedSegment& segment = *each.record->segment;
    if (!segment.quiesce(now) && now < each.deadline) return false;
    segment.revoke();
    acknowledge(each.record->id);
    end_import_of(each.record, SessionEvent::Kind::kImportRevoked, each.event.rank,
                  each.event.reason);
    return true;
  });
}

void SessionCore::acknowledge(ImportId id) {
  // Fails only with the connection; a daemon that comes back asks nothing of an import that is not
  // registered again.
  static_cast<void>(wire_.post(RevokeAck{id}, Clock::now() + kPostTimeout));
}

void SessionCore::on_export_event(const Event& event, bool again) {
  SessionEvent told{.kind = SessionEvent::Kind::kImporterLost,
                    .id = event.id,
                    .rank = event.rank,
                    .reason = event.reason};
  {
    const MutexLock lock(mutex_);
    const auto found = exports_.find(event.id);
    if (found == exports_.end()) {
      if (!again && turns_ != 0 && early_.size() < kEarlyMax) early_.push_back(event);
      return;
    }
    ExportRecord::Phase& phase = found->second->phase;
    if (event.kind == Event::Kind::kExportRevoked) {
      if (phase != ExportRecord::Phase::kLive) return;  // told before the daemon restarted
      phase = ExportRecord::Phase::kRevoking;
      told.kind = SessionEvent::Kind::kExportRevoked;
    } else if (event.kind == Event::Kind::kExportQuiescent) {
      if (phase == ExportRecord::Phase::kQuiescent) return;
      phase = ExportRecord::Phase::kQuiescent;
      found->second->pages.release();
      told.kind = SessionEvent::Kind::kExportQuiescent;
      told.silent_importers = event.silent;
    }
  }
  events_.push(told);
}

void SessionCore::trip(std::uint32_t scope, Errc code, std::uint32_t rank) const noexcept {
  if (scope != kNoScope) static_cast<void>(page_.trip(scope, {code, rank}));
}

}  // namespace imex::domain::client
