#include "inference/engine/rank_engine.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "answers.hpp"
#include "base/assert.hpp"
#include "block_pool.hpp"
#include "clock.hpp"
#include "inference/engine/sampling_words.hpp"
#include "sequence.hpp"
#include "step_plan.hpp"
#include "transformer.hpp"

namespace imex::inference {
namespace {

// Rows of logits that are exchanged at once; a step of a batch needs one for each sequence.
constexpr std::uint32_t kAnswerRows = 8;
// A short plan takes one message.
constexpr std::size_t kShortPlanWords = 63;

std::uint32_t block_count(const EngineLimits& limits) {
  if (limits.kv_blocks != 0) return limits.kv_blocks;
  return limits.sequences * static_cast<std::uint32_t>(KvLayout::blocks_for(limits.context));
}

Transformer::Limits transformer_limits(const EngineLimits& limits) {
  return {limits.rows, limits.context, block_count(limits)};
}

std::uint32_t answer_rows(const EngineLimits& limits) {
  return std::max(kAnswerRows, limits.sequences);
}

}  // namespace

RankMemory memory_of(const HyperParameters& parameters, const SplitPlan& plan, std::uint32_t rank,
                     const EngineLimits& limits) {
  const auto layers = Transformer::memory_of(parameters, plan, rank, transformer_limits(limits));
  RankMemory memory;
  memory.weights = plan.shares[rank].weight_bytes;
  memory.cache = layers.cache;
  memory.buffers = layers.buffers + std::uint64_t{parameters.vocabulary} * sizeof(float);
  memory.window = layers.window + Answers::window_bytes(plan, answer_rows(limits));
  return memory;
}

class RankEngine::State {
 public:
  State(const Parts& parts, Communicator* communicator, const EngineLimits& limits)
      : parameters_(parts.model.parameters()),
        communicator_(communicator),
        limits_(limits),
        pool_(block_count(limits)) {}

  Result<void> prepare(const Parts& parts) {
    IMEX_TRY(auto rounds, Rounds::create(communicator_));
    rounds_ = std::make_unique<Rounds>(std::move(rounds));
    IMEX_TRY(weights_, RankWeights::cut(parts.model, parts.image, parts.plan, rounds_->rank()));
    IMEX_TRY(auto transformer, Transformer::create(parameters_, parts.plan, weights_, *rounds_,
                                                   transformer_limits(limits_)));
    transformer_ = std::make_unique<Transformer>(std::move(transformer));
    IMEX_TRY(auto answers, Answers::create(*rounds_, parts.plan, answer_rows(limits_)));
    answers_ = std::make_unique<Answers>(std::move(answers));
    tables_.resize(limits_.sequences);
    for (auto& table : tables_) table.reserve(KvLayout::blocks_for(limits_.context));
    sequences_.resize(limits_.sequences);
    for (Sequence& sequence : sequences_) sequence.reserve(limits_.context);
    wanting_.reserve(limits_.rows);
    plan_.tokens.reserve(limits_.rows);
    plan_.tables.reserve(limits_.rows);
    words_.reserve(limits_.rows * 8);
    return {};
  }

  Result<void> begin(std::uint32_t sequence, const SamplingOptions& options, std::uint32_t kept) {
    IMEX_ASSERT(sequence < limits_.sequences && kept <= sequences_[sequence].size(),
                "sequences are numbered from 0, and keep what they have");
    pool_.give_back(std::span(tables_[sequence]).subspan(KvLayout::blocks_for(kept)));
    plan_.clear();
    plan_.kind = StepPlan::Kind::kBegin;
    plan_.sequence = sequence;
    plan_.kept = kept;
    plan_.options = write_sampling_options(options);
    IMEX_CHECK_OK(send_plan());
    return execute();
  }

  Result<std::optional<Sample>> append(std::uint32_t sequence,
                                       std::span<const std::uint32_t> tokens, bool draws) {
    IMEX_CHECK_OK(check_room(sequence, tokens));
    for (std::size_t at = 0; at < tokens.size(); at += limits_.rows) {
      const auto part = tokens.subspan(at, std::min<std::size_t>(limits_.rows, tokens.size() - at));
      plan_tokens(sequence, part);
      const bool last = at + part.size() == tokens.size();
      if (last && draws) plan_.tokens.back().wants = StepToken::Wants::kDraw;
      IMEX_CHECK_OK(send_plan());
      IMEX_CHECK_OK(execute());
    }
    if (!draws) return std::optional<Sample>();
    return std::optional<Sample>(sample_);
  }

  Result<std::vector<double>> score(std::uint32_t sequence, std::span<const std::uint32_t> tokens) {
    IMEX_CHECK_OK(check_room(sequence, tokens));
    scores_.clear();
    for (std::size_t at = 0; at < tokens.size(); at += limits_.rows) {
      const auto part = tokens.subspan(at, std::min<std::size_t>(limits_.rows, tokens.size() - at));
      plan_tokens(sequence, part);
      for (std::size_t i = 0; i < part.size() && at + i + 1 < tokens.size(); ++i) {
        plan_.tokens[i].wants = StepToken::Wants::kScore;
        plan_.tokens[i].target = tokens[at + i + 1];
      }
      IMEX_CHECK_OK(send_plan());
      IMEX_CHECK_OK(execute());
    }
    return scores_;
  }

  [[nodiscard]] std::span<const std::uint32_t> tokens(std::uint32_t sequence) const noexcept {
    return sequences_[sequence].ids();
  }

  Result<void> measure_reading() {
    IMEX_CHECK_OK(say(StepPlan::Kind::kRead));
    return execute();
  }

  Result<void> say(StepPlan::Kind kind) {
    plan_.clear();
    plan_.kind = kind;
    return send_plan();
  }

  Result<void> follow(const std::function<void()>& on_report) {
    for (;;) {
      IMEX_CHECK_OK(receive_plan());
      if (plan_.kind == StepPlan::Kind::kStop) return {};
      if (plan_.kind == StepPlan::Kind::kReport) {
        on_report();
        continue;
      }
      IMEX_CHECK_OK(execute());
    }
  }

  Result<std::uint64_t> measure_meeting() {
    constexpr int kMeetings = 200;
    TimeHistogram times;
    for (int i = 0; i < kMeetings; ++i) {
      const std::uint64_t begin = steady_ns();
      IMEX_CHECK_OK(rounds_->meet());
      times.add(steady_ns() - begin);
    }
    return times.quantile(0.5);
  }

  [[nodiscard]] RankTimes times() const {
    const PhaseTimes& phases = transformer_->phase_times();
    RankTimes times = times_;
    times.attention = phases.attention;
    times.feed_forward = phases.feed_forward;
    times.head = phases.head;
    times.exchange = phases.exchange;
    times.exchanges = transformer_->exchange_times().exchange;
    times.imbalances = transformer_->exchange_times().imbalance;
    return times;
  }
  void reset_times() noexcept {
    times_ = {};
    transformer_->reset_times();
  }

 private:
  Result<void> check_room(std::uint32_t sequence, std::span<const std::uint32_t> tokens) const {
    IMEX_ASSERT(sequence < limits_.sequences && !tokens.empty(), "a sequence grows by tokens");
    const std::size_t length = sequences_[sequence].size() + tokens.size();
    if (length > limits_.context) {
      return fail(Errc::kResourceExhausted,
                  fmt::format("a sequence of {} tokens does not fit the context of {}", length,
                              limits_.context));
    }
    const std::size_t blocks = KvLayout::blocks_for(length) - tables_[sequence].size();
    if (blocks > pool_.free()) {
      return fail(
          Errc::kResourceExhausted,
          fmt::format("{} blocks of the cache are wanted, {} are free", blocks, pool_.free()));
    }
    const auto unknown = std::ranges::find_if(
        tokens, [&](std::uint32_t token) { return token >= parameters_.vocabulary; });
    if (unknown != tokens.end()) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("token {} of a vocabulary of {}", *unknown, parameters_.vocabulary));
    }
    return {};
  }

  /// The tokens and the blocks that they need, of which there are enough.
  void plan_tokens(std::uint32_t sequence, std::span<const std::uint32_t> tokens) {
    plan_.clear();
    std::uint32_t position = sequences_[sequence].size();
    auto blocks = static_cast<std::uint32_t>(tables_[sequence].size());
    while (blocks < KvLayout::blocks_for(position + tokens.size())) {
      plan_.tables.push_back({sequence, blocks++, *pool_.take()});
    }
    for (const std::uint32_t token : tokens) {
      plan_.tokens.push_back({token, position++, sequence, StepToken::Wants::kNothing, 0});
    }
  }

  Result<void> send_plan() {
    if (communicator_ == nullptr) return {};
    plan_.write(words_);
    short_plan_[0] = static_cast<std::uint32_t>(words_.size());
    std::copy_n(words_.begin(), std::min(words_.size(), kShortPlanWords), short_plan_.begin() + 1);
    IMEX_CHECK_OK(communicator_->broadcast(short_plan_.data(), sizeof short_plan_, 0));
    if (words_.size() <= kShortPlanWords) return {};
    return communicator_->broadcast(words_.data(), words_.size() * sizeof words_[0], 0);
  }

  Result<void> receive_plan() {
    IMEX_CHECK_OK(communicator_->broadcast(short_plan_.data(), sizeof short_plan_, 0));
    words_.resize(short_plan_[0]);
    if (words_.size() <= kShortPlanWords) {
      std::copy_n(short_plan_.begin() + 1, words_.size(), words_.begin());
    } else {
      IMEX_CHECK_OK(communicator_->broadcast(words_.data(), words_.size() * sizeof words_[0], 0));
    }
    return plan_.read(words_);
  }

  Result<void> execute() {
    if (plan_.kind == StepPlan::Kind::kBegin) return begin_sequence();
    if (plan_.kind == StepPlan::Kind::kRead) return read_weights();
    for (const TableEntry& entry : plan_.tables) {
      auto& table = tables_[entry.sequence];
      table.resize(std::max<std::size_t>(table.size(), entry.index + 1));
      table[entry.index] = entry.block;
    }
    wanting_.clear();
    for (std::uint32_t row = 0; row < plan_.tokens.size(); ++row) {
      const StepToken& token = plan_.tokens[row];
      IMEX_CHECK_OK(sequences_[token.sequence].add(token));
      if (token.wants != StepToken::Wants::kNothing) wanting_.push_back(row);
    }
    ++times_.steps;
    times_.rows += plan_.tokens.size();
    IMEX_CHECK_OK(transformer_->run(plan_.tokens, tables_));
    return answer_all();
  }

  /// The best of a few passes in each way: others of this machine disturb each.
  Result<void> read_weights() {
    constexpr std::size_t kPlaces[] = {4, 8, 1, 4, 8, 4, 8};
    times_.read = UINT64_MAX;
    for (const std::size_t places : kPlaces) {
      IMEX_CHECK_OK(rounds_->meet());
      const std::uint64_t begin = steady_ns();
      read_sum_ = weights_.read_all(places);
      const std::uint64_t time = steady_ns() - begin;
      times_.read = std::min(times_.read, time);
    }
    return {};
  }

  Result<void> begin_sequence() {
    IMEX_TRY(auto options, read_sampling_options(plan_.options));
    IMEX_TRY(auto sampler, Sampler::create(std::move(options),
                                           {parameters_.vocabulary, parameters_.stop_tokens}));
    sequences_[plan_.sequence].begin(std::move(sampler), plan_.kept);
    tables_[plan_.sequence].resize(KvLayout::blocks_for(plan_.kept));
    return {};
  }

  /// Draws and scores, a few rows at a time.
  Result<void> answer_all() {
    const std::span<const std::uint32_t> wanting(wanting_);
    for (std::size_t at = 0; at < wanting.size(); at += answers_->rows()) {
      // Peers may still read the former rows.
      if (at != 0) IMEX_CHECK_OK(rounds_->meet());
      const auto rows =
          wanting.subspan(at, std::min<std::size_t>(answers_->rows(), wanting.size() - at));
      transformer_->head(rows, answers_->logits(), answers_->stride());
      const std::uint64_t begin = steady_ns();
      for (std::uint32_t row = 0; row < rows.size(); ++row) offer(row, plan_.tokens[rows[row]]);
      IMEX_CHECK_OK(answers_->meet());
      for (std::uint32_t row = 0; row < rows.size(); ++row) {
        auto answered = answer(row, plan_.tokens[rows[row]]);
        if (!answered && answered.error().code == Errc::kDataLoss) return explain_nan();
        IMEX_CHECK_OK(answered);
      }
      times_.draw += steady_ns() - begin;
    }
    return {};
  }

  void offer(std::uint32_t row, const StepToken& token) {
    if (token.wants != StepToken::Wants::kDraw) return;
    Sequence& sequence = sequences_[token.sequence];
    answers_->offer(row, sequence.sampler(), sequence.progress(token.sequence));
  }

  Result<void> answer(std::uint32_t row, const StepToken& token) {
    if (token.wants == StepToken::Wants::kScore) {
      // All ranks look for numbers that are none; only rank 0 needs the score itself.
      IMEX_TRY(const double score, answers_->score(row, token.target));
      if (rounds_->rank() == 0) scores_.push_back(score);
      return {};
    }
    Sequence& sequence = sequences_[token.sequence];
    IMEX_TRY(sample_, answers_->draw(row, sequence.sampler(), sequence.progress(token.sequence)));
    sequence.set_drawn(sample_.token);
    return {};
  }

  /// All ranks see the same logits, so all come here. Only where it began is worth telling: from
  /// there it spreads to everybody.
  Result<void> explain_nan() {
    IMEX_TRY(const std::uint32_t own, transformer_->find_nan(plan_.tokens, tables_));
    std::vector<std::uint32_t> phases(rounds_->ranks(), own);
    if (communicator_ != nullptr) {
      IMEX_CHECK_OK(communicator_->all_gather(&own, phases.data(), sizeof own));
    }
    std::size_t first = 0;  // rank
    for (std::size_t rank = 1; rank < phases.size(); ++rank) {
      if (phases[rank] < phases[first]) first = rank;
    }
    const std::uint32_t phase = phases[first];
    if (phase == Transformer::kNoPhase) {
      return fail(Errc::kDataLoss,
                  "a value that is no number appeared in the last norm or the head",
                  "the weights are damaged");
    }
    return fail(Errc::kDataLoss,
                fmt::format("a value that is no number appeared in layer {}, {} on rank {}",
                            phase / 2, phase % 2 == 0 ? "attention" : "feed-forward", first),
                "the weights are damaged, or the model needs a wider type");
  }

  const HyperParameters& parameters_;
  Communicator* communicator_;
  EngineLimits limits_;
  BlockPool pool_;  // rank 0's
  std::unique_ptr<Rounds> rounds_;
  RankWeights weights_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<Answers> answers_;
  BlockTables tables_;
  std::vector<Sequence> sequences_;
  std::vector<std::uint32_t> wanting_;  // rows of the step
  Sample sample_;                       // the last drawn
  std::vector<double> scores_;
  StepPlan plan_;
  std::vector<std::uint32_t> words_;
  std::array<std::uint32_t, kShortPlanWords + 1> short_plan_{};
  RankTimes times_;
  volatile std::uint64_t read_sum_ = 0;  // of read_weights(), which must not be optimised away
};

Result<RankEngine> RankEngine::create(const Parts& parts, Communicator* communicator,
                                      const EngineLimits& limits) {
  IMEX_ASSERT(parts.plan.ranks() == (communicator == nullptr ? 1 : communicator->size()),
              "the plan is for as many ranks as have met");
  auto state = std::make_unique<State>(parts, communicator, limits);
  IMEX_CHECK_OK(state->prepare(parts));
  return RankEngine(std::move(state));
}

RankEngine::RankEngine(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
RankEngine::RankEngine(RankEngine&&) noexcept = default;
RankEngine& RankEngine::operator=(RankEngine&&) noexcept = default;
RankEngine::~RankEngine() = default;

Result<void> RankEngine::begin(std::uint32_t sequence, const SamplingOptions& options,
                               std::uint32_t kept) {
  return state_->begin(sequence, options, kept);
}
std::span<const std::uint32_t> RankEngine::tokens(std::uint32_t sequence) const noexcept {
  return state_->tokens(sequence);
}
Result<std::optional<Sample>> RankEngine::append(std::uint32_t sequence,
                                                 std::span<const std::uint32_t> tokens,
                                                 bool draws) {
  return state_->append(sequence, tokens, draws);
}
Result<std::vector<double>> RankEngine::score(std::uint32_t sequence,
                                              std::span<const std::uint32_t> tokens) {
  return state_->score(sequence, tokens);
}
Result<void> RankEngine::measure_reading() { return state_->measure_reading(); }
Result<void> RankEngine::report() { return state_->say(StepPlan::Kind::kReport); }
Result<void> RankEngine::stop() { return state_->say(StepPlan::Kind::kStop); }
Result<void> RankEngine::follow(const std::function<void()>& on_report) {
  return state_->follow(on_report);
}
Result<std::uint64_t> RankEngine::measure_meeting() { return state_->measure_meeting(); }
RankTimes RankEngine::times() const { return state_->times(); }
void RankEngine::reset_times() noexcept { state_->reset_times(); }

}  // namespace imex::inference
