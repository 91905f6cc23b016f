#include "selection.hpp"

#include <algorithm>
#include <limits>
#include <random>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace imex::inference {

namespace {

constexpr float kPlusInfinity = std::numeric_limits<float>::infinity();

RC_GTEST_PROP(SelectionProperty, TheBestAreTheFrontOfASort, ()) {
  const auto size = *rc::gen::inRange<std::size_t>(0, 3000);
  const auto count = *rc::gen::inRange<std::size_t>(0, 1500);
  const int levels = *rc::gen::elementOf(std::vector<int>{1, 3, 50, 1'000'000});  // ties
  std::minstd_rand random(*rc::gen::arbitrary<std::uint32_t>());
  std::vector<float> logits(size);
  for (float& v : logits) {
    v = static_cast<float>(static_cast<int>(random()) % levels);
    if (random() % 20 == 0) v = -kPlusInfinity;
  }
  std::vector<Candidate> want;
  for (std::size_t i = 0; i != size; ++i) {
    if (logits[i] > -kPlusInfinity) want.push_back({logits[i], static_cast<std::uint32_t>(i) + 7});
  }
  std::sort(want.begin(), want.end(), better);
  want.resize(std::min(count, want.size()));
  std::vector<Candidate> got(3);
  select_best(logits, 7, count, got);
  const auto same = [](const Candidate& a, const Candidate& b) {
    return a.id == b.id && a.logit == b.logit;
  };
  RC_ASSERT(std::equal(got.begin(), got.end(), want.begin(), want.end(), same));
}

TEST(SelectionTest, TheFirstFaultIsFoundAnywhere) {
  for (std::size_t size = 1; size != 200; ++size) {
    std::vector<float> logits(size, std::numeric_limits<float>::max());
    logits[size / 2] = -kPlusInfinity;
    EXPECT_EQ(find_fault(logits), std::nullopt);
    for (std::size_t i = 0; i != size; ++i) {
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kPlusInfinity}) {
        std::vector<float> faulty = logits;
        faulty[i] = faulty[size - 1] = bad;
        ASSERT_EQ(find_fault(faulty), i);
      }
    }
  }
}

}  // namespace
}  // namespace imex::inference
