/// CRC-32 as zlib computes it (reflected, polynomial 0xEDB88320).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace imex::inference {

/// Of what `crc` (0 at first) covers, followed by `bytes`.
[[nodiscard]] std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) noexcept;

}  // namespace imex::inference
