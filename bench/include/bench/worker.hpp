/// Processes of a benchmark: forked, pinned, and steered by short notes.
///
/// The steering process opens no session and makes no thread before it forks (fork copies only the
/// calling thread): all sessions and gRPC clients live in workers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>

#include <imex/handle.hpp>

#include "bench/report.hpp"
#include "os/fd.hpp"

namespace imex::bench {

/// One message between a worker and who started it.
struct Note {
  std::uint64_t value = 0;
  Handle handle{};
};
static_assert(std::is_trivially_copyable_v<Note>);

/// One end of the line. Every wait ends after kNoteTimeout: a worker that hangs is an error.
class Line {
 public:
  explicit Line(os::UniqueFd socket) noexcept : socket_(std::move(socket)) {}
  [[nodiscard]] Result<void> send(const Note& note) const;
  [[nodiscard]] Result<Note> receive() const;
  [[nodiscard]] Result<void> send_samples(const Samples& samples) const;
  [[nodiscard]] Result<Samples> receive_samples() const;
  /// With a descriptor; for the bare floor.
  [[nodiscard]] int socket() const noexcept { return socket_.get(); }

 private:
  os::UniqueFd socket_;
};
inline constexpr std::chrono::seconds kNoteTimeout{60};
/// In one packet of the line.
inline constexpr std::size_t kSamplesMax = 8192;

/// A forked child that runs `body` and ends. Dies with its parent; killed when destroyed.
class Worker {
 public:
  /// A `body` that fails prints its error to standard error and ends the child with status 1.
  [[nodiscard]] static Result<Worker> start(const std::function<Result<void>(Line&)>& body,
                                            std::optional<unsigned> core = std::nullopt);
  Worker(Worker&& other) noexcept;
  Worker& operator=(Worker&& other) noexcept;
  ~Worker();

  [[nodiscard]] const Line& line() const noexcept { return line_; }
  [[nodiscard]] std::int32_t pid() const noexcept { return pid_; }
  void kill() const noexcept;  ///< SIGKILL; does not wait

 private:
  Worker(std::int32_t pid, Line line) noexcept : pid_(pid), line_(std::move(line)) {}
  void end() noexcept;
  std::int32_t pid_ = -1;
  Line line_;
};

/// A connected pair of sequenced-packet sockets.
[[nodiscard]] Result<std::pair<os::UniqueFd, os::UniqueFd>> socket_pair();

[[nodiscard]] inline std::int64_t now_ns() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

}  // namespace imex::bench
