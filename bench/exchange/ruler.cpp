#include "exchange/ruler.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace imex::bench {
namespace {

constexpr std::chrono::seconds kWaitMax{60};
/// From the last arrival to the start: long enough for every rank to have seen the tick.
constexpr double kLeadNs = 1'500, kLeadCrowdedNs = 60'000;
/// How much later than the others the late rank enters a staggered barrier.
constexpr std::chrono::microseconds kLate{20};
constexpr std::chrono::microseconds kNap{200};
constexpr std::uint32_t kLooksPerYield = 16, kLooksPerCheck = 4096;
constexpr std::size_t kLineBytes = 64, kBlockBytesMin = 4096;

/// A preempted turn must not count.
std::int64_t middle_of(Samples& ticks) {
  const auto middle = ticks.begin() + static_cast<std::ptrdiff_t>(ticks.size() / 2);
  std::nth_element(ticks.begin(), middle, ticks.end());
  return *middle;
}

}  // namespace

void Ruler::give_up() noexcept {
  std::uint64_t nobody = 0;
  board_.head().failed.compare_exchange_strong(nobody, rank_ + 1);
}

Result<void> Ruler::still_on(std::chrono::steady_clock::time_point& deadline) {
  if (const std::uint64_t failed = board_.head().failed.load(std::memory_order_relaxed);
      failed != 0) {
    Error error{Errc::kPeerLost, fmt::format("rank {} of the benchmark gave up", failed - 1),
                "its error stands above"};
    error.rank = static_cast<std::uint32_t>(failed - 1);
    return fail(std::move(error));
  }
  if (health_) {
    if (auto error = health_()) return fail(std::move(*error));
  }
  const auto now = std::chrono::steady_clock::now();
  if (deadline == std::chrono::steady_clock::time_point{}) deadline = now + kWaitMax;
  if (now < deadline) return {};
  return fail(Errc::kDeadlineExceeded,
              fmt::format("a rank of the benchmark did not come within {} s", kWaitMax.count()));
}

template <class Done>
Result<void> Ruler::wait(bool yields, Done&& done) {
  std::chrono::steady_clock::time_point deadline{};
  for (std::uint32_t looks = 1; !done(); ++looks) {
    if (yields && looks % kLooksPerYield == 0) std::this_thread::yield();
    if (looks % kLooksPerCheck == 0) IMEX_CHECK_OK(still_on(deadline));
  }
  return {};
}

template <class Value>
Result<std::uint64_t> Ruler::meet_for(Value&& value) {
  BoardHead& head = board_.head();
  const std::uint64_t number = ++meetings_;
  // Release: what this rank has written on the board before is visible to whoever sees it here.
  board_.post(rank_).arrived.store(number, std::memory_order_release);
  if (rank_ != 0) {
    IMEX_CHECK_OK(wait(yields_, [&] { return head.go.load(std::memory_order_acquire) >= number; }));
    return head.agreed;  // rank 0 overwrites it when all have come to the next meeting
  }
  for (std::uint32_t other = 1; other != board_.ranks(); ++other) {
    const auto& arrived = board_.post(other).arrived;
    IMEX_CHECK_OK(wait(yields_, [&] { return arrived.load(std::memory_order_acquire) >= number; }));
  }
  head.agreed = value();
  head.go.store(number, std::memory_order_release);
  return head.agreed;
}

Result<std::uint64_t> Ruler::agree(std::uint64_t value) {
  return meet_for([&] { return value; });
}

Result<void> Ruler::meet() {
  IMEX_CHECK_OK(agree(0));
  return {};
}

Result<std::uint64_t> Ruler::arrange_start() {
  return meet_for(
      [&] { return TickClock::now() + clock_.ticks(yields_ ? kLeadCrowdedNs : kLeadNs); });
}

Result<std::uint64_t> Ruler::late_entries(const std::function<Result<void>()>& barrier) {
  const std::uint64_t number = ++staggered_;
  const auto not_entered = [&] {
    std::uint64_t count = 0;
    for (std::uint32_t rank = 0; rank != board_.ranks(); ++rank) {
      const auto& entered = board_.post(rank).entered;
      count += entered.load(std::memory_order_acquire) < number ? 1U : 0U;
    }
    return count;
  };
  if (rank_ == number % board_.ranks()) {
    IMEX_CHECK_OK(wait(yields_, [&] { return not_entered() == 1; }));
    const auto until = std::chrono::steady_clock::now() + kLate;
    IMEX_CHECK_OK(wait(yields_, [&] { return std::chrono::steady_clock::now() >= until; }));
  }
  board_.post(rank_).entered.store(number, std::memory_order_release);
  IMEX_CHECK_OK(barrier());
  return not_entered();
}

template <class Work>
Result<double> Ruler::turns(std::uint32_t count, Work&& work) {
  std::atomic<std::uint64_t>& turn = board_.head().turn;
  const std::uint64_t base = turns_;
  turns_ = base + 2 * std::uint64_t{count};
  const std::uint64_t begin = TickClock::now();
  for (std::uint64_t mine = base + rank_; mine < turns_; mine += 2) {
    IMEX_CHECK_OK(wait(one_core_, [&] { return turn.load(std::memory_order_acquire) == mine; }));
    work();
    turn.store(mine + 1, std::memory_order_release);
  }
  IMEX_CHECK_OK(wait(one_core_, [&] { return turn.load(std::memory_order_acquire) >= turns_; }));
  return clock_.ns(static_cast<std::int64_t>(TickClock::now() - begin)) / (2.0 * count);
}

template <class Work>
Result<double> Ruler::best_turn(std::uint32_t batches, std::uint32_t count, Work&& work) {
  IMEX_TRY(double best, turns(std::max(count / 4, 1U), work));
  for (std::uint32_t batch = 0; batch != batches; ++batch) {
    IMEX_TRY(const double each, turns(count, work));
    best = std::min(best, each);
  }
  return best;
}

Result<void> Ruler::nap() {
  std::chrono::steady_clock::time_point deadline{};
  // Rank 0 comes to the meeting that ends this last of all.
  while (board_.head().go.load(std::memory_order_acquire) <= meetings_) {
    if (board_.post(0).arrived.load(std::memory_order_acquire) > meetings_) break;
    IMEX_CHECK_OK(still_on(deadline));
    std::this_thread::sleep_for(kNap);
  }
  return {};
}

Result<double> Ruler::round_trip_ns() {
  double best = 0;
  IMEX_CHECK_OK(meet());
  if (rank_ < 2) {
    IMEX_TRY(best, best_turn(5, one_core_ ? 20 : 400, [] {}));
  } else {
    IMEX_CHECK_OK(nap());
  }
  IMEX_CHECK_OK(meet());
  return 2 * best;
}

Result<LineCosts> Ruler::line_costs(std::uint64_t bytes) {
  const std::size_t room = std::max(board_.block().size(), kBlockBytesMin);
  const std::size_t block =
      std::clamp<std::size_t>(bytes, kBlockBytesMin, room) / kLineBytes * kLineBytes;
  const double lines = static_cast<double>(block) / kLineBytes;
  const auto rounds =
      static_cast<std::uint32_t>(std::clamp<std::size_t>((std::size_t{1} << 20U) / block, 3, 50));
  const auto each_line = [&](auto&& touch) {
    for (std::size_t at = 0; at != block; at += kLineBytes) {
      touch(*reinterpret_cast<volatile std::uint64_t*>(board_.block().data() + at));
    }
  };
  LineCosts costs;
  IMEX_CHECK_OK(meet());
  if (rank_ < 2) {
    IMEX_TRY(const double swapped, best_turn(3, rounds, [&] {
               each_line([](volatile std::uint64_t& word) { word = word + 1; });
             }));
    costs.swapped = swapped / lines;
    // The peer has just written the lines: this reads them, then takes them back.
    Samples read, written;
    std::uint64_t seen = 0;
    IMEX_TRY(const double both, turns(4 * rounds, [&] {
               const std::uint64_t begin = TickClock::now();
               each_line([&](volatile std::uint64_t& word) { seen += word; });
               const std::uint64_t middle = TickClock::now_after_loads();
               each_line([&](volatile std::uint64_t& word) { word = begin; });
               const std::uint64_t end = TickClock::now_after_stores();
               read.push_back(static_cast<std::int64_t>(middle - begin));
               written.push_back(static_cast<std::int64_t>(end - middle));
             }));
    static_cast<void>(both);
    costs.read = clock_.ns(middle_of(read)) / lines;
    costs.written = clock_.ns(middle_of(written)) / lines;
  } else {
    IMEX_CHECK_OK(nap());
  }
  IMEX_CHECK_OK(meet());
  return costs;
}

}  // namespace imex::bench
