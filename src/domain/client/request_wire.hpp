/// One connection to the daemon's channel socket: requests of several threads and their answers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <imex/wait.hpp>

#include "base/mutex.hpp"
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

/// Owns the socket. call(), post() and fd() belong to any thread, also at once: answers come in
/// whatever order the daemon has them, and whoever waits reads for all until its own is there.
/// Moving and destroying need the wire alone.
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
  /// A request ran into its deadline and nothing has come since.
  [[nodiscard]] bool silent() const;

 private:
  /// A call on its way; lives on the caller's stack. Guarded by the inbox's mutex.
  struct Waiter {
    std::optional<Answer> answer;
    bool asleep = false;  ///< may be woken to read
    CondVar wake;
  };
  struct Unanswered {
    std::uint32_t request_id = 0;
    bool is_import = false;
  };
  static constexpr std::size_t kUnansweredMax = 256;
  struct Inbox {
    Mutex mutex;
    std::uint32_t last_id IMEX_GUARDED_BY(mutex) = 0;
    bool silent IMEX_GUARDED_BY(mutex) = false;
    bool reading IMEX_GUARDED_BY(mutex) = false;  ///< somebody reads, for all
    std::map<std::uint32_t, Waiter*> waiting IMEX_GUARDED_BY(mutex);
    /// Exports and imports whose deadline passed.
    std::deque<Unanswered> unanswered IMEX_GUARDED_BY(mutex);

    [[nodiscard]] std::uint32_t next_id() IMEX_REQUIRES(mutex) {
      return ++last_id != 0 ? last_id : ++last_id;  // 0: not asked for
    }
  };

  explicit RequestWire(os::UniqueFd socket)
      : socket_(std::move(socket)), inbox_(std::make_unique<Inbox>()) {}
  [[nodiscard]] Result<void> send(const Frame& frame, std::span<const int> fds, SteadyTime deadline,
                                  int cancel_fd) const;
  [[nodiscard]] Result<Answer> wait(std::uint32_t request_id, Waiter& waiter,
                                    const Message& message, SteadyTime deadline, int cancel_fd);
  /// Reads for all until the answer to `request_id` is there, or the deadline passed.
  [[nodiscard]] Result<void> read_until(std::uint32_t request_id, SteadyTime deadline,
                                        int cancel_fd);
  /// Hands the next frame to whoever waits for it; true: that is `request_id`.
  [[nodiscard]] Result<bool> take(std::uint32_t request_id);
  void leave(std::uint32_t request_id) IMEX_REQUIRES(inbox_->mutex);
  void undo_late(std::uint32_t request_id, const Reply& reply) IMEX_REQUIRES(inbox_->mutex);
  void remember_unanswered(std::uint32_t request_id, const Message& message)
      IMEX_REQUIRES(inbox_->mutex);

  os::UniqueFd socket_;
  std::unique_ptr<Inbox> inbox_;  // by pointer: a wire can be moved, a mutex cannot
};

/// Reads one frame that waits on `socket`; kResourceExhausted when none does, kUnavailable at the
/// end of the connection.
struct ReceivedFrame {
  Frame frame;
  std::vector<os::UniqueFd> fds;
};
[[nodiscard]] Result<ReceivedFrame> receive_frame(int socket);

}  // namespace imex::domain::client
