#include "protocol/mailbox.hpp"

#include "algorithm/all_reduce.hpp"

namespace imex::exchange {

namespace {

/// Lines that are answered together: long enough for the kernel, short enough that the asker reads
/// the first answers while the last questions are read.
constexpr std::uint32_t kGroup = 16;
constexpr std::size_t kGroupBytes = kGroup * kLinePayload;

std::size_t payload_of(std::uint32_t line, std::size_t bytes) noexcept {
  return std::min(kLinePayload, bytes - line * kLinePayload);
}

void put(PacketLine& line, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes == kLinePayload) [[likely]] {
    std::memcpy(line.payload, from, kLinePayload);
  } else {
    std::memcpy(line.payload, from, bytes);
  }
}

void get(std::byte* to, const PacketLine& line, std::size_t bytes) noexcept {
  if (bytes == kLinePayload) [[likely]] {
    std::memcpy(to, line.payload, kLinePayload);
  } else {
    std::memcpy(to, line.payload, bytes);
  }
}

/// Waits for a tag; `poll` says the state of the line.
template <class Poll>
bool await_line(Lane& lane, const Link& link, Poll&& poll) {
  memory::SlotState state = memory::SlotState::kEarly;
  const bool came = lane.waits.until(*link.header, [&] {
    state = poll();
    return state != memory::SlotState::kEarly;
  });
  if (came && state == memory::SlotState::kOverrun) lane.overrun = true;
  return came && state == memory::SlotState::kReady;
}

/// Puts the part of `data` that `peer` reduces into its mailbox.
void ask(Lane& lane, Link& link, const std::byte* data, std::size_t bytes) {
  const std::uint32_t lines = lines_of(bytes);
  for (std::uint32_t i = 0; i != lines; ++i) {
    put(link.mail_out[i], data + i * kLinePayload, payload_of(i, bytes));
    mailbox_ask(lane.atomics, HostLines{link.mail_out}, i, lane.mails);
  }
  wake(*link.header);
}

/// Reads one group of questions from every peer, reduces, writes the answers over them.
bool answer_group(Lane& lane, const ReduceCall& call, const Slice& slice, std::uint32_t first) {
  const std::size_t slice_bytes = slice.count * call.element_bytes;
  const std::size_t offset = first * kLinePayload;
  const std::size_t bytes = std::min(kGroupBytes, slice_bytes - offset);
  const std::uint32_t lines = lines_of(bytes);
  const std::size_t at = slice.begin * call.element_bytes + offset;
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const std::uint32_t peer = lane.peer(i);
    const Link& link = lane.links[peer];
    std::byte* staging = lane.scratch.data() + peer * kGroupBytes;
    // For writing, as the answer goes into the same lines: one move instead of two.
    for (std::uint32_t line = 0; line != lines; ++line) {
      __builtin_prefetch(link.mail_in + first + line, 1);
    }
    for (std::uint32_t line = 0; line != lines; ++line) {
      const bool asked = await_line(lane, link, [&] {
        return mailbox_asked(lane.atomics, HostLines{link.mail_in}, first + line, lane.mails);
      });
      if (!asked) return false;
      get(staging + line * kLinePayload, link.mail_in[first + line], payload_of(line, bytes));
    }
    lane.sources[peer] = staging;
  }
  lane.sources[lane.rank] = call.in + at;
  std::byte* const target = call.out + at;
  call.kernel({.sources = lane.sources.data(),
               .source_count = lane.ranks,
               .targets = &target,
               .target_count = 1,
               .elements = bytes / call.element_bytes});
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const Link& link = lane.links[lane.peer(i)];
    for (std::uint32_t line = 0; line != lines; ++line) {
      put(link.mail_in[first + line], target + line * kLinePayload, payload_of(line, bytes));
      mailbox_answer(lane.atomics, HostLines{link.mail_in}, first + line, lane.mails);
    }
  }
  return true;
}

/// Reads the answers of `peer` for its slice.
bool collect(Lane& lane, const Link& link, std::byte* out, std::size_t bytes) {
  const std::uint32_t lines = lines_of(bytes);
  for (std::uint32_t i = 0; i != lines; ++i) {
    const bool answered = await_line(lane, link, [&] {
      return mailbox_answered(lane.atomics, HostLines{link.mail_out}, i, lane.mails);
    });
    if (!answered) return false;
    // The next question goes there.
    __builtin_prefetch(link.mail_out + i, 1);
    get(out + i * kLinePayload, link.mail_out[i], payload_of(i, bytes));
  }
  return true;
}

bool one_round(Lane& lane, const ReduceCall& call) {
  ++lane.mails;
  const auto slice = [&](std::uint32_t rank) {
    return slice_of(call.elements, call.element_bytes, rank, lane.ranks);
  };
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const Slice part = slice(lane.peer(i));
    ask(lane, lane.links[lane.peer(i)], call.in + part.begin * call.element_bytes,
        part.count * call.element_bytes);
  }
  const Slice own = slice(lane.rank);
  const std::uint32_t lines = lines_of(own.count * call.element_bytes);
  for (std::uint32_t first = 0; first < lines; first += kGroup) {
    if (!answer_group(lane, call, own, first)) return false;
  }
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) wake(*lane.links[lane.peer(i)].header);
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const Slice part = slice(lane.peer(i));
    if (!collect(lane, lane.links[lane.peer(i)], call.out + part.begin * call.element_bytes,
                 part.count * call.element_bytes)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool all_reduce_mailbox(Lane& lane, const ReduceCall& call) {
  static_cast<void>(lane.scratch_of(lane.ranks * kGroupBytes));
  const std::size_t round = lane.ranks * (kMailBytesMax / call.element_bytes);
  static_assert(kMailBytesMax % 64 == 0 && kGroupBytes % 8 == 0);
  for (std::size_t done = 0; done < call.elements; done += round) {
    ReduceCall part = call;
    part.in += done * call.element_bytes;
    part.out += done * call.element_bytes;
    part.elements = std::min(round, call.elements - done);
    if (!one_round(lane, part)) return false;
  }
  return true;
}

}  // namespace imex::exchange
