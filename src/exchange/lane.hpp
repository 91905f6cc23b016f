/// One independent stream of operations, as the algorithms see it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <imex/communicator.hpp>
#include <imex/session.hpp>

#include "buffers.hpp"
#include "kernels/reduce.hpp"
#include "layout.hpp"
#include "operation_queue.hpp"
#include "protocol/ring.hpp"
#include "recorder.hpp"
#include "trial.hpp"
#include "waits.hpp"

namespace imex::exchange {

/// The protocols' view of a run of packet lines.
struct HostLines {
  PacketLine* lines;
  [[nodiscard]] std::atomic<std::uint64_t>& tag(std::uint32_t i) const noexcept {
    return lines[i].tag;
  }
};

/// The protocols' view of one direction of a ring.
struct HostRing {
  std::atomic<std::uint64_t>* tags;
  std::atomic<std::uint64_t>* credits;
  [[nodiscard]] std::atomic<std::uint64_t>& tag(std::uint32_t slot) const noexcept {
    return tags[slot];
  }
  [[nodiscard]] std::atomic<std::uint64_t>& credit() const noexcept { return *credits; }
};

/// Two ranks on one lane. "in" lies in the own window and is written by the peer (mailboxes by
/// turns), "out" lies in the peer's. Borrows both windows.
struct Link {
  WindowHeader* header = nullptr;  ///< of the peer
  PeerBlock* in = nullptr;
  PeerBlock* out = nullptr;
  PacketLine* packets_in = nullptr;
  PacketLine* packets_out = nullptr;
  PacketLine* mail_in = nullptr;
  PacketLine* mail_out = nullptr;
  std::byte* ring_in = nullptr;
  std::byte* ring_out = nullptr;
  std::uint64_t sent = 0;      ///< ring messages to the peer so far
  std::uint64_t received = 0;  ///< and from it
  std::int32_t pid = 0;        ///< where its private memory can be read; 0: not known

  [[nodiscard]] HostRing ring_to_peer() const noexcept { return {out->ring_tag, &in->ring_credit}; }
  [[nodiscard]] HostRing ring_from_peer() const noexcept {
    return {in->ring_tag, &out->ring_credit};
  }
};

/// What goes to one peer, and what comes from it.
struct Leg {
  enum class Stage : std::uint8_t { kOffer, kRing, kFetch, kDone };

  std::uint32_t peer = 0;
  std::span<const std::byte> send{};  ///< the rest of it
  std::span<std::byte> receive{};
  std::size_t send_chunk = 0, receive_chunk = 0;  ///< bytes per message of the ring
  Stage sending = Stage::kDone, receiving = Stage::kDone;
};

/// Where two ranks of a lane meet in memory of one layout.
struct Pairing {
  std::uint32_t lane = 0, self = 0, peer = 0;
  std::byte* own = nullptr;    ///< this rank's memory
  std::byte* other = nullptr;  ///< the peer's
};
void link_pair(Link& link, const Layout& layout, const Pairing& pair) noexcept;

/// Not thread-safe but for `busy`.
struct Lane {
  Lane(std::uint32_t rank_, std::uint32_t ranks_, const Waits& waits_, std::size_t slot_bytes_)
      : rank(rank_),
        ranks(ranks_),
        slot_bytes(slot_bytes_),
        waits(waits_),
        links(ranks_),
        sources(ranks_),
        targets(ranks_),
        sends(ranks_),
        receives(ranks_) {}

  const std::uint32_t rank;
  const std::uint32_t ranks;
  const std::size_t slot_bytes;  ///< of the ring
  HostAtomics atomics{};
  Waits waits;
  std::vector<Link> links;  ///< by rank; the own one is unused
  const Buffers* buffers = nullptr;
  bool may_fetch = false;  ///< all ranks may read each other's private memory
  /// Counters of the protocols; equal in all ranks.
  std::uint64_t packets = 0, mails = 0, exchanges = 0, barriers = 0, calls = 0;
  /// A later message lay where this one was expected: ranks disagree about what they do.
  bool overrun = false;
  /// A peer whose memory could not be read; kNoRank: none.
  std::uint32_t unreachable = kNoRank;
  Errc unreachable_code = Errc::kInternal;  ///< why
  /// Scratch memory of the algorithms; grows to what they need and stays.
  std::vector<std::byte> scratch;
  // By rank, of the operation that runs: short ones take no memory.
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> targets;
  std::vector<Leg> legs;
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
  std::vector<Import::Operation> holds;  ///< of the operation that runs
  /// Written by the thread that has the lane, read by Communicator::counters().
  struct {
    std::atomic<std::uint64_t> operations{0}, bytes{0};
    std::array<std::atomic<std::uint64_t>, kAlgorithmCount> by_algorithm{};
    std::array<std::atomic<std::uint64_t>, CommunicatorCounters{}.by_bytes.size()> by_bytes{};
    std::array<std::atomic<std::uint64_t>, CommunicatorCounters{}.by_time.size()> by_time{};
  } counters;
  std::uint64_t turns = 0;
  SteadyTime timed_since = kNotTimed;  ///< of the operation that runs
  static constexpr SteadyTime kNotTimed{};
  std::atomic<std::uint32_t> busy{0};  ///< an operation runs; set and cleared by its thread
  OperationQueue started;
  LaneRecorder recorder;
  /// By what can serve a call (Core::Kind), and step of sizes.
  std::array<std::array<Trial, TuningTable::kSteps>, 4> trials{};
  /// For all_reduce in two levels: see TwoLevelCall.
  Lane* group = nullptr;
  Lane* leaders = nullptr;
  const Lane* ended_in = nullptr;  ///< one of these: where a wait of this lane has ended early

  /// Where the lane's last wait that failed was.
  [[nodiscard]] const Lane& failed() const noexcept {
    return ended_in == nullptr ? *this : *ended_in;
  }
  [[nodiscard]] std::byte* scratch_of(std::size_t bytes) {
    if (scratch.size() < bytes) scratch.resize(bytes);
    return scratch.data();
  }
  /// The i-th peer in the order in which this rank sends: each rank begins with another one.
  [[nodiscard]] std::uint32_t peer(std::uint32_t i) const noexcept {
    return (rank + 1 + i) % ranks;
  }
};

/// Bytes per message of a ring when `bytes` go through it; the same at both ends. Small ones keep
/// the ring in the caches of both cores, and the receiver busy while the sender still copies; but
/// what send() is to buffer must not take all slots.
[[nodiscard]] inline std::size_t ring_chunk(const Lane& lane, std::size_t bytes,
                                            std::size_t small_bytes = std::size_t{32}
                                                                      << 10U) noexcept {
  constexpr std::size_t kChunkBytes = std::size_t{8} << 10U;
  return bytes > small_bytes ? lane.slot_bytes : std::min(lane.slot_bytes, kChunkBytes);
}

/// A message of at most slot_bytes into the peer's ring. False: the wait has ended.
[[nodiscard]] inline bool ring_send(Lane& lane, Link& link, const std::byte* data,
                                    std::size_t bytes) {
  const std::uint64_t message = link.sent + 1;
  const bool room = lane.waits.until(*link.header, [&] {
    return ring_has_room(lane.atomics, link.ring_to_peer(), message, kRingSlotsMax);
  });
  if (!room) return false;
  std::byte* slot = link.ring_out + memory::slot_index(message, kRingSlotsMax) * lane.slot_bytes;
  if (bytes != 0) std::memcpy(slot, data, bytes);
  ring_publish(lane.atomics, link.ring_to_peer(), message, kRingSlotsMax);
  link.sent = message;
  wake(*link.header);
  return true;
}

/// Waits for the peer's next message; it stays where it is until ring_done(). Null: the wait has
/// ended. `ahead` messages were received and are not done yet.
[[nodiscard]] inline const std::byte* ring_receive(Lane& lane, Link& link,
                                                   std::uint64_t ahead = 0) {
  const std::uint64_t message = link.received + 1 + ahead;
  memory::SlotState state = memory::SlotState::kEarly;
  const bool came = lane.waits.until(*link.header, [&] {
    state = ring_poll(lane.atomics, link.ring_from_peer(), message, kRingSlotsMax);
    return state != memory::SlotState::kEarly;
  });
  if (!came) return nullptr;
  if (state == memory::SlotState::kOverrun) {
    lane.overrun = true;
    return nullptr;
  }
  return link.ring_in + memory::slot_index(message, kRingSlotsMax) * lane.slot_bytes;
}

/// Gives the slot of the message received last back to the peer.
inline void ring_done(Lane& lane, Link& link) {
  ++link.received;
  ring_release(lane.atomics, link.ring_from_peer(), link.received);
  wake(*link.header);
}

}  // namespace imex::exchange
