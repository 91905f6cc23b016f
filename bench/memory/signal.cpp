// Two pinned processes send a count to and fro; half a round trip is one way. Rounds with the bare
// flag and with Signal take turns.
#include <atomic>
#include <new>

#include <imex/signal.hpp>

#include "bench/memory.hpp"
#include "bench/worker.hpp"
#include "os/memory.hpp"
#include "os/process.hpp"

namespace imex::bench {
namespace {

constexpr std::size_t kSignalRounds = 40;
constexpr std::size_t kSignalSamplesPerRound = 2'000;
constexpr double kSignalTimesMax = 1.2;
constexpr std::chrono::seconds kSignalWaitMax{10};
/// Loads between two looks at the clock in the bare loop: rare enough not to be measured.
constexpr std::uint32_t kLoadsPerClock = 1U << 20U;

/// Each direction has its own pair of cache lines (two: the prefetcher fetches lines in pairs).
struct Board {
  alignas(128) SignalCell signal_to, signal_fro;
  alignas(128) std::atomic<std::uint64_t> flag_to;
  alignas(128) std::atomic<std::uint64_t> flag_fro;
};

bool await_flag(const std::atomic<std::uint64_t>& flag, std::uint64_t value) {
  const auto deadline = std::chrono::steady_clock::now() + kSignalWaitMax;
  std::uint32_t loads = 0;
  while (flag.load(std::memory_order_acquire) < value) {
    if (++loads % kLoadsPerClock == 0 && std::chrono::steady_clock::now() > deadline) return false;
  }
  return true;
}

bool await_signal(Signal& signal, std::uint64_t value, const WaitOptions& options) {
  return signal.wait_until(value, options).ok();
}

/// One side of the exchange: `first` sends, then waits; the other waits, then sends. Times at
/// `first`.
class Side {
 public:
  Side(Board& board, bool first)
      : out_signal_(first ? board.signal_to : board.signal_fro),
        in_signal_(first ? board.signal_fro : board.signal_to),
        out_flag_(first ? board.flag_to : board.flag_fro),
        in_flag_(first ? board.flag_fro : board.flag_to),
        first_(first) {}

  Result<Samples> flags(std::size_t count) {
    return turns(
        count, [&] { out_flag_.store(++sent_flags_, std::memory_order_release); },
        [&] { return await_flag(in_flag_, ++seen_flags_); });
  }
  Result<Samples> signals(std::size_t count) {
    WaitOptions options;
    options.deadline = std::chrono::steady_clock::now() + kSignalWaitMax;
    return turns(
        count, [&] { out_signal_.notify(); },
        [&] { return await_signal(in_signal_, ++seen_signals_, options); });
  }

 private:
  template <class Send, class Await>
  Result<Samples> turns(std::size_t count, Send send, Await await) {
    Samples samples(first_ ? count : 1);
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t begin = now_ns();
      if (first_) send();
      if (!await())
        return fail(Errc::kDeadlineExceeded, "the other side of the signal is silent for 10 s");
      if (!first_) send();
      if (first_) samples[i] = (now_ns() - begin) / 2;
    }
    return samples;
  }

  Signal out_signal_, in_signal_;
  std::atomic<std::uint64_t>& out_flag_;
  std::atomic<std::uint64_t>& in_flag_;
  bool first_;
  std::uint64_t sent_flags_ = 0, seen_flags_ = 0, seen_signals_ = 0;
};

/// Runs the same rounds on both sides; the first side reports times: flags, then signals, by round.
Result<void> play(Line& line, Board& board, bool first, std::size_t rounds) {
  Side side(board, first);
  IMEX_TRY(const auto warm_flags, side.flags(kSignalSamplesPerRound));
  IMEX_TRY(const auto warm_signals, side.signals(kSignalSamplesPerRound));
  static_cast<void>(warm_flags), static_cast<void>(warm_signals);
  for (std::size_t round = 0; round < rounds; ++round) {
    IMEX_TRY(const auto flags, side.flags(kSignalSamplesPerRound));
    IMEX_TRY(const auto signals, side.signals(kSignalSamplesPerRound));
    if (!first) continue;
    IMEX_CHECK_OK(line.send_samples(flags));
    IMEX_CHECK_OK(line.send_samples(signals));
  }
  return {};
}

static_assert(sizeof(Board) <= 4096);  // one page, whatever its size

}  // namespace

Result<std::vector<Row>> measure_signal(const MemoryOptions& options) {
  if (os::usable_cores() < 2) {
    return fail(Errc::kUnsupported,
                "measure a signal: two processes need a core each, one is usable",
                "widen the affinity mask or the container's quota");
  }
  const std::size_t rounds = options.scaled(kSignalRounds);
  IMEX_TRY(const auto memory, os::make_memfd("signal", os::page_bytes()));
  IMEX_TRY(const auto mapping, os::Mapping::map(memory.get(), os::page_bytes()));
  Board& board = *new (mapping.data()) Board();  // shared with both workers through fork
  IMEX_TRY(auto second,
           Worker::start([&](Line& line) { return play(line, board, false, rounds); }, 1));
  IMEX_TRY(auto first,
           Worker::start([&](Line& line) { return play(line, board, true, rounds); }, 0));
  static_cast<void>(second);

  Samples flags, signals;
  for (std::size_t round = 0; round < rounds; ++round) {
    IMEX_TRY(const auto bare, first.line().receive_samples());
    flags.insert(flags.end(), bare.begin(), bare.end());
    IMEX_TRY(const auto ours, first.line().receive_samples());
    signals.insert(signals.end(), ours.begin(), ours.end());
  }
  const Summary limit = summarize(std::move(flags));
  Row row{.operation = "signal_one_way",
          .placement = "two cores",
          .ranks = 2,
          .time = summarize(std::move(signals))};
  row.limit_us = limit.median_us;
  row.checked = true;
  row.mark = Mark{"p50 within 1.2 times of a bare flag", row.time.median_us / limit.median_us,
                  kSignalTimesMax};
  return std::vector<Row>{
      {.operation = "flag_one_way", .placement = "floor", .ranks = 2, .time = limit}, row};
}

}  // namespace imex::bench
