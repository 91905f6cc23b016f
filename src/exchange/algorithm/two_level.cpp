#include "algorithm/two_level.hpp"

#include <algorithm>
#include <cstring>

namespace imex::exchange {

namespace {

/// Below, a chunk's own cost is more than what its overlap with others saves.
constexpr std::size_t kChunkBytesMin = std::size_t{4} << 10U;
/// How many chunks a rank has handed to its leader before it wants the first one's result.
constexpr std::size_t kAhead = 2;
static_assert(kAhead <= kRingSlotsMax);

/// In elements. A quarter of the vector, so that the levels overlap.
std::size_t chunk_of(const ReduceCall& call, std::size_t bytes_max) noexcept {
  const std::size_t quarter = (call.bytes() / 4 + 63) / 64 * 64;
  return std::clamp(quarter, std::min(kChunkBytesMin, bytes_max), bytes_max) / call.element_bytes;
}

bool exchange_among_leaders(Lane& lane, const TuningTable& table, const ReduceCall& call) {
  switch (table.choice(call.bytes(), false)) {
    case Algorithm::kPacket:
      return all_reduce_packet(lane, call);
    case Algorithm::kMailbox:
      return all_reduce_mailbox(lane, call);
    case Algorithm::kSingleCopy:
      return all_reduce_single_copy(lane, call);
    default:
      return all_reduce_ring(lane, call);
  }
}

/// As the first of a group, or a rank that is alone in its own.
const Lane* lead(const TwoLevelCall& ranks, const ReduceCall& call, std::size_t chunk) {
  for (std::size_t begin = 0; begin < call.elements; begin += chunk) {
    const std::size_t count = std::min(chunk, call.elements - begin);
    const std::size_t at = begin * call.element_bytes;
    ReduceCall part = call;
    part.in = (ranks.group == nullptr ? call.in : call.out) + at;
    part.out = call.out + at;
    part.elements = count;
    if (ranks.group != nullptr && !reduce_chunk(*ranks.group, call, begin, count))
      return ranks.group;
    if (!exchange_among_leaders(*ranks.leaders, ranks.among_leaders, part)) return ranks.leaders;
    if (ranks.group == nullptr) continue;
    for (std::uint32_t rank = 1; rank != ranks.group->ranks; ++rank) {
      if (!ring_send(*ranks.group, ranks.group->links[rank], part.out, part.bytes()))
        return ranks.group;
    }
  }
  return nullptr;
}

/// As another one. In place is safe: a chunk is sent before its result is written.
const Lane* follow(Lane& group, const ReduceCall& call, std::size_t chunk) {
  Link& leader = group.links[0];
  std::size_t sent = 0;
  for (std::size_t begin = 0; begin < call.elements; begin += chunk) {
    while (sent < std::min(begin + kAhead * chunk, call.elements)) {
      const std::size_t count = std::min(chunk, call.elements - sent);
      if (!ring_send(group, leader, call.in + sent * call.element_bytes,
                     count * call.element_bytes)) {
        return &group;
      }
      sent += count;
    }
    const std::byte* const slot = ring_receive(group, leader);
    if (slot == nullptr) return &group;
    std::memcpy(call.out + begin * call.element_bytes, slot,
                std::min(chunk, call.elements - begin) * call.element_bytes);
    ring_done(group, leader);
  }
  return nullptr;
}

}  // namespace

const Lane* all_reduce_two_level(const TwoLevelCall& ranks, const ReduceCall& call) {
  const std::size_t chunk = chunk_of(call, ranks.chunk_bytes_max);
  return ranks.leaders != nullptr ? lead(ranks, call, chunk) : follow(*ranks.group, call, chunk);
}

}  // namespace imex::exchange
