/// Table of revoked address ranges, for the SIGSEGV reporter: fixed, lock-free, readable in a
/// signal handler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace imex::memory {

struct RevokedRange {
  std::uintptr_t begin = 0;
  std::size_t size_bytes = 0;
  std::uint32_t rank = 0;
  std::uint32_t generation = 0;
};

/// Ranges that the table holds at once; a fault in one beyond them is not explained.
inline constexpr int kRevokedRangesMax = 1024;

/// The slot of the entry, -1 when the table is full.
[[nodiscard]] int note_revoked_range(const RevokedRange& range) noexcept;
/// Takes the entry out; -1 is fine.
void forget_revoked_range(int slot) noexcept;
/// Async-signal-safe.
[[nodiscard]] std::optional<RevokedRange> find_revoked_range(std::uintptr_t address) noexcept;

}  // namespace imex::memory
