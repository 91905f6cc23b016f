#include "algorithm/all_reduce.hpp"
#include "algorithm/rounds.hpp"

namespace imex::exchange {

bool all_reduce_registered(Lane& lane, const ReduceCall& call, const Place& in_place,
                           const Place& out_place) {
  const std::size_t bytes = call.bytes();
  enter_round(lane, {{in_place.word(), out_place.word(), bytes}});
  const Slice slice = slice_of(call.elements, call.element_bytes, lane.rank, lane.ranks);
  const std::size_t at = slice.begin * call.element_bytes;
  lane.sources[lane.rank] = call.in + at;
  lane.targets[lane.rank] = call.out + at;
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const std::uint32_t peer = lane.peer(i);
    const Link& link = lane.links[peer];
    if (!await_entry(lane, link)) return false;
    const std::byte* in = lane.buffers->resolve(link.in->ready_words[0], peer, bytes);
    std::byte* out = lane.buffers->resolve(link.in->ready_words[1], peer, bytes);
    if (in == nullptr || out == nullptr || link.in->ready_words[2] != bytes) {
      lane.overrun = true;
      return false;
    }
    lane.sources[peer] = in + at;
    lane.targets[peer] = out + at;
  }
  if (slice.count != 0) {
    call.kernel({.sources = lane.sources.data(),
                 .source_count = lane.ranks,
                 .targets = lane.targets.data(),
                 .target_count = lane.ranks,
                 .elements = slice.count});
  }
  finish_part(lane, 1);
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    if (!await_part(lane, lane.links[lane.peer(i)], 1)) return false;
  }
  return true;
}

}  // namespace imex::exchange
