/// How ranks find each other and reach each other's memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <imex/communicator.hpp>
#include <imex/signal.hpp>

#include "layout.hpp"
#include "memory/host_allocation.hpp"
#include "os/memory.hpp"

namespace imex::exchange {

/// A peer's memory, mapped here for as long as `owner` lives.
struct PeerMemory {
  std::byte* data = nullptr;
  std::size_t size = 0;
  std::shared_ptr<const void> owner;
  /// Of the process that made it; 0: this one.
  std::int32_t pid = 0;
  std::uint64_t start_ticks = 0;
};

/// Gives memory a name that other ranks can open. Ranks that are threads of one process share its
/// mapping. Thread-safe.
[[nodiscard]] Result<MemoryName> publish_memory(
    const std::shared_ptr<memory::HostAllocation>& memory);
/// Errors: kNotFound (its process is gone, or not visible here), kPermissionDenied, kDataLoss (not
/// the memory that was named), kInvalidArgument (no name at all).
[[nodiscard]] Result<PeerMemory> open_memory(const MemoryName& name, std::size_t size_bytes);

/// The shared memory behind a Rendezvous: a slot per rank. Every rank joins, leaves the name of its
/// window in its slot, and waits for the others. Serves one meeting.
class MeetingPlace {
 public:
  [[nodiscard]] static Result<std::shared_ptr<MeetingPlace>> create();
  /// Errors: as open_memory().
  [[nodiscard]] static Result<std::shared_ptr<MeetingPlace>> join(const UniqueId& id);
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  [[nodiscard]] const UniqueId& id() const noexcept { return id_; }

  struct Attendance {
    std::uint32_t rank = 0, ranks = 0;
    std::uint64_t options_digest = 0;
    SteadyTime deadline = kNoDeadline;
  };
  /// Returns the names that all ranks left, by rank. Errors: kAlreadyExists (the rank is taken),
  /// kInvalidArgument (ranks disagree about size or options), kDeadlineExceeded with who is
  /// missing.
  [[nodiscard]] Result<std::vector<MemoryName>> attend(const Attendance& who,
                                                       const MemoryName& name);
  /// Returns once all ranks have mapped each other. Errors: kDeadlineExceeded.
  [[nodiscard]] Result<void> conclude(const Attendance& who);

 private:
  struct Board;
  MeetingPlace(std::shared_ptr<memory::HostAllocation> own, PeerMemory memory, const UniqueId& id);
  [[nodiscard]] Board& board() const noexcept;

  std::shared_ptr<memory::HostAllocation> own_;  // null for who joined
  PeerMemory memory_;
  UniqueId id_;
};

}  // namespace imex::exchange
