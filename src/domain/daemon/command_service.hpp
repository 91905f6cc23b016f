/// What the daemon says about itself: to nvidia-imex-ctl, imex and monitors. Read-only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "daemon_log.hpp"
#include "net/event_loop.hpp"
#include "server_socket.hpp"

namespace imex::command::v1 {
class Health;
class Status;
}  // namespace imex::command::v1

namespace imex::domain {

/// Fills in the answers, on the loop.
class CommandSource {
 public:
  virtual ~CommandSource() = default;
  virtual void fill_status(command::v1::Status& status) const = 0;
  virtual void fill_health(command::v1::Health& health) const = 0;
};

class CommandService {
 public:
  /// Anybody may connect to `sockets`: what is asked is read-only. Errors: kInternal.
  [[nodiscard]] static Result<std::unique_ptr<CommandService>> start(
      net::EventLoop& loop, std::vector<ServerSocket> sockets, CommandSource& source, LogSink log);
  ~CommandService();

  /// The status changed: watchers are told, each at most every 100 ms.
  void changed();
  /// As PeerServer::stop().
  void stop();

  struct Impl;

 private:
  explicit CommandService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace imex::domain
