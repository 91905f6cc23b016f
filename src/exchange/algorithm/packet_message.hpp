/// One small message to every peer and one from every peer, over the packet protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lane.hpp"
#include "protocol/packet.hpp"

namespace imex::exchange {

struct PacketMessage {
  std::uint64_t number = 0;
  std::size_t bytes = 0;
  std::uint32_t lines = 0;
  std::uint32_t slot = 0;  ///< in lines
};

/// An empty message has one line: it still says that the rank is there.
[[nodiscard]] inline PacketMessage next_packet(Lane& lane, std::size_t bytes) noexcept {
  const std::uint64_t number = ++lane.packets;
  return {.number = number,
          .bytes = bytes,
          .lines = std::max(lines_of(bytes), 1U),
          .slot = memory::slot_index(number, kPacketSlots) * kPacketLines};
}

inline void send_packet(Lane& lane, const Link& link, const PacketMessage& message,
                        const std::byte* data) {
  PacketLine* lines = link.packets_out + message.slot;
  const std::uint32_t whole = static_cast<std::uint32_t>(message.bytes / kLinePayload);
  const std::size_t rest = message.bytes % kLinePayload;
  packet_send(lane.atomics, HostLines{lines}, message.lines, message.number, [&](std::uint32_t i) {
    const std::byte* from = data + i * kLinePayload;
    if (i < whole) [[likely]] {
      std::memcpy(lines[i].payload, from, kLinePayload);
    } else if (rest != 0) {
      std::memcpy(lines[i].payload, from, rest);
    }
  });
  wake(*link.header);
}

/// Into `target`, of message.bytes. False: the wait has ended.
[[nodiscard]] inline bool receive_packet(Lane& lane, const Link& link, const PacketMessage& message,
                                         std::byte* target) {
  const PacketLine* lines = link.packets_in + message.slot;
  const std::uint32_t whole = static_cast<std::uint32_t>(message.bytes / kLinePayload);
  const std::size_t rest = message.bytes % kLinePayload;
  return packet_receive(
      lane.atomics, HostLines{link.packets_in + message.slot}, message.lines, message.number,
      lane.overrun, [&](auto&& poll) { return lane.waits.until(*link.header, poll); },
      [&](std::uint32_t i) {
        std::byte* to = target + i * kLinePayload;
        if (i < whole) [[likely]] {
          std::memcpy(to, lines[i].payload, kLinePayload);
        } else if (rest != 0) {
          std::memcpy(to, lines[i].payload, rest);
        }
      });
}

/// Fetches the lines of the next message for writing while nobody waits for them.
inline void prefetch_next_packet(Lane& lane, const PacketMessage& message) noexcept {
  const std::uint32_t slot = memory::slot_index(message.number + 1, kPacketSlots) * kPacketLines;
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const Link& link = lane.links[lane.peer(i)];
    for (std::uint32_t line = 0; line != message.lines; ++line) {
      __builtin_prefetch(link.packets_out + slot + line, 1);
    }
  }
}

}  // namespace imex::exchange
