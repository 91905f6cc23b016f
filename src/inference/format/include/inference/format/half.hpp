/// 16-bit floating point as numbers; exact in both directions named here.
#pragma once

#include <bit>
#include <cstdint>

namespace imex::inference {

/// bfloat16 is the upper half of a float.
[[nodiscard]] constexpr float bf16_to_f32(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}

/// IEEE 754 binary16; infinities, NaNs and subnormal numbers included.
[[nodiscard]] constexpr float f16_to_f32(std::uint16_t bits) noexcept {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f80'0000U | mantissa << 13U);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112U) << 23U | mantissa << 13U);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;  // subnormal: exact in a float
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

}  // namespace imex::inference
