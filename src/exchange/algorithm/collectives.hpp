/// Everything but all_reduce. Each returns false when a wait has ended early; the lane says why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "algorithm/all_reduce.hpp"
#include "lane.hpp"

namespace imex::exchange {

[[nodiscard]] bool barrier(Lane& lane);

/// Part r of `sends` goes to rank r, part r of `receives` comes from it; by rank, own parts
/// ignored. Any sizes.
struct Parts {
  std::span<const std::span<const std::byte>> sends;
  std::span<const std::span<std::byte>> receives;
};
[[nodiscard]] bool swap_parts(Lane& lane, const Parts& parts);
/// The same for parts of one size, at most kPacketBytesMax.
[[nodiscard]] bool swap_small_parts(Lane& lane, const Parts& parts, std::size_t bytes);

[[nodiscard]] bool send_to(Lane& lane, std::uint32_t peer, std::span<const std::byte> data);
[[nodiscard]] bool receive_from(Lane& lane, std::uint32_t peer, std::span<std::byte> data);
[[nodiscard]] bool broadcast_from(Lane& lane, std::uint32_t root, std::span<std::byte> data);
[[nodiscard]] bool reduce_to(Lane& lane, std::uint32_t root, const ReduceCall& call);

}  // namespace imex::exchange
