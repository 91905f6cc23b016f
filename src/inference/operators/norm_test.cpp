#include "inference/operators/norm.hpp"

#include <bit>
#include <cmath>

#include "target_test.hpp"

namespace imex::inference {
namespace {

class NormTest : public TargetTest {};
constexpr float kEpsilon = 1e-5F;
// Around the vectors of all instruction sets and around the four that are summed at a time.
constexpr std::size_t kSizes[] = {1, 2, 3, 5, 15, 16, 17, 31, 63, 64, 65, 100, 288, 576, 4097};

std::vector<double> norm_of(const std::vector<float>& x, const std::vector<float>& weight) {
  double squares = 0;
  for (const float v : x) squares += double{v} * v;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + double{kEpsilon});
  std::vector<double> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[i] * scale * weight[i];
  return out;
}

TEST_P(NormTest, EqualsTheDefinition) {
  for (const std::size_t size : kSizes) {
    const auto x = random_floats(size, 1, 3), weight = random_floats(size, 2);
    std::vector<float> out(size + 1, 42.0F);
    rms_norm(x, weight, kEpsilon, std::span(out).first(size));
    const std::vector<double> want = norm_of(x, weight);
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_NEAR(out[i], want[i], 1e-6 * std::abs(want[i])) << i << " of " << size;
    }
    ASSERT_EQ(out[size], 42.0F) << size;
  }
}

TEST_P(NormTest, WorksInPlace) {
  const auto x = random_floats(100, 3), weight = random_floats(100, 4);
  std::vector<float> apart(100), place = x;
  rms_norm(x, weight, kEpsilon, apart);
  rms_norm(place, weight, kEpsilon, place);
  EXPECT_EQ(place, apart);
}

TEST_P(NormTest, AllZerosStayZero) {
  const std::vector<float> x(33), weight(33, 1.0F);
  std::vector<float> out(33, 1.0F);
  rms_norm(x, weight, kEpsilon, out);
  EXPECT_EQ(out, x);
}

// What makes ranks agree: the terms are summed first, in their order, from +0.0.
TEST_P(NormTest, TermsAreAddedInRankOrderToTheBit) {
  for (const std::size_t size : kSizes) {
    for (const std::size_t ranks : {0U, 1U, 2U, 3U, 8U}) {
      std::vector<std::vector<float>> parts;
      for (std::uint32_t r = 0; r != ranks; ++r) parts.push_back(random_floats(size, 10 + r));
      std::vector<const float*> terms;
      for (const auto& part : parts) terms.push_back(part.data());
      const auto x = random_floats(size, 5, 7);
      std::vector<float> sum = x;
      add_terms(sum, terms);
      for (std::size_t i = 0; i < size; ++i) {
        float want = 0.0F;
        for (const float* term : terms) want += term[i];
        want = x[i] + want;
        ASSERT_EQ(std::bit_cast<std::uint32_t>(sum[i]), std::bit_cast<std::uint32_t>(want));
      }
      const auto weight = random_floats(size, 6);
      std::vector<float> both = x, out(size), apart(size);
      add_rms_norm(both, terms, weight, kEpsilon, out);
      rms_norm(sum, weight, kEpsilon, apart);
      ASSERT_EQ(both, sum) << size << " x " << ranks;
      ASSERT_EQ(out, apart) << size << " x " << ranks;
    }
  }
}

TEST_P(NormTest, NegativeZerosBecomePositive) {
  std::vector<float> x(20, -0.0F);
  const std::vector<float> term(20, -0.0F);
  add_terms(x, std::vector<const float*>{term.data()});
  for (const float v : x) EXPECT_EQ(std::bit_cast<std::uint32_t>(v), 0U);
}

IMEX_ON_EVERY_TARGET(NormTest);

}  // namespace
}  // namespace imex::inference
