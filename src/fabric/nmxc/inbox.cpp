#include "inbox.hpp"

#include <utility>

namespace imex::fabric::nmxc {

void Inbox::begin(std::uint64_t stream) {
  const MutexLock lock(mutex_);
  stream_ = stream;
  batch_ = {};
}

void Inbox::heard(std::uint64_t stream, std::optional<FabricEvent> event, bool heartbeat) {
  const MutexLock lock(mutex_);
  if (stream != stream_) return;
  batch_.heard = true;
  batch_.heartbeat = batch_.heartbeat || heartbeat;
  if (event) {
    if (batch_.events.size() < kEventsMax)
      batch_.events.push_back(*std::move(event));
    else
      batch_.overflowed = true;
  }
  changed_.notify_all();
}

void Inbox::refused(std::uint64_t stream, NmxCode code) {
  const MutexLock lock(mutex_);
  if (stream != stream_) return;
  batch_.refused = code;
  changed_.notify_all();
}

void Inbox::ended(std::uint64_t stream, grpc::Status status) {
  const MutexLock lock(mutex_);
  if (stream != stream_) return;
  batch_.ended = std::move(status);
  changed_.notify_all();
}

void Inbox::poke() {
  const MutexLock lock(mutex_);
  poked_ = true;
  changed_.notify_all();
}

Inbox::Batch Inbox::wait(Clock::time_point until) {
  const MutexLock lock(mutex_);
  while (!poked_ && !batch_.heard && !batch_.refused && !batch_.ended) {
    if (!changed_.wait_until(mutex_, until)) break;
  }
  poked_ = false;
  return std::exchange(batch_, {});
}

}  // namespace imex::fabric::nmxc
