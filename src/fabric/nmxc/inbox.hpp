/// Between the thread of a stream, which hears, and the watcher's, which tells.
#pragma once

#include <deque>
#include <optional>

#include <grpcpp/support/status.h>

#include "base/mutex.hpp"
#include "fabric/manager.hpp"

namespace imex::fabric::nmxc {

class Inbox {
 public:
  using Clock = std::chrono::steady_clock;

  /// What came since the last time, of the stream with this number only.
  struct Batch {
    std::deque<FabricEvent> events;
    bool overflowed = false;  ///< more came than was kept
    bool heard = false;       ///< anything at all, known or not
    bool heartbeat = false;
    std::optional<NmxCode> refused;  ///< the first message said that there will be no more
    std::optional<grpc::Status> ended;
  };

  /// Forgets everything and takes in only what the stream of this number says.
  void begin(std::uint64_t stream);

  void heard(std::uint64_t stream, std::optional<FabricEvent> event, bool heartbeat);
  void refused(std::uint64_t stream, NmxCode code);
  void ended(std::uint64_t stream, grpc::Status status);
  /// Ends a wait early.
  void poke();

  /// Returns when something came, at poke(), or at `until`.
  [[nodiscard]] Batch wait(Clock::time_point until);

 private:
  static constexpr std::size_t kEventsMax = 256;

  Mutex mutex_;
  CondVar changed_;
  std::uint64_t stream_ IMEX_GUARDED_BY(mutex_) = 0;
  Batch batch_ IMEX_GUARDED_BY(mutex_);
  bool poked_ IMEX_GUARDED_BY(mutex_) = false;
};

}  // namespace imex::fabric::nmxc
