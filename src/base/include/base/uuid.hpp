/// 128-bit identities: domain, daemon instance, cluster.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace imex {

struct Uuid {
  std::array<std::byte, 16> bytes{};

  [[nodiscard]] bool is_nil() const noexcept { return *this == Uuid{}; }
  /// 8-4-4-4-12 lower-case hexadecimal digits.
  [[nodiscard]] std::string to_string() const;
  /// Accepts the form above and 32 digits without dashes, either case. Errors: kInvalidArgument.
  [[nodiscard]] static Result<Uuid> parse(std::string_view text);

  friend auto operator<=>(const Uuid&, const Uuid&) = default;
};

}  // namespace imex

template <>
struct std::hash<imex::Uuid> {
  std::size_t operator()(const imex::Uuid& id) const noexcept {
    std::uint64_t low = 0;
    for (int i = 0; i < 8; ++i)
      low = low << 8 | std::to_integer<std::uint64_t>(id.bytes[static_cast<std::size_t>(i)]);
    std::uint64_t high = 0;
    for (int i = 8; i < 16; ++i)
      high = high << 8 | std::to_integer<std::uint64_t>(id.bytes[static_cast<std::size_t>(i)]);
    return low ^ (high * 0x9e37'79b9'7f4a'7c15ULL);
  }
};
