/// Messages in both directions at once. Each function returns false when a wait has ended early;
/// the lane says why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lane.hpp"

namespace imex::exchange {

/// Does all legs, of different peers, side by side; of any sizes. They are empty afterwards.
[[nodiscard]] bool swap(Lane& lane, std::span<Leg> legs);

/// Through the ring: returns when all is in there.
[[nodiscard]] bool send_message(Lane& lane, std::uint32_t peer, std::span<const std::byte> data);
[[nodiscard]] bool receive_message(Lane& lane, std::uint32_t peer, std::span<std::byte> into);

/// Part r of `sends` goes to rank r, part r of `receives` comes from it; by rank, own parts
/// ignored.
struct Parts {
  std::span<const std::span<const std::byte>> sends;
  std::span<const std::span<std::byte>> receives;
};
[[nodiscard]] bool swap_parts(Lane& lane, const Parts& parts);
/// The same for parts of one size, at most kPacketBytesMax.
[[nodiscard]] bool swap_small_parts(Lane& lane, const Parts& parts, std::size_t bytes);

}  // namespace imex::exchange
