/// The privileged service: who may use which channel. Unix socket, mode 0600: whoever can open it
/// is the daemon's user or root.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "daemon_log.hpp"
#include "domain/journal.hpp"
#include "net/event_loop.hpp"

namespace imex::domain {

struct GrantAsked {
  std::string workload;
  std::vector<std::uint64_t> gpu_uids;
  std::vector<std::uint32_t> gpu_indexes;
  std::optional<std::uint32_t> uid;  ///< unset: the daemon's own user
};
struct GrantGiven {
  GrantRecord grant;
  std::string path;
};

/// Decides, on the loop. Callbacks may come later, exactly once.
class ControlSource {
 public:
  virtual ~ControlSource() = default;
  virtual void grant(GrantAsked asked, std::function<void(Result<GrantGiven>)> done) = 0;
  virtual Result<void> release(const std::string& workload) = 0;
  [[nodiscard]] virtual std::vector<GrantGiven> grants() const = 0;
};

class ControlService {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ControlService>> start(net::EventLoop& loop,
                                                                     const std::string& path,
                                                                     ControlSource& source,
                                                                     LogSink log);
  ~ControlService();
  /// As PeerServer::stop(). Grants that wait for an answer must have been answered.
  void stop();

  struct Impl;

 private:
  explicit ControlService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace imex::domain
