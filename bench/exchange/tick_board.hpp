/// What the ranks of one measurement share beside the measured communicator: who has come, the tick
/// at which all leave, each rank's times, and a block of lines that goes to and fro. Nothing of the
/// measured library is used by the ruler.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <imex/communicator.hpp>

#include "base/result.hpp"
#include "os/memory.hpp"

namespace imex::bench {

/// What a rank found in the results that it compared. Elements.
struct Tally {
  std::uint64_t compared = 0;
  std::uint64_t wrong = 0;
  std::uint64_t first_wrong = 0;  ///< index within the rank's result; valid if wrong != 0

  void add(const Tally& other) noexcept {
    if (wrong == 0 && other.wrong != 0) first_wrong = other.first_wrong;
    compared += other.compared;
    wrong += other.wrong;
  }
};

inline constexpr std::uint32_t kTimesOnBoard = 4096;

/// Written by one rank, read by all once it has `arrived`.
struct Post {
  alignas(128) std::atomic<std::uint64_t> arrived;  ///< meetings that it has come to
  alignas(128) std::atomic<std::uint64_t> entered;  ///< staggered barriers that it has entered
  alignas(128) Tally tally;                         ///< of one size
  std::uint64_t page_kind;                          ///< of its vectors
  std::int64_t elapsed[kTimesOnBoard];              ///< ticks from the agreed start
};

/// One writer for each line, rank 0 if not said otherwise.
struct BoardHead {
  alignas(128) std::atomic<std::uint64_t> go;      ///< meetings that all ranks have come to
  std::uint64_t agreed;                            ///< what rank 0 says at meeting `go`
  alignas(128) std::atomic<std::uint64_t> turn;    ///< of the ping-pong; ranks 0 and 1
  alignas(128) std::atomic<std::uint64_t> failed;  ///< 1 + the rank; whoever fails first
  alignas(128) UniqueId id;                        ///< where the ranks meet
};

/// The memory of all that, made before the ranks are forked.
class TickBoard {
 public:
  [[nodiscard]] static Result<TickBoard> create(std::uint32_t ranks, std::size_t block_bytes);

  [[nodiscard]] BoardHead& head() const noexcept;
  [[nodiscard]] Post& post(std::uint32_t rank) const noexcept;
  [[nodiscard]] std::span<std::byte> block() const noexcept;
  [[nodiscard]] std::uint32_t ranks() const noexcept { return ranks_; }

 private:
  TickBoard(os::Mapping memory, std::uint32_t ranks) noexcept
      : memory_(std::move(memory)), ranks_(ranks) {}
  os::Mapping memory_;
  std::uint32_t ranks_;
};

}  // namespace imex::bench
