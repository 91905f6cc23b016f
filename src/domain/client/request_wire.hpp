/// One connection to the daemon's channel socket: requests and their answers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <imex/wait.hpp>

#include "domain/frame.hpp"
#include "os/fd.hpp"

namespace imex::domain::client {

/// What the daemon answered; its code may be an error.
struct Answer {
  Reply reply;
  std::vector<os::UniqueFd> fds;
};

/// The reply's code and text as an Error, with what a person can do about it.
[[nodiscard]] Error error_of(const Reply& reply, std::string_view what);

/// Owns the socket. call() belongs to one thread at a time; post() and fd() to any.
class RequestWire {
 public:
  RequestWire() = default;
  /// Errors: those of os::connect_unix().
  [[nodiscard]] static Result<RequestWire> connect(const std::string& path,
                                                   std::chrono::milliseconds timeout);

  /// Sends one request and waits for its answer: some 30 us in a loop where there is more than one
  /// core (the daemon answers within that, and a sleep costs more), then in the kernel.
  /// `cancel_fd`: ends the wait when it becomes readable; -1: none.
  /// Errors say nothing about the request itself, which may still take effect: kDeadlineExceeded,
  /// kUnavailable (the connection ended, or cancelled), kDataLoss and kVersionMismatch (the other
  /// side does not speak our protocol). A late answer that made something is undone when it comes.
  [[nodiscard]] Result<Answer> call(const Message& message, std::span<const int> fds,
                                    SteadyTime deadline, int cancel_fd);

  /// Sends a message that has no answer, or whose answer does not matter.
  [[nodiscard]] Result<void> post(const Message& message, SteadyTime deadline) const;

  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  [[nodiscard]] os::UniqueFd release() noexcept { return std::move(socket_); }
  /// A request ran into its deadline and nothing has come since. For call()'s thread.
  [[nodiscard]] bool silent() const noexcept { return silent_; }

 private:
  explicit RequestWire(os::UniqueFd socket) noexcept : socket_(std::move(socket)) {}
  [[nodiscard]] Result<void> send(const Frame& frame, std::span<const int> fds, SteadyTime deadline,
                                  int cancel_fd) const;
  /// The next frame from the daemon, if it is the answer to `request_id`; nothing if it is not.
  [[nodiscard]] Result<std::optional<Answer>> take(std::uint32_t request_id);
  void undo_late(std::uint32_t request_id, const Reply& reply);
  void remember_unanswered(std::uint32_t request_id, const Message& message);

  struct Unanswered {
    std::uint32_t request_id = 0;
    bool is_import = false;
  };
  static constexpr std::size_t kUnansweredMax = 256;

  os::UniqueFd socket_;
  std::uint32_t last_id_ = 0;
  bool silent_ = false;
  std::deque<Unanswered> unanswered_;  ///< exports and imports whose deadline passed; bounded
};

/// Reads one frame that waits on `socket`; kResourceExhausted when none does, kUnavailable at the
/// end of the connection.
struct ReceivedFrame {
  Frame frame;
  std::vector<os::UniqueFd> fds;
};
[[nodiscard]] Result<ReceivedFrame> receive_frame(int socket);

}  // namespace imex::domain::client
