#include "protocol/ring.hpp"

#include "algorithm/all_reduce.hpp"

namespace imex::exchange {

namespace {

/// Small enough that the peer reads one chunk while the next is written, large enough that its tag
/// costs little.
constexpr std::size_t kChunkMin = std::size_t{4} << 10U;

std::size_t chunk_elements(const Lane& lane, const ReduceCall& call) noexcept {
  const std::size_t quarter = (call.bytes() / 4 + 63) / 64 * 64;
  const std::size_t bytes =
      std::min(std::max(quarter, std::min(kChunkMin, lane.slot_bytes)), lane.slot_bytes);
  return bytes / call.element_bytes;
}

}  // namespace

bool reduce_chunk(Lane& lane, const ReduceCall& call, std::size_t begin, std::size_t count) {
  const std::size_t at = begin * call.element_bytes;
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const std::uint32_t peer = lane.peer(i);
    lane.sources[peer] = ring_receive(lane, lane.links[peer]);
    if (lane.sources[peer] == nullptr) return false;
  }
  lane.sources[lane.rank] = call.part(lane.rank) + at;
  std::byte* const target = call.out + at;
  call.kernel({.sources = lane.sources.data(),
               .source_count = lane.ranks,
               .targets = &target,
               .target_count = 1,
               .elements = count});
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) ring_done(lane, lane.links[lane.peer(i)]);
  return true;
}

bool all_reduce_ring(Lane& lane, const ReduceCall& call) {
  const std::size_t chunk = chunk_elements(lane, call);
  // One chunk is under way while the one before it is reduced. In place is safe: a chunk is sent
  // before its result is written.
  std::size_t previous = 0, previous_count = 0;
  for (std::size_t begin = 0; begin < call.elements; begin += chunk) {
    const std::size_t count = std::min(chunk, call.elements - begin);
    for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
      const std::uint32_t peer = lane.peer(i);
      if (!ring_send(lane, lane.links[peer], call.part(peer) + begin * call.element_bytes,
                     count * call.element_bytes)) {
        return false;
      }
    }
    if (previous_count != 0 && !reduce_chunk(lane, call, previous, previous_count)) return false;
    previous = begin;
    previous_count = count;
  }
  return reduce_chunk(lane, call, previous, previous_count);
}

}  // namespace imex::exchange
