/// Everything but all_reduce. Each returns false when a wait has ended early; the lane says why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "algorithm/all_reduce.hpp"
#include "lane.hpp"

namespace imex::exchange {

[[nodiscard]] bool barrier(Lane& lane);

/// Through the ring, in messages of `chunk` bytes.
[[nodiscard]] bool send_to(Lane& lane, std::uint32_t peer, std::span<const std::byte> data,
                           std::size_t chunk);
[[nodiscard]] bool receive_from(Lane& lane, std::uint32_t peer, std::span<std::byte> data,
                                std::size_t chunk);
[[nodiscard]] bool broadcast_from(Lane& lane, std::uint32_t root, std::span<std::byte> data);
[[nodiscard]] bool reduce_to(Lane& lane, std::uint32_t root, const ReduceCall& call);

}  // namespace imex::exchange
