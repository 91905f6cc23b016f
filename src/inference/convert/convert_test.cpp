#include "inference/convert/convert.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "converted_weight.hpp"
#include "inference/testing/data.hpp"
#include "os/file.hpp"

namespace imex::inference {
namespace {

using ::testing::HasSubstr;

class ConvertTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = *os::make_temporary_directory("convert"); }
  void TearDown() override { ASSERT_TRUE(os::remove_tree(folder_)); }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string folder_;
};

/// The tiny model of four formats.
class TinyStoriesConvertTest : public ConvertTest {
 protected:
  void SetUp() override {
    ConvertTest::SetUp();
    IMEX_NEEDS_SHARED_MODEL("tinystories-656k/model.safetensors");
    source_ = testing::shared_model("tinystories-656k");
    model_ = *ModelFile::open(source_);
  }
  std::string source_;
  ModelFile model_;
};

TEST_F(TinyStoriesConvertTest, EveryFormatHoldsTheSameBytes) {
  for (const char* const name : {"copy.tensors", "copy.safetensors"}) {
    std::vector<std::string> seen;
    const ConvertOptions options{
        .companions_from = source_,
        .progress = [&](std::string_view tensor) { seen.emplace_back(tensor); }};
    const auto done = convert_model(model_, path(name), options);
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_EQ(seen.size(), 20U);
    EXPECT_EQ(seen.front(), "model.embed_tokens.weight");
    const auto copy = ModelFile::open(path(name));
    ASSERT_TRUE(copy) << copy.error().to_string();
    for (const WeightPlace& place : model_.places()) {
      ASSERT_TRUE(std::ranges::equal(copy->weight(place)->bytes, model_.weight(place)->bytes));
    }
    EXPECT_EQ(copy->tokenizer()->size(), 2048U);
  }
  EXPECT_TRUE(ModelFile::open(path("copy.tensors"))->verify());
  EXPECT_FALSE(std::filesystem::exists(path("copy.tensors.part")));
}

// The shared file was made by torch's rounding and Tensorizer's serializer.
TEST_F(TinyStoriesConvertTest, Bfloat16IsTorchs) {
  IMEX_NEEDS_SHARED_MODEL("tensors/tinystories-656k.bf16.tensors");
  const auto done = convert_model(model_, path("bf16.tensors"),
                                  {.type = TensorType::kBf16, .companions_from = source_});
  ASSERT_TRUE(done) << done.error().to_string();
  const auto ours = TensorsFile::open(path("bf16.tensors"));
  const auto real =
      TensorsFile::open(testing::shared_model("tensors/tinystories-656k.bf16.tensors"));
  ASSERT_TRUE(ours && real);
  EXPECT_EQ(ours->version(), 2U);
  for (const TensorsEntry& entry : real->entries()) {
    const bool tied = entry.tensor.name == "lm_head.weight";
    const TensorsEntry* const same =
        ours->find(tied ? "model.embed_tokens.weight" : entry.tensor.name);
    ASSERT_NE(same, nullptr) << entry.tensor.name;
    EXPECT_TRUE(std::ranges::equal(same->tensor.bytes, entry.tensor.bytes)) << entry.tensor.name;
  }
}

TEST_F(TinyStoriesConvertTest, WhatIsThereIsReplacedOnlyWhenAsked) {
  std::ofstream(path("x.tensors")) << "mine";
  const ConvertOptions options{.companions_from = source_};
  EXPECT_EQ(convert_model(model_, path("x.tensors"), options).error().code, Errc::kAlreadyExists);
  EXPECT_EQ(testing::read_text(path("x.tensors")), "mine");
  ConvertOptions replacing = options;
  replacing.replace = true;
  ASSERT_TRUE(convert_model(model_, path("x.tensors"), replacing));
  EXPECT_TRUE(ModelFile::open(path("x.tensors")));
  EXPECT_THAT(convert_model(model_, path("x.gguf"), options).error().hint,
              HasSubstr(".safetensors"));
}

TEST_F(TinyStoriesConvertTest, AConfigurationOfAnotherModelIsNoticedAndNothingIsLeft) {
  HyperParameters other = model_.parameters();
  other.rope_theta = 5;
  std::ofstream(path("config.json")) << *make_config_json(other);
  const auto done = convert_model(model_, path("x.tensors"), {.companions_from = source_});
  EXPECT_EQ(done.error().code, Errc::kFailedPrecondition);
  EXPECT_FALSE(std::filesystem::exists(path("x.tensors")));
  EXPECT_FALSE(std::filesystem::exists(path("x.tensors.part")));
}

TEST_F(TinyStoriesConvertTest, AMadeConfigurationSaysWhatTheOriginalSays) {
  HyperParameters p = model_.parameters();
  p.rope_factors.assign(p.head_size / 2, 2.5F);
  const auto text = make_config_json(p);
  ASSERT_TRUE(text) << text.error().to_string();
  const auto read = parse_config_json(*text);
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->rope_factors, p.rope_factors);
  EXPECT_EQ(read->norm_epsilon, p.norm_epsilon);
  EXPECT_EQ(read->stop_tokens, p.stop_tokens);
  p.rope_factors.back() = 8;
  EXPECT_EQ(make_config_json(p).error().code, Errc::kUnsupported);
}

TEST_F(ConvertTest, RowsOfInterleavedPairsAreSeparated) {
  IMEX_NEEDS_SHARED_MODEL("stories260k/stories260K.bin");
  const auto model = ModelFile::open(testing::shared_model("stories260k/stories260K.bin"));
  ASSERT_TRUE(model);
  ASSERT_TRUE(convert_model(*model, path("x.safetensors")));
  const auto copy = ModelFile::open(path("x.safetensors"));
  ASSERT_TRUE(copy) << copy.error().to_string();
  EXPECT_EQ(copy->parameters().rope_pairs, RopePairs::kHalves);
  const HyperParameters& p = model->parameters();
  for (const WeightRole role : {WeightRole::kQuery, WeightRole::kKey}) {
    const auto before = model->weight({role, 2})->bytes;
    const auto after = copy->weight({role, 2})->bytes;
    const std::size_t row = p.hidden * sizeof(float);
    for (std::size_t i = 0; i < before.size() / row; ++i) {
      const std::size_t head = i / p.head_size * p.head_size;
      const std::size_t pair = i % p.head_size / 2;
      const std::size_t to = head + pair + (i % 2) * p.head_size / 2;
      ASSERT_EQ(std::memcmp(after.data() + to * row, before.data() + i * row, row), 0) << i;
    }
  }
  EXPECT_TRUE(std::ranges::equal(copy->weight({WeightRole::kValue, 2})->bytes,
                                 model->weight({WeightRole::kValue, 2})->bytes));
}

TEST_F(ConvertTest, TheTokenizerComesAlong) {
  IMEX_NEEDS_SHARED_MODEL("stories260k/tok512.bin");
  const auto model = ModelFile::open(testing::shared_model("stories260k/stories260K.bin"));
  ASSERT_TRUE(model);
  ASSERT_TRUE(convert_model(*model, path("model.safetensors")));
  const auto copy = ModelFile::open(folder_);
  ASSERT_TRUE(copy) << copy.error().to_string();
  const std::string text = "Lily's cat, \u00e9\u00e9 and  12 more";
  const auto ids = copy->tokenizer()->encode(text);
  ASSERT_TRUE(ids);
  EXPECT_EQ(*ids, *model->tokenizer()->encode(text));
  EXPECT_EQ(*copy->tokenizer()->decode(*ids), text);
}

TEST_F(ConvertTest, ATokenizerThatIsNotThereIsNamedAndTheRestIsConverted) {
  IMEX_NEEDS_SHARED_MODEL("stories260k/stories260K.bin");
  std::filesystem::copy(testing::shared_model("stories260k/stories260K.bin"), path("alone.bin"));
  const auto model = ModelFile::open(path("alone.bin"));
  ASSERT_TRUE(model);
  std::string note;
  ASSERT_TRUE(convert_model(*model, path("x.safetensors"),
                            {.note = [&](std::string_view text) { note = text; }}));
  EXPECT_THAT(note, HasSubstr("the tokenizer is not converted"));
  EXPECT_TRUE(ModelFile::open(path("x.safetensors")));
}

TEST_F(ConvertTest, AGgufModelGetsAConfiguration) {
  const auto model = ModelFile::open(testing::test_data("gguf/qwen3.gguf"));
  ASSERT_TRUE(model);
  const auto done = convert_model(*model, path("x.tensors"), {.type = TensorType::kF16});
  ASSERT_TRUE(done) << done.error().to_string();
  const auto copy = ModelFile::open(path("x.tensors"));
  ASSERT_TRUE(copy) << copy.error().to_string();
  EXPECT_EQ(copy->parameters().architecture->name, "qwen3");
  EXPECT_EQ(copy->weight({WeightRole::kQuery, 0})->type, TensorType::kF16);
}

TEST(ConvertedWeightTest, QuantisedWeightsNeedAType) {
  Tensor weight;
  weight.name = "w";
  weight.type = TensorType::kQ80;
  EXPECT_EQ(converted_type(weight, {}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(*converted_type(weight, TensorType::kBf16), TensorType::kBf16);
  EXPECT_EQ(converted_type(weight, TensorType::kQ40).error().code, Errc::kInvalidArgument);
  weight.type = TensorType::kF16;
  EXPECT_EQ(*converted_type(weight, {}), TensorType::kF16);
}

TEST(ConvertedWeightTest, WhatAFloat16CannotHoldIsRefused) {
  const std::array<float, 2> values{1, 1e5F};
  Tensor weight;
  weight.name = "w";
  weight.shape = {2};
  weight.bytes = std::as_bytes(std::span(values));
  std::array<std::byte, 4> out{};
  const HyperParameters p;
  const auto f16 = convert_weight(weight, WeightRole::kFinalNorm, p, TensorType::kF16, out);
  EXPECT_EQ(f16.error().message, "tensor 'w' holds 100000, which F16 does not");
  EXPECT_TRUE(convert_weight(weight, WeightRole::kFinalNorm, p, TensorType::kBf16, out));
}

}  // namespace
}  // namespace imex::inference
