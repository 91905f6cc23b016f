#include "algorithm/collectives.hpp"

#include <algorithm>
#include <vector>

#include "algorithm/packet_message.hpp"

namespace imex::exchange {

namespace {

/// Up to here everybody tells everybody; beyond, the number of stores counts more than that of
/// rounds.
constexpr std::uint32_t kFlatBarrierRanks = 16;

bool await_barrier(Lane& lane, const Link& link) {
  return lane.waits.until(*link.header, [&] {
    // A peer may have entered the next barrier already.
    return memory::slot_poll(lane.atomics, link.in->barrier, lane.barriers) !=
           memory::SlotState::kEarly;
  });
}

void tell_barrier(Lane& lane, const Link& link) {
  memory::slot_publish(lane.atomics, link.out->barrier, lane.barriers);
  wake(*link.header);
}

/// How far swap_parts() has come with one peer.
struct Progress {
  std::size_t sent = 0, received = 0;
};

std::size_t next_chunk(std::size_t total, std::size_t done, std::size_t slot_bytes) {
  return std::min(slot_bytes, total - done);
}

/// Takes every step that is possible without waiting; says whether there was one.
bool swap_step(Lane& lane, Link& link, std::span<const std::byte> send,
               std::span<std::byte> receive, Progress& progress) {
  bool moved = false;
  while (progress.sent < send.size() &&
         ring_has_room(lane.atomics, link.ring_to_peer(), link.sent + 1, kRingSlotsMax)) {
    const std::size_t bytes = next_chunk(send.size(), progress.sent, lane.slot_bytes);
    if (!ring_send(lane, link, send.data() + progress.sent, bytes)) return false;
    progress.sent += bytes;
    moved = true;
  }
  while (progress.received < receive.size()) {
    const memory::SlotState state =
        ring_poll(lane.atomics, link.ring_from_peer(), link.received + 1, kRingSlotsMax);
    if (state == memory::SlotState::kEarly) break;
    const std::size_t bytes = next_chunk(receive.size(), progress.received, lane.slot_bytes);
    const std::byte* slot = ring_receive(lane, link);
    if (slot == nullptr) return false;
    std::memcpy(receive.data() + progress.received, slot, bytes);
    ring_done(lane, link);
    progress.received += bytes;
    moved = true;
  }
  return moved;
}

}  // namespace

bool barrier(Lane& lane) {
  ++lane.barriers;
  if (lane.ranks <= kFlatBarrierRanks) {
    for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
      tell_barrier(lane, lane.links[lane.peer(i)]);
    }
    for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
      if (!await_barrier(lane, lane.links[lane.peer(i)])) return false;
    }
    return true;
  }
  // Dissemination: all distances are different, so each pair has one word per barrier and uses it
  // once.
  for (std::uint32_t distance = 1; distance < lane.ranks; distance *= 2) {
    tell_barrier(lane, lane.links[(lane.rank + distance) % lane.ranks]);
    const std::uint32_t from = (lane.rank + lane.ranks - distance) % lane.ranks;
    if (!await_barrier(lane, lane.links[from])) return false;
  }
  return true;
}

bool swap_small_parts(Lane& lane, const Parts& parts, std::size_t bytes) {
  const PacketMessage message = next_packet(lane, bytes);
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const std::uint32_t peer = lane.peer(i);
    send_packet(lane, lane.links[peer], message, parts.sends[peer].data());
  }
  std::byte* staging = lane.scratch_of(kPacketBytesMax);
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const std::uint32_t peer = lane.peer(i);
    if (!receive_packet(lane, lane.links[peer], message, staging)) return false;
    if (bytes != 0) std::memcpy(parts.receives[peer].data(), staging, bytes);
  }
  prefetch_next_packet(lane, message);
  return true;
}

bool swap_parts(Lane& lane, const Parts& parts) {
  std::vector<Progress> progress(lane.ranks);
  const auto finished = [&](std::uint32_t peer) {
    return progress[peer].sent == parts.sends[peer].size() &&
           progress[peer].received == parts.receives[peer].size();
  };
  for (;;) {
    const Link* pending = nullptr;
    for (std::uint32_t i = 0; i + 1 < lane.ranks && pending == nullptr; ++i) {
      if (!finished(lane.peer(i))) pending = &lane.links[lane.peer(i)];
    }
    if (pending == nullptr) return true;
    const bool moved = lane.waits.until(*pending->header, [&] {
      bool any = false;
      for (std::uint32_t i = 0; i + 1 < lane.ranks && !lane.overrun; ++i) {
        const std::uint32_t peer = lane.peer(i);
        any |= swap_step(lane, lane.links[peer], parts.sends[peer], parts.receives[peer],
                         progress[peer]);
      }
      return any || lane.overrun;
    });
    if (!moved || lane.overrun) return false;
  }
}

bool send_to(Lane& lane, std::uint32_t peer, std::span<const std::byte> data) {
  for (std::size_t done = 0; done < data.size(); done += lane.slot_bytes) {
    if (!ring_send(lane, lane.links[peer], data.data() + done,
                   next_chunk(data.size(), done, lane.slot_bytes))) {
      return false;
    }
  }
  return true;
}

bool receive_from(Lane& lane, std::uint32_t peer, std::span<std::byte> data) {
  Link& link = lane.links[peer];
  for (std::size_t done = 0; done < data.size(); done += lane.slot_bytes) {
    const std::byte* slot = ring_receive(lane, link);
    if (slot == nullptr) return false;
    std::memcpy(data.data() + done, slot, next_chunk(data.size(), done, lane.slot_bytes));
    ring_done(lane, link);
  }
  return true;
}

bool broadcast_from(Lane& lane, std::uint32_t root, std::span<std::byte> data) {
  if (lane.rank != root) return receive_from(lane, root, data);
  for (std::size_t done = 0; done < data.size(); done += lane.slot_bytes) {
    for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
      if (!ring_send(lane, lane.links[lane.peer(i)], data.data() + done,
                     next_chunk(data.size(), done, lane.slot_bytes))) {
        return false;
      }
    }
  }
  return true;
}

bool reduce_to(Lane& lane, std::uint32_t root, const ReduceCall& call) {
  if (lane.rank != root) return send_to(lane, root, {call.in, call.bytes()});
  // Slots hold whole elements: their size is a multiple of 4096.
  const std::size_t chunk = lane.slot_bytes / call.element_bytes;
  for (std::size_t begin = 0; begin < call.elements; begin += chunk) {
    const std::size_t count = std::min(chunk, call.elements - begin);
    if (!reduce_chunk(lane, call, begin, count)) return false;
  }
  return true;
}

}  // namespace imex::exchange
