/// Sends and receives between ranks, any number of them making progress together.
///
/// Communicator::send() and receive() are one message each and wait for it. A group of NCCL may
/// hold several to and from the same peers, and the peers may take them in other groups: each
/// direction of each pair must go on by itself. So each pair has a ring of its own here, in
/// symmetric memory, and exchange() moves whatever can be moved. Each chunk says how long its
/// message is, so that two ranks that disagree are told.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <imex/communicator.hpp>

namespace imex::nccl {

struct Outgoing {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint32_t peer = 0;
};
struct Incoming {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint32_t peer = 0;
};

/// Of one rank. Not thread-safe. Borrows the communicator, whose memory it lies in.
class Messages {
 public:
  /// Collective. `timeout`: of each wait; 0: none. Errors: as Communicator::allocate().
  [[nodiscard]] static Result<Messages> create(Communicator& communicator,
                                               std::chrono::milliseconds timeout);

  /// Returns once all has been handed over and all has arrived. Messages of one pair and direction
  /// keep their order, also over calls. What is sent to the own rank is received in the same call.
  /// Errors: kFailedPrecondition (what is sent to the own rank is not received), kInvalidArgument
  /// (lengths differ), and what ends waits. Once a rank has been waited for, they leave the
  /// communicator aborted.
  [[nodiscard]] Result<void> exchange(std::span<const Outgoing> sends,
                                      std::span<const Incoming> receives);

 private:
  struct RankWords;
  struct Box;
  /// One direction of one pair.
  template <class Message>
  struct Stream {
    std::vector<Message> messages;  ///< of this call, in order
    std::size_t next = 0;           ///< the first that is not complete
    std::size_t done_bytes = 0;     ///< of that one
    std::uint64_t chunks = 0;       ///< since the beginning

    [[nodiscard]] bool finished() const noexcept { return next == messages.size(); }
    /// The chunk that comes next, once it has been moved.
    void moved(std::size_t bytes) noexcept;
  };
  struct Peer {
    std::byte* memory = nullptr;  ///< the peer's part of the symmetric buffer
    Stream<Outgoing> out;
    Stream<Incoming> in;
  };

  Messages(Communicator& communicator, std::chrono::milliseconds timeout, std::size_t slot_bytes);
  [[nodiscard]] RankWords& words(std::uint32_t rank) const noexcept;
  /// Where `from` writes for `owner`.
  [[nodiscard]] Box& box(std::uint32_t owner, std::uint32_t from) const noexcept;
  [[nodiscard]] std::byte* slot(Box& box, std::uint64_t chunk) const noexcept;
  Result<void> pass_to_self();
  /// Takes every step that is possible without waiting; says whether there was one.
  bool step();
  bool send_to(std::uint32_t rank);
  bool receive_from(std::uint32_t rank);
  void wake(std::uint32_t rank) const noexcept;
  Result<void> wait_for_step(std::uint32_t pending);
  Result<void> progress();
  [[nodiscard]] std::uint32_t first_pending() const noexcept;

  Communicator* communicator_;
  std::chrono::milliseconds timeout_;
  std::size_t slot_bytes_;
  std::vector<Peer> peers_;  // by rank; of the own one only `memory`, and what it sends itself
  Error failure_{Errc::kOk, {}};
};

}  // namespace imex::nccl
