/// Where ranks that know nothing but an id find each other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <imex/communicator.hpp>
#include <imex/signal.hpp>

#include "connector.hpp"

namespace imex::exchange {

/// The shared memory behind a Rendezvous: a slot per rank. Every rank joins, leaves the name of its
/// window in its slot, and waits for the others. Serves one meeting.
class MeetingPlace {
 public:
  [[nodiscard]] static Result<std::shared_ptr<MeetingPlace>> create(Connector& connector,
                                                                    std::uint64_t generation = 1);
  /// Errors: as Connector::open().
  [[nodiscard]] static Result<std::shared_ptr<MeetingPlace>> join(Connector& connector,
                                                                  const UniqueId& id);
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  [[nodiscard]] const UniqueId& id() const noexcept { return id_; }
  /// Of the communicator that begins here.
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }

  struct Attendance {
    std::uint32_t rank = 0, ranks = 0;
    std::uint64_t options_digest = 0;
    SteadyTime deadline = kNoDeadline;
    /// Asked every 20 to 50 ms while ranks are missing; its error ends the meeting.
    std::function<Result<void>()> go_on;
  };
  /// Returns the names that all ranks left, by rank. Errors: kAlreadyExists (the rank is taken),
  /// kInvalidArgument (ranks disagree about size or options), kDeadlineExceeded with who is
  /// missing, kPeerLost (one that came has died).
  [[nodiscard]] Result<std::vector<MemoryName>> attend(const Attendance& who,
                                                       const MemoryName& name);
  /// Returns once all ranks have mapped each other. Errors: kDeadlineExceeded.
  [[nodiscard]] Result<void> conclude(const Attendance& who);

 private:
  struct Board;
  MeetingPlace(Publication own, PeerMemory memory, const UniqueId& id, std::uint64_t generation);
  /// Under a hold.
  [[nodiscard]] Board& board() const noexcept;
  /// Fills the own slot. Errors: kAlreadyExists, kRevoked.
  [[nodiscard]] Result<void> take_slot(const Attendance& who, const MemoryName& name);
  /// What the slots say. Errors: as attend().
  [[nodiscard]] Result<std::vector<MemoryName>> read_slots(const Attendance& who) const;
  /// Until all ranks have notified the cell, or the deadline. Errors: kPeerLost, kRevoked.
  [[nodiscard]] Result<WaitResult> await_all(SignalCell Board::* cell, const Attendance& who) const;
  /// Each rank watches the one after it among those that came, and tells all: what this costs grows
  /// with the ranks, not with their square. Errors: kPeerLost.
  [[nodiscard]] Result<void> check_alive(const Attendance& who) const;
  [[nodiscard]] std::uint32_t next_arrived(const Attendance& who) const;

  Publication own_;  // empty for who joined
  PeerMemory memory_;
  UniqueId id_;
  std::uint64_t generation_;
};

}  // namespace imex::exchange
