/// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): random
/// numbers as a pure function of a counter and a key. No state, so ranks agree without a word.
#pragma once

#include <array>
#include <cstdint>

namespace imex::inference {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

[[nodiscard]] constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) noexcept {
  for (int round = 0; round != 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xd251'1f53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xcd9e'8d57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32U) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32U) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9e37'79b9;  // golden ratio
    key[1] += 0xbb67'ae85;  // sqrt(3) - 1
  }
  return counter;
}

/// The draw of one token: uniform in [0, 1) with 53 bits. `sequence` tells sequences of one seed
/// apart, `position` the tokens of a sequence.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint64_t sequence = 0;
  std::uint64_t position = 0;
};
[[nodiscard]] constexpr double uniform_of(const DrawKey& draw) noexcept {
  const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
  const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32U); };
  const PhiloxCounter bits =
      philox4x32({low(draw.position), high(draw.position), low(draw.sequence), high(draw.sequence)},
                 {low(draw.seed), high(draw.seed)});
  const std::uint64_t word = std::uint64_t{bits[1]} << 32U | bits[0];
  return static_cast<double>(word >> 11U) * 0x1p-53;
}

}  // namespace imex::inference
