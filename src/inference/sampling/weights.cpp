#include "weights.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace imex::inference {
namespace {

// Adding it rounds a float below 2^22 to an integer, which then stands in the low bits.
constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23
constexpr float kLog2E = 1.44269504F;
// ln2 in two parts; the first has 9 bits, so up to 2^15 times it is exact.
constexpr float kLn2High = 0.693359375F;
constexpr float kLn2Low = -2.12194440e-4F;

/// x as n ln2 + r with |r| <= ln2 / 2; n is an integer.
struct Reduced {
  float n, r;
};
inline Reduced reduce(float x) {
  const float n = (x * kLog2E + kMagic) - kMagic;
  return {n, (x - n * kLn2High) - n * kLn2Low};
}

/// e^r for |r| <= ln2 / 2: Cephes' expf.
inline float power_of_rest(float r) {
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  return (p * (r * r) + r) + 1.0F;
}

/// 2^n for integers from -126 to 0.
inline float power_of_two(float n) {
  const auto low_bits = std::bit_cast<std::uint32_t>(n + (kMagic + 127.0F));
  return std::bit_cast<float>(low_bits << 23U);
}

/// e^x for x <= 0.
inline float exponential(float x) {
  const float bounded = std::max(x, -87.0F);
  const auto [n, r] = reduce(bounded);
  const float power = power_of_rest(r) * power_of_two(n);
  return x < -87.0F ? 0.0F : power;
}

/// Beyond this the terms differ from their neighbours by more than e^0.25, and n no longer fits
/// kLn2High: the logits of a broken model, but their largest one is still chosen.
constexpr float kBound = 16384.0F;

}  // namespace

float Weighing::of(float logit) const noexcept {
  return exponential((logit - largest) / temperature);
}

void Weighing::of(std::span<const float> logits, std::span<float> out) const noexcept {
  const float* const in = logits.data();
  float* const to = out.data();
  for (std::size_t i = 0; i != logits.size(); ++i) {
    to[i] = exponential((in[i] - largest) / temperature);
  }
}

ExponentialSum sum_of_exponentials(std::span<const float> logits) noexcept {
  float largest = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) largest = std::max(largest, logit);
  if (!(largest > -std::numeric_limits<float>::infinity())) return {};
  const float exponent = reduce(std::clamp(largest, -kBound, kBound)).n;

  constexpr std::size_t kBlock = 64, kSums = 8;
  double sums[kSums] = {};
  const auto add = [&](const float* in, std::size_t count) {
    float terms[kBlock];
    for (std::size_t i = 0; i != count; ++i) {
      const float x = std::min(std::max(in[i], -kBound), kBound);
      const auto [n, r] = reduce(x);
      const float shift = std::max(n - exponent, -126.0F);
      const float term = power_of_rest(r) * power_of_two(shift);  // exact but for the first factor
      terms[i] = n - exponent < -125.0F ? 0.0F : term;
    }
    std::size_t i = 0;
    for (; i + kSums <= count; i += kSums) {
      for (std::size_t s = 0; s != kSums; ++s) sums[s] += double{terms[i + s]};
    }
    for (; i != count; ++i) sums[i % kSums] += double{terms[i]};
  };
  std::size_t begin = 0;
  for (; begin + kBlock <= logits.size(); begin += kBlock) add(logits.data() + begin, kBlock);
  add(logits.data() + begin, logits.size() - begin);
  double sum = 0;
  for (const double part : sums) sum += part;
  return {sum, static_cast<std::int32_t>(exponent)};
}

ExponentialSum operator+(const ExponentialSum& a, const ExponentialSum& b) noexcept {
  if (a.mantissa == 0) return b;
  if (b.mantissa == 0) return a;
  const std::int32_t exponent = std::max(a.exponent, b.exponent);
  return {
      std::ldexp(a.mantissa, a.exponent - exponent) + std::ldexp(b.mantissa, b.exponent - exponent),
      exponent};
}

double log_of(const ExponentialSum& sum) noexcept {
  return std::log(sum.mantissa) + sum.exponent * 0.693147180559945309417;
}

}  // namespace imex::inference
