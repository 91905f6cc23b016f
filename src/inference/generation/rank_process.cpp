#include "rank_process.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "inference/engine/sampling_words.hpp"
#include "os/file.hpp"
#include "os/futex.hpp"

namespace imex::inference {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kIdleRounds = 6;  // of silence, until a rank is given up

std::uint64_t nanoseconds_since(Clock::time_point begin) {
  return static_cast<std::uint64_t>((Clock::now() - begin).count());
}

/// Pages of this process that no other has: without what is mapped from files.
std::uint64_t private_bytes() {
  const auto text = os::read_file("/proc/self/smaps_rollup", 1U << 16U);
  if (!text) return 0;
  std::uint64_t sum = 0;
  for (const std::string_view key : {"\nPrivate_Dirty:", "\nPrivate_Hugetlb:"}) {
    const std::size_t at = text->find(key);
    if (at != std::string::npos) sum += std::strtoull(text->c_str() + at + key.size(), nullptr, 10);
  }
  return sum * 1024;
}

/// One rank and what it holds, in the order in which it came to be.
class RankProcess {
 public:
  RankProcess(const Board& board, const GeneratorOptions& options, std::uint32_t rank)
      : board_(board), options_(options), rank_(rank) {}

  Result<void> run() {
    const auto begin = Clock::now();
    IMEX_CHECK_OK(meet());
    IMEX_TRY(auto engine,
             RankEngine::create({*options_.model, *options_.image, options_.plan},
                                communicator_ ? &*communicator_ : nullptr, options_.limits));
    engine_.emplace(std::move(engine));
    if (communicator_) IMEX_CHECK_OK(communicator_->barrier());
    IMEX_TRY(own().report.meeting_ns, engine_->measure_meeting());
    own().report.loading_seconds = static_cast<double>(nanoseconds_since(begin)) * 1e-9;
    own().state.store(RankState::kReady, std::memory_order_release);
    if (rank_ == 0) return lead();
    return engine_->follow([this] { report(board_.head().reporting.load()); });
  }

 private:
  RankBoard& own() const { return board_.rank(rank_); }

  Result<void> meet() {
    const std::uint32_t ranks = options_.plan.ranks();
    if (!options_.channels.empty()) {
      const std::string& channel = options_.channels[rank_ % options_.channels.size()];
      IMEX_TRY(auto session, Session::open({.channel = channel}));
      session_.emplace(std::move(session));
      if (rank_ == 0) IMEX_CHECK_OK(make_place());
    }
    if (ranks == 1) return {};
    IMEX_CHECK_OK(await_place());
    CommunicatorOptions met_options;
    met_options.timeout = kIdleRounds * options_.idle;
    const UniqueId& id = board_.head().id;
    auto met = session_ ? Communicator::create(*session_, id, rank_, ranks, met_options)
                        : Communicator::create(id, rank_, ranks, met_options);
    if (!met) return fail(std::move(met).error().context("meet the other ranks"));
    communicator_.emplace(std::move(*met));
    return {};
  }

  /// Through the daemon only who has a session can make the place; elsewhere the parent has.
  Result<void> make_place() {
    IMEX_TRY(auto place, Rendezvous::create(*session_));
    place_.emplace(std::move(place));
    board_.head().id = place_->id();
    board_.head().has_id.store(1, std::memory_order_release);
    return {};
  }

  Result<void> await_place() const {
    const auto deadline = Clock::now() + options_.timeout;
    while (board_.head().has_id.load(std::memory_order_acquire) == 0) {
      if (Clock::now() > deadline) {
        return fail(Errc::kDeadlineExceeded, "rank 0 made no place to meet");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {};
  }

  Result<void> lead() {
    BoardHead& head = board_.head();
    std::uint32_t done = 0;
    while (head.shut_down.load(std::memory_order_acquire) == 0) {
      const std::uint32_t number = head.requests.load(std::memory_order_acquire);
      if (number == done) {
        if (os::futex_wait(&head.requests, number, Clock::now() + options_.idle) ==
            os::FutexResult::kTimedOut) {
          IMEX_CHECK_OK(engine_->report());
        }
        continue;
      }
      IMEX_CHECK_OK(answer(number));
      head.reporting.store(number);
      IMEX_CHECK_OK(engine_->report());
      report(number);
      done = number;
      head.answered.store(number, std::memory_order_release);
    }
    return engine_->stop();
  }

  Result<void> answer(std::uint32_t number) {
    BoardHead& head = board_.head();
    head.answer.refused = false;
    const auto done = head.request.kind == RequestKind::kScore ? score() : generate(number);
    if (done) return {};
    const Errc code = done.error().code;
    // The ranks are as they were; only this request cannot be done.
    if (code == Errc::kInvalidArgument || code == Errc::kResourceExhausted) {
      head.answer.refusal.set(done.error());
      head.answer.refused = true;
      return {};
    }
    return done;
  }

  [[nodiscard]] std::span<const std::uint32_t> prompt() const {
    return board_.prompt().first(board_.head().request.prompt_tokens);
  }

  /// Tokens of the prompt that the cache has already; never all, as the last one is to be run.
  [[nodiscard]] std::uint32_t cached_beginning() const {
    const auto wanted = prompt().first(prompt().size() - 1);
    const auto there = engine_->tokens(0);
    return static_cast<std::uint32_t>(std::ranges::mismatch(wanted, there).in1 - wanted.begin());
  }

  Result<void> generate(std::uint32_t number) {
    BoardHead& head = board_.head();
    const BoardRequest& request = head.request;
    IMEX_TRY(const SamplingOptions sampling,
             read_sampling_options(board_.options().first(request.option_words)));
    const std::uint32_t kept = request.reuses_cache ? cached_beginning() : 0;
    head.answer.cached_tokens = kept;
    IMEX_CHECK_OK(engine_->begin(0, sampling, kept));
    engine_->reset_times();
    auto begin = Clock::now();
    IMEX_TRY(auto draw, engine_->append(0, prompt().subspan(kept), true));
    head.answer.prefill_ns = nanoseconds_since(begin);
    begin = Clock::now();
    for (std::uint32_t count = 1;; ++count) {
      board_.tokens()[count - 1] = {draw->token, draw->logprob.value_or(0)};
      head.tokens.store(count, std::memory_order_release);
      if (const auto reason = reason_to_finish(number, count, draw->token)) {
        head.answer.reason = *reason;
        break;
      }
      IMEX_TRY(draw, engine_->append(0, std::span(&draw->token, 1), true));
    }
    head.answer.decode_ns = nanoseconds_since(begin);
    return request.measures_reading ? engine_->measure_reading() : Result<void>();
  }

  [[nodiscard]] std::optional<FinishReason> reason_to_finish(std::uint32_t number,
                                                             std::uint32_t count,
                                                             std::uint32_t token) const {
    const BoardHead& head = board_.head();
    const std::span stops(head.request.stop_ids.data(), head.request.stop_count);
    if (std::ranges::find(stops, token) != stops.end()) return FinishReason::kStop;
    if (head.called_off.load(std::memory_order_relaxed) == number) return FinishReason::kAbort;
    if (count == head.request.max_tokens) return FinishReason::kLength;
    return std::nullopt;
  }

  Result<void> score() {
    IMEX_CHECK_OK(engine_->begin(0, {}));
    engine_->reset_times();
    const auto begin = Clock::now();
    IMEX_TRY(const auto scores, engine_->score(0, prompt()));
    std::copy(scores.begin(), scores.end(), board_.scores().begin());
    board_.head().answer.prefill_ns = nanoseconds_since(begin);
    return {};
  }

  /// Once per request: an idle rank 0 asks more often.
  void report(std::uint32_t number) {
    if (own().reports.load() == number) return;
    own().report.times = engine_->times();
    own().report.private_bytes = private_bytes();
    own().reports.store(number, std::memory_order_release);
    engine_->reset_times();
  }

  const Board& board_;
  const GeneratorOptions& options_;
  std::uint32_t rank_;
  std::optional<Session> session_;
  std::optional<Rendezvous> place_;
  std::optional<Communicator> communicator_;
  std::optional<RankEngine> engine_;
};

}  // namespace

int run_rank(const Board& board, const GeneratorOptions& options, std::uint32_t rank) noexcept {
  RankBoard& own = board.rank(rank);
  try {
    const auto done = RankProcess(board, options, rank).run();
    if (done) {
      own.state.store(RankState::kEnded, std::memory_order_release);
      return 0;
    }
    own.error.set(done.error());
  } catch (const std::bad_alloc&) {
    own.error.set({Errc::kResourceExhausted, "not enough memory"});
  } catch (const std::exception& error) {
    own.error.set({Errc::kInternal, error.what()});
  }
  own.state.store(RankState::kFailed, std::memory_order_release);
  return 1;
}

}  // namespace imex::inference
