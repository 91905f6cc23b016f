/// 16-bit floating point as numbers: exact to float, to the nearest (of two, the even one) from it.
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

/// NaNs stay NaNs; what is beyond the largest number becomes infinite.
[[nodiscard]] constexpr std::uint16_t f32_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fff'ffffU) > 0x7f80'0000U) return static_cast<std::uint16_t>(bits >> 16U | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
}

/// The same; infinite from 65520 on.
[[nodiscard]] constexpr std::uint16_t f32_to_f16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16U & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fff'ffffU;
  if (magnitude > 0x7f80'0000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x4780'0000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // from 65536
  if (magnitude < 0x3880'0000U) {
    // Subnormal: adding 1/2 in float rounds to multiples of 2^-24, which land in the low bits.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign |
                                      (std::bit_cast<std::uint32_t>(aligned) - 0x3f00'0000U));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + (magnitude >> 13U & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x3800'0000U) >> 13U));
}

}  // namespace imex::inference
