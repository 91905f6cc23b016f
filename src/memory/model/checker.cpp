// The search: which steps can come next, states seen once, and the path to a state that is wrong.
#include "model/checker.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "model/memory_steps.hpp"

namespace imex::memory::model {
namespace {

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

}  // namespace

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

std::optional<std::string> Checker::note_ends(MemoryState& state) {
  for (std::size_t i = 0; i != state.threads.size(); ++i) {
    ThreadState& thread = state.threads[i];
    if (thread.run == Run::kReady) {
      const Next& next = next_of(state, i);
      if (next.kind == Next::Kind::kViolated) return programs_[i].first + ": " + next.violation;
      if (next.kind == Next::Kind::kFinished) thread.run = Run::kFinished;
    }
  }
  return std::nullopt;
}

bool Checker::all_ended(const MemoryState& state) noexcept {
  return std::ranges::all_of(state.threads,
                             [](const ThreadState& each) { return each.run == Run::kFinished; });
}

std::string Checker::describe_stuck(const MemoryState& state) const {
  std::string stuck;
  for (std::size_t i = 0; i != state.threads.size(); ++i) {
    const Run run = state.threads[i].run;
    if (run == Run::kFinished) continue;
    stuck += fmt::format("{}{} {}", stuck.empty() ? "" : ", ", programs_[i].first,
                         run == Run::kAsleep ? "sleeps" : "polls");
  }
  return "nobody can go on: " + stuck + " for ever";
}

std::optional<std::string> Checker::open(Frame& frame, Report& report) {
  ++report.states;
  if (auto violation = note_ends(frame.state)) return violation;
  if (all_ended(frame.state)) {
    std::vector<std::uint64_t> outcome;
    for (std::size_t i = 0; i != frame.state.threads.size(); ++i) {
      const auto& reports = next_of(frame.state, i).reports;
      outcome.insert(outcome.end(), reports.begin(), reports.end());
    }
    report.outcomes.insert(std::move(outcome));
    return std::nullopt;
  }
  frame.transitions = transitions_of(frame.state);
  if (frame.transitions.empty()) return describe_stuck(frame.state);
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
