// Products of small floats, over all of their values where these are few.
#include "scale.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace imex::nccl {
namespace {

/// A format read off its definition, one bit field after the other, in double.
struct Format {
  DataType type;
  int exponent_bits, mantissa_bits;
  bool has_infinity;

  [[nodiscard]] int bits() const { return 1 + exponent_bits + mantissa_bits; }
  [[nodiscard]] double value(std::uint32_t code) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const auto mantissa = static_cast<int>(code & ((1U << mantissa_bits) - 1));
    const auto exponent = static_cast<int>(code >> mantissa_bits & ((1U << exponent_bits) - 1));
    const double sign = (code >> (bits() - 1) & 1U) != 0 ? -1 : 1;
    const bool top = exponent == (1 << exponent_bits) - 1;
    if (has_infinity && top) {
      return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
    }
    if (!has_infinity && top && mantissa == (1 << mantissa_bits) - 1) return std::nan("");
    const int lead = exponent == 0 ? 0 : 1 << mantissa_bits;
    const int power = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits;
    return sign * std::ldexp(lead + mantissa, power);
  }
};
constexpr Format kE4m3{DataType::kFloat8E4m3, 4, 3, false};
constexpr Format kE5m2{DataType::kFloat8E5m2, 5, 2, true};
constexpr Format kHalf{DataType::kFloat16, 5, 10, true};
constexpr Format kBrain{DataType::kBfloat16, 8, 7, true};

std::uint32_t product(const Format& format, std::uint32_t a, std::uint32_t b) {
  const auto bytes = static_cast<std::size_t>(format.bits() / 8);
  Scalar factor{};
  std::memcpy(factor.data(), &b, bytes);
  std::array<std::byte, 4> data{};
  std::memcpy(data.data(), &a, bytes);
  scale(format.type, data.data(), data.data(), 1, factor);
  std::uint32_t result = 0;
  std::memcpy(&result, data.data(), bytes);
  return result;
}

/// The largest finite magnitude.
std::uint32_t largest_of(const Format& format) {
  std::uint32_t largest = (1U << (format.bits() - 1)) - 1;
  while (!std::isfinite(format.value(largest))) --largest;
  return largest;
}

/// Whether `code` is the value nearest to `exact`, the even one of two. `finite` codes ascend with
/// their values, so only the neighbours compete.
bool is_nearest(const Format& format, std::uint32_t largest, std::uint32_t code, double exact) {
  const double value = format.value(code);
  if (std::isnan(exact)) return std::isnan(value);
  const std::uint32_t sign_bit = 1U << (format.bits() - 1);
  if (std::signbit(exact) != ((code & sign_bit) != 0)) return false;
  const std::uint32_t magnitude = code & ~sign_bit;
  const double wanted = std::fabs(exact);
  const double step = format.value(largest) - format.value(largest - 1);
  const double limit = format.value(largest) + step / 2;  // from here on: not finite
  const bool even = (largest & 1U) == 0;
  if (wanted > limit || (wanted == limit && !even)) return magnitude == largest + 1;
  if (magnitude > largest) return false;
  const double error = std::fabs(std::fabs(value) - wanted);
  for (const std::uint32_t other : {magnitude - 1, magnitude + 1}) {
    if (other > largest) continue;
    const double other_error = std::fabs(format.value(other) - wanted);
    if (other_error < error || (other_error == error && (magnitude & 1U) != 0)) return false;
  }
  return true;
}

TEST(ScaleTest, EveryProductOfEightBitFloatsIsTheNearest) {
  for (const Format& format : {kE4m3, kE5m2}) {
    const std::uint32_t largest = largest_of(format);
    for (std::uint32_t a = 0; a != 256; ++a) {
      for (std::uint32_t b = 0; b != 256; ++b) {
        const std::uint32_t code = product(format, a, b);
        ASSERT_TRUE(is_nearest(format, largest, code, format.value(a) * format.value(b)))
            << data_type_name(format.type) << ": " << a << " * " << b << " = " << code;
      }
    }
  }
}

TEST(ScaleTest, ProductsOfHalvesAreTheNearest) {
  for (const Format& format : {kHalf, kBrain}) {
    const std::uint32_t largest = largest_of(format);
    for (std::uint32_t a = 0; a != 65536; ++a) {
      for (const std::uint32_t b :
           {0x0001U, 0x3c00U, 0x3c01U, 0x3f80U, 0x3f81U, 0xbeefU, 0x7bffU}) {
        // bf16 has the exponents of f32: below its smallest step the product is rounded twice.
        const double exact = format.value(a) * format.value(b);
        const double once = std::isnan(exact) ? exact : static_cast<float>(exact);
        const std::uint32_t code = product(format, a, b);
        ASSERT_TRUE(is_nearest(format, largest, code, once))
            << data_type_name(format.type) << ": " << a << " * " << b << " = " << code;
      }
    }
  }
}

template <class T>
T scaled(DataType type, T value, T factor) {
  Scalar scalar{};
  std::memcpy(scalar.data(), &factor, sizeof factor);
  std::vector<std::byte> data(sizeof(T) + 1);
  std::memcpy(data.data() + 1, &value, sizeof value);  // misaligned
  scale(type, data.data() + 1, data.data() + 1, 1, scalar);
  std::memcpy(&value, data.data() + 1, sizeof value);
  return value;
}

TEST(ScaleTest, IntegersWrapAndFloatsRound) {
  EXPECT_EQ(scaled<std::int8_t>(DataType::kInt8, -100, 3), static_cast<std::int8_t>(-300));
  EXPECT_EQ(scaled<std::uint8_t>(DataType::kUint8, 200, 2), 144);
  EXPECT_EQ(scaled<std::int32_t>(DataType::kInt32, -7, 6), -42);
  EXPECT_EQ(scaled<std::uint32_t>(DataType::kUint32, 0x8000'0001U, 2), 2U);
  EXPECT_EQ(scaled<std::int64_t>(DataType::kInt64, -5'000'000'000, 3), -15'000'000'000);
  EXPECT_EQ(scaled<std::uint64_t>(DataType::kUint64, 1ULL << 63U, 2), 0U);
  EXPECT_EQ(scaled<float>(DataType::kFloat32, 0.1F, 0.3F), 0.1F * 0.3F);
  EXPECT_EQ(scaled<double>(DataType::kFloat64, 0.1, 0.3), 0.1 * 0.3);
}

}  // namespace
}  // namespace imex::nccl
