// Memory of the same size in every rank.

#include <fmt/format.h>

#include "base/result.hpp"
#include "core.hpp"
#include "memory/abort_page.hpp"

namespace imex::exchange {

Result<std::span<std::byte>> Core::allocate(std::size_t bytes, const AllocationOptions& options) {
  if (bytes == 0) return fail(Errc::kInvalidArgument, "allocate 0 bytes");
  if (const auto error = async_error()) return fail(*error);
  for (const auto& lane : lanes_) {
    // They may look for the buffers that there are.
    if (lane->busy.load(std::memory_order_acquire) == 0 && !lane->started.blocks_this_thread())
      continue;
    return fail(Errc::kFailedPrecondition, "allocate beside an operation that has not ended",
                "wait for it first");
  }
  if (buffers_.all().size() == Buffers::kMax) {
    return fail(Errc::kResourceExhausted,
                fmt::format("allocate: {} buffers of this communicator", Buffers::kMax),
                "allocate fewer and larger ones");
  }
  bool all_know = false;
  auto buffer = allocate_everywhere(bytes, options, all_know);
  if (!buffer && !all_know) {
    const Error& error = buffer.error();
    abort_all(memory::encode_abort({.code = error.code, .rank = error.rank}));
  }
  return buffer;
}

Result<Buffer> Core::make_buffer(std::size_t bytes, const AllocationOptions& options) {
  IMEX_TRY(auto made, Allocation::create(bytes, options));
  Buffer buffer;
  buffer.bytes = bytes;
  buffer.own = std::make_shared<Allocation>(std::move(made));
  IMEX_TRY(buffer.published, connector_->publish(buffer.own));
  return buffer;
}

Result<std::span<std::byte>> Core::allocate_everywhere(std::size_t bytes,
                                                       const AllocationOptions& options,
                                                       bool& all_know) {
  auto buffer = make_buffer(bytes, options);
  // A rank without memory says so by an empty name: nobody waits for it in vain.
  const std::uint64_t digest =
      digest_of({bytes, options.alignment, static_cast<std::uint64_t>(options.pages)});
  auto swapped =
      swap_notices(digest, buffer ? buffer->published.name : MemoryName{}, Ends::kLossOrAbort);
  // Arguments that differ are seen by all, as is a rank without memory.
  all_know = swapped || swapped.error().code == Errc::kInvalidArgument;
  if (!swapped) return fail(std::move(swapped).error());
  const std::vector<MemoryName>& names = *swapped;
  if (!buffer) return fail(std::move(buffer).error().context("allocate in all ranks"));
  buffer->peers.resize(who_.ranks);
  buffer->bases.resize(who_.ranks, buffer->own->data());
  for (std::uint32_t rank = 0; rank != who_.ranks; ++rank) {
    if (names[rank] == MemoryName{}) {
      return fail(Errc::kResourceExhausted,
                  fmt::format("allocate: rank {} could not make {} bytes of what was asked for",
                              rank, bytes));
    }
  }
  all_know = false;
  for (std::uint32_t rank = 0; rank != who_.ranks; ++rank) {
    if (rank == who_.rank) continue;
    auto opened = connector_->open(names[rank], bytes);
    if (!opened) {  // the others have it: they are told by an abort
      Error error =
          why_gone(rank, Ends::kLossOrAbort,
                   std::move(opened).error().context(fmt::format("map memory of rank {}", rank)));
      // These would say that the communicator is as it was.
      if (error.code == Errc::kResourceExhausted || error.code == Errc::kInvalidArgument)
        error.code = Errc::kUnavailable;
      return fail(std::move(error));
    }
    buffer->peers[rank] = std::move(*opened);
    buffer->bases[rank] = buffer->peers[rank].data;
  }
  const std::span<std::byte> memory(buffer->own->data(), bytes);
  buffers_.add(std::move(*buffer));
  IMEX_CHECK_OK(barrier(0));
  return memory;
}

Result<std::span<std::byte>> Core::peer_memory(std::span<const std::byte> buffer,
                                               std::uint32_t peer) const {
  const Place place = buffers_.find(buffer.data(), buffer.size());
  if (place.buffer == nullptr || peer >= who_.ranks) {
    return fail(Errc::kInvalidArgument,
                fmt::format("{} bytes of rank {}: not within memory from allocate() of {} ranks",
                            buffer.size(), peer, who_.ranks));
  }
  return std::span<std::byte>(place.buffer->bases[peer] + place.offset, buffer.size());
}

}  // namespace imex::exchange
