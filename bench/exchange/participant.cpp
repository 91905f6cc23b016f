#include "exchange/participant.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

namespace imex::bench {
namespace {

constexpr std::uint32_t kSamplesMin = 20;
constexpr std::uint32_t kBlockMax = 1000;
constexpr std::uint32_t kProbes = 3;
constexpr int kSpoiled = 0xEE;  // no result of ReducedPattern in any type

std::uint32_t bounded(double value, std::uint32_t low, std::uint32_t high) {
  return static_cast<std::uint32_t>(
      std::clamp(value, static_cast<double>(low), static_cast<double>(high)));
}

}  // namespace

Participant::Participant(const TickBoard& board, const ExchangeOptions& options, std::uint32_t rank,
                         std::size_t cores)
    : options_(options),
      facts_(facts_of(options.operation)),
      ruler_(board, rank, cores),
      rank_(rank),
      next_((rank + 1) % options.ranks),
      previous_((rank + options.ranks - 1) % options.ranks),
      into_peer_(options.operation == Operation::kPut ||
                 options.operation == Operation::kPutSignal),
      reduced_(options.type, options.op, rank, options.ranks),
      moved_(element_bytes(options.type)) {}

Result<Communicator> Participant::meet() {
  CommunicatorOptions wanted;
  wanted.algorithm = options_.algorithm;
  // The one that the default order leaves no room for.
  if (wanted.algorithm == Algorithm::kTwoLevel) wanted.determinism = Determinism::kConsistent;
  // Also in a build that checks by default: figures are those of the exchange alone.
  if (std::getenv("IMEX_CHECK") == nullptr) wanted.check = false;  // NOLINT(concurrency-mt-unsafe)
  UniqueId& id = ruler_.board().head().id;
  if (!options_.channel.empty()) {
    IMEX_TRY(session_, Session::open({.channel = options_.channel}));
  }
  std::optional<Rendezvous> rendezvous;
  if (rank_ == 0) {
    IMEX_TRY(rendezvous, session_ ? Rendezvous::create(*session_) : Rendezvous::create());
    id = rendezvous->id();
  }
  IMEX_CHECK_OK(ruler_.meet());  // the id is there
  auto comm = session_ ? Communicator::create(*session_, id, rank_, options_.ranks, wanted)
                       : Communicator::create(id, rank_, options_.ranks, wanted);
  if (comm) IMEX_CHECK_OK(ruler_.meet());  // nobody needs the rendezvous any more
  return comm;
}

Result<void> Participant::join() {
  IMEX_TRY(comm_, meet());
  ruler_.watch([this] { return comm_->async_error(); });
  return make_vectors();
}

Result<void> Participant::make_vectors() {
  constexpr std::uint64_t kBytesMin = 64;
  const std::size_t bytes = std::max(kBytesMin, *std::ranges::max_element(options_.sizes));
  const bool apart = facts_.placing == Placing::kApart ||
                     (facts_.placing == Placing::kEither && !options_.in_place);
  IMEX_TRY(in_, make_vector(bytes, options_.registered, memory_));
  out_ = in_;
  if (apart) {
    IMEX_TRY(out_, make_vector(bytes, options_.registered || into_peer_, memory_out_));
  }
  IMEX_TRY(PageKind kind, page_kind_of(in_, bytes));
  IMEX_TRY(const PageKind out_kind, page_kind_of(out_, bytes));
  if (kind != out_kind) kind = PageKind::kMixed;
  ruler_.board().post(rank_).page_kind = static_cast<std::uint64_t>(kind);
  return {};
}

Result<std::byte*> Participant::make_vector(std::size_t bytes, bool registered,
                                            PrivateMemory& memory) {
  if (!registered) {
    IMEX_TRY(memory, PrivateMemory::create(bytes, options_.pages));
    return memory.data();
  }
  IMEX_TRY(const auto vector, comm_->allocate(bytes, {.pages = options_.pages}));
  IMEX_TRY(const PageKind kind, page_kind_of(vector.data(), bytes));
  IMEX_CHECK_OK(check_pages(options_.pages, kind, "registered memory"));
  return vector.data();
}

Result<PageKind> Participant::page_kind() {
  IMEX_CHECK_OK(ruler_.meet());
  const std::uint64_t own = ruler_.board().post(rank_).page_kind;
  bool same = true;
  for (std::uint32_t rank = 0; rank != options_.ranks; ++rank) {
    same = same && ruler_.board().post(rank).page_kind == own;
  }
  return same ? static_cast<PageKind>(own) : PageKind::kMixed;
}

void Participant::resize(std::uint64_t bytes) {
  bytes_ = bytes;
  count_ = bytes / element_bytes(options_.type);
  share_bytes_ = bytes / options_.ranks;
  share_count_ = count_ / options_.ranks;
  tally_ = {};
}

Result<void> Participant::call() {
  std::byte* const own_in = in_ + rank_ * share_bytes_;
  std::byte* const own_out = in_ == out_ ? own_in : out_;
  switch (options_.operation) {
    case Operation::kAllReduce:
      return comm_->all_reduce(in_, out_, count_, options_.type, options_.op);
    case Operation::kAllGather:
      return comm_->all_gather(own_in, out_, share_bytes_);
    case Operation::kReduceScatter:
      return comm_->reduce_scatter(in_, own_out, share_count_, options_.type, options_.op);
    case Operation::kReduce:
      return comm_->reduce(in_, out_, count_, options_.type, options_.op, 0);
    case Operation::kBroadcast:
      return comm_->broadcast(in_, bytes_, 0);
    case Operation::kAllToAll:
      return comm_->all_to_all(in_, out_, share_bytes_);
    case Operation::kSendRecv:
      return comm_->send_receive(in_, bytes_, next_, out_, bytes_, previous_);
    case Operation::kPut:
      return comm_->put(in_, out_, bytes_, next_);
    case Operation::kPutSignal:
      IMEX_CHECK_OK(comm_->put_signal(in_, out_, bytes_, next_));
      return comm_->wait_signal(previous_, ++signals_);
    case Operation::kBarrier:
      return comm_->barrier();
  }
  return fail(Errc::kInternal, "no such operation");
}

Result<void> Participant::rewrite(bool spoil_result) {
  ++calls_;
  // All of the vector, also what other ranks are to overwrite: there it is no result of theirs.
  const std::span<std::byte> vector(in_, bytes_);
  if (facts_.reduces) {
    reduced_.fill(vector, calls_, 0);
  } else {
    MovedPattern::fill(vector, rank_, calls_, 0);
  }
  if (into_peer_) {
    IMEX_CHECK_OK(ruler_.meet());  // the peer's put has ended
    spoil_result = true;           // and its target is in use here, as it would be
  }
  if (spoil_result && out_ != in_) std::memset(out_, kSpoiled, bytes_);
  return {};
}

std::vector<Participant::Piece> Participant::result_pieces() const {
  const std::size_t own = rank_ * share_bytes_;
  std::vector<Piece> pieces;
  switch (options_.operation) {
    case Operation::kReduce:
      if (rank_ != 0) break;
      [[fallthrough]];
    case Operation::kAllReduce:
      pieces.push_back({out_, bytes_, 0, 0});
      break;
    case Operation::kReduceScatter:
      pieces.push_back({in_ == out_ ? in_ + own : out_, share_bytes_, 0, own});
      break;
    case Operation::kAllGather:
    case Operation::kAllToAll:
      for (std::uint32_t rank = 0; rank != options_.ranks; ++rank) {
        const std::size_t at = rank * share_bytes_;
        const bool gathers = options_.operation == Operation::kAllGather;
        pieces.push_back({out_ + at, share_bytes_, rank, gathers ? at : own});
      }
      break;
    case Operation::kBroadcast:
      pieces.push_back({out_, bytes_, 0, 0});
      break;
    case Operation::kSendRecv:
    case Operation::kPut:
    case Operation::kPutSignal:
      pieces.push_back({out_, bytes_, previous_, 0});
      break;
    case Operation::kBarrier:
      break;
  }
  return pieces;
}

Result<void> Participant::compare() {
  if (options_.operation == Operation::kBarrier) {
    // All came to the timed call at one time, which proves nothing: another one, staggered.
    IMEX_TRY(const std::uint64_t late, ruler_.late_entries([&] { return call(); }));
    tally_.add({.compared = options_.ranks, .wrong = late});
    return {};
  }
  // The peer's bytes may be under way still.
  if (options_.operation == Operation::kPut) IMEX_CHECK_OK(comm_->barrier());
  for (const Piece& piece : result_pieces()) {
    const std::span<const std::byte> result(piece.at, piece.bytes);
    tally_.add(facts_.reduces
                   ? reduced_.compare(result, calls_, piece.first / element_bytes(options_.type))
                   : moved_.compare(result, piece.from, calls_, piece.first));
  }
  return {};
}

Result<std::int64_t> Participant::timed_call(bool check) {
  IMEX_CHECK_OK(rewrite(check));
  IMEX_TRY(const std::uint64_t tick, ruler_.arrange_start());
  ruler_.await_tick(tick);
  auto done = call();
  const auto elapsed = static_cast<std::int64_t>(TickClock::now() - tick);
  if (!done) return fail(std::move(done).error());
  if (check) IMEX_CHECK_OK(compare());
  return elapsed;
}

Result<void> Participant::run_block(std::uint32_t count, bool check) {
  for (std::uint32_t i = 0; i != count; ++i) {
    IMEX_TRY(ruler_.board().post(rank_).elapsed[i], timed_call(check));
  }
  return ruler_.meet();
}

Samples Participant::slowest(std::uint32_t count) const {
  Samples samples;
  for (std::uint32_t i = 0; i != count; ++i) {
    std::int64_t ticks = 0;
    for (std::uint32_t rank = 0; rank != options_.ranks; ++rank) {
      ticks = std::max(ticks, ruler_.board().post(rank).elapsed[i]);
    }
    samples.push_back(std::llround(ruler_.clock().ns(ticks)));
  }
  return samples;
}

/// Until three successive medians agree within 5 %, or half of the time is gone. Returns how many
/// samples to take.
Result<std::uint32_t> Participant::warm_up() {
  const double seconds = std::chrono::duration<double>(options_.seconds).count();
  const auto begin = std::chrono::steady_clock::now();
  const auto since = [](auto time) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - time).count();
  };
  IMEX_CHECK_OK(run_block(kProbes, false));
  const double probe = since(begin) / kProbes;
  IMEX_TRY(const std::uint64_t block,
           ruler_.agree(bounded(0.05 * seconds / probe, kProbes, kBlockMax)));
  double older = 0, old = 0, each = probe;
  for (std::uint64_t settled = 0; settled == 0;) {
    const auto start = std::chrono::steady_clock::now();
    IMEX_CHECK_OK(run_block(static_cast<std::uint32_t>(block), false));
    each = since(start) / static_cast<double>(block);
    double median = 0;
    if (rank_ == 0) {
      median = summarize(slowest(static_cast<std::uint32_t>(block))).median_us;
    }
    const bool steady =
        median < 1.05 * std::min(old, older) && median > 0.95 * std::max(old, older);
    IMEX_TRY(settled, ruler_.agree(steady || since(begin) > seconds / 2 ? 1 : 0));
    older = old;
    old = median;
  }
  const std::uint32_t fit = bounded(seconds / each, kSamplesMin, kIterationsMax);
  IMEX_TRY(const std::uint64_t samples,
           ruler_.agree(options_.iterations != 0 ? options_.iterations : fit));
  return static_cast<std::uint32_t>(samples);
}

Result<Samples> Participant::sample(std::uint32_t count) {
  Samples samples;
  for (std::uint32_t left = count; left != 0;) {
    const std::uint32_t block = std::min(left, kTimesOnBoard);
    IMEX_CHECK_OK(run_block(block, options_.check_every));
    if (rank_ == 0) {
      const Samples more = slowest(block);
      samples.insert(samples.end(), more.begin(), more.end());
    }
    IMEX_CHECK_OK(ruler_.meet());  // the board may be written again
    left -= block;
  }
  return samples;
}

std::string_view Participant::algorithm_since(const CommunicatorCounters& before) const {
  const CommunicatorCounters after = comm_->counters();
  std::uint64_t most = 0;
  std::string_view name = "none";  // no choice to make
  for (std::uint32_t i = 1; i != kAlgorithmCount; ++i) {
    const std::uint64_t calls = after.by_algorithm[i] - before.by_algorithm[i];
    if (calls <= most) continue;
    most = calls;
    name = algorithm_name(static_cast<Algorithm>(i));
  }
  return name;
}

Result<void> Participant::collect(SizeOutcome& outcome) {
  ruler_.board().post(rank_).tally = tally_;
  IMEX_CHECK_OK(ruler_.meet());
  for (std::uint32_t rank = 0; rank != options_.ranks; ++rank) {
    const Tally& theirs = ruler_.board().post(rank).tally;
    if (outcome.tally.wrong == 0 && theirs.wrong != 0) outcome.wrong_rank = rank;
    outcome.tally.add(theirs);
  }
  return ruler_.meet();  // before anybody begins the next size
}

Result<SizeOutcome> Participant::measure(std::uint64_t bytes) {
  resize(bytes);
  SizeOutcome outcome;
  IMEX_TRY(outcome.round_trip_ns[0], ruler_.round_trip_ns());
  IMEX_TRY(outcome.costs, ruler_.line_costs(bytes));
  IMEX_TRY(const std::int64_t first, timed_call(true));
  static_cast<void>(first);
  IMEX_TRY(const std::uint32_t count, warm_up());
  const CommunicatorCounters before = comm_->counters();
  IMEX_TRY(outcome.samples, sample(count));
  outcome.algorithm = algorithm_since(before);
  IMEX_TRY(const std::int64_t last, timed_call(true));
  static_cast<void>(last);
  IMEX_TRY(outcome.round_trip_ns[1], ruler_.round_trip_ns());
  outcome.costs.hand_off = std::min(outcome.round_trip_ns[0], outcome.round_trip_ns[1]) / 2;
  IMEX_CHECK_OK(collect(outcome));
  return outcome;
}

}  // namespace imex::bench
