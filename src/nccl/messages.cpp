#include "messages.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "memory/atomics.hpp"
#include "memory/wait_protocol.hpp"
#include "os/futex.hpp"

namespace imex::nccl {

namespace {

constexpr std::uint32_t kSlots = 8;
/// Of all rings of a rank together, as long as their slots stay within these limits.
constexpr std::size_t kRingBytes = 1 << 20;
constexpr std::size_t kSlotBytesMin = 4 << 10, kSlotBytesMax = 64 << 10;
/// How long a sleeper may stay asleep whose wake-up was missed; see wake().
constexpr std::chrono::milliseconds kSleepSlice{1};

std::size_t slot_bytes_for(std::uint32_t ranks) {
  const std::size_t share = kRingBytes / ranks / kSlots / kSlotBytesMin * kSlotBytesMin;
  return std::clamp(share, kSlotBytesMin, kSlotBytesMax);
}

}  // namespace

/// At the start of each rank's memory. All-zero bytes are a good start, here and in Box.
struct Messages::RankWords {
  /// Not zero: the owner sleeps, or is about to. It sets it; whoever wakes clears it.
  alignas(128) std::atomic<std::uint32_t> asleep;
};

/// What one rank writes for another; one writer. All counts only grow.
struct Messages::Box {
  /// Chunks that the writer has put into the slots. Release: the slot and its word are written.
  alignas(128) std::atomic<std::uint64_t> sent;
  /// Chunks that the writer has taken out of its own box from this rank, in the other direction.
  alignas(128) std::atomic<std::uint64_t> taken;
  /// How long the message is that the slot's chunk belongs to.
  alignas(128) std::atomic<std::uint64_t> message_bytes[kSlots];
};

template <class Message>
void Messages::Stream<Message>::moved(std::size_t bytes) noexcept {
  ++chunks;
  done_bytes += bytes;
  if (done_bytes == messages[next].bytes) {
    ++next;
    done_bytes = 0;
  }
}

Messages::Messages(Communicator& communicator, std::chrono::milliseconds timeout,
                   std::size_t slot_bytes)
    : communicator_(&communicator),
      timeout_(timeout),
      slot_bytes_(slot_bytes),
      peers_(communicator.size()) {}

Result<Messages> Messages::create(Communicator& communicator, std::chrono::milliseconds timeout) {
  const std::uint32_t ranks = communicator.size();
  Messages messages(communicator, timeout, slot_bytes_for(ranks));
  if (ranks == 1) return messages;
  const std::size_t box_bytes = sizeof(Box) + kSlots * messages.slot_bytes_;
  IMEX_TRY(const auto own, communicator.allocate(sizeof(RankWords) + ranks * box_bytes));
  for (std::uint32_t rank = 0; rank != ranks; ++rank) {
    IMEX_TRY(const auto memory, communicator.peer_memory(own, rank));
    messages.peers_[rank].memory = memory.data();
  }
  return messages;
}

Messages::RankWords& Messages::words(std::uint32_t rank) const noexcept {
  return *reinterpret_cast<RankWords*>(peers_[rank].memory);
}

Messages::Box& Messages::box(std::uint32_t owner, std::uint32_t from) const noexcept {
  const std::size_t box_bytes = sizeof(Box) + kSlots * slot_bytes_;
  return *reinterpret_cast<Box*>(peers_[owner].memory + sizeof(RankWords) + from * box_bytes);
}

std::byte* Messages::slot(Box& box, std::uint64_t chunk) const noexcept {
  return reinterpret_cast<std::byte*>(&box + 1) + chunk % kSlots * slot_bytes_;
}

void Messages::wake(std::uint32_t rank) const noexcept {
  // Relaxed, and not ordered with the store before it: a sleeper that is missed looks again by
  // itself after kSleepSlice. A full fence would cost every chunk more than that ever will.
  std::atomic<std::uint32_t>& asleep = words(rank).asleep;
  if (asleep.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  asleep.store(0, std::memory_order_relaxed);
  os::futex_wake_all(&asleep);
}

bool Messages::send_to(std::uint32_t rank) {
  Stream<Outgoing>& out = peers_[rank].out;
  const std::uint32_t self = communicator_->rank();
  Box& theirs = box(rank, self);
  bool moved = false;
  while (!out.finished()) {
    // Acquire: pairs with the release in receive_from(); the slot has been read.
    const std::uint64_t taken = box(self, rank).taken.load(std::memory_order_acquire);
    if (out.chunks - taken > kSlots) {
      failure_ = {Errc::kDataLoss, fmt::format("rank {} has taken {} of {} chunks sent to it", rank,
                                               taken, out.chunks)};
      return true;
    }
    if (out.chunks - taken == kSlots) break;
    const Outgoing& message = out.messages[out.next];
    const std::size_t bytes = std::min(slot_bytes_, message.bytes - out.done_bytes);
    if (bytes != 0) {
      std::memcpy(slot(theirs, out.chunks), message.data + out.done_bytes, bytes);
    }
    theirs.message_bytes[out.chunks % kSlots].store(message.bytes, std::memory_order_relaxed);
    out.moved(bytes);
    theirs.sent.store(out.chunks, std::memory_order_release);  // pairs with receive_from()
    wake(rank);
    moved = true;
  }
  return moved;
}

bool Messages::receive_from(std::uint32_t rank) {
  Stream<Incoming>& in = peers_[rank].in;
  const std::uint32_t self = communicator_->rank();
  Box& own = box(self, rank);
  bool moved = false;
  while (!in.finished()) {
    // Acquire: pairs with the release in send_to().
    const std::uint64_t sent = own.sent.load(std::memory_order_acquire);
    if (sent == in.chunks) break;
    const Incoming& message = in.messages[in.next];
    const std::uint64_t announced =
        own.message_bytes[in.chunks % kSlots].load(std::memory_order_relaxed);
    if (sent - in.chunks > kSlots) {
      failure_ = {Errc::kDataLoss,
                  fmt::format("rank {} has sent {} chunks, {} were taken", rank, sent, in.chunks)};
      return true;
    }
    if (announced != message.bytes) {
      failure_ = {Errc::kInvalidArgument,
                  fmt::format("rank {} sends {} bytes, rank {} receives {}", rank, announced, self,
                              message.bytes),
                  "messages between two ranks arrive in the order in which they were sent"};
      return true;
    }
    const std::size_t bytes = std::min(slot_bytes_, message.bytes - in.done_bytes);
    if (bytes != 0) {
      std::memcpy(message.data + in.done_bytes, slot(own, in.chunks), bytes);
    }
    in.moved(bytes);
    // Release: the slot has been read. Pairs with the acquire in send_to() of the peer.
    box(rank, self).taken.store(in.chunks, std::memory_order_release);
    wake(rank);
    moved = true;
  }
  return moved;
}

bool Messages::step() {
  bool moved = false;
  for (std::uint32_t rank = 0; rank != peers_.size() && failure_.code == Errc::kOk; ++rank) {
    if (!peers_[rank].out.finished()) moved |= send_to(rank);
    if (!peers_[rank].in.finished()) moved |= receive_from(rank);
  }
  return moved;
}

std::uint32_t Messages::first_pending() const noexcept {
  for (std::uint32_t rank = 0; rank != peers_.size(); ++rank) {
    if (!peers_[rank].out.finished() || !peers_[rank].in.finished()) return rank;
  }
  return kNoRank;
}

Result<void> Messages::wait_for_step(std::uint32_t pending) {
  memory::HostAtomics atomics;
  const SteadyTime begin = atomics.now();
  memory::WaitLimits<memory::HostAtomics> limits{
      .deadline = timeout_.count() == 0 ? kNoDeadline : begin + timeout_,
      .policy = WaitPolicy::for_ranks(static_cast<std::uint32_t>(peers_.size()))};
  std::optional<Error> ended;
  bool moved = false;
  const auto looked = [&] {
    ended = communicator_->async_error();  // first: what came before it counts
    moved = step();
    return moved || ended;
  };
  std::uint64_t no_word = 0;
  std::atomic<std::uint32_t>& asleep = words(communicator_->rank()).asleep;
  auto end = memory::wait_spinning(atomics, limits, no_word, looked);
  while (end == memory::SpinEnd::kExhausted) {
    asleep.store(1, std::memory_order_seq_cst);  // before the looks that follow
    const SteadyTime now = atomics.now();
    if (looked()) {
      end = memory::SpinEnd::kDone;
    } else if (now >= limits.deadline) {
      end = memory::SpinEnd::kDeadline;
    } else {
      static_cast<void>(
          os::futex_wait(&asleep, 1, std::min<SteadyTime>(now + kSleepSlice, limits.deadline)));
    }
  }
  asleep.store(0, std::memory_order_relaxed);
  if (moved) return {};
  if (ended) return fail(*ended);
  Error late{Errc::kDeadlineExceeded,
             fmt::format("rank {} did not come within {} ms", pending, timeout_.count())};
  late.rank = pending;
  return fail(std::move(late));
}

Result<void> Messages::progress() {
  for (;;) {
    const std::uint32_t pending = first_pending();
    if (pending == kNoRank) return {};
    if (!step()) IMEX_CHECK_OK(wait_for_step(pending));
    if (failure_.code != Errc::kOk) return fail(failure_);
  }
}

Result<void> Messages::pass_to_self() {
  Peer& self = peers_[communicator_->rank()];
  const auto& out = self.out.messages;
  const auto& in = self.in.messages;
  if (out.size() != in.size()) {
    return fail(Errc::kFailedPrecondition,
                fmt::format("{} messages to the own rank, {} receives from it in one group",
                            out.size(), in.size()),
                "send to the own rank and receive from it within one group");
  }
  for (std::size_t i = 0; i != out.size(); ++i) {
    if (out[i].bytes != in[i].bytes) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("message {} to the own rank has {} bytes, its receive {}", i,
                              out[i].bytes, in[i].bytes));
    }
    if (out[i].bytes != 0) std::memmove(in[i].data, out[i].data, out[i].bytes);
  }
  self.out.next = out.size();
  self.in.next = in.size();
  return {};
}

Result<void> Messages::exchange(std::span<const Outgoing> sends,
                                std::span<const Incoming> receives) {
  for (Peer& peer : peers_) {
    peer.out.messages.clear();
    peer.in.messages.clear();
    peer.out.next = peer.in.next = 0;
  }
  for (const Outgoing& each : sends) peers_[each.peer].out.messages.push_back(each);
  for (const Incoming& each : receives) peers_[each.peer].in.messages.push_back(each);
  auto done = pass_to_self();
  if (!done) return done;
  done = progress();
  // The others wait for this rank, which does not go on: they shall know, unless they do already.
  if (!done && !communicator_->async_error()) communicator_->abort();
  return done;
}

}  // namespace imex::nccl
