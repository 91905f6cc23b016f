#include "algorithm/collectives.hpp"

#include <algorithm>
#include <cstring>

namespace imex::exchange {

namespace {

/// Up to here everybody tells everybody; beyond, the number of stores counts more than that of
/// rounds.
constexpr std::uint32_t kFlatBarrierRanks = 16;

bool await_barrier(Lane& lane, const Link& link) {
  return lane.waits.until(*link.header, [&] {
    // A peer may have entered the next barrier already.
    return memory::slot_poll(lane.atomics, link.in->barrier, lane.barriers) !=
           memory::SlotState::kEarly;
  });
}

void tell_barrier(Lane& lane, const Link& link) {
  memory::slot_publish(lane.atomics, link.out->barrier, lane.barriers);
  wake(*link.header);
}

/// Up to here one direction is worth small messages: nobody relies on the ring to buffer it.
constexpr std::size_t kStreamedBytes = std::size_t{128} << 10U;

}  // namespace

bool barrier(Lane& lane) {
  ++lane.barriers;
  if (lane.ranks <= kFlatBarrierRanks) {
    for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
      tell_barrier(lane, lane.links[lane.peer(i)]);
    }
    for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
      if (!await_barrier(lane, lane.links[lane.peer(i)])) return false;
    }
    return true;
  }
  // Dissemination: all distances are different, so each pair has one word per barrier and uses it
  // once.
  for (std::uint32_t distance = 1; distance < lane.ranks; distance *= 2) {
    tell_barrier(lane, lane.links[(lane.rank + distance) % lane.ranks]);
    const std::uint32_t from = (lane.rank + lane.ranks - distance) % lane.ranks;
    if (!await_barrier(lane, lane.links[from])) return false;
  }
  return true;
}

bool send_to(Lane& lane, std::uint32_t peer, std::span<const std::byte> data, std::size_t chunk) {
  for (; !data.empty(); data = data.subspan(std::min(chunk, data.size()))) {
    if (!ring_send(lane, lane.links[peer], data.data(), std::min(chunk, data.size()))) return false;
  }
  return true;
}

bool receive_from(Lane& lane, std::uint32_t peer, std::span<std::byte> data, std::size_t chunk) {
  Link& link = lane.links[peer];
  for (; !data.empty(); data = data.subspan(std::min(chunk, data.size()))) {
    const std::byte* slot = ring_receive(lane, link);
    if (slot == nullptr) return false;
    std::memcpy(data.data(), slot, std::min(chunk, data.size()));
    ring_done(lane, link);
  }
  return true;
}

bool broadcast_from(Lane& lane, std::uint32_t root, std::span<std::byte> data) {
  const std::size_t chunk = ring_chunk(lane, data.size(), kStreamedBytes);
  if (lane.rank != root) return receive_from(lane, root, data, chunk);
  for (; !data.empty(); data = data.subspan(std::min(chunk, data.size()))) {
    for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
      if (!ring_send(lane, lane.links[lane.peer(i)], data.data(), std::min(chunk, data.size())))
        return false;
    }
  }
  return true;
}

bool reduce_to(Lane& lane, std::uint32_t root, const ReduceCall& call) {
  const std::size_t chunk_bytes = ring_chunk(lane, call.bytes(), kStreamedBytes);
  if (lane.rank != root) return send_to(lane, root, {call.in, call.bytes()}, chunk_bytes);
  // Slots hold whole elements: their size is a multiple of 4096.
  const std::size_t chunk = chunk_bytes / call.element_bytes;
  for (std::size_t begin = 0; begin < call.elements; begin += chunk) {
    const std::size_t count = std::min(chunk, call.elements - begin);
    if (!reduce_chunk(lane, call, begin, count)) return false;
  }
  return true;
}

}  // namespace imex::exchange
