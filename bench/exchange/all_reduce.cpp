// Ranks of one benchmark share a board beside their communicator: who has arrived, the tick at
// which all start, and each rank's time from that tick.

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

#include <fmt/format.h>

#include "bench/exchange.hpp"
#include "bench/worker.hpp"
#include "exchange/clock.hpp"
#include "os/memory.hpp"
#include "os/process.hpp"

namespace imex::bench {
namespace {

constexpr std::size_t kSamplesOfSize = 4096;  ///< at most, per size
constexpr std::uint32_t kIterationsMin = 100;
constexpr std::uint32_t kRanksOfBench = 64;
/// From the last arrival to the start: long enough for every rank to have seen the tick.
constexpr double kLeadNs = 1'500, kLeadCrowdedNs = 60'000;
constexpr std::size_t kBlockMax = std::size_t{4} << 20U;
constexpr double kHyperthreadsBelowNs = 35, kFarAboveNs = 90;

struct Post {
  alignas(128) std::atomic<std::uint64_t> arrived;
  std::int64_t elapsed[kSamplesOfSize];  ///< ticks; read by rank 0 after the next arrival
};
struct TickBoard {
  alignas(128) std::atomic<std::uint64_t> go;
  std::atomic<std::uint64_t> start;
  alignas(128) std::atomic<std::uint64_t> turn;
  alignas(128) std::byte block[kBlockMax];
  Post posts[kRanksOfBench];
};

/// One rank's side.
class Rank {
 public:
  Rank(TickBoard& board, std::uint32_t rank, const ExchangeOptions& options, unsigned cores)
      : board_(board), rank_(rank), options_(options), crowded_(options.ranks > cores) {}

  /// What rank 0 says about one size; the others fill nothing in.
  struct Outcome {
    Samples samples;  ///< ns, of the slowest rank
    std::uint64_t wrong = 0;
    double hop_before_ns = 0, hop_after_ns = 0, line_ns = 0;
  };

  Result<void> prepare(const UniqueId& id) {
    CommunicatorOptions options;
    options.algorithm = options_.algorithm;
    IMEX_TRY(auto comm, Communicator::create(id, rank_, options_.ranks, options));
    comm_ = std::make_unique<Communicator>(std::move(comm));
    const std::uint64_t largest = *std::max_element(options_.sizes.begin(), options_.sizes.end());
    const std::size_t bytes = std::max<std::uint64_t>(largest, 64);
    if (options_.registered) {
      IMEX_TRY(const auto in, comm_->allocate(bytes));
      in_ = in.data();
      out_ = in_;
      if (!options_.in_place) {
        IMEX_TRY(const auto out, comm_->allocate(bytes));
        out_ = out.data();
      }
    } else {
      memory_.resize(2 * bytes + 8192);
      const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
      in_ = memory_.data() + (4096 - address % 4096);
      out_ = options_.in_place ? in_ : in_ + bytes;
    }
    return {};
  }

  Result<Outcome> measure(std::uint64_t bytes) {
    Outcome outcome;
    const std::size_t count = bytes / element_bytes(options_.type);
    outcome.hop_before_ns = hop();
    outcome.line_ns = line(bytes);
    IMEX_TRY(const std::uint32_t iterations, warm_up(count));
    IMEX_CHECK_OK(sample(count, iterations, outcome));
    outcome.hop_after_ns = hop();
    return outcome;
  }

  [[nodiscard]] Communicator& comm() noexcept { return *comm_; }
  /// More ranks than cores.
  [[nodiscard]] bool crowded() const noexcept { return crowded_; }

 private:
  template <class Done>
  void spin(Done&& done) const {
    for (std::uint32_t looks = 0; !done(); ++looks) {
      if (crowded_ && looks % 16 == 15) std::this_thread::yield();
    }
  }

  /// Element `i` of rank r's vector in call k: small whole numbers, whose sums are exact in any
  /// type.
  [[nodiscard]] std::uint32_t value(std::uint32_t rank, std::uint64_t call, std::size_t i) const {
    return static_cast<std::uint32_t>(rank + call + i % 5) % 3;
  }

  void fill(std::size_t count, std::uint64_t call) {
    if (options_.type == DataType::kFloat32) {
      auto* const data = reinterpret_cast<float*>(in_);
      const std::array<float, 15> pattern = float_pattern(call);
      for (std::size_t i = 0; i < count; i += 15) {
        std::memcpy(data + i, pattern.data(), std::min<std::size_t>(15, count - i) * sizeof(float));
      }
      return;
    }
    std::memset(in_, static_cast<int>(call % 3), count * element_bytes(options_.type));
  }
  [[nodiscard]] std::array<float, 15> float_pattern(std::uint64_t call) const {
    std::array<float, 15> pattern;
    for (std::size_t i = 0; i != 15; ++i) pattern[i] = static_cast<float>(value(rank_, call, i));
    return pattern;
  }

  /// Elements of the sum that are not what they must be. Other types and operations are the matter
  /// of the tests; here the bits must be those of the first element's kind throughout.
  [[nodiscard]] std::uint64_t verify(std::size_t count, std::uint64_t call) const {
    if (options_.type != DataType::kFloat32 || options_.op != ReduceOp::kSum) return 0;
    std::array<float, 15> wanted{};
    for (std::size_t i = 0; i != 15; ++i) {
      for (std::uint32_t rank = 0; rank != options_.ranks; ++rank) {
        wanted[i] += static_cast<float>(value(rank, call, i));
      }
    }
    std::uint64_t wrong = 0;
    const auto* const data = reinterpret_cast<const float*>(out_);
    for (std::size_t i = 0; i != count; ++i) wrong += data[i] == wanted[i % 15] ? 0U : 1U;
    return wrong;
  }

  /// All ranks leave at one tick; returns it.
  std::uint64_t start() {
    const std::uint64_t number = ++calls_;
    board_.posts[rank_].arrived.store(number, std::memory_order_release);
    if (rank_ == 0) {
      for (std::uint32_t rank = 1; rank != options_.ranks; ++rank) {
        spin([&] { return board_.posts[rank].arrived.load(std::memory_order_acquire) >= number; });
      }
      board_.start.store(TickClock::now() + clock_.ticks(crowded_ ? kLeadCrowdedNs : kLeadNs),
                         std::memory_order_relaxed);
      board_.go.store(number, std::memory_order_release);
    } else {
      spin([&] { return board_.go.load(std::memory_order_acquire) >= number; });
    }
    const std::uint64_t tick = board_.start.load(std::memory_order_relaxed);
    spin([&] { return TickClock::now() >= tick; });
    return tick;
  }

  Result<std::int64_t> timed_call(std::size_t count) {
    fill(count, calls_ + 1);
    const std::uint64_t tick = start();
    auto done = comm_->all_reduce(in_, out_, count, options_.type, options_.op);
    const auto elapsed = static_cast<std::int64_t>(TickClock::now() - tick);
    if (!done) return fail(std::move(done).error());
    return elapsed;
  }

  /// Until three successive medians agree within 5 %, or a quarter of the time is spent. Returns
  /// how many samples to take; the same in all ranks.
  Result<std::uint32_t> warm_up(std::size_t count) {
    std::int64_t slowest_ns = 1;
    double last = 0;
    std::uint32_t agree = 0;
    const auto until = std::chrono::steady_clock::now() + options_.seconds / 4;
    for (std::uint32_t go_on = 1; go_on != 0;) {
      Samples batch;
      for (int i = 0; i != 15; ++i) {
        IMEX_TRY(const std::int64_t elapsed, timed_call(count));
        batch.push_back(elapsed);
      }
      const double median = summarize(batch).median_us;
      agree = std::abs(median - last) < 0.05 * median ? agree + 1 : 0;
      last = median;
      slowest_ns = static_cast<std::int64_t>(clock_.ns(1) * median * 1000);
      go_on = agree < 2 && std::chrono::steady_clock::now() < until ? 1 : 0;
      IMEX_CHECK_OK(comm_->all_reduce(&go_on, &go_on, 1, DataType::kUint32, ReduceOp::kMax));
    }
    IMEX_CHECK_OK(comm_->all_reduce(&slowest_ns, &slowest_ns, 1, DataType::kInt64, ReduceOp::kMax));
    if (options_.iterations != 0) {
      return std::min<std::uint32_t>(options_.iterations, kSamplesOfSize);
    }
    // The rewriting and the meeting cost about as much again.
    const double each_ns = 3.0 * static_cast<double>(slowest_ns) + 3 * kLeadNs;
    const double fit =
        static_cast<double>(std::chrono::nanoseconds(options_.seconds).count()) / each_ns;
    return static_cast<std::uint32_t>(
        std::clamp<double>(fit, kIterationsMin, static_cast<double>(kSamplesOfSize)));
  }

  Result<void> sample(std::size_t count, std::uint32_t iterations, Outcome& outcome) {
    std::uint64_t wrong = 0;
    for (std::uint32_t i = 0; i != iterations; ++i) {
      IMEX_TRY(board_.posts[rank_].elapsed[i], timed_call(count));
      if (i % 16 == 0 || i + 1 == iterations) wrong += verify(count, calls_);
    }
    IMEX_CHECK_OK(comm_->all_reduce(&wrong, &wrong, 1, DataType::kUint64, ReduceOp::kSum));
    outcome.wrong = wrong;
    if (rank_ != 0) {
      IMEX_CHECK_OK(comm_->barrier());  // rank 0 has read the times
      return {};
    }
    for (std::uint32_t i = 0; i != iterations; ++i) {
      std::int64_t slowest = 0;
      for (std::uint32_t rank = 0; rank != options_.ranks; ++rank) {
        slowest = std::max(slowest, board_.posts[rank].elapsed[i]);
      }
      outcome.samples.push_back(std::llround(clock_.ns(slowest)));
    }
    return comm_->barrier();
  }

  /// Turns between ranks 0 and 1; `work` is done at each. Returns ns per turn.
  template <class Work>
  double turns(std::uint32_t count, Work&& work) {
    if (rank_ > 1 || options_.ranks < 2) return 0;
    const std::uint64_t base = turns_;
    const std::uint64_t begin = TickClock::now();
    for (std::uint32_t i = 0; i != count; ++i) {
      const std::uint64_t mine = base + 2 * i + rank_;
      spin([&] { return board_.turn.load(std::memory_order_acquire) == mine; });
      work();
      board_.turn.store(mine + 1, std::memory_order_release);
    }
    turns_ = base + 2 * count;
    spin([&] { return board_.turn.load(std::memory_order_acquire) >= turns_; });
    return clock_.ns(static_cast<std::int64_t>(TickClock::now() - begin)) / (2.0 * count);
  }

  double hop() {
    static_cast<void>(turns(200, [] {}));
    double best = 1e9;
    for (int i = 0; i != 5; ++i) best = std::min(best, turns(crowded_ ? 20 : 400, [] {}));
    return best;
  }

  /// Of a block like the vector: read and written by one rank, then by the other.
  double line(std::uint64_t bytes) {
    const std::size_t block = std::clamp<std::size_t>(bytes / 64 * 64, 4096, kBlockMax);
    const auto touch = [&] {
      for (std::size_t at = 0; at < block; at += 64) {
        auto* const word = reinterpret_cast<std::uint64_t*>(board_.block + at);
        *word += 1;
      }
    };
    const std::uint32_t rounds =
        static_cast<std::uint32_t>(std::clamp<std::size_t>((std::size_t{1} << 20U) / block, 3, 50));
    static_cast<void>(turns(2, touch));
    double best = 1e12;
    for (int i = 0; i != 3; ++i) best = std::min(best, turns(rounds, touch));
    return best / (static_cast<double>(block) / 64);
  }

  TickBoard& board_;
  const std::uint32_t rank_;
  const ExchangeOptions& options_;
  const bool crowded_;
  TickClock clock_;
  std::unique_ptr<Communicator> comm_;
  std::vector<std::byte> memory_;
  std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  std::uint64_t calls_ = 0, turns_ = 0;
};

std::string distance_of(const Rank::Outcome& outcome, bool crowded) {
  if (crowded) return "shared core";
  const double low = std::min(outcome.hop_before_ns, outcome.hop_after_ns);
  const double high = std::max(outcome.hop_before_ns, outcome.hop_after_ns);
  if (low < kHyperthreadsBelowNs) return "hyperthreads";
  if (high > 1.5 * low) return "moved";
  return low > kFarAboveNs ? "far" : "near";
}

ExchangeRow row_of(std::uint64_t bytes, const ExchangeOptions& options, Rank& rank,
                   Rank::Outcome outcome) {
  ExchangeRow row;
  row.bytes = bytes;
  row.algorithm = rank.comm().choice(bytes, options.registered);
  row.distance = distance_of(outcome, rank.crowded());
  row.hop_ns = std::min(outcome.hop_before_ns, outcome.hop_after_ns);
  row.line_ns = outcome.line_ns;
  row.wrong = outcome.wrong;
  row.time = summarize(std::move(outcome.samples));
  // Private: all lines to the peer and back into the own hands; registered: half, and once.
  const double lines = std::ceil(static_cast<double>(bytes) / 64);
  const double moved = options.registered ? std::max(1.0, lines / 2) : std::max(1.0, 2 * lines);
  row.limit_us = (row.hop_ns + moved * row.line_ns) / 1000;
  row.algbw_gb_s = static_cast<double>(bytes) / (row.time.median_us * 1000);
  row.busbw_gb_s = row.algbw_gb_s * 2 * (options.ranks - 1) / options.ranks;
  return row;
}

Result<void> play(TickBoard& board, std::uint32_t number, const UniqueId& id,
                  const ExchangeOptions& options, unsigned cores,
                  const std::function<void(std::uint64_t)>& progress, ExchangeReport* report) {
  Rank rank(board, number, options, cores);
  IMEX_CHECK_OK(rank.prepare(id));
  for (const std::uint64_t bytes : options.sizes) {
    if (report != nullptr) progress(bytes);
    IMEX_TRY(auto outcome, rank.measure(bytes));
    if (report != nullptr) report->rows.push_back(row_of(bytes, options, rank, std::move(outcome)));
  }
  if (report != nullptr) {
    report->explanation = rank.comm().explain(options.registered);
    report->window_bytes = rank.comm().window_bytes();
  }
  return rank.comm().barrier();
}

Result<void> check_options(const ExchangeOptions& options) {
  if (options.ranks < 2 || options.ranks > kRanksOfBench) {
    return fail(Errc::kInvalidArgument,
                fmt::format("benchmark of {} ranks: 2 to {} wanted", options.ranks, kRanksOfBench));
  }
  if (options.sizes.empty()) return fail(Errc::kInvalidArgument, "benchmark of no sizes");
  for (const std::uint64_t bytes : options.sizes) {
    if (bytes != 0 && bytes % element_bytes(options.type) == 0) continue;
    return fail(Errc::kInvalidArgument,
                fmt::format("size of {} bytes: a multiple of {} wanted, for elements of {}", bytes,
                            element_bytes(options.type), data_type_name(options.type)));
  }
  return {};
}

}  // namespace

Result<ExchangeReport> measure_all_reduce(
    const ExchangeOptions& options, const std::function<void(std::uint64_t bytes)>& progress) {
  IMEX_CHECK_OK(check_options(options));
  const std::size_t board_bytes = (sizeof(TickBoard) + 4095) / 4096 * 4096;
  IMEX_TRY(const auto memory, os::make_memfd("bench-board", board_bytes));
  IMEX_TRY(const auto mapping, os::Mapping::map(memory.get(), board_bytes, {.populate = true}));
  TickBoard& board = *reinterpret_cast<TickBoard*>(mapping.data());  // zero is a fresh board
  IMEX_TRY(const Rendezvous rendezvous, Rendezvous::create());
  const unsigned cores = os::usable_cores();  // before any rank is pinned
  std::vector<Worker> workers;
  // This process is rank 0; it makes threads only after the others were forked.
  for (std::uint32_t rank = 1; rank != options.ranks; ++rank) {
    IMEX_TRY(auto worker, Worker::start(
                              [&, rank](Line&) {
                                return play(board, rank, rendezvous.id(), options, cores, progress,
                                            nullptr);
                              },
                              rank % cores));
    workers.push_back(std::move(worker));
  }
  IMEX_CHECK_OK(os::pin_to_core(0));
  ExchangeReport report;
  report.pages = "small";
  IMEX_CHECK_OK(play(board, 0, rendezvous.id(), options, cores, progress, &report));
  return report;
}

}  // namespace imex::bench
