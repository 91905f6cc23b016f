/// A response that goes on: server-sent events, watches, generated text.
///
///     auto stream = ResponseStream::create();
///     watchers.add(stream);                                   // pushes whenever it likes
///     return Response::streamed("text/event-stream", stream);
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace imex::net::http {

/// A handle, copied freely; all copies mean one stream. Thread-safe. An idle stream costs its
/// connection and no thread.
class ResponseStream {
 public:
  /// One text that goes to many streams is held once.
  using Bytes = std::shared_ptr<const std::string>;

  enum class Push : std::uint8_t {
    kQueued,
    kFull,  ///< the peer reads too slowly; nothing was queued. Close it, or send less later
    kGone,  ///< closed, or the peer has gone
  };

  /// No stream.
  ResponseStream() = default;
  /// At most `buffer_bytes_max` wait for the peer to read them.
  [[nodiscard]] static ResponseStream create(std::size_t buffer_bytes_max = 256U << 10U);

  /// What is pushed before the response was returned is sent right after its head.
  Push push(Bytes bytes) const;
  Push push(std::string bytes) const;
  /// Ends the response after what was queued. Again is fine.
  void close() const;
  /// Until close(), or until the peer was seen to be gone.
  [[nodiscard]] bool open() const;
  /// Calls `callback` once, when the peer has gone or all was sent after close(); at once if that
  /// is so already. On a thread of the server: must not block. One callback per stream.
  void on_end(std::function<void()> callback) const;

  explicit operator bool() const noexcept { return state_ != nullptr; }

  struct State;
  [[nodiscard]] const std::shared_ptr<State>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace imex::net::http
