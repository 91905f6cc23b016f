// The expected values are those of PyPI's `gguf` (tests/data/inference/make_gguf.py), or of the
// definition of a number format.
#include "inference/format/dequantize.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "inference/format/gguf.hpp"
#include "inference/format/half.hpp"
#include "inference/testing/data.hpp"

namespace imex::inference {
namespace {

std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class DequantizeTest : public ::testing::TestWithParam<const char*> {};

TEST_P(DequantizeTest, HasTheBitsOfTheIndependentReference) {
  const auto file = GgufFile::open(testing::test_data("gguf/types.gguf"));
  ASSERT_TRUE(file) << file.error().to_string();
  const std::string name = GetParam();
  const Tensor* const stored = file->find_tensor(name);
  const Tensor* const expected = file->find_tensor(name + ".f32");
  ASSERT_TRUE(stored != nullptr && expected != nullptr);
  EXPECT_EQ(layout_of(stored->type).name, name);
  EXPECT_EQ(stored->shape, expected->shape);

  const std::vector<float> want = floats(expected->bytes);
  std::vector<float> got(want.size());
  dequantize(stored->type, stored->bytes, got);
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i]))
        << name << " element " << i << ": " << got[i] << " instead of " << want[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DequantizeTest,
                         ::testing::Values("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0",
                                           "Q4_K", "Q5_K", "Q6_K"));

TEST(HalfTest, EveryFloat16HasTheValueOfItsDefinition) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float got = f16_to_f32(static_cast<std::uint16_t>(bits));
    const int exponent = static_cast<int>(bits >> 10U & 31U);
    const auto mantissa = static_cast<float>(bits & 1023U);
    const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
    if (exponent == 31 && mantissa != 0) {
      ASSERT_TRUE(std::isnan(got)) << bits;
    } else {
      const float magnitude = exponent == 31  ? std::numeric_limits<float>::infinity()
                              : exponent == 0 ? std::ldexp(mantissa, -24)
                                              : std::ldexp(1024.0F + mantissa, exponent - 25);
      ASSERT_EQ(got, sign * magnitude) << bits;
      ASSERT_EQ(std::signbit(got), (bits & 0x8000U) != 0) << bits;
    }
  }
}

TEST(HalfTest, Bfloat16IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(bf16_to_f32(0x3f80), 1.0F);
  EXPECT_EQ(bf16_to_f32(0xc049), -3.140625F);
  EXPECT_TRUE(std::isinf(bf16_to_f32(0x7f80)));
}

TEST(TensorTest, BytesCountWholeBlocksAndCannotOverflow) {
  using Shape = std::vector<std::uint64_t>;
  EXPECT_EQ(*tensor_bytes(TensorType::kF32, {}), 4U);
  EXPECT_EQ(*tensor_bytes(TensorType::kQ4K, Shape{3, 512}), 3U * 2 * 144);
  EXPECT_EQ(*tensor_bytes(TensorType::kF16, Shape{5, 0, 7}), 0U);
  EXPECT_EQ(tensor_bytes(TensorType::kQ4K, Shape{3, 576}).error().code, Errc::kDataLoss);
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62U;
  EXPECT_EQ(tensor_bytes(TensorType::kF32, Shape{kHuge}).error().code, Errc::kDataLoss);
  EXPECT_EQ(tensor_bytes(TensorType::kU8, Shape{kHuge, kHuge, 8}).error().code, Errc::kDataLoss);
}

}  // namespace
}  // namespace imex::inference
