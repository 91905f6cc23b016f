/// What the daemon says about itself: to nvidia-imex-ctl, imex and monitors. Read-only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "net/event_loop.hpp"

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
  /// `endpoints`: "IP:PORT", "[IP]:PORT" or "unix:PATH" (mode 0666: read-only, and the directory
  /// decides who comes so far). Errors: kAlreadyExists.
  [[nodiscard]] static Result<std::unique_ptr<CommandService>> start(
      net::EventLoop& loop, const std::vector<std::string>& endpoints, CommandSource& source);
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
