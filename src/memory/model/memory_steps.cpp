#include "model/memory_steps.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/assert.hpp"

namespace imex::memory::model {
namespace {

constexpr bool acquires(std::memory_order order) noexcept {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst || order == std::memory_order_consume;
}
constexpr bool releases(std::memory_order order) noexcept {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}
/// Multiplications and shifts in turn, since states differ in single bits.
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

void rehash_log(ThreadState& thread) noexcept {
  thread.log_hash = 0;
  for (const std::uint64_t result : thread.log) thread.log_hash = mix(thread.log_hash, result);
}

void learn(ThreadState& thread, const Message& message, std::memory_order order) noexcept {
  thread.on_acquire.join(message.view);
  if (acquires(order)) thread.view.join(message.view);
}

}  // namespace

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

std::size_t oldest(const MemoryState& state, const ThreadState& thread, std::uint8_t word,
                   bool seq_cst) noexcept {
  const Position own = thread.view.position[word];
  return seq_cst ? std::max(own, state.seq_cst.position[word]) : own;
}

void append_log(ThreadState& thread, std::uint64_t result) {
  thread.log.push_back(result);
  thread.log_hash = mix(thread.log_hash, result);
}

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

bool has_news(const MemoryState& state, const ThreadState& thread) noexcept {
  return std::any_of(thread.round_words.begin(), thread.round_words.end(), [&](std::uint8_t word) {
    return std::size_t{thread.round_position[word]} + 1 < state.words[word].size();
  });
}

}  // namespace imex::memory::model
