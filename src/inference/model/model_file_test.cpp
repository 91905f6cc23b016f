#include "inference/model/model_file.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "inference/testing/data.hpp"
#include "model_opener.hpp"
#include "os/file.hpp"

namespace imex::inference {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(WeightRoleTest, NamesAreFoundAgainInEveryScheme) {
  for (const NamingScheme scheme :
       {NamingScheme::kGguf, NamingScheme::kHuggingFace, NamingScheme::kMeta}) {
    for (std::size_t i = 0; i < kWeightRoles; ++i) {
      const auto role = static_cast<WeightRole>(i);
      const WeightPlace place{role, role >= WeightRole::kAttentionNorm ? 11U : 0U};
      const std::string name = weight_name(scheme, place);
      if (name.ends_with('.')) continue;  // Meta's models have neither biases nor head norms
      EXPECT_EQ(find_weight(scheme, name, 12), place) << name;
      if (place.layer == 0) continue;
      EXPECT_EQ(find_weight(scheme, name, 11), std::nullopt) << name;
    }
  }
  EXPECT_EQ(find_weight(NamingScheme::kGguf, "blk.x.attn_q.weight", 2), std::nullopt);
  EXPECT_EQ(find_weight(NamingScheme::kGguf, "blk.0", 2), std::nullopt);
  EXPECT_EQ(find_weight(NamingScheme::kGguf, "blk.0.output.weight", 2), std::nullopt);
  EXPECT_EQ(find_weight(NamingScheme::kGguf, "blk.01.attn_q.weight", 2), std::nullopt);
  EXPECT_EQ(describe({WeightRole::kDown, 3}), "down weight of layer 3");
}

TEST(ModelFileTest, AGgufOfAnIndependentWriterIsAModel) {
  const auto model = ModelFile::open(testing::test_data("gguf/qwen3.gguf"));
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_EQ(model->format(), "GGUF 3");
  const Tensor* const norm = model->weight({WeightRole::kQueryNorm, 0});
  ASSERT_NE(norm, nullptr);
  EXPECT_THAT(norm->shape, ElementsAre(16));
  EXPECT_EQ(model->weight({WeightRole::kHead}), model->weight({WeightRole::kEmbedding}));
  EXPECT_EQ(model->weight({WeightRole::kQueryBias, 0}), nullptr);
  EXPECT_EQ(model->weight({WeightRole::kQuery, 1}), nullptr);
  const auto tokenizer = model->tokenizer();
  ASSERT_TRUE(tokenizer) << tokenizer.error().to_string();
  EXPECT_THAT(*tokenizer->encode("ab a"), ElementsAre(5, 6, 3));
}

TEST(ModelFileTest, WhatIsNoModelIsNamed) {
  EXPECT_EQ(ModelFile::open("/none").error().code, Errc::kNotFound);
  const Error unknown = ModelFile::open(testing::test_data("gguf/unknown.gguf")).error();
  EXPECT_THAT(unknown.message, HasSubstr("unknown.gguf': unknown architecture 'rwkv7'"));
  const Error text = ModelFile::open(testing::test_data("make_gguf.py")).error();
  EXPECT_EQ(text.code, Errc::kUnsupported);
  EXPECT_THAT(ModelFile::open(testing::test_data("weights/module.tensors")).error().message,
              HasSubstr("no config.json"));
}

TEST(ModelFileTest, AModelWithoutItsTokenizerIsStillAModel) {
  const auto model = ModelFile::open(testing::test_data("weights/tied.bin"));
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_EQ(model->format(), "llama2.c");
  const auto tokenizer = model->tokenizer();
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code, Errc::kNotFound);
  EXPECT_THAT(tokenizer.error().hint, HasSubstr("tok3.bin"));
}

TEST(ChatTemplateTest, IsAStringOrTheDefaultOfAList) {
  EXPECT_EQ(*parse_chat_template(R"({"chat_template": "x"})"), "x");
  EXPECT_EQ(*parse_chat_template(R"({"chat_template": [{"name":"rag","template":"r"},)"
                                 R"({"name":"default","template":"d"}]})"),
            "d");
  EXPECT_EQ(*parse_chat_template("{}"), std::nullopt);
  EXPECT_FALSE(parse_chat_template(R"({"chat_template": [{"name":"rag","template":"r"}]})"));
  EXPECT_FALSE(parse_chat_template(R"({"chat_template": [1]})"));
  EXPECT_FALSE(parse_chat_template("["));
  EXPECT_THAT(parse_chat_template(R"({"chat_template":"x","chat_template":"y"})").error().message,
              HasSubstr("'chat_template' appears twice"));
}

/// A copy of the shared Hugging Face model that a test may change.
class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    IMEX_NEEDS_SHARED_MODEL("tinystories-656k/model.safetensors");
    folder_ = *os::make_temporary_directory("model");
    const std::filesystem::path source = testing::shared_model("tinystories-656k");
    for (const auto& entry : std::filesystem::directory_iterator(source)) {
      std::filesystem::copy_file(entry.path(), folder_ / entry.path().filename());
      std::filesystem::permissions(folder_ / entry.path().filename(),
                                   std::filesystem::perms::owner_all);
    }
  }
  void TearDown() override {
    if (folder_.empty()) return;
    ASSERT_TRUE(os::remove_tree(folder_.string()));
  }
  void change_config(const json& changes) {
    json config = json::parse(testing::read_text(folder_ / "config.json"));
    config.update(changes);
    std::ofstream(folder_ / "config.json") << config;
  }
  [[nodiscard]] Error refused() const {
    auto model = ModelFile::open(folder_.string());
    EXPECT_FALSE(model) << "was read";
    return model ? Error{} : model.error();
  }
  std::filesystem::path folder_;
};

TEST_F(FolderTest, TheTiedMatrixMayBeStoredAsTheHead) {
  const auto model = ModelFile::open(folder_.string());
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_EQ(model->parameters().rope_pairs, RopePairs::kHalves);
  EXPECT_EQ(model->weight({WeightRole::kEmbedding})->name, "lm_head.weight");
  EXPECT_GT(model->weight_bytes(), 2'620'000U);
  EXPECT_EQ(model->tokenizer()->size(), 2048U);
  EXPECT_THAT(model->parameters().stop_tokens, ElementsAre(2));
  const auto by_file = ModelFile::open((folder_ / "model.safetensors").string());
  EXPECT_TRUE(by_file) << by_file.error().to_string();
}

TEST_F(FolderTest, AConfigurationThatDoesNotFitTheWeightsIsRefused) {
  change_config({{"intermediate_size", 256}});
  EXPECT_THAT(refused().message, HasSubstr("is F32 of [384, 128], not [256, 128]"));
  change_config({{"intermediate_size", 384}, {"num_hidden_layers", 1}});
  EXPECT_THAT(refused().message, HasSubstr("is none of architecture llama with 1 layers"));
  change_config({{"num_hidden_layers", 3}});
  EXPECT_THAT(refused().message, HasSubstr("of layer 2 ('model.layers.2."));
  change_config({{"num_hidden_layers", 2}, {"tie_word_embeddings", false}});
  EXPECT_THAT(refused().message,
              HasSubstr("the embedding ('model.embed_tokens.weight') is missing"));
}

TEST_F(FolderTest, ATokenizerOfAnotherModelIsRefused) {
  json tokenizer = json::parse(testing::read_text(folder_ / "tokenizer.json"));
  tokenizer["added_tokens"].push_back({{"id", 2048}, {"content", "<extra>"}, {"special", true}});
  std::ofstream(folder_ / "tokenizer.json") << tokenizer;
  const auto model = ModelFile::open(folder_.string());
  ASSERT_TRUE(model) << model.error().to_string();
  const auto loaded = model->tokenizer();
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().message, "a tokenizer of 2049 tokens for a model of 2048");
}

TEST_F(FolderTest, OnlyTheFileThatIsNamedIsOpened) {
  const std::string other = (folder_ / "other.safetensors").string();
  std::filesystem::copy_file(folder_ / "model.safetensors", other);
  std::ofstream(folder_ / "model.safetensors") << "no model";
  EXPECT_TRUE(ModelFile::open(other));
  EXPECT_FALSE(ModelFile::open(folder_.string()));
}

TEST_F(FolderTest, TensorizerFilesUseTheConfigurationBesideThem) {
  for (const auto* const name : {"tinystories-656k.f32.tensors", "tinystories-656k.bf16.tensors"}) {
    const auto target = folder_ / name;
    std::filesystem::copy_file(testing::shared_model(std::string("tensors/") + name), target);
    const auto model = ModelFile::open(target.string());
    ASSERT_TRUE(model) << model.error().to_string();
    EXPECT_THAT(std::string(model->format()), HasSubstr("Tensorizer"));
    EXPECT_TRUE(model->tokenizer());
  }
}

TEST(SharedModelTest, Llama2cCheckpointsFindTheirTokenizer) {
  IMEX_NEEDS_SHARED_MODEL("stories260k/stories260K.bin");
  const auto model = ModelFile::open(testing::shared_model("stories260k/stories260K.bin"));
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_EQ(model->parameters().rope_pairs, RopePairs::kInterleaved);
  EXPECT_EQ(model->parameters().head_size, 8U);
  EXPECT_TRUE(model->parameters().tied_head);
  const auto tokenizer = model->tokenizer();
  ASSERT_TRUE(tokenizer) << tokenizer.error().to_string();
  EXPECT_EQ(tokenizer->size(), 512U);
}

TEST(Smollm2Test, TheRealModelOpensAndItsTokensAreTheSecondTokenizers) {
  const std::string path = testing::smollm2_path();
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << testing::kNoSmollm2;
  }
  const auto model = ModelFile::open(path);
  ASSERT_TRUE(model) << model.error().to_string();
  const HyperParameters& p = model->parameters();
  EXPECT_EQ(p.layer_count(), 30U);
  EXPECT_EQ(p.query_heads, 9U);
  EXPECT_EQ(p.kv_heads, 3U);
  EXPECT_EQ(p.rope_theta, 100'000.0F);
  EXPECT_EQ(model->weight({WeightRole::kEmbedding})->type, TensorType::kQ80);
  EXPECT_EQ(model->weight({WeightRole::kDown, 29})->type, TensorType::kQ41);
  EXPECT_TRUE(model->chat_template());
  const auto tokenizer = model->tokenizer();
  ASSERT_TRUE(tokenizer) << tokenizer.error().to_string();
  const char* const other = std::getenv("IMEX_TEST_SMOLLM2_CASES");
  const std::string cases = other != nullptr ? other : testing::test_data("smollm2.cases.json");
  for (const json& one : json::parse(testing::read_text(cases))) {
    const auto text = one.at("text").get<std::string>();
    const auto ids = tokenizer->encode(text, {.add_special = true, .parse_special = true});
    ASSERT_TRUE(ids);
    ASSERT_EQ(*ids, one.at("ids").get<std::vector<std::uint32_t>>()) << json(text);
    ASSERT_EQ(*tokenizer->decode(*ids), one.at("decoded").get<std::string>()) << json(text);
  }
}

}  // namespace
}  // namespace imex::inference
