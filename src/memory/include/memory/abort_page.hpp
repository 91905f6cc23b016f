/// The abort page of a session: words in shared memory that end waits from outside. The process
/// makes it and passes the descriptor to the node daemon, which writes into it when a peer is lost
/// or memory is revoked. Layout: docs/formats/abort-page.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <imex/result.hpp>
#include <imex/wait.hpp>

#include "os/memory.hpp"

namespace imex::memory {

inline constexpr std::uint64_t kAbortPageMagic = 0x3152'4241'5845'4d49ULL;  // "IMEXABR1" in memory
inline constexpr std::uint16_t kAbortPageVersion = 1;
inline constexpr std::size_t kAbortPageBytes = 4096;
inline constexpr std::uint32_t kAbortCellCount = 63;

/// Written once by the process before it passes the page on.
struct alignas(64) AbortPageHeader {
  std::uint64_t magic;
  std::uint16_t version;
  std::uint16_t cell_count;
  std::uint32_t reserved;
  std::uint64_t session_id;
};

struct AbortPageLayout {
  AbortPageHeader header;
  std::array<AbortCell, kAbortCellCount> cells;
};
static_assert(sizeof(AbortPageHeader) == 64 && offsetof(AbortPageHeader, version) == 8 &&
              offsetof(AbortPageHeader, cell_count) == 10 &&
              offsetof(AbortPageHeader, session_id) == 16);
static_assert(sizeof(AbortPageLayout) == kAbortPageBytes && offsetof(AbortPageLayout, cells) == 64);

/// Why waits ended, and because of whom.
struct AbortCause {
  Errc code = Errc::kAborted;
  std::uint32_t rank = kNoRank;

  friend bool operator==(const AbortCause&, const AbortCause&) = default;
};

/// The word for a cause; never zero in its low half. kOk, which ends nothing, is taken as
/// kInternal.
[[nodiscard]] std::uint64_t encode_abort(AbortCause cause) noexcept;
/// The cause of a word that is not zero. Any word may be found: unknown codes become kInternal.
[[nodiscard]] AbortCause decode_abort(std::uint64_t word) noexcept;
/// The Error that waits return for it: "rank 3 is lost" with code and rank.
[[nodiscard]] Error abort_error(std::uint64_t word);

/// Sets the word unless it is set already (the first value stays) and wakes who sleeps on it. Says
/// whether this call was the first. Async-signal-safe, any thread, any process that maps the cell.
bool trip_abort(AbortCell& cell, AbortCause cause) noexcept;

/// Owns a mapping of an abort page, and in the process that made it its descriptor. Thread-safe.
class AbortPage {
 public:
  /// `session_id` is any number of the caller's; it helps to tell pages apart in a dump.
  [[nodiscard]] static Result<AbortPage> create(std::uint64_t session_id);
  /// Maps a page received from another process. Errors: kPermissionDenied (it could be truncated
  /// under us), kDataLoss (size, magic, count), kVersionMismatch.
  [[nodiscard]] static Result<AbortPage> adopt(int fd);

  /// -1 for an adopted page. Borrowed.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] std::uint64_t session_id() const noexcept { return session_id_; }
  /// Null when `index` is not below kAbortCellCount: it may come from a peer.
  [[nodiscard]] AbortCell* cell(std::uint32_t index) const noexcept;
  /// trip_abort() on cell `index`; false also when there is no such cell.
  bool trip(std::uint32_t index, AbortCause cause) const noexcept;
  /// Makes a cell fresh again. Only for a cell that no wait uses and no peer will still write.
  void reset(std::uint32_t index) const noexcept;

 private:
  AbortPage(os::UniqueFd fd, os::Mapping mapping, std::uint64_t session_id) noexcept;
  [[nodiscard]] AbortPageLayout& layout() const noexcept;

  os::UniqueFd fd_;
  os::Mapping mapping_;
  std::uint64_t session_id_ = 0;
};

}  // namespace imex::memory
