// How elements are widened, combined and rounded. Included once per instruction set by reduce.cpp,
// which see. Plain loops over these functions vectorise: no branches, no calls.
#if defined(IMEX_EXCHANGE_FORMATS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef IMEX_EXCHANGE_FORMATS_INL_HPP
#undef IMEX_EXCHANGE_FORMATS_INL_HPP
#else
#define IMEX_EXCHANGE_FORMATS_INL_HPP
#endif

#include <bit>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace imex::exchange {
namespace HWY_NAMESPACE {

inline std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// Binary floats of 8 and 16 bits. `kMantissa` bits of fraction, exponent bias `kBias`.
/// `kInfinity`: its pattern; e4m3 has none and uses the pattern above its largest number for NaN.
template <class Raw_, unsigned kMantissa, unsigned kBias, std::uint32_t kInfinity,
          bool kHasInfinity>
struct SmallFloat {
  using Raw = Raw_;
  using Acc = float;
  static constexpr unsigned kShift = 23 - kMantissa;
  static constexpr unsigned kSignShift = 32 - 8 * sizeof(Raw);
  static constexpr std::uint32_t kSign = 1U << (8 * sizeof(Raw) - 1);
  static constexpr std::uint32_t kRebias = (127 - kBias) << 23U;
  static constexpr std::uint32_t kOne = 1U << kMantissa;  // smallest normal number
  static constexpr float kUlp = 1.0F / static_cast<float>(1U << (kBias - 1 + kMantissa));

  static Acc decode(Raw raw) {
    const std::uint32_t magnitude = raw & (kSign - 1);
    const std::uint32_t normal = (magnitude << kShift) + kRebias;
    const std::uint32_t special =
        magnitude == kInfinity && kHasInfinity ? 0x7f80'0000U : 0x7fc0'0000U | magnitude << kShift;
    // An integer times the smallest step is exact, and no float is subnormal on the way.
    const std::uint32_t small =
        bits_of(static_cast<float>(static_cast<std::int32_t>(magnitude)) * kUlp);
    const std::uint32_t finite = magnitude < kOne ? small : normal;
    const std::uint32_t value = magnitude >= kInfinity ? special : finite;
    return float_of(value | (raw & kSign) << kSignShift);
  }

  /// To nearest, ties to even.
  static Raw encode(Acc value) {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t magnitude = bits & 0x7fff'ffffU;
    const std::uint32_t sign = bits >> kSignShift & kSign;
    const std::uint32_t rounded =
        magnitude + ((1U << (kShift - 1)) - 1) + (magnitude >> kShift & 1U);
    const std::uint32_t normal = (rounded - kRebias) >> kShift;
    // Adding a number whose last place is the smallest step rounds to such steps.
    constexpr float kMagic = kUlp * 8388608.0F;  // 2^23
    const std::uint32_t small = bits_of(float_of(magnitude) + kMagic) - bits_of(kMagic);
    const std::uint32_t finite = magnitude < kOne * (1U << kShift) + kRebias ? small : normal;
    // Beyond the largest number: infinity, or the NaN of a format that has none.
    const std::uint32_t bounded = finite > kInfinity ? kInfinity : finite;
    const std::uint32_t nan = kHasInfinity ? kInfinity | kOne >> 1U : kInfinity;
    const std::uint32_t result = magnitude > 0x7f80'0000U    ? nan
                                 : magnitude == 0x7f80'0000U ? kInfinity
                                                             : bounded;
    return static_cast<Raw>(result | sign);
  }
};

using Half = SmallFloat<std::uint16_t, 10, 15, 0x7c00, true>;
using E5m2 = SmallFloat<std::uint8_t, 2, 15, 0x7c, true>;
using E4m3 = SmallFloat<std::uint8_t, 3, 7, 0x7f, false>;

struct Bfloat {
  using Raw = std::uint16_t;
  using Acc = float;
  static Acc decode(Raw raw) { return float_of(std::uint32_t{raw} << 16U); }
  static Raw encode(Acc value) {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U;
    const std::uint32_t nan = bits >> 16U | 0x40U;
    return static_cast<Raw>((bits & 0x7fff'ffffU) > 0x7f80'0000U ? nan : rounded);
  }
};

/// f32, f64 and integers as they are. Integers combine in an unsigned type, where they wrap.
template <class T>
struct Plain {
  using Raw = T;
  using Acc = T;
  static Acc decode(Raw raw) { return raw; }
  static Raw encode(Acc value) { return value; }
};

/// Where sums and products of `Acc` may be computed without overflow being undefined.
template <class Acc, bool = std::is_integral_v<Acc>>
struct WrappingType {
  using type = Acc;
};
template <class Acc>
struct WrappingType<Acc, true> {
  using type = std::conditional_t<sizeof(Acc) == 8, std::uint64_t, std::uint32_t>;
};
template <class Acc>
using Wrapping = typename WrappingType<Acc>::type;

template <class Acc>
bool is_nan(Acc value) {
  if constexpr (std::is_floating_point_v<Acc>) return value != value;
  return false;
}

struct Sum {
  /// The first element alone: +0.0 + x, which makes +0.0 of -0.0.
  template <class Acc>
  static Acc first(Acc x) {
    return static_cast<Acc>(Acc{0} + x);
  }
  template <class Acc>
  static Acc combine(Acc a, Acc b) {
    return static_cast<Acc>(static_cast<Wrapping<Acc>>(a) + static_cast<Wrapping<Acc>>(b));
  }
};
struct Prod {
  template <class Acc>
  static Acc first(Acc x) {
    return x;
  }
  template <class Acc>
  static Acc combine(Acc a, Acc b) {
    return static_cast<Acc>(static_cast<Wrapping<Acc>>(a) * static_cast<Wrapping<Acc>>(b));
  }
};
struct Max {
  template <class Acc>
  static Acc first(Acc x) {
    return x;
  }
  template <class Acc>
  static Acc combine(Acc a, Acc b) {
    return b > a || is_nan(b) ? b : a;
  }
};
struct Min {
  template <class Acc>
  static Acc first(Acc x) {
    return x;
  }
  template <class Acc>
  static Acc combine(Acc a, Acc b) {
    return b < a || is_nan(b) ? b : a;
  }
};
struct Avg : Sum {};

}  // namespace HWY_NAMESPACE
}  // namespace imex::exchange
HWY_AFTER_NAMESPACE();

#endif
