/// Large messages stay where they are: the sender offers them, the receiver fetches them from
/// there. One copy instead of the two of a ring, and each cache line moves once.
///
/// An offer is a message of the ring, so it comes in order and its credit says that the data were
/// fetched. Both ranks know the size of a message, and so whether it is offered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lane.hpp"

namespace imex::exchange {

/// From here on a message is offered.
inline constexpr std::size_t kOfferBytesMin = std::size_t{32} << 10U;

struct Offer {
  enum class Kind : std::uint64_t {
    kRing = 0,     ///< cannot be fetched: the data follow through the ring
    kBuffer = 1,   ///< in memory from allocate(): `where` is Place::word()
    kAddress = 2,  ///< in private memory of the sender
  };
  Kind kind = Kind::kRing;
  std::uint64_t where = 0;
  std::uint64_t bytes = 0;
};

enum class Fetched : std::uint8_t { kNow, kComesByRing, kFailed };

/// How the peers can best get at `data`.
[[nodiscard]] Offer make_offer(const Lane& lane, std::span<const std::byte> data) noexcept;
/// What is offered, unless by ring, stays as it is until is_fetched(). False: the wait for room has
/// ended.
[[nodiscard]] bool send_offer(Lane& lane, Link& link, const Offer& offer);
/// Waits for the peer's offer, which must be of as many bytes, and fetches them.
[[nodiscard]] Fetched take_offer(Lane& lane, std::uint32_t peer, std::span<std::byte> into);
/// The peer has read all that was sent to it.
[[nodiscard]] bool is_fetched(Lane& lane, const Link& link);

}  // namespace imex::exchange
