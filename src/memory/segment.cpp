#include "memory/segment.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include <fmt/format.h>

#include "base/result.hpp"

namespace imex::memory {

namespace {

constexpr std::uint64_t kPageBytesMin = 4096;
constexpr std::uint64_t kPageBytesMax = std::uint64_t{1} << 30U;
constexpr std::uint64_t kSizeMax = std::numeric_limits<std::int64_t>::max() - kPageBytesMax;

/// One read of a field that another process may be writing: a relaxed atomic load, so that the
/// compiler neither splits nor repeats it. Publication is ordered by `state`.
template <class T>
T read_once(const T& field) noexcept {
  return __atomic_load_n(&field, __ATOMIC_RELAXED);
}

Result<void> check_state(std::uint32_t state) {
  switch (static_cast<SegmentState>(state)) {
    case SegmentState::kLive:
      return {};
    case SegmentState::kRevoked:
      return fail(Errc::kRevoked, "segment: withdrawn by its exporter");
    case SegmentState::kEmpty:
      return fail(Errc::kDataLoss, "segment: header was never published");
  }
  return fail(Errc::kDataLoss, fmt::format("segment: state 1 (live) wanted, {} found", state));
}

Result<void> check_sizes(const SegmentFacts& facts) {
  if (!std::has_single_bit(facts.page_bytes) || facts.page_bytes < kPageBytesMin ||
      facts.page_bytes > kPageBytesMax) {
    return fail(Errc::kDataLoss, fmt::format("segment: pages of {} to {} bytes wanted, {} found",
                                             kPageBytesMin, kPageBytesMax, facts.page_bytes));
  }
  if (facts.size_bytes == 0 || facts.size_bytes > kSizeMax) {
    return fail(Errc::kDataLoss, fmt::format("segment: size of 1 to {} bytes wanted, {} found",
                                             kSizeMax, facts.size_bytes));
  }
  return {};
}

}  // namespace

void publish_segment(SegmentHeader& header, const SegmentFacts& facts) noexcept {
  header.magic = kSegmentMagic;
  header.version = kSegmentVersion;
  header.header_bytes = sizeof(SegmentHeader);
  header.rank = facts.rank;
  header.size_bytes = facts.size_bytes;
  header.page_bytes = facts.page_bytes;
  header.generation = facts.generation;
  // [A] release: pairs with [B]; who sees kLive sees all fields.
  header.state.store(static_cast<std::uint32_t>(SegmentState::kLive), std::memory_order_release);
}

void mark_segment_revoked(SegmentHeader& header) noexcept {
  // [A] release, so that a reader of this value, too, sees whole fields.
  header.state.store(static_cast<std::uint32_t>(SegmentState::kRevoked), std::memory_order_release);
}

Result<SegmentFacts> read_segment_header(std::span<const std::byte> page) {
  if (page.size() < sizeof(SegmentHeader)) {
    return fail(Errc::kDataLoss, fmt::format("segment: header of {} bytes wanted, {} found",
                                             sizeof(SegmentHeader), page.size()));
  }
  const auto& header = *reinterpret_cast<const SegmentHeader*>(page.data());
  const std::uint32_t state = header.state.load(std::memory_order_acquire);  // [B]
  const std::uint64_t magic = read_once(header.magic);
  // An empty page has no magic either; "never published" says more than "magic 0".
  if (magic != kSegmentMagic && (magic != 0 || state != 0)) {
    return fail(Errc::kDataLoss, fmt::format("segment: magic {:#018x} wanted, {:#018x} found",
                                             kSegmentMagic, magic));
  }
  IMEX_CHECK_OK(check_state(state));
  const std::uint16_t version = read_once(header.version);
  if (version != kSegmentVersion) {
    return fail(
        Errc::kVersionMismatch,
        fmt::format("segment: layout version {} wanted, {} found", kSegmentVersion, version),
        "run the same release of libimex on both sides");
  }
  const std::uint16_t header_bytes = read_once(header.header_bytes);
  if (header_bytes != sizeof(SegmentHeader)) {
    return fail(Errc::kDataLoss, fmt::format("segment: header of {} bytes wanted, {} stated",
                                             sizeof(SegmentHeader), header_bytes));
  }
  SegmentFacts facts;
  facts.size_bytes = read_once(header.size_bytes);
  facts.page_bytes = read_once(header.page_bytes);
  facts.generation = read_once(header.generation);
  facts.rank = read_once(header.rank);
  IMEX_CHECK_OK(check_sizes(facts));
  return facts;
}

}  // namespace imex::memory
