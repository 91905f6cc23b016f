/// Sizes and durations as people write them: "64", "4KiB", "1MiB", "2G"; "250ms", "30s", "2m".
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace imex {

/// Suffixes K, KiB, M, MiB, G, GiB, T, TiB (all powers of 1024), KB, MB, GB, TB (powers of 1000).
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);
/// "2 MiB", "1.5 GiB", "64 B".
[[nodiscard]] std::string format_size(std::uint64_t bytes);

/// Suffixes us, ms, s, m, h; a bare number is seconds.
[[nodiscard]] Result<std::chrono::nanoseconds> parse_duration(std::string_view text);
/// "1.25 us", "250 ms", "30 s".
[[nodiscard]] std::string format_duration(std::chrono::nanoseconds duration);

/// Decimal number that uses the whole text and lies in [low, high]; the error names both.
[[nodiscard]] Result<std::int64_t> parse_integer(std::string_view text, std::int64_t low,
                                                 std::int64_t high);

}  // namespace imex
