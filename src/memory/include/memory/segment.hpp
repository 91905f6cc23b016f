/// The segment header: what an exporter states about an allocation, in a page of its own beside the
/// data so that the data keep their alignment. Layout: docs/formats/segment.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <imex/result.hpp>

namespace imex::memory {

inline constexpr std::uint64_t kSegmentMagic = 0x3147'4553'5845'4d49ULL;  // "IMEXSEG1" in memory
inline constexpr std::uint16_t kSegmentVersion = 1;
inline constexpr std::size_t kControlBytes = 4096;

enum class SegmentState : std::uint32_t {
  kEmpty = 0,    ///< fresh memory: not published
  kLive = 1,     ///< published; all other fields are final
  kRevoked = 2,  ///< the exporter withdrew it
};

/// Fixed width, zero = empty, no pointers. One writer: the exporter, before publication; later only
/// `state`. Importers read each field once (read_segment_header) and never trust a second look.
struct SegmentHeader {
  std::uint64_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint32_t rank;
  std::uint64_t size_bytes;
  std::uint64_t page_bytes;
  std::uint32_t generation;
  /// Written last by publish_segment() (release), read first by read_segment_header() (acquire).
  std::atomic<std::uint32_t> state;
  std::uint64_t reserved[3];
};
static_assert(sizeof(SegmentHeader) == 64 && alignof(SegmentHeader) == 8);
static_assert(offsetof(SegmentHeader, version) == 8 && offsetof(SegmentHeader, header_bytes) == 10);
static_assert(offsetof(SegmentHeader, rank) == 12 && offsetof(SegmentHeader, size_bytes) == 16);
static_assert(offsetof(SegmentHeader, page_bytes) == 24);
static_assert(offsetof(SegmentHeader, generation) == 32 && offsetof(SegmentHeader, state) == 36);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// What a header says, after the check.
struct SegmentFacts {
  std::uint64_t size_bytes = 0;  ///< as asked for by the exporter
  std::uint64_t page_bytes = 0;
  std::uint32_t generation = 0;
  std::uint32_t rank = kNoRank;

  /// Size in whole pages: that of the data descriptor.
  [[nodiscard]] std::uint64_t mapped_bytes() const noexcept {
    return (size_bytes + page_bytes - 1) / page_bytes * page_bytes;
  }
};

/// Exporter: fills an empty header and makes it live. Call once per control page.
void publish_segment(SegmentHeader& header, const SegmentFacts& facts) noexcept;

/// Exporter: tells importers that map later that the segment ended.
void mark_segment_revoked(SegmentHeader& header) noexcept;

/// Importer: reads each field once and checks it by itself and against the others. Takes bytes,
/// since the page is anybody's: `page` may change while it is read, and may be short. Errors:
/// kDataLoss (magic, lengths, page size; not published), kVersionMismatch, kRevoked. Each names
/// what was wanted and what was found.
[[nodiscard]] Result<SegmentFacts> read_segment_header(std::span<const std::byte> page);

}  // namespace imex::memory
