/// The ways to do an all_reduce; two of them do reduce_scatter as well. Each returns false when a
/// wait has ended early; the lane says why.
#pragma once

#include <cstddef>

#include "kernels/reduce.hpp"
#include "lane.hpp"

namespace imex::exchange {

struct ReduceCall {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t elements = 0;
  std::size_t element_bytes = 1;
  ReduceKernel kernel = nullptr;
  /// What rank r gets begins at in + r * part_stride: 0 when all get the same. Packet and ring
  /// only.
  std::size_t part_stride = 0;

  [[nodiscard]] const std::byte* part(std::uint32_t rank) const noexcept {
    return in + rank * part_stride;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return elements * element_bytes; }
};

/// What a rank reduces in two-shot algorithms: whole elements, in runs that begin on a cache line
/// of a buffer that does. Ranks beyond the last run have none.
struct Slice {
  std::size_t begin = 0;  ///< in elements
  std::size_t count = 0;
};
[[nodiscard]] Slice slice_of(std::size_t elements, std::size_t element_bytes, std::uint32_t rank,
                             std::uint32_t ranks) noexcept;

/// One-shot: at most kPacketBytesMax bytes.
[[nodiscard]] bool all_reduce_packet(Lane& lane, const ReduceCall& call);
/// Two-shot: any size, in rounds of kMailBytesMax per rank.
[[nodiscard]] bool all_reduce_mailbox(Lane& lane, const ReduceCall& call);
/// One-shot: any size.
[[nodiscard]] bool all_reduce_ring(Lane& lane, const ReduceCall& call);
/// Reduces elements [begin, begin + count) with the next ring message of every peer, which holds
/// theirs.
[[nodiscard]] bool reduce_chunk(Lane& lane, const ReduceCall& call, std::size_t begin,
                                std::size_t count);

/// Two-shot in place, in buffers of the communicator; ranks tell each other where.
[[nodiscard]] bool all_reduce_registered(Lane& lane, const ReduceCall& call, const Place& in,
                                         const Place& out);

/// Two-shot, reading the peers' private memory through the kernel.
[[nodiscard]] bool all_reduce_single_copy(Lane& lane, const ReduceCall& call);

}  // namespace imex::exchange
