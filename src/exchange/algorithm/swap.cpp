#include "algorithm/swap.hpp"

#include <algorithm>
#include <cstring>

#include "algorithm/collectives.hpp"
#include "algorithm/offer.hpp"
#include "algorithm/packet_message.hpp"

namespace imex::exchange {

namespace {

using Stage = Leg::Stage;

void begin(const Lane& lane, Leg& leg) {
  const auto first = [](std::size_t bytes) {
    if (bytes == 0) return Stage::kDone;
    return bytes < kOfferBytesMin ? Stage::kRing : Stage::kOffer;
  };
  leg.sending = first(leg.send.size());
  leg.receiving = first(leg.receive.size());
  leg.send_chunk = ring_chunk(lane, leg.send.size());
  leg.receive_chunk = ring_chunk(lane, leg.receive.size());
}

bool done(const Leg& leg) { return leg.sending == Stage::kDone && leg.receiving == Stage::kDone; }

/// What a step has come to. kFailed: the lane says why.
enum class Step : std::uint8_t { kNone, kMoved, kFailed };

/// The next thing that can be done without waiting to get the leg's bytes out.
Step step_out(Lane& lane, Leg& leg) {
  Link& link = lane.links[leg.peer];
  if (leg.sending == Stage::kDone) return Step::kNone;
  if (leg.sending == Stage::kFetch) {
    if (!is_fetched(lane, link)) return Step::kNone;
    leg.sending = Stage::kDone;
    return Step::kMoved;
  }
  if (!ring_has_room(lane.atomics, link.ring_to_peer(), link.sent + 1, kRingSlotsMax))
    return Step::kNone;
  if (leg.sending == Stage::kOffer) {
    const Offer offer = make_offer(lane, leg.send);
    if (!send_offer(lane, link, offer)) return Step::kFailed;
    leg.sending = offer.kind == Offer::Kind::kRing ? Stage::kRing : Stage::kFetch;
    return Step::kMoved;
  }
  const std::size_t bytes = std::min(leg.send_chunk, leg.send.size());
  if (!ring_send(lane, link, leg.send.data(), bytes)) return Step::kFailed;
  leg.send = leg.send.subspan(bytes);
  if (leg.send.empty()) leg.sending = Stage::kDone;
  return Step::kMoved;
}

/// The same to get them in.
Step step_in(Lane& lane, Leg& leg) {
  Link& link = lane.links[leg.peer];
  if (leg.receiving == Stage::kDone) return Step::kNone;
  if (ring_poll(lane.atomics, link.ring_from_peer(), link.received + 1, kRingSlotsMax) ==
      memory::SlotState::kEarly)
    return Step::kNone;
  if (leg.receiving == Stage::kOffer) {
    const Fetched fetched = take_offer(lane, leg.peer, leg.receive);
    if (fetched == Fetched::kFailed) return Step::kFailed;
    leg.receiving = fetched == Fetched::kNow ? Stage::kDone : Stage::kRing;
    return Step::kMoved;
  }
  const std::size_t bytes = std::min(leg.receive_chunk, leg.receive.size());
  const std::byte* slot = ring_receive(lane, link);
  if (slot == nullptr) return Step::kFailed;
  std::memcpy(leg.receive.data(), slot, bytes);
  ring_done(lane, link);
  leg.receive = leg.receive.subspan(bytes);
  if (leg.receive.empty()) leg.receiving = Stage::kDone;
  return Step::kMoved;
}

/// All steps of all legs that need no wait.
Step step_all(Lane& lane, std::span<Leg> legs) {
  Step result = Step::kNone;
  for (Leg& leg : legs) {
    for (const auto step : {step_out, step_in}) {
      Step one = step(lane, leg);
      for (; one == Step::kMoved; one = step(lane, leg)) result = Step::kMoved;
      if (one == Step::kFailed) return one;
    }
  }
  return result;
}

}  // namespace

bool swap(Lane& lane, std::span<Leg> legs) {
  for (Leg& leg : legs) begin(lane, leg);
  for (;;) {
    const auto pending = std::ranges::find_if_not(legs, done);
    if (pending == legs.end()) return true;
    Step step = Step::kNone;
    const bool moved = lane.waits.until(*lane.links[pending->peer].header, [&] {
      step = step_all(lane, legs);
      return step != Step::kNone;
    });
    if (!moved || step == Step::kFailed) return false;
  }
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
