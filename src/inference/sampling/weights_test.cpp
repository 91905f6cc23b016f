#include "weights.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace imex::inference {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

TEST(WeighingTest, IsThePowerWithinTwoUnitsInTheLastPlace) {
  const Weighing weigh{.largest = 0, .temperature = 1};
  std::vector<float> x;
  for (double v = -87; v <= 0; v += 0.000'37) x.push_back(static_cast<float>(v));
  std::vector<float> many(x.size());
  weigh.of(x, many);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp(double{x[i]});
    ASSERT_NEAR(many[i], want, 2 * 0x1p-23 * want) << x[i];
    ASSERT_EQ(many[i], weigh.of(x[i]));
  }
}

TEST(WeighingTest, EndsAreExact) {
  const Weighing weigh{.largest = 5, .temperature = 0.5};
  EXPECT_EQ(weigh.of(5), 1);
  EXPECT_EQ(weigh.of(-50), 0);
  EXPECT_EQ(weigh.of(kMinusInfinity), 0);
  EXPECT_EQ(weigh.of(-std::numeric_limits<float>::max()), 0);
  EXPECT_NEAR(weigh.of(4), std::exp(-2.0), 1e-7);
}

double naive_log_sum(const std::vector<float>& logits) {
  double largest = -1e300, sum = 0;
  for (const float v : logits) largest = std::max(largest, double{v});
  for (const float v : logits) sum += std::exp(double{v} - largest);
  return largest + std::log(sum);
}

TEST(ExponentialSumTest, EqualsTheDefinitionFarFromZeroToo) {
  for (const float middle : {0.0F, 80.0F, -90.0F, 3000.0F, -3000.0F}) {
    for (const std::size_t size : {1U, 7U, 64U, 65U, 1000U}) {
      std::minstd_rand random(static_cast<unsigned>(size));
      std::normal_distribution<float> normal(middle, 8);
      std::vector<float> logits(size);
      for (float& v : logits) v = normal(random);
      if (size > 5) logits[3] = kMinusInfinity;
      EXPECT_NEAR(log_of(sum_of_exponentials(logits)), naive_log_sum(logits), 1e-6) << middle;
    }
  }
}

TEST(ExponentialSumTest, SumsOfPartsAreThatOfTheWhole) {
  std::minstd_rand random(5);
  std::normal_distribution<float> normal(0, 30);
  std::vector<float> logits(5000);
  for (float& v : logits) v = normal(random);
  const double whole = log_of(sum_of_exponentials(logits));
  for (const std::size_t size : {1U, 100U, 999U, 4999U}) {
    ExponentialSum sum;
    for (std::size_t begin = 0; begin < logits.size(); begin += size) {
      const auto rest = std::span<const float>(logits).subspan(begin);
      sum = sum + sum_of_exponentials(rest.first(std::min(size, rest.size())));
    }
    EXPECT_NEAR(log_of(sum), whole, 1e-13) << size;
  }
}

TEST(ExponentialSumTest, OfNothingIsNothing) {
  EXPECT_EQ(sum_of_exponentials({}).mantissa, 0);
  EXPECT_EQ(sum_of_exponentials(std::vector<float>(3, kMinusInfinity)).mantissa, 0);
  EXPECT_EQ(log_of({}), kMinusInfinity);
  const ExponentialSum some{1.5, 3};
  EXPECT_EQ((some + ExponentialSum{}).mantissa, 1.5);
  EXPECT_EQ((ExponentialSum{} + some).exponent, 3);
}

}  // namespace
}  // namespace imex::inference
