// Single executions, drawn from a seed.
#include <algorithm>
#include <array>
#include <random>

#include "model/checker.hpp"
#include "model/memory_steps.hpp"

namespace imex::memory::model {
namespace {

constexpr std::size_t kTraceSteps = 80;
constexpr unsigned kPercent = 100;

/// How uneven an execution is: some threads run far ahead, some see what others store late.
struct Temper {
  std::vector<unsigned> paces;
  unsigned stale_percent = 0;

  Temper(std::mt19937_64& random, std::size_t threads) {
    constexpr std::array<unsigned, 4> kPaces{1, 3, 10, 60};
    for (std::size_t i = 0; i != threads; ++i) paces.push_back(kPaces[random() % kPaces.size()]);
    constexpr std::array<unsigned, 4> kStale{0, 10, 40, 80};
    stale_percent = kStale[random() % kStale.size()];
  }
};

/// A transition of a thread that is drawn by its pace; of its choices the last, which is the newest
/// message, or any.
template <class Transitions>
std::size_t draw(std::mt19937_64& random, const Temper& temper, const Transitions& transitions) {
  unsigned total = 0;
  for (const unsigned pace : temper.paces) total += pace;
  for (;;) {
    auto left = static_cast<unsigned>(random() % total);
    std::size_t thread = 0;
    while (left >= temper.paces[thread]) left -= temper.paces[thread++];
    const auto of_thread = [&](const auto& each) { return each.thread == thread; };
    const auto first = std::ranges::find_if(transitions, of_thread);
    if (first == transitions.end()) continue;
    const auto begin = static_cast<std::size_t>(first - transitions.begin());
    const auto count = static_cast<std::size_t>(std::ranges::count_if(transitions, of_thread));
    const bool any = random() % kPercent < temper.stale_percent;
    return begin + (any ? random() % count : count - 1);
  }
}

void interrupt(MemoryState& state, const Interruption& what) {
  if (what.killed) state.threads[*what.killed].run = Run::kFinished;
  state.words[what.raised.index].push_back({.value = 1});
}

}  // namespace

Report Checker::run_random(const RandomRun& run) {
  next_.assign(programs_.size(), {});
  std::mt19937_64 random(run.seed);
  const Temper temper(random, programs_.size());
  std::optional<Interruption> pending = run.interruption;
  const std::uint64_t due = pending ? random() % pending->before_step : 0;
  Report report;
  MemoryState state = initial_;
  std::vector<Transition> taken;
  const auto fails = [&](const std::string& what) {
    report.counterexample = what + "\n";
    const std::size_t from = taken.size() - std::min(taken.size(), kTraceSteps);
    for (std::size_t i = from; i != taken.size(); ++i)
      *report.counterexample += "  " + describe(taken[i]) + "\n";
  };
  for (;; ++report.states) {
    if (const auto violation = note_ends(state)) {
      fails(*violation);
      return report;
    }
    std::vector<Transition> transitions = transitions_of(state);
    if (pending && (report.states >= due || transitions.empty())) {
      interrupt(state, *pending);
      pending.reset();
      continue;
    }
    if (all_ended(state)) return report;
    report.complete = report.states != run.steps_max;
    if (!report.complete) return report;
    if (transitions.empty()) {
      fails(describe_stuck(state));
      return report;
    }
    Transition& transition = transitions[draw(random, temper, transitions)];
    const auto race = apply(state, transition);
    taken.push_back(transition);
    if (race) {
      fails(*race);
      return report;
    }
  }
}

}  // namespace imex::memory::model
