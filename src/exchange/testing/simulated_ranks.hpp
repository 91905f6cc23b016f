/// Ranks of one lane as threads of the model, over the shipped protocol templates: any number of
/// rounds of any kinds, waits that an abort word ends, a watcher that sets it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memory/wait_protocol.hpp"
#include "model/checker.hpp"
#include "protocol/mailbox.hpp"
#include "protocol/packet.hpp"
#include "protocol/ring.hpp"
#include "protocol/round.hpp"

namespace imex::exchange::testing_kit {

using memory::SlotState;
using memory::model::Cell;
using memory::model::Checker;
using memory::model::ModelAtomics;
using memory::model::Word;

/// What all ranks do with all others in a round.
enum class RoundKind : std::uint8_t { kPacket, kMailbox, kRing, kInPlace, kBarrier };

struct Simulation {
  std::size_t ranks = 4;
  std::vector<RoundKind> rounds;
  std::uint32_t packet_slots = 2;
  std::uint32_t ring_slots = 2;
  std::uint32_t believed_slots = 2;  ///< of the ring, by its senders
};

/// Declares its words and threads on a checker: the ranks by number, then the watcher.
class SimulatedRanks {
 public:
  SimulatedRanks(Checker& checker, const Simulation& plan);
  /// Raised when a rank has died or the user aborts: the watcher sets all abort words then.
  [[nodiscard]] Word alarm() const noexcept { return alarm_; }

 private:
  struct Lines {
    std::vector<Word> tags;
    std::vector<Cell> payloads;
    Word& tag(std::uint32_t i) { return tags[i]; }
  };
  struct Ring {
    std::vector<Word> tags;
    std::vector<Cell> payloads;
    Word credits;
    Word& tag(std::uint32_t slot) { return tags[slot]; }
    Word& credit() { return credits; }
  };
  struct Post {
    Word ready_word, done_word;
    Cell said;
    Word& ready() { return ready_word; }
    Word& done() { return done_word; }
  };
  /// What one rank writes for another.
  struct Pair {
    Lines packets;  ///< a line per slot
    Lines mail;
    Ring ring;
    Post post;
    Word barrier;
  };
  /// How far a rank is with each protocol; the same numbers in all ranks.
  struct Counts {
    std::uint64_t packets = 0, mails = 0, ring = 0, exchanges = 0, barriers = 0;
  };
  class Rank;

  Lines lines(Checker& checker, std::size_t count, const std::string& name) const;
  [[nodiscard]] bool has(RoundKind kind) const;

  Simulation plan_;
  std::vector<std::vector<Pair>> pairs_;    // [to][from]
  std::vector<std::vector<Cell>> buffers_;  // [rank][element]
  std::vector<Cell> marks_;                 // [rank]
  std::vector<Word> aborts_;                // [rank]
  Word alarm_;
};

}  // namespace imex::exchange::testing_kit
