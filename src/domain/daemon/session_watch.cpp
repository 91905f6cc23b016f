#include "session_watch.hpp"

#include <fcntl.h>

#include <csignal>

#include <fmt/format.h>

#include "os/process.hpp"

namespace imex::domain {

SessionWatch::SessionWatch(net::EventLoop& loop, LogSink log,
                           std::function<void(SessionId)> on_exit)
    : loop_(loop), log_(std::move(log)), on_exit_(std::move(on_exit)) {}

void SessionWatch::adopt(SessionId session, int abort_page, int pidfd) {
  Session adopted;
  if (abort_page >= 0) {
    auto page = memory::AbortPage::adopt(abort_page);
    if (page) {
      adopted.page = std::move(*page);
    } else {
      log_(kLogError,
           fmt::format("abort page of session {:#x}: {}", session, page.error().to_string()));
    }
  }
  adopted.pidfd = os::UniqueFd(::fcntl(pidfd, F_DUPFD_CLOEXEC, 0));
  if (adopted.pidfd) {
    adopted.watch = std::make_unique<net::FdWatch>(loop_, adopted.pidfd.get());
    adopted.watch->on_readable([this, session] {
      sessions_.at(session).watch->on_readable({});  // once is enough
      on_exit_(session);
    });
  } else {
    // End-of-file on the socket still tells; only a process that passed its socket on is missed.
    log_(kLogError,
         fmt::format("session {:#x}: its process cannot be watched: no descriptor left", session));
  }
  sessions_.insert_or_assign(session, std::move(adopted));
}

void SessionWatch::trip(SessionId session, std::uint32_t scope, Errc code, std::uint32_t rank) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || !found->second.page) return;
  found->second.page->trip(scope, {code, rank});
}

void SessionWatch::kill(SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || !found->second.pidfd) return;
  if (const auto sent = os::signal_pidfd(found->second.pidfd.get(), SIGKILL); !sent) {
    log_(kLogWarning,
         fmt::format("session {:#x} cannot be ended: {}", session, sent.error().message));
  }
}

}  // namespace imex::domain
