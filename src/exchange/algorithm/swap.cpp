#include "algorithm/swap.hpp"

#include <algorithm>
#include <cstring>

#include "algorithm/collectives.hpp"
#include "algorithm/offer.hpp"
#include "algorithm/packet_message.hpp"

namespace imex::exchange {

namespace {

bool swap_offers(Lane& lane, std::span<Leg> legs) {
  for (Leg& leg : legs) {
    if (leg.send.size() < kOfferBytesMin) continue;
    const Offer offer = make_offer(lane, leg.send);
    if (!send_offer(lane, lane.links[leg.peer], offer)) return false;
    if (offer.kind == Offer::Kind::kRing) continue;
    leg.offered = true;
    leg.send = {};
  }
  for (Leg& leg : legs) {
    if (leg.receive.size() < kOfferBytesMin) continue;
    const Fetched fetched = take_offer(lane, leg.peer, leg.receive);
    if (fetched == Fetched::kFailed) return false;
    if (fetched == Fetched::kNow) leg.receive = {};
  }
  return true;
}

/// Takes every step through the ring that is possible without waiting; says whether there was one.
bool step(Lane& lane, Leg& leg) {
  Link& link = lane.links[leg.peer];
  bool moved = false;
  while (!leg.send.empty() &&
         ring_has_room(lane.atomics, link.ring_to_peer(), link.sent + 1, kRingSlotsMax)) {
    const std::size_t bytes = std::min(leg.send_chunk, leg.send.size());
    if (!ring_send(lane, link, leg.send.data(), bytes)) return false;
    leg.send = leg.send.subspan(bytes);
    moved = true;
  }
  while (!leg.receive.empty()) {
    const memory::SlotState state =
        ring_poll(lane.atomics, link.ring_from_peer(), link.received + 1, kRingSlotsMax);
    if (state == memory::SlotState::kEarly) break;
    const std::size_t bytes = std::min(leg.receive_chunk, leg.receive.size());
    const std::byte* slot = ring_receive(lane, link);
    if (slot == nullptr) return false;
    std::memcpy(leg.receive.data(), slot, bytes);
    ring_done(lane, link);
    leg.receive = leg.receive.subspan(bytes);
    moved = true;
  }
  return moved;
}

bool swap_by_ring(Lane& lane, std::span<Leg> legs) {
  for (Leg& leg : legs) {
    leg.send_chunk = ring_chunk(lane, leg.send.size());
    leg.receive_chunk = ring_chunk(lane, leg.receive.size());
  }
  for (;;) {
    const auto pending = std::ranges::find_if(
        legs, [](const Leg& leg) { return !leg.send.empty() || !leg.receive.empty(); });
    if (pending == legs.end()) return true;
    const bool moved = lane.waits.until(*lane.links[pending->peer].header, [&] {
      bool any = false;
      for (Leg& leg : legs) {
        if (!lane.overrun) any |= step(lane, leg);
      }
      return any || lane.overrun;
    });
    if (!moved || lane.overrun) return false;
  }
}

}  // namespace

bool swap(Lane& lane, std::span<Leg> legs) {
  if (!swap_offers(lane, legs) || !swap_by_ring(lane, legs)) return false;
  // What was offered may change only once it has been read.
  return std::ranges::all_of(legs, [&](const Leg& leg) {
    return !leg.offered || await_fetched(lane, lane.links[leg.peer]);
  });
}

bool send_message(Lane& lane, std::uint32_t peer, std::span<const std::byte> data) {
  if (data.size() >= kOfferBytesMin && !send_offer(lane, lane.links[peer], {.bytes = data.size()}))
    return false;
  return send_to(lane, peer, data, ring_chunk(lane, data.size()));
}

bool receive_message(Lane& lane, std::uint32_t peer, std::span<std::byte> into) {
  if (into.size() >= kOfferBytesMin) {
    const Fetched fetched = take_offer(lane, peer, into);
    if (fetched != Fetched::kComesByRing) return fetched == Fetched::kNow;
  }
  return receive_from(lane, peer, into, ring_chunk(lane, into.size()));
}

bool swap_parts(Lane& lane, const Parts& parts) {
  lane.legs.clear();
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const std::uint32_t peer = lane.peer(i);
    lane.legs.push_back({.peer = peer, .send = parts.sends[peer], .receive = parts.receives[peer]});
  }
  return swap(lane, lane.legs);
}

bool swap_small_parts(Lane& lane, const Parts& parts, std::size_t bytes) {
  const PacketMessage message = next_packet(lane, bytes);
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const std::uint32_t peer = lane.peer(i);
    send_packet(lane, lane.links[peer], message, parts.sends[peer].data());
  }
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const std::uint32_t peer = lane.peer(i);
    if (!receive_packet(lane, lane.links[peer], message, parts.receives[peer].data())) return false;
  }
  prefetch_next_packet(lane, message);
  return true;
}

}  // namespace imex::exchange
