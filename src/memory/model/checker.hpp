/// Exhaustive model checker for protocols written as templates over an atomics policy.
///
///     Checker checker;
///     const Word value = checker.word();
///     checker.thread("producer", [=](ModelAtomics& a) { signal_notify(a, ...); });
///     const Report report = checker.run();
///
/// Every thread is a function that is stepped, not compiled anew: a step's results are logged, and
/// the thread is brought to its next step by running it again over its log. So a state is a plain
/// value (logs and memory), the search is a depth-first walk over states seen once, and no fibers,
/// stacks or sanitizer hooks are needed. Threads must depend on nothing but the results of their
/// steps.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "memory/atomics.hpp"
#include "model/memory_state.hpp"

namespace imex::memory::model {

/// An atomic word; a copy names the same word.
struct Word {
  std::uint8_t index = 0;
};
struct Word32 {
  std::uint8_t index = 0;
};
/// Plain memory.
struct Cell {
  std::uint8_t index = 0;
};

/// Mutations: how the shipped code is run other than it is written.
struct Mutations {
  std::vector<std::pair<Site, std::memory_order>> orders{};  ///< this access with this order
  std::vector<Site> dropped{};                               ///< this access not at all
  /// The first access after the second instead of before.
  std::optional<std::pair<Site, Site>> swapped{};
  /// Bits of a word that the futex compares.
  std::uint64_t futex_mask = 0xffff'ffffU;
  bool yields_are_waits = false;  ///< no mutation: pure spins; a yield goes on when there is news
};

enum class StepKind : std::uint8_t {
  kLoad,
  kStore,
  kAdd,
  kOr,
  kCompareExchange,
  kFence,
  kPlainRead,
  kPlainWrite,
  kSleep,
  kWake,
  kAwaitChange,
};

inline constexpr std::uint8_t kNoWord = 0xff;

struct Step {
  StepKind kind = StepKind::kFence;
  Site site = Site::kCount;
  std::memory_order order = std::memory_order_relaxed;
  std::uint8_t word = 0;              ///< or cell
  std::uint8_t other_word = kNoWord;  ///< kSleep
  bool may_time_out = false;          ///< kSleep
  std::uint64_t operand = 0;  ///< kCompareExchange: desired; kAwaitChange: where the wait began
  std::uint64_t expected = 0;
  std::uint64_t expected_other = 0;
  std::uint64_t mask = ~std::uint64_t{0};  ///< width of the word
};

/// The instrumented policy: hands logged results out, then stops at the first step without one.
class ModelAtomics {
 public:
  using Word64 = Word;
  using Word32 = model::Word32;
  static constexpr std::uint32_t kLoadsPerCheck = 1;
  static constexpr std::uint32_t kPausesPerCheck = 1;

  ModelAtomics(const std::vector<std::uint64_t>& log, const Mutations& mutations)
      : log_(log), mutations_(mutations) {}

  std::uint64_t load(const Word& word, std::memory_order order, Site site);
  std::uint32_t load(const Word32& word, std::memory_order order, Site site);
  void store(Word& word, std::uint64_t value, std::memory_order order, Site site);
  std::uint64_t fetch_add(Word& word, std::uint64_t value, std::memory_order order, Site site);
  std::uint32_t fetch_add(Word32& word, std::uint32_t value, std::memory_order order, Site site);
  std::uint64_t fetch_or(Word& word, std::uint64_t value, std::memory_order order, Site site);
  bool compare_exchange(Word& word, std::uint64_t expected, std::uint64_t desired,
                        std::memory_order order, Site site);
  void fence(Site site);
  os::FutexResult sleep(const Word& word, std::uint64_t expected, const Word* abort,
                        SteadyTime deadline);
  void wake_all(const Word& word);

  /// One tick per call, so that each stage of a wait ends after one look.
  SteadyTime now() noexcept { return SteadyTime(std::chrono::nanoseconds(++ticks_)); }
  void pause() { await_change(); }
  void yield() { await_change(); }

  // For the threads of a test.
  std::uint64_t read(Cell cell);
  void write(Cell cell, std::uint64_t value);
  /// The execution is wrong if `condition` does not hold.
  void require(bool condition, const char* what);
  /// A wait that polls for ever begins: what it has read so far no longer matters to a later look.
  void begin_wait() { wait_began_ = at_; }
  /// Part of the outcome of an execution, for litmus tests.
  void report(std::uint64_t value) { reports_.push_back(value); }

  /// How a run over a log ends.
  struct Stopped {
    Step step;
  };
  struct Violated {
    std::string what;
  };
  [[nodiscard]] const std::vector<std::uint64_t>& reports() const noexcept { return reports_; }

 private:
  void await_change();
  std::uint64_t access(Step step);
  std::uint64_t take(const Step& step);

  const std::vector<std::uint64_t>& log_;
  const Mutations& mutations_;
  std::size_t at_ = 0;
  std::int64_t ticks_ = 0;
  std::optional<std::size_t> wait_began_;  ///< in the log
  std::optional<Step> held_;               ///< the earlier access of Mutations::swapped
  std::vector<std::uint64_t> reports_;
};

struct Report {
  /// What went wrong and the steps that lead there; empty: every execution is right.
  std::optional<std::string> counterexample;
  std::uint64_t states = 0;
  bool complete = true;  ///< false: stopped at the limit of states, which proves nothing
  std::set<std::vector<std::uint64_t>> outcomes;  ///< report()s of all threads, in thread order

  /// Every execution was looked at, and all are right.
  [[nodiscard]] bool proven() const noexcept { return complete && !counterexample; }
};

/// What happens to a random execution from outside.
struct Interruption {
  /// At a step below this one, drawn from the seed; at the latest when nobody can go on otherwise.
  std::uint64_t before_step = 1;
  std::optional<std::size_t>
      killed;   ///< a thread, by the order of their declaration: no more steps
  Word raised;  ///< set to 1
};

struct RandomRun {
  std::uint64_t seed = 0;
  std::optional<Interruption> interruption{};
  std::uint64_t steps_max = 200'000;
};

class Checker {
 public:
  using Program = std::function<void(ModelAtomics&)>;

  explicit Checker(Mutations mutations = {}) : mutations_(std::move(mutations)) {}

  Word word(std::uint64_t initial = 0, std::string name = {});
  Word32 word32(std::string name = {});
  Cell cell(std::uint64_t initial = 0);
  void thread(std::string name, Program program);

  /// Walks all executions, up to `states_max` states.
  [[nodiscard]] Report run(std::uint64_t states_max = 4'000'000);
  /// One execution, the same for the same seed: which thread goes on, how far threads run ahead of
  /// each other, how old what they read is. For more threads and longer histories than run() can
  /// walk; needs IMEX_MODEL_LARGE. A counterexample has the last steps only.
  [[nodiscard]] Report run_random(const RandomRun& run);

 private:
  /// What a thread does next, given its log.
  struct Next {
    enum class Kind : std::uint8_t { kStep, kFinished, kViolated } kind = Kind::kFinished;
    Step step;
    std::string violation;
    std::vector<std::uint64_t> reports;
  };
  struct Transition {
    std::size_t thread = 0;
    Step step{};
    std::size_t choice = 0;
    std::size_t other_choice = 0;
    bool time_out = false;
    std::uint64_t result = 0;
  };
  struct Frame {
    MemoryState state;
    std::vector<Transition> transitions;
    std::size_t next = 0;
  };

  [[nodiscard]] const Next& next_of(const MemoryState& state, std::size_t thread);
  [[nodiscard]] std::vector<Transition> transitions_of(const MemoryState& state);
  [[nodiscard]] bool commutes(const Step& step) const;
  void note_contended(const Step& step);
  [[nodiscard]] Report walk(std::uint64_t states_max);
  void add_choices(const MemoryState& state, std::size_t thread, const Step& step,
                   std::vector<Transition>& out) const;
  void add_sleep_choices(const MemoryState& state, std::size_t thread, const Step& step,
                         std::vector<Transition>& out) const;
  /// Takes the step; the text of a violation, or nothing.
  [[nodiscard]] std::optional<std::string> apply(MemoryState& state, Transition& transition) const;
  /// Marks the threads that have ended; a violation, or nothing.
  [[nodiscard]] std::optional<std::string> note_ends(MemoryState& state);
  [[nodiscard]] static bool all_ended(const MemoryState& state) noexcept;
  [[nodiscard]] std::string describe_stuck(const MemoryState& state) const;
  /// Looks at a state reached for the first time: its transitions, or what is wrong with it.
  [[nodiscard]] std::optional<std::string> open(Frame& frame, Report& report);
  [[nodiscard]] std::string trace(const std::vector<Frame>& path, const std::string& what) const;
  [[nodiscard]] std::string describe(const Transition& transition) const;

  Mutations mutations_;
  MemoryState initial_;
  std::vector<std::string> word_names_;
  std::vector<std::pair<std::string, Program>> programs_;
  std::vector<std::unordered_map<std::uint64_t, Next>> next_;  ///< per thread, by hash of its log
  /// Words that some step changes by read-modify-write or touches with seq_cst, as found so far.
  std::array<bool, kWordsMax> contended_{};
  bool found_contended_ = false;  ///< a word joined them during this walk
};

}  // namespace imex::memory::model
