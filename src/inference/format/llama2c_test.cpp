#include "inference/format/llama2c.hpp"

#include <cstring>

#include <gmock/gmock.h>

#include "inference/testing/data.hpp"

namespace imex::inference {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> small() {
  const std::string text = testing::read_text(testing::test_data("weights/tied.bin"));
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void set(std::vector<std::byte>& bytes, std::size_t field, std::int32_t value) {
  std::memcpy(bytes.data() + field * 4, &value, sizeof value);
}

float first(const Tensor& tensor) {
  float value = 0;
  std::memcpy(&value, tensor.bytes.data(), sizeof value);
  return value;
}

// The file counts its floats up from 0, so a matrix's first value is its place.
TEST(Llama2cTest, MatricesLieInTheOrderOfTheFormat) {
  const auto bytes = small();
  const auto file = Llama2cFile::parse(bytes);
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_TRUE(file->sizes().tied);
  const auto tensor = [&](std::string_view name) {
    for (const Tensor& one : file->tensors()) {
      if (one.name == name) return one;
    }
    ADD_FAILURE() << "no " << name;
    return file->tensors().front();
  };
  // hidden 4, feed-forward 6, 2 layers, 2 heads, 1 key-value head, 3 tokens
  EXPECT_EQ(first(tensor("layers.1.attention_norm.weight")), 12 + 4);
  EXPECT_EQ(first(tensor("layers.1.attention.wk.weight")), 12 + 8 + 2 * 16 + 8);
  EXPECT_THAT(tensor("layers.0.attention.wk.weight").shape, ElementsAre(2, 4));
  EXPECT_THAT(tensor("layers.0.feed_forward.w2.weight").shape, ElementsAre(4, 6));
  EXPECT_EQ(first(tensor("norm.weight")), 12 + 8 + 2 * (16 + 8 + 8 + 16) + 8 + 3 * 48);
}

TEST(Llama2cTest, ANegativeVocabularyMeansASeparateHead) {
  auto bytes = small();
  set(bytes, 5, -3);
  EXPECT_THAT(Llama2cFile::parse(bytes).error().message, HasSubstr("does not have"));
  bytes.resize(bytes.size() + 3 * 4 * 4);
  const auto file = Llama2cFile::parse(bytes);
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_FALSE(file->sizes().tied);
  EXPECT_EQ(file->tensors().back().name, "output.weight");
}

TEST(Llama2cTest, TheSizeOfTheFileMustMatchExactly) {
  auto bytes = small();
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(Llama2cFile::parse(bytes));
  bytes.resize(bytes.size() - 2);
  EXPECT_FALSE(Llama2cFile::parse(bytes));
  bytes.resize(20);
  EXPECT_THAT(Llama2cFile::parse(bytes).error().message, HasSubstr("ends inside its header"));
}

TEST(Llama2cTest, SizesThatAreNoneAreRefused) {
  for (const auto& [field, value] : {std::pair(0U, 0),
                                     {0U, -4},
                                     {2U, 1 << 30},
                                     {5U, INT32_MIN},
                                     {3U, 3},
                                     {4U, 3},
                                     {2U, 5000},
                                     {0U, 1 << 24}}) {
    auto bytes = small();
    set(bytes, field, value);
    EXPECT_FALSE(Llama2cFile::parse(bytes)) << field << " " << value;
  }
}

TEST(Llama2cTest, ReadsTheSharedModel) {
  IMEX_NEEDS_SHARED_MODEL("stories260k/stories260K.bin");
  const auto file = Llama2cFile::open(testing::shared_model("stories260k/stories260K.bin"));
  ASSERT_TRUE(file) << file.error().to_string();
  const Llama2cSizes& s = file->sizes();
  EXPECT_THAT((std::array{s.hidden, s.feed_forward, s.layers, s.query_heads, s.kv_heads,
                          s.vocabulary, s.context}),
              ElementsAre(64, 172, 5, 8, 4, 512, 512));
}

}  // namespace
}  // namespace imex::inference
