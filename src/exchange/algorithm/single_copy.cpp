#include "algorithm/all_reduce.hpp"
#include "algorithm/fetch.hpp"
#include "algorithm/rounds.hpp"

namespace imex::exchange {

namespace {

/// Stays in L2 with one copy per peer, and pays for the system call.
constexpr std::size_t kChunkBytes = std::size_t{128} << 10U;

bool reduce_slice(Lane& lane, const ReduceCall& call, const Slice& slice) {
  const std::size_t chunk = kChunkBytes / call.element_bytes;
  std::byte* staging = lane.scratch_of(lane.ranks * kChunkBytes);
  for (std::size_t done = 0; done < slice.count; done += chunk) {
    const std::size_t count = std::min(chunk, slice.count - done);
    const std::size_t at = (slice.begin + done) * call.element_bytes;
    for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
      const std::uint32_t peer = lane.peer(i);
      const Link& link = lane.links[peer];
      std::byte* to = staging + peer * kChunkBytes;
      lane.sources[peer] = to;
      if (!fetch(lane, link, link.in->ready_words[0] + at, to, count * call.element_bytes)) {
        return false;
      }
    }
    lane.sources[lane.rank] = call.in + at;
    std::byte* const target = call.out + at;
    call.kernel({.sources = lane.sources.data(),
                 .source_count = lane.ranks,
                 .targets = &target,
                 .target_count = 1,
                 .elements = count});
  }
  return true;
}

}  // namespace

bool all_reduce_single_copy(Lane& lane, const ReduceCall& call) {
  enter_round(lane, {{reinterpret_cast<std::uint64_t>(call.in),
                      reinterpret_cast<std::uint64_t>(call.out), call.bytes()}});
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const Link& link = lane.links[lane.peer(i)];
    if (!await_entry(lane, link)) return false;
    if (link.in->ready_words[2] != call.bytes()) {
      lane.overrun = true;
      return false;
    }
  }
  // In place is safe: a rank writes its own slice only, which no peer reads in this part.
  if (!reduce_slice(lane, call, slice_of(call.elements, call.element_bytes, lane.rank, lane.ranks)))
    return false;
  finish_part(lane, 1);
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const Link& link = lane.links[lane.peer(i)];
    if (!await_part(lane, link, 1)) return false;
    const Slice slice = slice_of(call.elements, call.element_bytes, lane.peer(i), lane.ranks);
    const std::size_t at = slice.begin * call.element_bytes;
    const std::size_t bytes = slice.count * call.element_bytes;
    if (bytes != 0 && !fetch(lane, link, link.in->ready_words[1] + at, call.out + at, bytes))
      return false;
  }
  // Nobody may change its buffers while a peer still reads them.
  finish_part(lane, 2);
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    if (!await_part(lane, lane.links[lane.peer(i)], 2)) return false;
  }
  return true;
}

}  // namespace imex::exchange
