// Tests that run on every instruction set which this processor has and the build contains.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "hwy/targets.h"

namespace imex::inference {

class TargetTest : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().Update(GetParam());
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

inline std::vector<std::int64_t> targets_here() {
  std::vector<std::int64_t> found;
  for (std::int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    const std::int64_t target = rest & ~(rest - 1);
    if (target == HWY_SCALAR || target == HWY_EMU128 || target == HWY_AVX2 || target == HWY_AVX3 ||
        target == HWY_NEON)
      found.push_back(target);
  }
  return found;
}

inline std::vector<float> random_floats(std::size_t count, std::uint32_t seed, float span = 1.0F) {
  std::minstd_rand random(seed);
  std::uniform_real_distribution<float> uniform(-span, span);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

}  // namespace imex::inference

#define IMEX_ON_EVERY_TARGET(name)                                             \
  INSTANTIATE_TEST_SUITE_P(Targets, name, ::testing::ValuesIn(targets_here()), \
                           [](const auto& tested) { return hwy::TargetName(tested.param); })
