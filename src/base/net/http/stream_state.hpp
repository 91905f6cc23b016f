/// Both ends of a ResponseStream: handlers push, the connection takes. Not for other rooms.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "base/mutex.hpp"
#include "net/http/response_stream.hpp"

namespace imex::net::http {

struct ResponseStream::State {
  explicit State(std::size_t bytes_max) : buffer_bytes_max(bytes_max) {}

  // The connection's end.

  /// `wake` is called (from any thread, without a lock) when there is something to take again.
  void attach(std::function<void()> wake);
  struct Taken {
    std::vector<Bytes> pieces;
    bool last = false;  ///< closed, and nothing is queued behind these
  };
  [[nodiscard]] Taken take();
  /// The connection is over, or all was sent: no more pushes, on_end() is called.
  void end();

  const std::size_t buffer_bytes_max;
  Mutex mutex;
  std::deque<Bytes> queue IMEX_GUARDED_BY(mutex);
  std::size_t queued_bytes IMEX_GUARDED_BY(mutex) = 0;
  bool closed IMEX_GUARDED_BY(mutex) = false;
  bool ended IMEX_GUARDED_BY(mutex) = false;
  bool wake_sent IMEX_GUARDED_BY(mutex) = false;  ///< one wake-up until the next take()
  std::function<void()> wake IMEX_GUARDED_BY(mutex);
  std::function<void()> at_end IMEX_GUARDED_BY(mutex);
};

}  // namespace imex::net::http
