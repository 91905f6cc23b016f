#include "scale.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace imex::nccl {

namespace {

/// Floats of 8 and 16 bits with `kExponent` and `kMantissa` bits. Their products are exact in f32,
/// but for overflow and underflow of bf16, where f32 does the same.
template <class Bits, unsigned kExponent, unsigned kMantissa, bool kHasInfinity>
struct SmallFloat {
  using Storage = Bits;
  static constexpr unsigned kSignShift = kExponent + kMantissa;
  static constexpr std::uint32_t kMagnitudeMask = (1U << kSignShift) - 1;
  static constexpr std::int32_t kBias = (1 << (kExponent - 1)) - 1;
  /// The first magnitude that is no finite number.
  static constexpr std::uint32_t kEndOfFinite =
      kHasInfinity ? ((1U << kExponent) - 1) << kMantissa : kMagnitudeMask;
  static constexpr std::uint32_t kNan = kMagnitudeMask;
  static constexpr unsigned kShift = 23 - kMantissa;

  static float decode(Bits bits) noexcept {
    const std::uint32_t sign = std::uint32_t{bits} >> kSignShift << 31U;
    const std::uint32_t magnitude = bits & kMagnitudeMask;
    if (magnitude >= kEndOfFinite) {
      const bool infinite = kHasInfinity && magnitude == kEndOfFinite;
      return std::bit_cast<float>(sign | (infinite ? 0x7f80'0000U : 0x7fc0'0000U));
    }
    const std::uint32_t exponent = magnitude >> kMantissa;
    if (exponent == 0) {
      const float steps = static_cast<float>(magnitude);
      // The smallest step, 2^(1 - bias - mantissa bits), in two factors that both are normal.
      const float value =
          steps * power_of_two(-static_cast<std::int32_t>(kMantissa)) * power_of_two(1 - kBias);
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
    }
    const auto shifted =
        static_cast<std::uint32_t>(static_cast<std::int32_t>(exponent) - kBias + 127);
    const std::uint32_t mantissa = (magnitude & ((1U << kMantissa) - 1)) << kShift;
    return std::bit_cast<float>(sign | shifted << 23U | mantissa);
  }

  static Bits encode(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 31U << kSignShift;
    const std::uint32_t magnitude = bits & 0x7fff'ffffU;
    if (magnitude > 0x7f80'0000U) return static_cast<Bits>(sign | kNan);
    const std::uint32_t exponent_bits = magnitude >> 23U;
    const std::uint32_t mantissa = (magnitude & 0x7f'ffffU) | (exponent_bits == 0 ? 0 : 0x80'0000U);
    const std::int32_t exponent =
        exponent_bits == 0 ? -126 : static_cast<std::int32_t>(exponent_bits) - 127;
    const std::int32_t lowest = 1 - kBias;
    const std::int32_t target = exponent < lowest ? lowest : exponent;
    const std::uint32_t drop = kShift + static_cast<std::uint32_t>(target - exponent);
    std::uint32_t kept = 0;
    if (drop <= 24) {  // else less than half a step
      kept = mantissa >> drop;
      const std::uint32_t rest = mantissa & ((1U << drop) - 1), half = 1U << (drop - 1);
      kept += rest > half || (rest == half && (kept & 1U) != 0) ? 1 : 0;
    }
    // `kept` has its leading bit unless it is subnormal: that bit, and a carry, count the exponent
    // up.
    const std::uint32_t result =
        (static_cast<std::uint32_t>(target + kBias - 1) << kMantissa) + kept;
    return static_cast<Bits>(sign | (result < kEndOfFinite ? result : kEndOfFinite));
  }

 private:
  static float power_of_two(std::int32_t exponent) noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23U);
  }
};

using Half = SmallFloat<std::uint16_t, 5, 10, true>;
using Brain = SmallFloat<std::uint16_t, 8, 7, true>;
using Eight43 = SmallFloat<std::uint8_t, 4, 3, false>;
using Eight52 = SmallFloat<std::uint8_t, 5, 2, true>;

template <class T, class Multiply>
void for_each(const std::byte* in, std::byte* out, std::size_t count,
              Multiply&& multiply) noexcept {
  for (std::size_t i = 0; i != count; ++i) {
    T value;
    std::memcpy(&value, in + i * sizeof(T), sizeof(T));
    value = multiply(value);
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

template <class T>
T read(const Scalar& scalar) noexcept {
  T value;
  std::memcpy(&value, scalar.data(), sizeof(T));
  return value;
}

/// Integers without a sign: the low bits of a product do not depend on it. 64 bits, because a
/// product of 8 or 16 bits would be one of int.
template <class T>
void scale_plain(const std::byte* in, std::byte* out, std::size_t count,
                 const Scalar& scalar) noexcept {
  using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
  const Wide factor = read<T>(scalar);
  for_each<T>(in, out, count, [&](T value) { return static_cast<T>(Wide{value} * factor); });
}

template <class Small>
void scale_small(const std::byte* in, std::byte* out, std::size_t count,
                 const Scalar& scalar) noexcept {
  using Bits = typename Small::Storage;
  const float factor = Small::decode(read<Bits>(scalar));
  for_each<Bits>(in, out, count,
                 [&](Bits bits) { return Small::encode(Small::decode(bits) * factor); });
}

}  // namespace

void scale(DataType type, const std::byte* in, std::byte* out, std::size_t count,
           const Scalar& scalar) noexcept {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
      return scale_plain<std::uint8_t>(in, out, count, scalar);
    case DataType::kInt16:
    case DataType::kUint16:
      return scale_plain<std::uint16_t>(in, out, count, scalar);
    case DataType::kInt32:
    case DataType::kUint32:
      return scale_plain<std::uint32_t>(in, out, count, scalar);
    case DataType::kInt64:
    case DataType::kUint64:
      return scale_plain<std::uint64_t>(in, out, count, scalar);
    case DataType::kFloat16:
      return scale_small<Half>(in, out, count, scalar);
    case DataType::kBfloat16:
      return scale_small<Brain>(in, out, count, scalar);
    case DataType::kFloat32:
      return scale_plain<float>(in, out, count, scalar);
    case DataType::kFloat64:
      return scale_plain<double>(in, out, count, scalar);
    case DataType::kFloat8E4m3:
      return scale_small<Eight43>(in, out, count, scalar);
    case DataType::kFloat8E5m2:
      return scale_small<Eight52>(in, out, count, scalar);
  }
}

}  // namespace imex::nccl
