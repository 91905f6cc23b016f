#include "inference/format/weights_writer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>

#include "inference/format/half.hpp"
#include "inference/format/safetensors.hpp"
#include "inference/testing/data.hpp"
#include "os/file.hpp"

namespace imex::inference {
namespace {

using ::testing::HasSubstr;

class WeightsWriterTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = *os::make_temporary_directory("writer"); }
  void TearDown() override { ASSERT_TRUE(os::remove_tree(folder_)); }
  std::string folder_;
};

// What Tensorizer 2.11.1 wrote, tensor by tensor through ours: not one byte differs.
TEST_F(WeightsWriterTest, TensorsFilesHaveTheBytesOfTheOriginalWriter) {
  for (const char* const name : {"tinystories-656k.f32", "tinystories-656k.bf16", "module"}) {
    const std::string original = testing::shared_model(std::string("tensors/") + name + ".tensors");
    if (!std::filesystem::exists(original)) GTEST_SKIP() << original << " is not there";
    const auto file = TensorsFile::open(original);
    ASSERT_TRUE(file) << file.error().to_string();
    std::vector<PlannedTensor> plan;
    for (const TensorsEntry& entry : file->entries()) {
      plan.push_back({entry.tensor.name, entry.tensor.type, entry.tensor.shape, entry.kind,
                      entry.module_index});
    }
    const std::string path = folder_ + "/" + name;
    const auto done = write_tensors_file(path, plan, [&](std::size_t i, std::span<std::byte> out) {
      return file->read(file->entries()[i], nullptr, out);
    });
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_TRUE(testing::read_text(path) == testing::read_text(original)) << name;
  }
}

Result<void> count_up(std::size_t i, std::span<std::byte> out) {
  std::ranges::fill(out, static_cast<std::byte>(i + 1));
  return {};
}

TEST_F(WeightsWriterTest, SafetensorsAreReadBack) {
  const std::string path = folder_ + "/x.safetensors";
  const std::vector<PlannedTensor> plan{{"a\"\n\\b", TensorType::kBf16, {3}},
                                        {"scalar", TensorType::kF32, {}},
                                        {"empty", TensorType::kI64, {0, 4}}};
  ASSERT_TRUE(write_safetensors_file(path, plan, count_up));
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.error().to_string();
  ASSERT_EQ(file->tensors().size(), 3U);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const auto same = std::ranges::find(file->tensors(), plan[i].name, &Tensor::name);
    ASSERT_NE(same, file->tensors().end());
    EXPECT_EQ(same->type, plan[i].type);
    EXPECT_EQ(same->shape, plan[i].shape);
    for (const std::byte byte : same->bytes) ASSERT_EQ(byte, static_cast<std::byte>(i + 1));
  }
  EXPECT_EQ(write_safetensors_file(path, plan, count_up).error().code, Errc::kAlreadyExists);
}

TEST_F(WeightsWriterTest, ATableLargerThanTheOriginalsGetsItsRoom) {
  std::vector<PlannedTensor> plan;
  for (int i = 0; i < 10; ++i) {
    plan.push_back({std::string(40'000, 'a') + std::to_string(i), TensorType::kU8, {2}});
  }
  const std::string path = folder_ + "/x.tensors";
  ASSERT_TRUE(write_tensors_file(path, plan, count_up));
  const auto file = TensorsFile::open(path);
  ASSERT_TRUE(file) << file.error().to_string();
  for (const TensorsEntry& entry : file->entries()) EXPECT_TRUE(file->verify(entry));
}

TEST_F(WeightsWriterTest, WhatAFormatCannotHoldIsRefused) {
  const auto refusal = [&](const PlannedTensor& tensor, bool twice = false) {
    const std::vector<PlannedTensor> plan(twice ? 2 : 1, tensor);
    const auto done = write_tensors_file(folder_ + "/x", plan, count_up);
    return done ? "was written" : done.error().message;
  };
  EXPECT_THAT(refusal({"a", TensorType::kQ80, {32}}), HasSubstr("'a' of Q8_0 [32] has no place"));
  EXPECT_THAT(refusal({"\x1e[0]", TensorType::kF32, {1}}), HasSubstr("has no place"));
  EXPECT_THAT(refusal({std::string(65'536, 'a'), TensorType::kF32, {1}}),
              HasSubstr("has no place"));
  EXPECT_THAT(refusal({"a", TensorType::kF32, {1}}, true), HasSubstr("'a' appears twice"));
  EXPECT_THAT(refusal({"\xff", TensorType::kF32, {1}}), HasSubstr("not UTF-8"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/x"));
}

TEST(HalfTest, RoundsToTheNearestAndOfTwoToTheEvenOne) {
  for (unsigned bits = 0; bits < 0x7c00; ++bits) {
    const float exact = f16_to_f32(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(f32_to_f16(exact), bits);
    ASSERT_EQ(f32_to_f16(-exact), bits | 0x8000U);
    // The middle to the next number, the 65536 that would follow the last one included.
    const float next =
        bits == 0x7bff ? 65'536.0F : f16_to_f32(static_cast<std::uint16_t>(bits + 1));
    const float middle = exact + (next - exact) / 2;
    ASSERT_EQ(f32_to_f16(middle), bits + (bits & 1U)) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0F)), bits) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 1e9F)), bits + 1) << bits;
  }
  EXPECT_EQ(f32_to_f16(INFINITY), 0x7c00);
  EXPECT_EQ(f32_to_f16(1e9F), 0x7c00);
  EXPECT_EQ(f32_to_f16(NAN) & 0x7fffU, 0x7e00U);
  EXPECT_EQ(f32_to_bf16(1.0F), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f80'8000U)), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f81'8000U)), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f80'8001U)), 0x3f81);
  EXPECT_EQ(f32_to_bf16(-INFINITY), 0xff80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f80'0001U)))));
}

}  // namespace
}  // namespace imex::inference
