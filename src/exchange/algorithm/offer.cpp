#include "algorithm/offer.hpp"

#include <cstring>

#include "algorithm/fetch.hpp"

namespace imex::exchange {

namespace {

/// False: it lies in no buffer, or cannot be read.
bool fetch_offered(Lane& lane, std::uint32_t peer, const Offer& offer, std::span<std::byte> into) {
  const Link& link = lane.links[peer];
  if (offer.kind == Offer::Kind::kAddress && lane.may_fetch)
    return fetch(lane, link, offer.where, into.data(), into.size());
  const std::byte* from = offer.kind == Offer::Kind::kBuffer
                              ? lane.buffers->resolve(offer.where, peer, into.size())
                              : nullptr;
  if (from == nullptr) {
    lane.overrun = true;
    return false;
  }
  std::memcpy(into.data(), from, into.size());
  // A sender whose wait has ended, which aborts all, may have changed them meanwhile.
  return !lane.waits.aborted(*link.header);
}

}  // namespace

Offer make_offer(const Lane& lane, std::span<const std::byte> data) noexcept {
  Offer offer{.bytes = data.size()};
  if (const Place place = lane.buffers->find(data.data(), data.size()); place.buffer != nullptr) {
    offer.kind = Offer::Kind::kBuffer;
    offer.where = place.word();
  } else if (lane.may_fetch) {
    offer.kind = Offer::Kind::kAddress;
    offer.where = reinterpret_cast<std::uint64_t>(data.data());
  }
  return offer;
}

bool send_offer(Lane& lane, Link& link, const Offer& offer) {
  return ring_send(lane, link, reinterpret_cast<const std::byte*>(&offer), sizeof offer);
}

Fetched take_offer(Lane& lane, std::uint32_t peer, std::span<std::byte> into) {
  Link& link = lane.links[peer];
  const std::byte* message = ring_receive(lane, link);
  if (message == nullptr) return Fetched::kFailed;
  Offer offer;
  std::memcpy(&offer, message, sizeof offer);
  if (offer.bytes != into.size()) {
    lane.overrun = true;
    return Fetched::kFailed;
  }
  const bool by_ring = offer.kind == Offer::Kind::kRing;
  if (!by_ring && !fetch_offered(lane, peer, offer, into)) return Fetched::kFailed;
  ring_done(lane, link);
  return by_ring ? Fetched::kComesByRing : Fetched::kNow;
}

bool is_fetched(Lane& lane, const Link& link) {
  // There is room for a message that is a whole ring ahead once all before it are read.
  return ring_has_room(lane.atomics, link.ring_to_peer(), link.sent + kRingSlotsMax, kRingSlotsMax);
}

}  // namespace imex::exchange
