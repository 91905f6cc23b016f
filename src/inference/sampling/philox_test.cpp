#include "inference/sampling/philox.hpp"

#include <set>

#include <gtest/gtest.h>

namespace imex::inference {
namespace {

// The known answers of Random123 (kat_vectors: philox4x32, 10 rounds).
TEST(PhiloxTest, GivesTheKnownAnswers) {
  using C = PhiloxCounter;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (C{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (C{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (C{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, EveryBitOfTheKeyOfADrawMatters) {
  std::set<double> seen{uniform_of({})};
  for (unsigned bit = 0; bit != 64; ++bit) {
    const std::uint64_t one = std::uint64_t{1} << bit;
    seen.insert(uniform_of({.seed = one}));
    seen.insert(uniform_of({.sequence = one}));
    seen.insert(uniform_of({.position = one}));
  }
  EXPECT_EQ(seen.size(), 1 + 3 * 64U);
  EXPECT_GE(*seen.begin(), 0);
  EXPECT_LT(*seen.rbegin(), 1);
}

}  // namespace
}  // namespace imex::inference
