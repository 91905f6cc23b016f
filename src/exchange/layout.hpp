/// Where everything lies in a rank's window. Pure arithmetic; the bytes: docs/formats/window.md.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <imex/result.hpp>
#include <imex/wait.hpp>

namespace imex::exchange {

inline constexpr std::uint64_t kWindowMagic = 0x3157'4E57'5845'4d49ULL;  // "IMEXWNW1" in memory
inline constexpr std::uint32_t kWindowVersion = 3;
inline constexpr std::uint32_t kRanksMax = 128;
inline constexpr std::uint32_t kLanesMax = 16;

/// What a peer is called by: opaque to all but the Connector that made it.
struct MemoryName {
  std::array<std::byte, 96> bytes{};
  friend bool operator==(const MemoryName&, const MemoryName&) = default;
};

/// A rank's answer to "how do I map your memory", for buffers and for other communicators. Written
/// by the window's owner; `sequence` last.
struct alignas(128) Notice {
  std::atomic<std::uint64_t> sequence;  ///< of the collective that this belongs to; grows
  std::uint64_t digest;                 ///< of who takes part and what is asked for
  MemoryName name;
};
static_assert(sizeof(Notice) == 128);

inline constexpr std::uint32_t kShrinksMax = 8;

/// First page of a window. One writer, its owner, but for `abort` and `asleep`.
struct WindowHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t generation;
  std::uint32_t rank;
  std::uint32_t ranks;
  std::uint64_t options_digest;
  std::uint64_t window_bytes;
  std::uint64_t nonce;         ///< read back through the kernel, to see whether it permits that
  std::uint64_t self_address;  ///< of `nonce`, in the owner's address space
  std::int32_t pid;

  /// Ends all waits of the owner. Any rank sets it, the first one wins.
  alignas(128) AbortCell abort;
  /// Not zero: the owner sleeps, or is about to. The owner sets it; whoever wakes clears it.
  alignas(128) std::atomic<std::uint32_t> asleep;
  /// Set once, when the owner has ended its communicator in order.
  alignas(128) std::atomic<std::uint32_t> departed;
  Notice notices[2];  ///< by turns
  /// One for each attempt to shrink; `sequence` 1: valid.
  Notice shrinks[kShrinksMax];
};
static_assert(sizeof(WindowHeader) <= 4096 && offsetof(WindowHeader, abort) == 128 &&
              offsetof(WindowHeader, asleep) == 256 && offsetof(WindowHeader, departed) == 384 &&
              offsetof(WindowHeader, notices) == 512 && offsetof(WindowHeader, shrinks) == 768);

inline constexpr std::uint32_t kRingSlotsMax = 8;
inline constexpr std::uint32_t kSignals = 8;  ///< from one rank to another, on one lane

/// What one peer tells the window's owner on one lane. One writer: that peer. All words only grow.
struct alignas(128) PeerBlock {
  /// Ring slot i holds the message of this number.
  std::atomic<std::uint64_t> ring_tag[kRingSlotsMax];
  /// The peer has read the owner's ring messages up to this number.
  std::atomic<std::uint64_t> ring_credit;
  std::uint64_t reserved_a[7];

  /// The peer has entered exchange k; the words before it say with what.
  std::atomic<std::uint64_t> ready;
  std::uint64_t ready_words[3];
  std::uint64_t reserved_b[4];
  std::atomic<std::uint64_t> done;     ///< the peer has finished a part of exchange k
  std::atomic<std::uint64_t> barrier;  ///< the peer has entered barrier k
  std::uint64_t reserved_c[6];

  /// Checked mode: the peer's k-th call, by turns: a rank may be one call ahead of who reads it.
  std::atomic<std::uint64_t> call;
  std::uint64_t call_words[2][3];
  std::uint64_t reserved_d[9];

  /// How often the peer has put with this signal.
  std::atomic<std::uint64_t> signals[kSignals];
  std::uint64_t reserved_e[8];
};
static_assert(sizeof(PeerBlock) == 512 && offsetof(PeerBlock, ready) == 128 &&
              offsetof(PeerBlock, done) == 192 && offsetof(PeerBlock, call) == 256 &&
              offsetof(PeerBlock, signals) == 384);

/// One cache line of data that carries its own readiness.
struct alignas(64) PacketLine {
  std::byte payload[56];
  std::atomic<std::uint64_t> tag;
};
static_assert(sizeof(PacketLine) == 64);
inline constexpr std::size_t kLinePayload = sizeof(PacketLine::payload);

inline constexpr std::uint32_t kPacketSlots = 4;
inline constexpr std::uint32_t kPacketLines = 40;  ///< 2240 bytes of data
inline constexpr std::uint32_t kMailLines = 512;   ///< 28 KiB of data
inline constexpr std::size_t kPacketBytesMax = kPacketLines * kLinePayload;
inline constexpr std::size_t kMailBytesMax = kMailLines * kLinePayload;

[[nodiscard]] constexpr std::uint32_t lines_of(std::size_t bytes) noexcept {
  return static_cast<std::uint32_t>((bytes + kLinePayload - 1) / kLinePayload);
}

struct LayoutRequest {
  std::uint32_t ranks = 1;
  std::uint32_t lanes = 1;
  std::size_t slot_bytes = 64 << 10;
};

/// Offsets into every window of a communicator; the same in all ranks.
class Layout {
 public:
  /// Errors: kInvalidArgument, naming what is out of range.
  [[nodiscard]] static Result<Layout> make(const LayoutRequest& request);

  [[nodiscard]] std::size_t window_bytes() const noexcept { return window_bytes_; }
  [[nodiscard]] std::size_t ring_slot_bytes() const noexcept { return ring_slot_bytes_; }
  [[nodiscard]] std::uint32_t ring_slots() const noexcept { return kRingSlotsMax; }

  // Of the owner's window, what `peer` writes. `owner` != `peer`.
  [[nodiscard]] std::size_t block(std::uint32_t lane, std::uint32_t owner,
                                  std::uint32_t peer) const noexcept;
  [[nodiscard]] std::size_t packets(std::uint32_t lane, std::uint32_t owner,
                                    std::uint32_t peer) const noexcept;
  [[nodiscard]] std::size_t mailbox(std::uint32_t lane, std::uint32_t owner,
                                    std::uint32_t peer) const noexcept;
  [[nodiscard]] std::size_t ring(std::uint32_t lane, std::uint32_t owner,
                                 std::uint32_t peer) const noexcept;

 private:
  std::size_t lane_bytes_ = 0, ring_slot_bytes_ = 0, window_bytes_ = 0;
  std::size_t packets_at_ = 0, mailbox_at_ = 0, ring_at_ = 0;  // in a lane
};

}  // namespace imex::exchange
