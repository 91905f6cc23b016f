/// What collectives must produce, bit by bit: plain loops in rank order, written without the code
/// under test.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include <imex/data_type.hpp>

namespace imex::exchange::reference {

using Bytes = std::vector<std::byte>;

/// A binary float format in general; values as exact doubles.
struct FloatFormat {
  int mantissa, bias;
  double largest;
  unsigned infinity;  ///< pattern of what is beyond the largest number
  unsigned nan;
  bool has_infinity;
};
inline constexpr FloatFormat kHalf{10, 15, 65504, 0x7c00, 0x7e00, true};
inline constexpr FloatFormat kBfloat{7, 127, 3.3895313892515355e38, 0x7f80, 0x7fc0, true};
inline constexpr FloatFormat kE4m3{3, 7, 448, 0x7f, 0x7f, false};
inline constexpr FloatFormat kE5m2{2, 15, 57344, 0x7c, 0x7e, true};

inline double widen(unsigned magnitude, const FloatFormat& f) {
  if (magnitude >= f.infinity) {
    return magnitude == f.infinity && f.has_infinity ? HUGE_VAL : std::nan("");
  }
  const unsigned exponent = magnitude >> f.mantissa;
  const double fraction = magnitude & ((1U << f.mantissa) - 1);
  if (exponent == 0) return std::ldexp(fraction, 1 - f.bias - f.mantissa);
  return std::ldexp(fraction + std::ldexp(1.0, f.mantissa),
                    static_cast<int>(exponent) - f.bias - f.mantissa);
}

/// To nearest, ties to even (the default rounding of nearbyint).
inline unsigned narrow(double magnitude, const FloatFormat& f) {
  if (std::isnan(magnitude)) return f.nan;
  if (std::isinf(magnitude)) return f.infinity;
  if (magnitude == 0) return 0;
  const int exponent = std::max(std::ilogb(magnitude), 1 - f.bias);
  const double steps = std::nearbyint(std::ldexp(magnitude, f.mantissa - exponent));
  const double value = std::ldexp(steps, exponent - f.mantissa);
  if (value > f.largest) return f.infinity;
  if (value < std::ldexp(1.0, 1 - f.bias)) return static_cast<unsigned>(steps);
  const int at = std::ilogb(value);
  const double fraction = std::ldexp(value, f.mantissa - at) - std::ldexp(1.0, f.mantissa);
  return (static_cast<unsigned>(at + f.bias) << f.mantissa) + static_cast<unsigned>(fraction);
}

template <class Raw>
float decode(Raw raw, const FloatFormat& f) {
  const unsigned sign = 1U << (8 * sizeof(Raw) - 1);
  const auto magnitude = static_cast<float>(widen(raw & (sign - 1), f));
  return (raw & sign) != 0 ? -magnitude : magnitude;
}
template <class Raw>
Raw encode(float value, const FloatFormat& f) {
  const unsigned sign = std::signbit(value) ? 1U << (8 * sizeof(Raw) - 1) : 0;
  return static_cast<Raw>(narrow(std::fabs(static_cast<double>(value)), f) | sign);
}

template <class Acc>
Acc combine(ReduceOp op, Acc a, Acc b) {
  using Math = std::conditional_t<std::is_floating_point_v<Acc>, Acc, std::uint64_t>;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return static_cast<Acc>(static_cast<Math>(a) + static_cast<Math>(b));
    case ReduceOp::kProd:
      return static_cast<Acc>(static_cast<Math>(a) * static_cast<Math>(b));
    case ReduceOp::kMax:
      if (b != b) return b;
      return b > a ? b : a;
    case ReduceOp::kMin:
      if (b != b) return b;
      return b < a ? b : a;
  }
  return a;
}

template <class Raw, class Acc, class Decode, class Encode>
Bytes reduce_as(ReduceOp op, const std::vector<Bytes>& inputs, Decode decode_one,
                Encode encode_one) {
  Bytes out(inputs[0].size());
  for (std::size_t at = 0; at < out.size(); at += sizeof(Raw)) {
    Acc acc{};
    for (std::size_t rank = 0; rank != inputs.size(); ++rank) {
      Raw raw;
      std::memcpy(&raw, inputs[rank].data() + at, sizeof raw);
      const Acc x = decode_one(raw);
      const bool sum = op == ReduceOp::kSum || op == ReduceOp::kAvg;
      acc = rank == 0 ? (sum ? static_cast<Acc>(Acc{0} + x) : x) : combine(op, acc, x);
    }
    if (op == ReduceOp::kAvg) acc = static_cast<Acc>(acc / static_cast<Acc>(inputs.size()));
    const Raw result = encode_one(acc);
    std::memcpy(out.data() + at, &result, sizeof result);
  }
  return out;
}

template <class T>
Bytes reduce_plain(ReduceOp op, const std::vector<Bytes>& inputs) {
  const auto same = [](T x) { return x; };
  return reduce_as<T, T>(op, inputs, same, same);
}
template <class Raw>
Bytes reduce_small(ReduceOp op, const std::vector<Bytes>& inputs, const FloatFormat& f) {
  return reduce_as<Raw, float>(
      op, inputs, [&](Raw raw) { return decode(raw, f); },
      [&](float value) { return encode<Raw>(value, f); });
}

/// `inputs` by rank, all of one size.
inline Bytes reduce(DataType type, ReduceOp op, const std::vector<Bytes>& inputs) {
  switch (type) {
    case DataType::kInt8:
      return reduce_plain<std::int8_t>(op, inputs);
    case DataType::kUint8:
      return reduce_plain<std::uint8_t>(op, inputs);
    case DataType::kInt16:
      return reduce_plain<std::int16_t>(op, inputs);
    case DataType::kUint16:
      return reduce_plain<std::uint16_t>(op, inputs);
    case DataType::kInt32:
      return reduce_plain<std::int32_t>(op, inputs);
    case DataType::kUint32:
      return reduce_plain<std::uint32_t>(op, inputs);
    case DataType::kInt64:
      return reduce_plain<std::int64_t>(op, inputs);
    case DataType::kUint64:
      return reduce_plain<std::uint64_t>(op, inputs);
    case DataType::kFloat32:
      return reduce_plain<float>(op, inputs);
    case DataType::kFloat64:
      return reduce_plain<double>(op, inputs);
    case DataType::kFloat16:
      return reduce_small<std::uint16_t>(op, inputs, kHalf);
    case DataType::kBfloat16:
      return reduce_small<std::uint16_t>(op, inputs, kBfloat);
    case DataType::kFloat8E4m3:
      return reduce_small<std::uint8_t>(op, inputs, kE4m3);
    case DataType::kFloat8E5m2:
      return reduce_small<std::uint8_t>(op, inputs, kE5m2);
  }
  return {};
}

/// Whether element `at` of `bytes` is a NaN: all of them compare as one.
inline bool is_nan_at(DataType type, const Bytes& bytes, std::size_t at) {
  const auto small = [&](auto raw, const FloatFormat& f) {
    std::memcpy(&raw, bytes.data() + at, sizeof raw);
    return std::isnan(decode(raw, f));
  };
  const auto plain = [&](auto value) {
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return std::isnan(value);
  };
  switch (type) {
    case DataType::kFloat16:
      return small(std::uint16_t{}, kHalf);
    case DataType::kBfloat16:
      return small(std::uint16_t{}, kBfloat);
    case DataType::kFloat8E4m3:
      return small(std::uint8_t{}, kE4m3);
    case DataType::kFloat8E5m2:
      return small(std::uint8_t{}, kE5m2);
    case DataType::kFloat32:
      return plain(0.0F);
    case DataType::kFloat64:
      return plain(0.0);
    default:
      return false;
  }
}

/// The first byte at which they differ, NaNs being equal; -1: none.
inline std::ptrdiff_t first_difference(DataType type, const Bytes& a, const Bytes& b) {
  const std::size_t size = element_bytes(type);
  for (std::size_t at = 0; at < a.size(); at += size) {
    if (std::memcmp(a.data() + at, b.data() + at, size) == 0) continue;
    if (is_nan_at(type, a, at) && is_nan_at(type, b, at)) continue;
    return static_cast<std::ptrdiff_t>(at);
  }
  return -1;
}

/// Any bits: NaNs, infinities, subnormals, both zeros, and for half of the seeds small numbers
/// whose sums neither overflow nor vanish.
inline Bytes random_bytes(DataType type, std::size_t elements, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(elements * element_bytes(type));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  if (seed % 2 == 0) return bytes;
  for (std::size_t i = 0; i != elements; ++i) {
    const auto value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 64.0F;
    const auto put = [&](auto raw) {
      std::memcpy(bytes.data() + i * sizeof raw, &raw, sizeof raw);
    };
    if (type == DataType::kFloat32) put(value);
    if (type == DataType::kFloat64) put(static_cast<double>(value));
    if (type == DataType::kFloat16) put(encode<std::uint16_t>(value, kHalf));
    if (type == DataType::kBfloat16) put(encode<std::uint16_t>(value, kBfloat));
    if (type == DataType::kFloat8E4m3) put(encode<std::uint8_t>(value, kE4m3));
    if (type == DataType::kFloat8E5m2) put(encode<std::uint8_t>(value, kE5m2));
  }
  return bytes;
}

/// Bits of a mantissa, the hidden one included; 0: not a float.
inline int precision_of(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return 53;
    case DataType::kFloat32:
      return 24;
    case DataType::kFloat16:
      return 11;
    case DataType::kBfloat16:
      return 8;
    case DataType::kFloat8E4m3:
      return 4;
    case DataType::kFloat8E5m2:
      return 3;
    default:
      return 0;
  }
}

inline double element(DataType type, const Bytes& bytes, std::size_t index) {
  const auto raw = [&](auto value) {
    std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
    return value;
  };
  switch (type) {
    case DataType::kFloat64:
      return raw(0.0);
    case DataType::kFloat32:
      return static_cast<double>(raw(0.0F));
    case DataType::kFloat16:
      return static_cast<double>(decode(raw(std::uint16_t{}), kHalf));
    case DataType::kBfloat16:
      return static_cast<double>(decode(raw(std::uint16_t{}), kBfloat));
    case DataType::kFloat8E4m3:
      return static_cast<double>(decode(raw(std::uint8_t{}), kE4m3));
    default:
      return static_cast<double>(decode(raw(std::uint8_t{}), kE5m2));
  }
}

/// Sums of floats in any order: one rounding per rank at most, each of half a unit of the largest
/// partial sum. The first element that is further off; -1: none.
inline std::ptrdiff_t first_far_off(DataType type, const std::vector<Bytes>& inputs,
                                    const Bytes& found) {
  for (std::size_t i = 0; i != found.size() / element_bytes(type); ++i) {
    double wanted = 0, magnitude = 0;
    for (const Bytes& input : inputs) {
      wanted += element(type, input, i);
      magnitude += std::fabs(element(type, input, i));
    }
    const double allowed =
        std::ldexp(magnitude * static_cast<double>(inputs.size()), -precision_of(type));
    if (!(std::fabs(element(type, found, i) - wanted) <= allowed))
      return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

}  // namespace imex::exchange::reference
