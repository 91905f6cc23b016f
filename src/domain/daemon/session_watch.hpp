/// The processes behind the sessions: their abort pages and their ends.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "daemon_log.hpp"
#include "domain/broker.hpp"
#include "memory/abort_page.hpp"
#include "net/event_loop.hpp"
#include "os/fd.hpp"

namespace imex::domain {

/// Keeps own copies of the descriptors it is given.
class SessionWatch {
 public:
  SessionWatch(net::EventLoop& loop, LogSink log, std::function<void(SessionId)> on_exit);

  /// `abort_page` -1: a session that has not come back yet. Replaces what was known of it.
  void adopt(SessionId session, int abort_page, int pidfd);
  void drop(SessionId session) { sessions_.erase(session); }
  void trip(SessionId session, std::uint32_t scope, Errc code, std::uint32_t rank);
  void kill(SessionId session);
  [[nodiscard]] std::size_t size() const noexcept { return sessions_.size(); }

 private:
  struct Session {
    std::optional<memory::AbortPage> page;
    os::UniqueFd pidfd;
    std::unique_ptr<net::FdWatch> watch;  ///< goes before the pidfd closes
  };
  net::EventLoop& loop_;
  LogSink log_;
  std::function<void(SessionId)> on_exit_;
  std::map<SessionId, Session> sessions_;
};

}  // namespace imex::domain
