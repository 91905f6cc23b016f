// The shipped protocol templates on real threads and cores, the way the model has proven them.
// IMEX_LITMUS_ROUNDS=10000000 goes on for long.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "memory/slot_protocol.hpp"
#include "memory/wait_protocol.hpp"
#include "protocol/mailbox.hpp"
#include "protocol/packet.hpp"
#include "protocol/ring.hpp"

namespace imex::exchange {
namespace {

using memory::HostAtomics;
using memory::SlotState;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kRoundsByDefault = 3'000;
#else
constexpr std::uint64_t kRoundsByDefault = 300'000;
#endif

std::uint64_t rounds() {
  const char* text = std::getenv("IMEX_LITMUS_ROUNDS");
  return text == nullptr ? kRoundsByDefault : std::strtoull(text, nullptr, 10);
}

/// Gives its core away now and then: the peer may need it. False once somebody has failed.
class Spinner {
 public:
  explicit Spinner(const std::atomic<bool>& stop) : stop_(stop) {}
  template <class Poll>
  bool until(Poll&& poll) const {
    for (std::uint32_t looks = 1; !poll(); ++looks) {
      if (looks % 256 != 0) continue;
      if (stop_.load(std::memory_order_relaxed)) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  const std::atomic<bool>& stop_;
};

/// One thread per function; each returns the number of the round that went wrong, or 0.
void run_together(const std::vector<std::function<std::uint64_t(const Spinner&)>>& programs) {
  std::atomic<bool> stop{false};
  std::vector<std::uint64_t> wrong(programs.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i != programs.size(); ++i) {
      threads.emplace_back([&, i] {
        wrong[i] = programs[i](Spinner(stop));
        if (wrong[i] != 0) stop = true;
      });
    }
  }
  for (std::size_t i = 0; i != programs.size(); ++i)
    EXPECT_EQ(wrong[i], 0U) << "round in which thread " << i << " saw what it must not";
}

/// Data beside its tag, as packets and mailboxes have it.
struct alignas(64) Line {
  std::array<std::uint64_t, 7> payload{};
  std::atomic<std::uint64_t> tag{0};

  void fill(std::uint64_t value) { payload.fill(value); }
  [[nodiscard]] bool holds(std::uint64_t value) const {
    for (const std::uint64_t word : payload) {
      if (word != value) return false;
    }
    return true;
  }
};
struct LineView {
  Line* lines;
  [[nodiscard]] std::atomic<std::uint64_t>& tag(std::uint32_t i) const { return lines[i].tag; }
};

// Message passing by a tag, and a slot that is written again two messages later with no barrier and
// no credit: whoever has heard from all may.
TEST(LitmusThreadsTest, PacketsInTwoSlotsWithoutBarrier) {
  constexpr std::uint32_t kSlots = 2;
  std::array<std::array<Line, kSlots>, 2> in;  // [receiver][slot]
  const auto rank = [&](std::size_t self) {
    return [&, self](const Spinner& spinner) -> std::uint64_t {
      HostAtomics atomics;
      for (std::uint64_t message = 1; message <= rounds(); ++message) {
        const std::uint32_t slot = memory::slot_index(message, kSlots);
        Line& out = in[1 - self][slot];
        packet_send(atomics, LineView{&out}, 1, message,
                    [&](std::uint32_t) { out.fill(2 * message + self); });
        bool overrun = false, right = false;
        const Line& line = in[self][slot];
        const bool came = packet_receive(
            atomics, LineView{&in[self][slot]}, 1, message, overrun,
            [&](auto&& poll) { return spinner.until(poll); },
            [&](std::uint32_t) { right = line.holds(2 * message + 1 - self); });
        if (!came && !overrun) return 0;  // the other one has failed
        if (!right) return message;
      }
      return 0;
    };
  };
  run_together({rank(0), rank(1)});
}

TEST(LitmusThreadsTest, QuestionAndAnswerInOneLine) {
  Line line;
  const auto asker = [&](const Spinner& spinner) -> std::uint64_t {
    HostAtomics atomics;
    for (std::uint64_t k = 1; k <= rounds(); ++k) {
      line.fill(2 * k);
      mailbox_ask(atomics, LineView{&line}, 0, k);
      if (!spinner.until([&] {
            return mailbox_answered(atomics, LineView{&line}, 0, k) != SlotState::kEarly;
          })) {
        return 0;
      }
      if (!line.holds(2 * k + 1)) return k;
    }
    return 0;
  };
  const auto owner = [&](const Spinner& spinner) -> std::uint64_t {
    HostAtomics atomics;
    for (std::uint64_t k = 1; k <= rounds(); ++k) {
      if (!spinner.until(
              [&] { return mailbox_asked(atomics, LineView{&line}, 0, k) != SlotState::kEarly; })) {
        return 0;
      }
      if (!line.holds(2 * k)) return k;
      line.fill(2 * k + 1);
      mailbox_answer(atomics, LineView{&line}, 0, k);
    }
    return 0;
  };
  run_together({asker, owner});
}

struct RingView {
  Line* lines;
  std::atomic<std::uint64_t>* credits;
  [[nodiscard]] std::atomic<std::uint64_t>& tag(std::uint32_t slot) const {
    return lines[slot].tag;
  }
  [[nodiscard]] std::atomic<std::uint64_t>& credit() const { return *credits; }
};

// Write after read: a slot is written again only when its credit has come back.
TEST(LitmusThreadsTest, ARingNeverOverwritesWhatIsBeingRead) {
  constexpr std::uint32_t kSlots = 2;
  std::array<Line, kSlots> lines;
  alignas(64) std::atomic<std::uint64_t> credits{0};
  const RingView ring{lines.data(), &credits};
  const auto sender = [&](const Spinner& spinner) -> std::uint64_t {
    HostAtomics atomics;
    for (std::uint64_t message = 1; message <= rounds(); ++message) {
      if (!spinner.until([&] { return ring_has_room(atomics, ring, message, kSlots); })) return 0;
      lines[memory::slot_index(message, kSlots)].fill(message);
      ring_publish(atomics, ring, message, kSlots);
    }
    return 0;
  };
  const auto receiver = [&](const Spinner& spinner) -> std::uint64_t {
    HostAtomics atomics;
    for (std::uint64_t message = 1; message <= rounds(); ++message) {
      if (!spinner.until(
              [&] { return ring_poll(atomics, ring, message, kSlots) != SlotState::kEarly; })) {
        return 0;
      }
      if (!lines[memory::slot_index(message, kSlots)].holds(message)) return message;
      ring_release(atomics, ring, message);
    }
    return 0;
  };
  run_together({sender, receiver});
}

// Clear, then send: a word that is emptied after it was read never loses the peer's next one.
TEST(LitmusThreadsTest, AnEmptiedWordKeepsWhatComesNext) {
  struct alignas(64) Word {
    std::atomic<std::uint64_t> value{0};
  };
  std::array<std::array<Word, 2>, 2> in;  // [receiver][slot]
  const auto rank = [&](std::size_t self) {
    return [&, self](const Spinner& spinner) -> std::uint64_t {
      HostAtomics atomics;
      for (std::uint64_t epoch = 1; epoch <= rounds(); ++epoch) {
        const std::uint32_t slot = memory::slot_index(epoch, 2);
        memory::word_send(atomics, in[1 - self][slot].value, 2 * epoch + self);
        std::uint64_t seen = 0;
        if (!spinner.until([&] {
              seen = memory::word_poll(atomics, in[self][slot].value);
              return seen != memory::kEmptyWord;
            })) {
          return 0;
        }
        if (seen != 2 * epoch + 1 - self) return epoch;
        memory::word_arm(atomics, in[self][slot].value);
        memory::lane_fence(atomics);
      }
      return 0;
    };
  };
  run_together({rank(0), rank(1)});
}

// What came before an abort is not missed by who sees the abort.
TEST(LitmusThreadsTest, DataBeforeAnAbortIsSeenWithIt) {
  struct alignas(64) Cell {
    std::atomic<std::uint64_t> abort{0};
    std::uint64_t data = 0;
  };
  const std::uint64_t count = std::min<std::uint64_t>(rounds(), 200'000);
  std::vector<Cell> cells(count);
  std::atomic<std::uint64_t> turn{0};
  const auto aborter = [&](const Spinner& spinner) -> std::uint64_t {
    HostAtomics atomics;
    for (std::uint64_t i = 0; i != count; ++i) {
      if (!spinner.until([&] { return turn.load(std::memory_order_acquire) >= i; })) return 0;
      cells[i].data = i + 1;
      memory::abort_trip(atomics, cells[i].abort, i + 1);
    }
    return 0;
  };
  const auto waiter = [&](const Spinner& spinner) -> std::uint64_t {
    HostAtomics atomics;
    for (std::uint64_t i = 0; i != count; ++i) {
      turn.store(i, std::memory_order_release);
      const memory::WaitLimits<HostAtomics> limits{.abort = &cells[i].abort};
      if (!spinner.until([&] { return memory::load_abort(atomics, limits) != 0; })) return 0;
      if (cells[i].data != i + 1) return i + 1;
    }
    return 0;
  };
  run_together({aborter, waiter});
}

}  // namespace
}  // namespace imex::exchange
