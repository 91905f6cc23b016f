/// Ranks as processes of the test.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <imex/communicator.hpp>

namespace imex::exchange::testing_kit {

/// Shared by the test and its ranks.
struct Board {
  std::atomic<std::uint32_t> open{0};  ///< the test has filled in what ranks need
  UniqueId id;
  char text[256];
  std::atomic<std::uint32_t> arrived{0};
  std::atomic<std::uint32_t> told{0};
  std::atomic<std::int64_t> killed_ns{0};
  std::atomic<std::int64_t> told_ns[128]{};  ///< by rank
};

/// Until `what` is true; false after a minute, which only a test that fails waits for.
inline bool reaches(const std::function<bool()>& what) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!what()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Forks where it is made, so that no thread of the test is in the way; the ranks wait for open().
/// Children are killed and reaped at the end.
class ProcessRanks {
 public:
  /// `body` returns the exit status of its rank.
  using Body = std::function<int(std::uint32_t rank, Board& board)>;

  ProcessRanks(std::uint32_t ranks, const Body& body) {
    void* memory =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    board_ = new (memory) Board();
    for (std::uint32_t rank = 0; rank != ranks; ++rank) {
      const pid_t pid = ::fork();
      EXPECT_GE(pid, 0);
      if (pid == 0) {
        const bool open = reaches([&] { return board_->open.load() != 0; });
        ::_exit(open ? body(rank, *board_) : 98);
      }
      pids_.push_back(pid);
    }
  }
  ~ProcessRanks() {
    for (const pid_t pid : pids_) {
      if (pid > 0) ::kill(pid, SIGKILL), ::waitpid(pid, nullptr, 0);
    }
    ::munmap(board_, sizeof(Board));
  }
  ProcessRanks(const ProcessRanks&) = delete;
  ProcessRanks& operator=(const ProcessRanks&) = delete;

  [[nodiscard]] Board& board() noexcept { return *board_; }
  void open(const UniqueId& id) {
    board_->id = id;
    board_->open.store(1);
  }
  void kill(std::uint32_t rank) {
    board_->killed_ns = std::chrono::steady_clock::now().time_since_epoch().count();
    ::kill(pids_[rank], SIGKILL);
  }
  /// Exit status; a signal as negative number.
  [[nodiscard]] int wait(std::uint32_t rank) {
    int status = 0;
    ::waitpid(pids_[rank], &status, 0);
    pids_[rank] = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  Board* board_ = nullptr;
  std::vector<pid_t> pids_;
};

/// A body that begins with a communicator of all ranks, met directly.
inline ProcessRanks::Body direct(std::uint32_t ranks,
                                 std::function<int(Communicator&, Board&)> body) {
  return [ranks, body = std::move(body)](std::uint32_t rank, Board& board) {
    auto comm = Communicator::create(board.id, rank, ranks);
    if (comm) return body(*comm, board);
    std::fprintf(stderr, "rank %u: %s\n", rank, comm.error().to_string().c_str());
    return 99;
  };
}

/// A line on standard error, and the exit status of a rank that failed.
inline int failed(std::uint32_t rank, const char* what, const Error& error) {
  std::fprintf(stderr, "rank %u: %s: %s\n", rank, what, error.to_string().c_str());
  return 1;
}

}  // namespace imex::exchange::testing_kit
