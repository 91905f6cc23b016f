#include "layout.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/result.hpp"

namespace imex::exchange {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPacketArea = kPacketSlots * kPacketLines * sizeof(PacketLine);
constexpr std::size_t kMailArea = kMailLines * sizeof(PacketLine);
/// Rings of one lane of one rank together: half of what a rank may take at 16 ranks.
constexpr std::size_t kRingBudget = std::size_t{8} << 20U;
constexpr std::size_t kSlotBytesMax = std::size_t{1} << 20U;
static_assert(kPacketArea % 128 == 0 && kMailArea % kPage == 0);

constexpr std::size_t page_up(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// A rank has no area for itself.
constexpr std::size_t index_of(std::uint32_t owner, std::uint32_t peer) {
  return peer < owner ? peer : peer - 1;
}

}  // namespace

Result<Layout> Layout::make(const LayoutRequest& request) {
  if (request.ranks == 0 || request.ranks > kRanksMax) {
    return fail(Errc::kInvalidArgument,
                fmt::format("communicator of {} ranks: 1 to {} wanted", request.ranks, kRanksMax));
  }
  if (request.lanes == 0 || request.lanes > kLanesMax) {
    return fail(Errc::kInvalidArgument,
                fmt::format("communicator of {} lanes: 1 to {} wanted", request.lanes, kLanesMax));
  }
  if (request.slot_bytes < kPage || request.slot_bytes > kSlotBytesMax ||
      request.slot_bytes % kPage != 0) {
    return fail(Errc::kInvalidArgument,
                fmt::format("ring slots of {} bytes: a multiple of 4096 up to 1 MiB wanted",
                            request.slot_bytes));
  }
  const std::size_t peers = request.ranks - 1;
  Layout layout;
  if (peers != 0) {
    const std::size_t share = kRingBudget / peers / kRingSlotsMax / kPage * kPage;
    layout.ring_slot_bytes_ = std::clamp(share, kPage, request.slot_bytes);
  }
  layout.packets_at_ = page_up(peers * sizeof(PeerBlock));
  layout.mailbox_at_ = page_up(layout.packets_at_ + peers * kPacketArea);
  layout.ring_at_ = layout.mailbox_at_ + peers * kMailArea;
  layout.lane_bytes_ = layout.ring_at_ + peers * kRingSlotsMax * layout.ring_slot_bytes_;
  layout.window_bytes_ = kPage + request.lanes * layout.lane_bytes_;
  return layout;
}

std::size_t Layout::block(std::uint32_t lane, std::uint32_t owner,
                          std::uint32_t peer) const noexcept {
  return kPage + lane * lane_bytes_ + index_of(owner, peer) * sizeof(PeerBlock);
}

std::size_t Layout::packets(std::uint32_t lane, std::uint32_t owner,
                            std::uint32_t peer) const noexcept {
  return kPage + lane * lane_bytes_ + packets_at_ + index_of(owner, peer) * kPacketArea;
}

std::size_t Layout::mailbox(std::uint32_t lane, std::uint32_t owner,
                            std::uint32_t peer) const noexcept {
  return kPage + lane * lane_bytes_ + mailbox_at_ + index_of(owner, peer) * kMailArea;
}

std::size_t Layout::ring(std::uint32_t lane, std::uint32_t owner,
                         std::uint32_t peer) const noexcept {
  return kPage + lane * lane_bytes_ + ring_at_ +
         index_of(owner, peer) * kRingSlotsMax * ring_slot_bytes_;
}

}  // namespace imex::exchange
