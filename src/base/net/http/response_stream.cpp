#include "net/http/response_stream.hpp"

#include <utility>

#include "stream_state.hpp"

namespace imex::net::http {

ResponseStream ResponseStream::create(std::size_t buffer_bytes_max) {
  ResponseStream stream;
  stream.state_ = std::make_shared<State>(buffer_bytes_max);
  return stream;
}

ResponseStream::Push ResponseStream::push(std::string bytes) const {
  return push(std::make_shared<const std::string>(std::move(bytes)));
}

ResponseStream::Push ResponseStream::push(Bytes bytes) const {
  if (!state_) return Push::kGone;
  std::function<void()> wake;
  {
    const MutexLock lock(state_->mutex);
    if (state_->closed || state_->ended) return Push::kGone;
    if (bytes->empty()) return Push::kQueued;
    // One piece always fits, so that a long event does not need a long buffer.
    if (!state_->queue.empty() &&
        bytes->size() >
            state_->buffer_bytes_max - std::min(state_->queued_bytes, state_->buffer_bytes_max)) {
      return Push::kFull;
    }
    state_->queued_bytes += bytes->size();
    state_->queue.push_back(std::move(bytes));
    if (!std::exchange(state_->wake_sent, true)) wake = state_->wake;
  }
  if (wake) wake();
  return Push::kQueued;
}

void ResponseStream::close() const {
  if (!state_) return;
  std::function<void()> wake;
  {
    const MutexLock lock(state_->mutex);
    if (std::exchange(state_->closed, true) || state_->ended) return;
    if (!std::exchange(state_->wake_sent, true)) wake = state_->wake;
  }
  if (wake) wake();
}

bool ResponseStream::open() const {
  if (!state_) return false;
  const MutexLock lock(state_->mutex);
  return !state_->closed && !state_->ended;
}

void ResponseStream::on_end(std::function<void()> callback) const {
  if (!state_) return;
  {
    const MutexLock lock(state_->mutex);
    if (!state_->ended) {
      state_->at_end = std::move(callback);
      return;
    }
  }
  callback();
}

void ResponseStream::State::attach(std::function<void()> chosen) {
  const MutexLock lock(mutex);
  wake = std::move(chosen);
}

ResponseStream::State::Taken ResponseStream::State::take() {
  Taken taken;
  const MutexLock lock(mutex);
  taken.pieces.assign(std::make_move_iterator(queue.begin()), std::make_move_iterator(queue.end()));
  queue.clear();
  queued_bytes = 0;
  wake_sent = false;
  taken.last = closed;
  return taken;
}

void ResponseStream::State::end() {
  std::function<void()> callback, old_wake;
  {
    const MutexLock lock(mutex);
    ended = true;
    queue.clear();
    queued_bytes = 0;
    callback = std::exchange(at_end, nullptr);
    old_wake = std::exchange(wake, nullptr);
  }
  if (callback) callback();
}

}  // namespace imex::net::http
