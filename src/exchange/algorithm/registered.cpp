#include "algorithm/all_reduce.hpp"
#include "algorithm/rounds.hpp"

namespace imex::exchange {

namespace {

/// A place in a buffer, in one word: which buffer, and where.
constexpr unsigned kOffsetBits = 48;

std::uint64_t place(std::uint32_t id, std::size_t offset) noexcept {
  return std::uint64_t{id} << kOffsetBits | offset;
}

/// What a peer said about its place, if that lies inside the buffer which this rank uses.
std::byte* resolve(std::uint64_t word, std::uint32_t id, std::byte* base, std::size_t buffer_bytes,
                   std::size_t bytes) noexcept {
  const std::uint64_t offset = word & ((std::uint64_t{1} << kOffsetBits) - 1);
  if (word >> kOffsetBits != id || bytes > buffer_bytes || offset > buffer_bytes - bytes) {
    return nullptr;
  }
  return base + offset;
}

}  // namespace

bool all_reduce_registered(Lane& lane, const ReduceCall& call, const RegisteredBuffers& buffers) {
  const std::size_t bytes = call.bytes();
  enter_round(lane, {{place(buffers.in_id, buffers.in_offset),
                      place(buffers.out_id, buffers.out_offset), bytes}});
  const Slice slice = slice_of(call.elements, call.element_bytes, lane.rank, lane.ranks);
  const std::size_t at = slice.begin * call.element_bytes;
  lane.sources[lane.rank] = call.in + at;
  lane.targets[lane.rank] = call.out + at;
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const std::uint32_t peer = lane.peer(i);
    const Link& link = lane.links[peer];
    if (!await_entry(lane, link)) return false;
    const std::byte* in = resolve(link.in->ready_words[0], buffers.in_id, buffers.in_base[peer],
                                  buffers.in_bytes, bytes);
    std::byte* out = resolve(link.in->ready_words[1], buffers.out_id, buffers.out_base[peer],
                             buffers.out_bytes, bytes);
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
