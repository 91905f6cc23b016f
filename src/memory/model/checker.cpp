#include "model/checker.hpp"

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/assert.hpp"

namespace imex::memory::model {

namespace {

constexpr std::uint8_t kNoWord = 0xff;

constexpr bool acquires(std::memory_order order) noexcept {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst || order == std::memory_order_consume;
}
constexpr bool releases(std::memory_order order) noexcept {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}
constexpr bool is_seq_cst(std::memory_order order) noexcept {
  return order == std::memory_order_seq_cst;
}

std::string_view order_name(std::memory_order order) noexcept {
  switch (order) {
    case std::memory_order_relaxed:
      return "relaxed";
    case std::memory_order_consume:
      return "consume";
    case std::memory_order_acquire:
      return "acquire";
    case std::memory_order_release:
      return "release";
    case std::memory_order_acq_rel:
      return "acq_rel";
    case std::memory_order_seq_cst:
      return "seq_cst";
  }
  return "?";
}

std::string_view site_name(Site site) noexcept {
  constexpr std::array<std::string_view, static_cast<std::size_t>(Site::kCount)> kNames{
      "signal add",     "signal abandon",   "signal waiters", "signal poll", "signal count in",
      "signal recheck", "signal count out", "abort trip",     "abort poll",  "slot publish",
      "slot poll",      "credit return",    "credit poll",    "word send",   "word poll",
      "word arm",       "lane fence"};
  return site == Site::kCount ? "" : kNames[static_cast<std::size_t>(site)];
}

/// Multiplications and shifts in turn, since states differ in single bits. With a million states
/// the chance that any two of them meet in 64 bits is below 1 in 10 million.
std::uint64_t mix(std::uint64_t hash, std::uint64_t value) noexcept {
  hash = (hash + 0x9e37'79b9'7f4a'7c15ULL) ^ value;  // so that a zero after zeros counts
  hash *= 0xff51'afd7'ed55'8ccdULL;
  hash ^= hash >> 33U;
  hash *= 0x9fb2'1c65'1e98'df25ULL;
  hash ^= hash >> 32U;
  hash *= 0xc4ce'b9fe'1a85'ec53ULL;
  return hash ^ hash >> 29U;
}

class Hasher {
 public:
  void add(std::uint64_t value) noexcept { hash_ = mix(hash_, value); }
  void add(const View& view) noexcept {
    add_bytes(view.position);
    for (const ClockValue value : view.clock) add(value);
  }
  template <std::size_t N>
  void add_bytes(const std::array<std::uint8_t, N>& bytes) noexcept {
    static_assert(N % 8 == 0);
    for (std::size_t i = 0; i != N; i += 8) {
      std::uint64_t word = 0;
      for (std::size_t j = 0; j != 8; ++j) word = word << 8U | bytes[i + j];
      add(word);
    }
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return hash_; }

 private:
  std::uint64_t hash_ = 0x9e37'79b9'7f4a'7c15ULL;
};

std::uint64_t hash_state(const MemoryState& state) noexcept {
  Hasher hasher;
  for (const ThreadState& thread : state.threads) {
    hasher.add(thread.log_hash);
    hasher.add(static_cast<std::uint64_t>(thread.run) << 16U |
               static_cast<std::uint64_t>(thread.asleep_on[0]) << 8U | thread.asleep_on[1]);
    hasher.add(thread.view);
    hasher.add(thread.on_acquire);
    hasher.add(thread.on_release);
    hasher.add_bytes(thread.round_position);
    for (const std::uint8_t word : thread.round_words) hasher.add(word);
  }
  for (const auto& messages : state.words) {
    hasher.add(messages.size());
    for (const Message& message : messages) {
      hasher.add(message.value << 1U | (message.read_by_rmw ? 1U : 0U));
      hasher.add(message.view);
    }
  }
  for (const PlainCell& cell : state.cells) {
    hasher.add(cell.value);
    hasher.add(std::uint64_t{cell.writer} << 32U | cell.written);
    for (const ClockValue value : cell.read) hasher.add(value);
  }
  hasher.add_bytes(state.seq_cst.position);
  hasher.add_bytes(state.futex.position);
  return hasher.value();
}

/// Everything that names a position at or behind `at` moves back by one.
void shift(View& view, std::uint8_t word, std::size_t at) noexcept {
  if (view.position[word] >= at) ++view.position[word];
}

void make_room(MemoryState& state, std::uint8_t word, std::size_t at) {
  for (ThreadState& thread : state.threads) {
    shift(thread.view, word, at);
    shift(thread.on_acquire, word, at);
    shift(thread.on_release, word, at);
    if (thread.round_position[word] >= at) ++thread.round_position[word];
  }
  for (auto& messages : state.words) {
    for (Message& message : messages) shift(message.view, word, at);
  }
  shift(state.seq_cst, word, at);
  shift(state.futex, word, at);
}

/// The oldest message that a thread may read.
std::size_t oldest(const MemoryState& state, const ThreadState& thread, std::uint8_t word,
                   bool seq_cst) noexcept {
  const Position own = thread.view.position[word];
  return seq_cst ? std::max(own, state.seq_cst.position[word]) : own;
}

void append_log(ThreadState& thread, std::uint64_t result) {
  thread.log.push_back(result);
  thread.log_hash = mix(thread.log_hash, result);
}

void rehash_log(ThreadState& thread) noexcept {
  thread.log_hash = 0;
  for (const std::uint64_t result : thread.log) thread.log_hash = mix(thread.log_hash, result);
}

/// A thread that read only stale or unwanted values and is about to look again is where its wait
/// began, but for what it may still read: forgetting the look makes polling loops finite.
void end_round(ThreadState& thread, std::size_t wait_began) {
  thread.log.resize(wait_began);
  rehash_log(thread);
  thread.round_words.clear();
  thread.round_position.fill(0);
}

void break_round(ThreadState& thread) {
  thread.round_words.clear();
  thread.round_position.fill(0);
}

void learn(ThreadState& thread, const Message& message, std::memory_order order) noexcept {
  thread.on_acquire.join(message.view);
  if (acquires(order)) thread.view.join(message.view);
}

std::uint64_t do_load(MemoryState& state, ThreadState& thread, const Step& step,
                      std::size_t position) {
  const Message& message = state.words[step.word][position];
  const auto place = static_cast<Position>(position);
  thread.view.position[step.word] = std::max(thread.view.position[step.word], place);
  thread.on_acquire.position[step.word] = std::max(thread.on_acquire.position[step.word], place);
  if (is_seq_cst(step.order)) {
    state.seq_cst.position[step.word] = std::max(state.seq_cst.position[step.word], place);
  }
  learn(thread, message, step.order);
  thread.round_words.push_back(step.word);
  thread.round_position[step.word] = place;
  return message.value;
}

void do_store(MemoryState& state, ThreadState& thread, const Step& step, std::size_t position) {
  auto& messages = state.words[step.word];
  IMEX_ASSERT(messages.size() < 255, "positions are bytes");
  if (position < messages.size()) make_room(state, step.word, position);
  const auto place = static_cast<Position>(position);
  thread.view.position[step.word] = place;
  thread.on_acquire.position[step.word] = place;
  Message message{.value = step.operand & step.mask,
                  .view = releases(step.order) ? thread.view : thread.on_release};
  message.view.position[step.word] = place;
  if (is_seq_cst(step.order)) {
    state.seq_cst.position[step.word] = std::max(state.seq_cst.position[step.word], place);
  }
  messages.insert(messages.begin() + static_cast<std::ptrdiff_t>(position), message);
}

/// Reads the newest message and puts its result right behind.
std::uint64_t do_rmw(MemoryState& state, ThreadState& thread, const Step& step) {
  auto& messages = state.words[step.word];
  const std::uint64_t before = messages.back().value;
  if (step.kind == StepKind::kCompareExchange && before != step.expected) {
    Step load = step;
    load.order = std::memory_order_relaxed;
    do_load(state, thread, load, messages.size() - 1);
    return 0;
  }
  messages.back().read_by_rmw = true;
  learn(thread, messages.back(), step.order);
  const View sequence = messages.back().view;  // a release sequence goes on through it
  Step store = step;
  if (step.kind == StepKind::kAdd) store.operand = before + step.operand;
  if (step.kind == StepKind::kOr) store.operand = before | step.operand;
  do_store(state, thread, store, messages.size());
  messages.back().view.join(sequence);
  return step.kind == StepKind::kCompareExchange ? 1 : before;
}

std::optional<std::string> do_plain(MemoryState& state, std::size_t index, const Step& step,
                                    std::uint64_t& result) {
  ThreadState& thread = state.threads[index];
  PlainCell& cell = state.cells[step.word];
  auto& clock = thread.view.clock;
  ++clock[index];  // counts payload accesses only: polling must lead back to the same state
  if (cell.written > clock[cell.writer] && cell.writer != index) {
    return fmt::format("data race on payload {}: {} meets a write it was not ordered after",
                       step.word, step.kind == StepKind::kPlainRead ? "a read" : "a write");
  }
  if (step.kind == StepKind::kPlainRead) {
    cell.read[index] = clock[index];
    result = cell.value;
    return std::nullopt;
  }
  for (std::size_t reader = 0; reader != kThreadsMax; ++reader) {
    if (reader != index && cell.read[reader] > clock[reader]) {
      return fmt::format("data race on payload {}: overwritten while it may still be read",
                         step.word);
    }
  }
  cell.value = step.operand;
  cell.writer = static_cast<std::uint8_t>(index);
  cell.written = clock[index];
  return std::nullopt;
}

void do_wake(MemoryState& state, const ThreadState& waker, std::uint8_t word) {
  state.futex.position[word] = std::max(state.futex.position[word], waker.view.position[word]);
  for (ThreadState& thread : state.threads) {
    if (thread.run != Run::kAsleep) continue;
    if (thread.asleep_on[0] != word + 1 && thread.asleep_on[1] != word + 1) continue;
    thread.run = Run::kReady;
    thread.asleep_on = {};
    append_log(thread, static_cast<std::uint64_t>(os::FutexResult::kWoken));
  }
}

/// Whether a waiting thread could read something newer than it did.
bool has_news(const MemoryState& state, const ThreadState& thread) noexcept {
  return std::any_of(thread.round_words.begin(), thread.round_words.end(), [&](std::uint8_t word) {
    return std::size_t{thread.round_position[word]} + 1 < state.words[word].size();
  });
}

}  // namespace

// The policy.

std::uint64_t ModelAtomics::take(const Step& step) {
  if (at_ < log_.size()) return log_[at_++];
  throw Stopped{step};
}

std::uint64_t ModelAtomics::access(Step step) {
  for (const auto& [site, order] : mutations_.orders) {
    if (site == step.site) step.order = order;
  }
  for (const Site site : mutations_.dropped) {
    if (site == step.site) return 0;
  }
  if (mutations_.swapped && mutations_.swapped->first == step.site) {
    held_ = step;
    return 0;
  }
  const std::uint64_t result = take(step);
  if (held_ && mutations_.swapped->second == step.site) {
    const Step held = *held_;
    held_.reset();
    take(held);
  }
  return result;
}

std::uint64_t ModelAtomics::load(const Word& word, std::memory_order order, Site site) {
  return access({.kind = StepKind::kLoad, .site = site, .order = order, .word = word.index});
}
std::uint32_t ModelAtomics::load(const Word32& word, std::memory_order order, Site site) {
  return static_cast<std::uint32_t>(
      access({.kind = StepKind::kLoad, .site = site, .order = order, .word = word.index}));
}
void ModelAtomics::store(Word& word, std::uint64_t value, std::memory_order order, Site site) {
  access({.kind = StepKind::kStore,
          .site = site,
          .order = order,
          .word = word.index,
          .operand = value});
}
std::uint64_t ModelAtomics::fetch_add(Word& word, std::uint64_t value, std::memory_order order,
                                      Site site) {
  return access(
      {.kind = StepKind::kAdd, .site = site, .order = order, .word = word.index, .operand = value});
}
std::uint32_t ModelAtomics::fetch_add(Word32& word, std::uint32_t value, std::memory_order order,
                                      Site site) {
  return static_cast<std::uint32_t>(access({.kind = StepKind::kAdd,
                                            .site = site,
                                            .order = order,
                                            .word = word.index,
                                            .operand = value,
                                            .mask = 0xffff'ffffU}));
}
std::uint64_t ModelAtomics::fetch_or(Word& word, std::uint64_t value, std::memory_order order,
                                     Site site) {
  return access(
      {.kind = StepKind::kOr, .site = site, .order = order, .word = word.index, .operand = value});
}
bool ModelAtomics::compare_exchange(Word& word, std::uint64_t expected, std::uint64_t desired,
                                    std::memory_order order, Site site) {
  return access({.kind = StepKind::kCompareExchange,
                 .site = site,
                 .order = order,
                 .word = word.index,
                 .operand = desired,
                 .expected = expected}) != 0;
}
void ModelAtomics::fence(Site site) {
  access({.kind = StepKind::kFence, .site = site, .order = std::memory_order_acq_rel});
}
os::FutexResult ModelAtomics::sleep(const Word& word, std::uint64_t expected, const Word* abort,
                                    SteadyTime deadline) {
  return static_cast<os::FutexResult>(
      access({.kind = StepKind::kSleep,
              .word = word.index,
              .other_word = abort == nullptr ? kNoWord : abort->index,
              .may_time_out = deadline != kNoDeadline,
              .expected = expected & mutations_.futex_mask,
              .mask = mutations_.futex_mask}));
}
void ModelAtomics::wake_all(const Word& word) {
  access({.kind = StepKind::kWake, .word = word.index});
}
std::uint64_t ModelAtomics::read(Cell cell) {
  return access({.kind = StepKind::kPlainRead, .word = cell.index});
}
void ModelAtomics::write(Cell cell, std::uint64_t value) {
  access({.kind = StepKind::kPlainWrite, .word = cell.index, .operand = value});
}
void ModelAtomics::require(bool condition, const char* what) {
  if (!condition) throw Violated{what};
}
void ModelAtomics::await_change() {
  if (!mutations_.yields_are_waits) return;
  IMEX_ASSERT(wait_began_, "begin_wait() comes before a wait that polls for ever");
  take({.kind = StepKind::kAwaitChange, .operand = *wait_began_});
}

// The search.

Word Checker::word(std::uint64_t initial, std::string name) {
  IMEX_ASSERT(initial_.words.size() < kWordsMax, "kWordsMax");
  initial_.words.push_back({Message{.value = initial}});
  const auto index = static_cast<std::uint8_t>(initial_.words.size() - 1);
  word_names_.push_back(name.empty() ? fmt::format("word {}", index) : std::move(name));
  return {index};
}
Word32 Checker::word32(std::string name) { return {word(0, std::move(name)).index}; }
Cell Checker::cell(std::uint64_t initial) {
  initial_.cells.push_back({.value = initial});
  return {static_cast<std::uint8_t>(initial_.cells.size() - 1)};
}
void Checker::thread(std::string name, Program program) {
  IMEX_ASSERT(programs_.size() < kThreadsMax, "kThreadsMax");
  programs_.emplace_back(std::move(name), std::move(program));
  initial_.threads.emplace_back();
}

const Checker::Next& Checker::next_of(const MemoryState& state, std::size_t thread) {
  const ThreadState& at = state.threads[thread];
  const auto [entry, fresh] = next_[thread].try_emplace(at.log_hash);
  Next& next = entry->second;
  if (!fresh) return next;
  ModelAtomics atomics(at.log, mutations_);
  try {
    programs_[thread].second(atomics);
    next.reports = atomics.reports();
  } catch (const ModelAtomics::Stopped& stopped) {
    next.kind = Next::Kind::kStep;
    next.step = stopped.step;
    note_contended(next.step);
  } catch (const ModelAtomics::Violated& violated) {
    next.kind = Next::Kind::kViolated;
    next.violation = violated.what;
  }
  return next;
}

void Checker::add_sleep_choices(const MemoryState& state, std::size_t index, const Step& step,
                                std::vector<Transition>& out) const {
  const ThreadState& thread = state.threads[index];
  const auto from = [&](std::uint8_t word) -> std::size_t {
    return std::max(thread.view.position[word], state.futex.position[word]);
  };
  for (std::size_t a = from(step.word); a != state.words[step.word].size(); ++a) {
    if (step.other_word == kNoWord) {
      out.push_back({.thread = index, .step = step, .choice = a});
      continue;
    }
    for (std::size_t b = from(step.other_word); b != state.words[step.other_word].size(); ++b) {
      out.push_back({.thread = index, .step = step, .choice = a, .other_choice = b});
    }
  }
}

void Checker::add_choices(const MemoryState& state, std::size_t index, const Step& step,
                          std::vector<Transition>& out) const {
  const ThreadState& thread = state.threads[index];
  switch (step.kind) {
    case StepKind::kLoad:
      for (std::size_t i = oldest(state, thread, step.word, is_seq_cst(step.order));
           i != state.words[step.word].size(); ++i) {
        out.push_back({.thread = index, .step = step, .choice = i});
      }
      return;
    case StepKind::kStore:
      for (std::size_t i = oldest(state, thread, step.word, is_seq_cst(step.order)) + 1;
           i <= state.words[step.word].size(); ++i) {
        if (state.words[step.word][i - 1].read_by_rmw) continue;
        out.push_back({.thread = index, .step = step, .choice = i});
      }
      return;
    case StepKind::kSleep:
      add_sleep_choices(state, index, step, out);
      return;
    case StepKind::kAwaitChange:
      if (has_news(state, thread)) out.push_back({.thread = index, .step = step});
      return;
    default:
      out.push_back({.thread = index, .step = step});
  }
}

/// Steps that may be taken at once, before all others, without losing a behaviour:
/// payload accesses and fences, which touch nothing that other threads' steps could change (races
/// are found by clocks, in whatever order); and stores to words that only plain loads and stores
/// touch, as others can still read what was there before, or land in front.
bool Checker::commutes(const Step& step) const {
  switch (step.kind) {
    case StepKind::kPlainRead:
    case StepKind::kPlainWrite:
    case StepKind::kFence:
      return true;
    case StepKind::kStore:
      return !contended_[step.word];
    default:
      return false;
  }
}

void Checker::note_contended(const Step& step) {
  const bool rmw = step.kind == StepKind::kAdd || step.kind == StepKind::kOr ||
                   step.kind == StepKind::kCompareExchange;
  const bool access = rmw || step.kind == StepKind::kLoad || step.kind == StepKind::kStore;
  if (!access || contended_[step.word] || !(rmw || is_seq_cst(step.order))) return;
  contended_[step.word] = true;
  found_contended_ = true;
}

std::vector<Checker::Transition> Checker::transitions_of(const MemoryState& state) {
  std::vector<Transition> all;
  for (std::size_t i = 0; i != state.threads.size(); ++i) {
    const ThreadState& thread = state.threads[i];
    if (thread.run == Run::kAsleep && thread.may_time_out) {
      all.push_back({.thread = i, .time_out = true});
    }
    if (thread.run != Run::kReady) continue;
    const Step& step = next_of(state, i).step;
    if (commutes(step)) {
      all.clear();
      add_choices(state, i, step, all);
      return all;
    }
    add_choices(state, i, step, all);
  }
  return all;
}

std::optional<std::string> Checker::apply(MemoryState& state, Transition& transition) const {
  ThreadState& thread = state.threads[transition.thread];
  const Step& step = transition.step;
  if (transition.time_out) {
    thread.run = Run::kReady;
    thread.asleep_on = {};
    transition.result = static_cast<std::uint64_t>(os::FutexResult::kTimedOut);
    append_log(thread, transition.result);
    return std::nullopt;
  }
  if (step.kind != StepKind::kLoad && step.kind != StepKind::kAwaitChange) break_round(thread);
  switch (step.kind) {
    case StepKind::kLoad:
      transition.result = do_load(state, thread, step, transition.choice);
      break;
    case StepKind::kStore:
      do_store(state, thread, step, transition.choice);
      break;
    case StepKind::kAdd:
    case StepKind::kOr:
    case StepKind::kCompareExchange:
      transition.result = do_rmw(state, thread, step);
      break;
    case StepKind::kFence:
      thread.view.join(thread.on_acquire);
      thread.on_release = thread.view;
      break;
    case StepKind::kPlainRead:
    case StepKind::kPlainWrite:
      if (auto race = do_plain(state, transition.thread, step, transition.result)) return race;
      break;
    case StepKind::kWake:
      do_wake(state, thread, step.word);
      break;
    case StepKind::kAwaitChange:
      end_round(thread, step.operand);
      return std::nullopt;
    case StepKind::kSleep: {
      // Coherence: the thread's later loads are no older than what the compare saw.
      const auto saw = [&](std::uint8_t word, std::size_t position) {
        thread.view.position[word] =
            std::max(thread.view.position[word], static_cast<Position>(position));
      };
      saw(step.word, transition.choice);
      if (step.other_word != kNoWord) saw(step.other_word, transition.other_choice);
      const bool equal =
          (state.words[step.word][transition.choice].value & step.mask) == step.expected &&
          (step.other_word == kNoWord ||
           (state.words[step.other_word][transition.other_choice].value & 0xffff'ffffU) ==
               step.expected_other);
      if (!equal) {
        transition.result = static_cast<std::uint64_t>(os::FutexResult::kChanged);
        break;
      }
      thread.run = Run::kAsleep;
      thread.may_time_out = step.may_time_out;
      thread.asleep_on = {static_cast<std::uint8_t>(step.word + 1),
                          static_cast<std::uint8_t>(step.other_word + 1)};
      return std::nullopt;  // its result is logged when it wakes
    }
  }
  append_log(thread, transition.result);
  return std::nullopt;
}

std::optional<std::string> Checker::open(Frame& frame, Report& report) {
  ++report.states;
  bool all_finished = true;
  std::string stuck;
  for (std::size_t i = 0; i != frame.state.threads.size(); ++i) {
    ThreadState& thread = frame.state.threads[i];
    if (thread.run == Run::kReady) {
      const Next& next = next_of(frame.state, i);
      if (next.kind == Next::Kind::kViolated) return programs_[i].first + ": " + next.violation;
      if (next.kind == Next::Kind::kFinished) thread.run = Run::kFinished;
    }
    if (thread.run == Run::kFinished) continue;
    all_finished = false;
    stuck += fmt::format("{}{} {}", stuck.empty() ? "" : ", ", programs_[i].first,
                         thread.run == Run::kAsleep ? "sleeps" : "polls");
  }
  if (all_finished) {
    std::vector<std::uint64_t> outcome;
    for (std::size_t i = 0; i != frame.state.threads.size(); ++i) {
      const auto& reports = next_of(frame.state, i).reports;
      outcome.insert(outcome.end(), reports.begin(), reports.end());
    }
    report.outcomes.insert(std::move(outcome));
    return std::nullopt;
  }
  frame.transitions = transitions_of(frame.state);
  if (frame.transitions.empty()) return "nobody can go on: " + stuck + " for ever";
  return std::nullopt;
}

Report Checker::run(std::uint64_t states_max) {
  next_.assign(programs_.size(), {});
  for (;;) {
    // A word found contended may have been passed over as uncontended before: walk again.
    found_contended_ = false;
    Report report = walk(states_max);
    if (report.counterexample || !found_contended_) return report;
  }
}

Report Checker::walk(std::uint64_t states_max) {
  Report report;
  std::unordered_set<std::uint64_t> seen;
  std::vector<Frame> path;
  path.push_back({.state = initial_, .transitions = {}});
  seen.insert(hash_state(initial_));
  if (auto wrong = open(path.back(), report)) {
    report.counterexample = trace(path, *wrong);
    return report;
  }
  while (!path.empty()) {
    Frame& top = path.back();
    if (top.next == top.transitions.size()) {
      path.pop_back();
      continue;
    }
    if (report.states >= states_max) {
      report.complete = false;
      return report;
    }
    Transition& transition = top.transitions[top.next++];
    Frame frame{.state = top.state, .transitions = {}};
    auto wrong = apply(frame.state, transition);
    if (!wrong && !seen.insert(hash_state(frame.state)).second) continue;
    path.push_back(std::move(frame));
    if (!wrong) wrong = open(path.back(), report);
    if (wrong) {
      report.counterexample = trace(path, *wrong);
      return report;
    }
  }
  return report;
}

std::string Checker::describe(const Transition& transition) const {
  const Step& step = transition.step;
  const std::string& who = programs_[transition.thread].first;
  if (transition.time_out) return who + ": deadline passes";
  const auto atomic = [&](std::string_view what) {
    return fmt::format("{}: {:<16} {} {} ({})", who, site_name(step.site), what,
                       word_names_[step.word], order_name(step.order));
  };
  switch (step.kind) {
    case StepKind::kLoad:
      return atomic("loads") +
             fmt::format(" = {:#x}, message {}", transition.result, transition.choice);
    case StepKind::kStore:
      return atomic("stores") +
             fmt::format(" = {:#x}, message {}", step.operand, transition.choice);
    case StepKind::kAdd:
    case StepKind::kOr:
    case StepKind::kCompareExchange:
      return atomic("changes") +
             fmt::format(" by {:#x}, was {:#x}", step.operand, transition.result);
    case StepKind::kFence:
      return fmt::format("{}: {}", who, site_name(step.site));
    case StepKind::kPlainRead:
      return fmt::format("{}: reads payload {} = {:#x}", who, step.word, transition.result);
    case StepKind::kPlainWrite:
      return fmt::format("{}: writes payload {} = {:#x}", who, step.word, step.operand);
    case StepKind::kSleep:
      return fmt::format("{}: futex wait on {} == {:#x}, sees message {}", who,
                         word_names_[step.word], step.expected, transition.choice);
    case StepKind::kWake:
      return fmt::format("{}: futex wake on {}", who, word_names_[step.word]);
    case StepKind::kAwaitChange:
      return fmt::format("{}: looks again", who);
  }
  return who;
}

std::string Checker::trace(const std::vector<Frame>& path, const std::string& what) const {
  std::string text = what + "\n";
  for (const Frame& frame : path) {
    if (frame.next == 0) break;  // the last one: nothing was taken from it
    text += "  " + describe(frame.transitions[frame.next - 1]) + "\n";
  }
  return text;
}

}  // namespace imex::memory::model
