/// What the shared memory of a modelled execution looks like at one moment: a view-based weak
/// memory.
///
/// Each atomic word keeps all its messages in modification order, and each thread a view: the
/// oldest message of each word that it may still read. A load picks any message from its view on,
/// so stale reads are explored; a store may land before messages its thread does not know of, so
/// stores that a machine delays are explored too. Release stores carry the writer's view along,
/// acquire loads join it. Fences work as in C++20. For seq_cst, one position per word is kept that
/// no seq_cst access may go below: weaker than the standard where orders mix, so nothing proven
/// here rests on mixing them.
///
/// Futexes promise only what futex(2) does: compare-and-sleep and wake on one word are atomic and
/// totally ordered. The compare may otherwise see stale values, and no call is a fence, although on
/// Linux today they are.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace imex::memory::model {

// Every state of an exhaustive walk holds many views, so they are small. Random walks hold one
// state and model more: an executable is compiled for one or the other.
#ifdef IMEX_MODEL_LARGE
inline constexpr std::size_t kWordsMax = 200;
inline constexpr std::size_t kThreadsMax = 9;
#else
inline constexpr std::size_t kWordsMax = 16;
inline constexpr std::size_t kThreadsMax = 4;
#endif

using Position = std::uint8_t;
using ClockValue = std::uint16_t;

/// Lower bounds: per word a position in its modification order, per thread the payload
/// accesses known of.
struct View {
  std::array<Position, kWordsMax> position{};
  std::array<ClockValue, kThreadsMax> clock{};

  void join(const View& other) noexcept {
    for (std::size_t i = 0; i != kWordsMax; ++i)
      position[i] = std::max(position[i], other.position[i]);
    for (std::size_t i = 0; i != kThreadsMax; ++i) clock[i] = std::max(clock[i], other.clock[i]);
  }
};

struct Message {
  std::uint64_t value = 0;
  View view{};               ///< what an acquire load learns
  bool read_by_rmw = false;  ///< the next message is the result; nothing may land between
};

/// Payload: plain memory. Two accesses that no happens-before orders, one of them a write, are a
/// race.
struct PlainCell {
  std::uint64_t value = 0;
  std::uint8_t writer = 0;
  ClockValue written = 0;  ///< the writer's clock; 0: initial value
  std::array<ClockValue, kThreadsMax> read{};
};

enum class Run : std::uint8_t { kReady, kAsleep, kFinished };

struct ThreadState {
  View view;        ///< what happened before the thread's next step
  View on_acquire;  ///< what an acquire fence would add
  View on_release;  ///< what relaxed stores carry since the last release fence
  Run run = Run::kReady;
  std::array<std::uint8_t, 2> asleep_on{};  ///< words + 1; 0: none
  bool may_time_out = false;
  std::vector<std::uint64_t> log;  ///< results of its steps so far: its whole local state
  std::uint64_t log_hash = 0;
  /// Words read since the last wait for a change, and the positions read there.
  std::vector<std::uint8_t> round_words;
  std::array<Position, kWordsMax> round_position{};
};

struct MemoryState {
  std::vector<ThreadState> threads;
  std::vector<std::vector<Message>> words;
  std::vector<PlainCell> cells;
  View seq_cst;  ///< positions only
  View futex;    ///< positions that wakes have published, per futex word
};

}  // namespace imex::memory::model
