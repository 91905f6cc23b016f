#include "inference/operators/activation.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iostream>
#include <limits>

#include "target_test.hpp"

namespace imex::inference {
namespace {

class ActivationTest : public TargetTest {};
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

float silu(float x) {
  float out = 0;
  const float one = 1;
  silu_multiply({&x, 1}, {&one, 1}, {&out, 1});
  return out;
}

// Goal: the error bound of the header, over the whole range where results are normal numbers.
TEST_P(ActivationTest, SiluIsWithinFourUnitsInTheLastPlace) {
  std::vector<float> x;
  for (double v = -87.3; v < 100; v += 0.000'31) x.push_back(static_cast<float>(v));
  for (float v = 1; v > 1e-30F; v *= 0.83F) x.insert(x.end(), {v, -v});
  std::vector<float> out(x.size());
  silu_multiply(x, std::vector<float>(x.size(), 1.0F), out);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = x[i] / (1 + std::exp(-double{x[i]}));
    const auto near = static_cast<float>(std::abs(want));
    const double unit = double{std::nextafter(near, kInfinity)} - double{near};
    worst = std::max(worst, std::abs(out[i] - want) / unit);
  }
  EXPECT_LT(worst, 4);
  std::cout << "[ error    ] " << worst << " units in the last place\n";
}

TEST_P(ActivationTest, SiluIsRightAtTheEnds) {
  EXPECT_EQ(silu(0), 0);
  EXPECT_EQ(silu(1000), 1000);
  EXPECT_EQ(silu(kLargest), kLargest);
  EXPECT_EQ(silu(kInfinity), kInfinity);
  for (const float x : {-87.4F, -100.0F, -1e10F, -kLargest}) EXPECT_EQ(silu(x), 0) << x;
  EXPECT_NEAR(silu(-87.0F), -87.0 * std::exp(-87.0), 1e-42);
  EXPECT_TRUE(std::isnan(silu(kNaN)));
}

TEST_P(ActivationTest, SiluOfFiniteInputsIsNeverNaN) {
  // Every exponent and both signs, with mantissas between.
  for (std::uint64_t bits = 0; bits <= 0xffff'ffffU; bits += 7919 * 16) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    ASSERT_TRUE(!std::isfinite(x) || std::isfinite(silu(x))) << x;
  }
}

TEST_P(ActivationTest, ProductsOfAllSizesInPlaceToo) {
  for (std::size_t size = 0; size != 70; ++size) {
    const auto gate = random_floats(size, 1, 5), up = random_floats(size, 2);
    std::vector<float> apart(size + 1, 42.0F), place = gate;
    silu_multiply(gate, up, std::span(apart).first(size));
    silu_multiply(place, up, place);
    for (std::size_t i = 0; i != size; ++i) {
      const double want = gate[i] / (1 + std::exp(-double{gate[i]})) * up[i];
      ASSERT_NEAR(apart[i], want, 1e-6 * std::abs(want)) << i << " of " << size;
      ASSERT_EQ(place[i], apart[i]);
    }
    ASSERT_EQ(apart[size], 42.0F);
  }
}

TEST_P(ActivationTest, OneValueThatIsNoNumberIsFoundAnywhere) {
  for (std::size_t size = 0; size != 70; ++size) {
    std::vector<float> values(size, -kLargest);
    EXPECT_FALSE(has_nan(values)) << size;
    for (std::size_t i = 0; i != size; ++i) {
      for (const float bad : {kNaN, -kNaN, kInfinity, -kInfinity}) {
        values[i] = bad;
        ASSERT_TRUE(has_nan(values)) << bad << " at " << i << " of " << size;
      }
      values[i] = 0;
    }
  }
}

IMEX_ON_EVERY_TARGET(ActivationTest);

}  // namespace
}  // namespace imex::inference
