#include "protocol/packet.hpp"

#include "algorithm/all_reduce.hpp"
#include "algorithm/packet_message.hpp"

namespace imex::exchange {

bool all_reduce_packet(Lane& lane, const ReduceCall& call) {
  const std::size_t bytes = call.bytes();
  const PacketMessage message = next_packet(lane, bytes);
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const std::uint32_t peer = lane.peer(i);
    send_packet(lane, lane.links[peer], message, call.part(peer));
  }
  const std::size_t stride = std::size_t{message.lines} * kLinePayload;
  std::byte* staging = lane.scratch_of(lane.ranks * stride);
  for (std::uint32_t rank = 0; rank != lane.ranks; ++rank) {
    lane.sources[rank] = rank == lane.rank ? call.part(rank) : staging + rank * stride;
  }
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const std::uint32_t peer = lane.peer(i);
    if (!receive_packet(lane, lane.links[peer], message, staging + peer * stride)) return false;
  }
  call.kernel({.sources = lane.sources.data(),
               .source_count = lane.ranks,
               .targets = &call.out,
               .target_count = 1,
               .elements = call.elements});
  prefetch_next_packet(lane, message);
  return true;
}

}  // namespace imex::exchange
