#include "inference/generation/generator.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "board.hpp"
#include "inference/engine/sampling_words.hpp"
#include "os/futex.hpp"
#include "rank_process.hpp"

namespace imex::inference {
namespace {

using Clock = std::chrono::steady_clock;

// How often the board is looked at: no token is seen later than this.
constexpr std::chrono::milliseconds kLook{1};
// What a survivor says of the loss of another is worth waiting for, but not long.
constexpr std::chrono::milliseconds kLastWords{200};
constexpr std::chrono::milliseconds kEnding{700};

/// Exit status as the shell has it.
int shell_status(int status) noexcept {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// A forked rank.
struct Process {
  std::int32_t pid = -1;
  std::optional<int> status;  // once it has ended

  bool has_ended() noexcept {
    int found = 0;
    if (!status && ::waitpid(pid, &found, WNOHANG) == pid) status = shell_status(found);
    return status.has_value();
  }
  void kill() noexcept {
    if (has_ended()) return;
    ::kill(pid, SIGKILL);
    int found = 0;
    if (::waitpid(pid, &found, 0) == pid) status = shell_status(found);
  }
};

}  // namespace

std::string_view finish_reason_name(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAbort:
      return "abort";
  }
  return "";
}

class Generator::State {
 public:
  State(GeneratorOptions options, Board board)
      : options_(std::move(options)), board_(std::move(board)) {}

  ~State() {
    board_.head().shut_down.store(1, std::memory_order_release);
    next_request();
    const auto deadline = Clock::now() + kEnding;
    for (Process& process : processes_) {
      while (!process.has_ended() && Clock::now() < deadline) std::this_thread::sleep_for(kLook);
      process.kill();
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Result<void> start() {
    const std::uint32_t ranks = options_.plan.ranks();
    if (options_.channels.empty() && ranks > 1) {
      IMEX_TRY(auto place, Rendezvous::create());
      place_.emplace(std::move(place));
      board_.head().id = place_->id();
      board_.head().has_id.store(1, std::memory_order_release);
    }
    std::fflush(nullptr);  // else a rank would print what is buffered here
    for (std::uint32_t rank = 0; rank < ranks; ++rank) IMEX_CHECK_OK(fork_rank(rank));
    const auto deadline = Clock::now() + options_.timeout;
    IMEX_CHECK_OK(watch_until([&] { return count(RankState::kReady) == ranks; }, deadline));
    place_.reset();
    return {};
  }

  Result<GenerateResult> generate(const GenerateRequest& request, const OnToken& on_token) {
    IMEX_CHECK_OK(check(request));
    BoardRequest& posted = board_.head().request;
    posted = {};
    posted.max_tokens = request.max_tokens;
    posted.measures_reading = request.measures_reading;
    posted.reuses_cache = request.reuses_cache;
    posted.stop_count = static_cast<std::uint32_t>(request.stop_ids.size());
    std::ranges::copy(request.stop_ids, posted.stop_ids.begin());
    const auto words = write_sampling_options(request.sampling);
    posted.option_words = static_cast<std::uint32_t>(words.size());
    std::ranges::copy(words, board_.options().begin());
    const std::uint32_t number = post(request.prompt);

    std::uint64_t given = 0;
    bool wanted = true;
    const auto give_tokens = [&] {
      const std::uint64_t there = board_.head().tokens.load(std::memory_order_acquire);
      for (; given < there && wanted; ++given) {
        wanted = on_token(board_.tokens()[given]);
        if (!wanted) board_.head().called_off.store(number);
      }
      return has_answer(number);
    };
    const auto done = watch_until(give_tokens, Clock::time_point::max());
    give_tokens();  // what came before the end
    IMEX_CHECK_OK(done);
    const BoardAnswer& answer = board_.head().answer;
    if (answer.refused) return fail(answer.refusal.get());
    GenerateResult result;
    // A text that was ended from here did not end because of its length.
    result.reason = wanted ? answer.reason : FinishReason::kStop;
    result.prompt_tokens = request.prompt.size();
    result.tokens = given;
    result.cached_tokens = answer.cached_tokens;
    result.prefill_seconds = static_cast<double>(answer.prefill_ns) * 1e-9;
    result.decode_seconds = static_cast<double>(answer.decode_ns) * 1e-9;
    return result;
  }

  Result<std::vector<double>> score(std::span<const std::uint32_t> tokens) {
    IMEX_CHECK_OK(check_prompt(tokens, 0));
    board_.head().request = {.kind = RequestKind::kScore};
    const std::uint32_t number = post(tokens);
    IMEX_CHECK_OK(watch_until([&] { return has_answer(number); }, Clock::time_point::max()));
    const BoardAnswer& answer = board_.head().answer;
    if (answer.refused) return fail(answer.refusal.get());
    const auto scores = board_.scores().first(tokens.size() - 1);
    return std::vector<double>(scores.begin(), scores.end());
  }

  [[nodiscard]] std::vector<RankReport> reports() const {
    std::vector<RankReport> reports;
    for (std::uint32_t rank = 0; rank < options_.plan.ranks(); ++rank) {
      reports.push_back(board_.rank(rank).report);
    }
    return reports;
  }

  [[nodiscard]] std::vector<std::int32_t> pids() const {
    std::vector<std::int32_t> pids;
    for (const Process& process : processes_) pids.push_back(process.pid);
    return pids;
  }

 private:
  Result<void> fork_rank(std::uint32_t rank) {
    const std::int32_t parent = ::getpid();
    const std::int32_t pid = ::fork();
    if (pid < 0) return fail(system_error(errno, fmt::format("fork rank {}", rank)));
    if (pid > 0) {
      processes_.push_back({pid, std::nullopt});
      return {};
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // it ended before the call above
    // The terminal sends it to all of the group; what it means is decided in the parent.
    std::signal(SIGINT, SIG_IGN);
    ::_exit(run_rank(board_, options_, rank));
  }

  [[nodiscard]] std::uint32_t count(RankState state) const {
    std::uint32_t found = 0;
    for (std::uint32_t rank = 0; rank < options_.plan.ranks(); ++rank) {
      if (board_.rank(rank).state.load(std::memory_order_acquire) == state) ++found;
    }
    return found;
  }

  /// Looks at the board until `done`. Errors: a rank failed or died, kAborted, kDeadlineExceeded.
  Result<void> watch_until(const std::function<bool()>& done, Clock::time_point deadline) {
    for (;;) {
      if (done()) return {};
      if (auto lost = find_loss()) return fail(std::move(*lost));
      if (options_.interrupted && options_.interrupted()) {
        return fail(Errc::kAborted, "interrupted");
      }
      if (Clock::now() > deadline) {
        return fail(Errc::kDeadlineExceeded, "the ranks were not ready in time");
      }
      std::this_thread::sleep_for(kLook);
    }
  }

  /// A rank that died is the cause; that others lost it is the consequence.
  std::optional<Error> find_loss() {
    for (std::uint32_t rank = 0; rank < processes_.size(); ++rank) {
      Process& process = processes_[rank];
      const RankState state = board_.rank(rank).state.load(std::memory_order_acquire);
      if (state == RankState::kFailed) return cause_of_failure();
      if (process.has_ended()) {
        Error error{Errc::kPeerLost, fmt::format("rank {} (process {}) died{}", rank, process.pid,
                                                 described(*process.status))};
        error.rank = rank;
        return error;
      }
    }
    return std::nullopt;
  }

  static std::string described(int status) {
    return status > 128 ? fmt::format(" by signal {}", status - 128)
                        : fmt::format(" with status {}", status);
  }

  /// Several ranks fail at once when one does: what one says of itself goes before what others say
  /// of it.
  Error cause_of_failure() {
    const auto deadline = Clock::now() + kLastWords;
    std::optional<Error> told;
    do {
      for (std::uint32_t rank = 0; rank < processes_.size(); ++rank) {
        const RankBoard& board = board_.rank(rank);
        if (board.state.load(std::memory_order_acquire) != RankState::kFailed) {
          if (processes_[rank].has_ended() && *processes_[rank].status > 128) {
            Error error{Errc::kPeerLost,
                        fmt::format("rank {} (process {}) died{}", rank, processes_[rank].pid,
                                    described(*processes_[rank].status))};
            error.rank = rank;
            return error;
          }
          continue;
        }
        Error error = board.error.get();
        const bool of_another = error.code == Errc::kPeerLost || error.code == Errc::kAborted;
        if (!of_another) return std::move(error).context(fmt::format("rank {}", rank));
        if (!told) told = std::move(error).context(fmt::format("rank {}", rank));
      }
      std::this_thread::sleep_for(kLook);
    } while (Clock::now() < deadline);
    return *told;
  }

  Result<void> check_prompt(std::span<const std::uint32_t> prompt, std::uint64_t more) const {
    const std::uint32_t context = options_.limits.context;
    if (prompt.empty()) return fail(Errc::kInvalidArgument, "the prompt is empty");
    if (prompt.size() + more > context) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("a prompt of {} tokens and {} more do not fit the context of {}",
                              prompt.size(), more, context),
                  "shorten the prompt, or ask for fewer tokens");
    }
    return {};
  }

  Result<void> check(const GenerateRequest& request) const {
    if (request.max_tokens == 0) return fail(Errc::kInvalidArgument, "no token is asked for");
    // The last token is drawn, and never becomes an input.
    IMEX_CHECK_OK(check_prompt(request.prompt, request.max_tokens - 1));
    if (request.stop_ids.size() > BoardRequest{}.stop_ids.size()) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("{} stop tokens, at most {} are possible", request.stop_ids.size(),
                              BoardRequest{}.stop_ids.size()));
    }
    if (write_sampling_options(request.sampling).size() > Board::kOptionWords) {
      return fail(Errc::kInvalidArgument, "too many tokens with a bias");
    }
    return validate(request.sampling, options_.model->parameters().vocabulary);
  }

  std::uint32_t post(std::span<const std::uint32_t> prompt) {
    BoardHead& head = board_.head();
    std::ranges::copy(prompt, board_.prompt().begin());
    head.request.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
    head.tokens.store(0);
    return next_request();
  }

  std::uint32_t next_request() {
    BoardHead& head = board_.head();
    const std::uint32_t number = head.requests.fetch_add(1, std::memory_order_release) + 1;
    os::futex_wake_all(&head.requests);
    return number;
  }

  [[nodiscard]] bool has_answer(std::uint32_t number) const {
    if (board_.head().answered.load(std::memory_order_acquire) != number) return false;
    for (std::uint32_t rank = 0; rank < options_.plan.ranks(); ++rank) {
      if (board_.rank(rank).reports.load(std::memory_order_acquire) != number) return false;
    }
    return true;
  }

  GeneratorOptions options_;
  Board board_;
  std::optional<Rendezvous> place_;
  std::vector<Process> processes_;
};

Result<Generator> Generator::start(GeneratorOptions options) {
  IMEX_ASSERT(options.model != nullptr && options.image != nullptr && options.plan.ranks() != 0,
              "a model, its image and a plan");
  IMEX_TRY(auto board, Board::create(options.plan.ranks(), options.limits.context));
  auto state = std::make_unique<State>(std::move(options), std::move(board));
  IMEX_CHECK_OK(state->start());
  return Generator(std::move(state));
}

Generator::Generator(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;
Generator::~Generator() = default;

Result<GenerateResult> Generator::generate(const GenerateRequest& request,
                                           const OnToken& on_token) {
  return state_->generate(request, on_token);
}
Result<std::vector<double>> Generator::score(std::span<const std::uint32_t> tokens) {
  return state_->score(tokens);
}
std::vector<RankReport> Generator::reports() const { return state_->reports(); }
std::vector<std::int32_t> Generator::pids() const { return state_->pids(); }

}  // namespace imex::inference
