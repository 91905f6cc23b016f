// Memory of the same size in every rank.

#include <fmt/format.h>

#include "base/result.hpp"
#include "core.hpp"
#include "memory/abort_page.hpp"

namespace imex::exchange {

Result<std::span<std::byte>> Core::allocate(std::size_t bytes) {
  if (bytes == 0) return fail(Errc::kInvalidArgument, "allocate 0 bytes");
  if (const auto error = async_error()) return fail(*error);
  auto buffer = allocate_everywhere(bytes);
  // Arguments that differ are seen by all ranks; of anything else the others would not know.
  if (!buffer && buffer.error().code != Errc::kInvalidArgument) {
    abort_all(memory::encode_abort({.code = buffer.error().code, .rank = buffer.error().rank}));
  }
  return buffer;
}

Result<std::span<std::byte>> Core::allocate_everywhere(std::size_t bytes) {
  IMEX_TRY(auto made, Allocation::create(bytes));
  Buffer buffer;
  buffer.bytes = bytes;
  buffer.own = std::make_shared<Allocation>(std::move(made));
  IMEX_TRY(buffer.published, connector_->publish(buffer.own));
  IMEX_TRY(const auto names,
           swap_notices(digest_of({bytes}), buffer.published.name, Ends::kLossOrAbort));
  buffer.peers.resize(who_.ranks);
  buffer.bases.resize(who_.ranks, buffer.own->data());
  for (std::uint32_t rank = 0; rank != who_.ranks; ++rank) {
    if (rank == who_.rank) continue;
    IMEX_TRY(buffer.peers[rank], connector_->open(names[rank], bytes));
    buffer.bases[rank] = buffer.peers[rank].data;
  }
  const std::span<std::byte> memory(buffer.own->data(), bytes);
  buffers_.add(std::move(buffer));
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
