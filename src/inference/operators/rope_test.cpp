#include "inference/operators/rope.hpp"

#include <cmath>

#include "target_test.hpp"

namespace imex::inference {
namespace {

class RopeTest : public TargetTest {};

/// Elements of pair i.
std::pair<std::size_t, std::size_t> pair_of(std::size_t i, std::size_t d, RopePairs pairs) {
  return pairs == RopePairs::kHalves ? std::pair{i, i + d / 2} : std::pair{2 * i, 2 * i + 1};
}

TEST_P(RopeTest, RotatesEachPairByItsAngle) {
  for (const std::size_t d : {2U, 6U, 8U, 64U, 80U, 128U}) {
    std::vector<float> factors = random_floats(d / 2, 9);
    for (float& factor : factors) factor = 2 + factor;
    for (const bool scaled : {false, true}) {
      const RopeTable table(
          {.head_size = d,
           .context = 300,
           .theta = 500'000,
           .factors = scaled ? std::span<const float>(factors) : std::span<const float>()});
      for (const RopePairs pairs : {RopePairs::kHalves, RopePairs::kInterleaved}) {
        for (const std::size_t position : {0U, 1U, 7U, 299U}) {
          const auto before = random_floats(3 * d, 4);
          std::vector<float> after = before;
          table.rotate(after, position, pairs);
          for (std::size_t n = 0; n != 3 * d / 2; ++n) {
            const std::size_t i = n % (d / 2), head = n / (d / 2) * d;
            const auto [low, high] = pair_of(i, d, pairs);
            const double a = before[head + low], b = before[head + high];
            const double angle =
                static_cast<double>(position) *
                std::pow(500'000, -2.0 * static_cast<double>(i) / static_cast<double>(d)) /
                (scaled ? double{factors[i]} : 1.0);
            ASSERT_NEAR(after[head + low], a * std::cos(angle) - b * std::sin(angle), 3e-7);
            ASSERT_NEAR(after[head + high], a * std::sin(angle) + b * std::cos(angle), 3e-7);
          }
        }
      }
    }
  }
}

// Goal: what attention relies on: scores depend on the distance of two tokens only.
TEST_P(RopeTest, ProductsDependOnTheDistanceAndNormsOnNothing) {
  const RopeTable table({.head_size = 64, .context = 2048});
  const auto dot = [](const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
    return sum;
  };
  const auto q = random_floats(64, 1), k = random_floats(64, 2);
  for (const RopePairs pairs : {RopePairs::kHalves, RopePairs::kInterleaved}) {
    const auto at = [&](std::vector<float> head, std::size_t position) {
      table.rotate(head, position, pairs);
      return head;
    };
    for (const std::size_t position : {0U, 3U, 100U, 2000U}) {
      EXPECT_NEAR(dot(at(q, position), at(q, position)), dot(q, q), 1e-5);
      EXPECT_NEAR(dot(at(q, position + 40), at(k, position)), dot(at(q, 40), k), 1e-5);
    }
    EXPECT_EQ(at(q, 0), q);
  }
}

IMEX_ON_EVERY_TARGET(RopeTest);

}  // namespace
}  // namespace imex::inference
