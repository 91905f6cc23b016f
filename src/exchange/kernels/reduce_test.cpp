#include "kernels/reduce.hpp"

#include <iostream>
#include <limits>

#include <gtest/gtest.h>

#include "hwy/targets.h"
#include "testing/reference.hpp"

namespace imex::exchange {
namespace {

using reference::Bytes;

/// Every instruction set that this processor has and the build contains.
class ReduceKernelTest : public ::testing::TestWithParam<std::int64_t> {
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

Bytes reduce(DataType type, ReduceOp op, const std::vector<Bytes>& inputs, std::size_t offset,
             std::size_t copies) {
  std::vector<Bytes> shifted;
  std::vector<const std::byte*> sources;
  for (const Bytes& input : inputs) {
    Bytes& moved = shifted.emplace_back(offset);
    moved.insert(moved.end(), input.begin(), input.end());
  }
  for (const Bytes& moved : shifted) sources.push_back(moved.data() + offset);
  std::vector<Bytes> outs(copies, Bytes(inputs[0].size() + offset, std::byte{0x5a}));
  std::vector<std::byte*> targets;
  for (Bytes& out : outs) targets.push_back(out.data() + offset);
  reduce_kernel(type, op)({.sources = sources.data(),
                           .source_count = sources.size(),
                           .targets = targets.data(),
                           .target_count = targets.size(),
                           .elements = inputs[0].size() / element_bytes(type)});
  for (const Bytes& out : outs) EXPECT_EQ(out, outs[0]);
  return {outs[0].begin() + static_cast<std::ptrdiff_t>(offset), outs[0].end()};
}

TEST_P(ReduceKernelTest, EqualsTheReferenceForAllTypesAndOperations) {
  std::uint64_t seed = 1;
  for (std::uint32_t type_number = 0; type_number != kDataTypeCount; ++type_number) {
    const auto type = static_cast<DataType>(type_number);
    for (std::uint32_t op_number = 0; op_number != kReduceOpCount; ++op_number) {
      const auto op = static_cast<ReduceOp>(op_number);
      for (const std::size_t elements : {0U, 1U, 7U, 33U, 256U, 515U}) {
        for (const std::size_t ranks : {1U, 2U, 3U, 5U}) {
          std::vector<Bytes> inputs;
          for (std::size_t rank = 0; rank != ranks; ++rank) {
            inputs.push_back(reference::random_bytes(type, elements, ++seed));
          }
          const Bytes wanted = reference::reduce(type, op, inputs);
          const Bytes found = reduce(type, op, inputs, seed % 9, 1 + seed % 2);
          ASSERT_EQ(reference::first_difference(type, found, wanted), -1)
              << data_type_name(type) << ' ' << reduce_op_name(op) << ' ' << elements << " x "
              << ranks << " on " << reduce_target();
        }
      }
    }
  }
}

/// All values of a small format, each as the sum of itself and nothing: widened and rounded back.
template <class Raw>
void expect_round_trip(DataType type) {
  Bytes all((std::size_t{1} << 8 * sizeof(Raw)) * sizeof(Raw));
  for (std::size_t i = 0; i * sizeof(Raw) != all.size(); ++i) {
    const auto raw = static_cast<Raw>(i);
    std::memcpy(all.data() + i * sizeof raw, &raw, sizeof raw);
  }
  EXPECT_EQ(reference::first_difference(type, reduce(type, ReduceOp::kMax, {all}, 0, 1), all), -1)
      << data_type_name(type);
}

TEST_P(ReduceKernelTest, KeepsEveryValueOfSmallFloats) {
  expect_round_trip<std::uint16_t>(DataType::kFloat16);
  expect_round_trip<std::uint16_t>(DataType::kBfloat16);
  expect_round_trip<std::uint8_t>(DataType::kFloat8E4m3);
  expect_round_trip<std::uint8_t>(DataType::kFloat8E5m2);
}

TEST_P(ReduceKernelTest, ASumOfNegativeZerosIsPositive) {
  const float zero = -0.0F;
  Bytes bytes(sizeof zero * 20);
  for (std::size_t i = 0; i != 20; ++i) std::memcpy(bytes.data() + i * 4, &zero, 4);
  EXPECT_EQ(reduce(DataType::kFloat32, ReduceOp::kSum, {bytes, bytes}, 0, 1), Bytes(80));
  EXPECT_EQ(reduce(DataType::kFloat32, ReduceOp::kSum, {bytes, bytes, bytes}, 0, 1), Bytes(80));
}

TEST(ReduceKernelChoiceTest, NumbersThatAreNoTypeHaveNone) {
  EXPECT_EQ(reduce_kernel(static_cast<DataType>(99), ReduceOp::kSum), nullptr);
  EXPECT_EQ(reduce_kernel(DataType::kFloat32, static_cast<ReduceOp>(99)), nullptr);
  std::cout << "[ target   ] " << reduce_target() << '\n';
}

std::vector<std::int64_t> targets() {
  std::vector<std::int64_t> found;
  for (std::int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    const std::int64_t target = rest & ~(rest - 1);
    if (target == HWY_SCALAR || target == HWY_EMU128 || target == HWY_AVX2 || target == HWY_AVX3 ||
        target == HWY_NEON)
      found.push_back(target);
  }
  return found;
}
INSTANTIATE_TEST_SUITE_P(Targets, ReduceKernelTest, ::testing::ValuesIn(targets()),
                         [](const auto& tested) { return hwy::TargetName(tested.param); });

}  // namespace
}  // namespace imex::exchange
