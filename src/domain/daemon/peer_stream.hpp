/// What the streams of both directions between daemons have in common.
#pragma once

#include <cstddef>
#include <deque>

#include <imex/peer/v1/peer.pb.h>

#include "base/mutex.hpp"

namespace imex::domain {

/// A hello with 4096 names of 253 bytes, and some.
inline constexpr int kPeerMessageBytesMax = 2 << 20;
/// Messages that wait for a peer that does not read; then the stream ends.
inline constexpr std::size_t kPeerMessagesWaitingMax = 256;

/// An ordered queue of messages to write, one write at a time, one read at a time, the next read
/// only after the loop has taken the last message. Threads: send() and close() on the loop; the
/// reactors' callbacks on gRPC's threads.
template <class Reactor>
class PeerStream : public Reactor {
 public:
  virtual ~PeerStream() = default;

  void send(peer::v1::PeerMessage message) {
    bool cancel = false;
    {
      MutexLock lock(mutex_);
      if (ending_) return;
      cancel = waiting_.size() >= kPeerMessagesWaitingMax;
      if (!cancel) waiting_.push_back(std::move(message));
    }
    if (cancel) return abandon();
    write_next();
  }

 protected:
  /// Ends the stream now; on any thread.
  virtual void abandon() = 0;
  /// All is written and close() was called. Called once, on any thread, without the lock.
  virtual void finish_writing() = 0;

  void close_after_writing() {
    {
      MutexLock lock(mutex_);
      if (ending_) return;
      ending_ = true;
    }
    write_next();
  }
  /// Reads the next message, unless the stream has ended: gRPC frees the call once it is finished
  /// and nothing is under way, so a read may be started only before that.
  void start_read(peer::v1::PeerMessage* into) {
    {
      MutexLock lock(mutex_);
      if (finished_) return;
      starting_read_ = true;  // holds back the end until the read counts as under way
    }
    this->StartRead(into);
    {
      MutexLock lock(mutex_);
      starting_read_ = false;
    }
    write_next();
  }
  void on_written(bool ok) {
    {
      MutexLock lock(mutex_);
      writing_ = false;
      if (!ok) waiting_.clear();
      if (!ok) ending_ = true;
    }
    write_next();
  }

 private:
  void write_next() {
    const peer::v1::PeerMessage* next = nullptr;
    {
      MutexLock lock(mutex_);
      if (writing_ || starting_read_ || finished_ || (waiting_.empty() && !ending_)) return;
      if (waiting_.empty()) {
        finished_ = true;
      } else {
        writing_ = true;
        current_ = std::move(waiting_.front());
        waiting_.pop_front();
        next = &current_;
      }
    }
    // Without the lock: gRPC may call back from inside.
    if (next != nullptr) {
      this->StartWrite(next);
    } else {
      finish_writing();
    }
  }

  Mutex mutex_;
  std::deque<peer::v1::PeerMessage> waiting_ IMEX_GUARDED_BY(mutex_);
  peer::v1::PeerMessage current_ IMEX_GUARDED_BY(mutex_);  ///< gRPC reads it until OnWriteDone
  bool writing_ IMEX_GUARDED_BY(mutex_) = false;
  bool starting_read_ IMEX_GUARDED_BY(mutex_) = false;
  bool ending_ IMEX_GUARDED_BY(mutex_) = false;
  bool finished_ IMEX_GUARDED_BY(mutex_) = false;
};

}  // namespace imex::domain
