#include "inference/model/hyper_parameters.hpp"

#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "inference/testing/data.hpp"

namespace imex::inference {
namespace {

using nlohmann::json;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

json llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"hidden_size", 64},
          {"intermediate_size", 172},
          {"num_attention_heads", 8},
          {"num_hidden_layers", 4},
          {"vocab_size", 512},
          {"max_position_embeddings", 2048},
          {"rms_norm_eps", 1e-5}};
}

json with(json base, const json& changes) {
  base.update(changes);
  return base;
}

HyperParameters read(const json& config) {
  auto parameters = parse_config_json(config.dump());
  EXPECT_TRUE(parameters) << parameters.error().to_string();
  return parameters ? *parameters : HyperParameters{};
}

Error refused(const json& config) {
  auto parameters = parse_config_json(config.dump());
  EXPECT_FALSE(parameters) << "was read";
  return parameters ? Error{} : parameters.error();
}

TEST(ConfigJsonTest, DefaultsAreThoseOfHuggingFace) {
  const HyperParameters p = read(llama());
  EXPECT_EQ(p.architecture->name, "llama");
  EXPECT_EQ(p.kv_heads, 8U);
  EXPECT_EQ(p.head_size, 8U);
  EXPECT_EQ(p.rope_theta, 10'000.0F);
  EXPECT_EQ(p.norm_epsilon, 1e-5F);
  EXPECT_EQ(p.rope_pairs, RopePairs::kHalves);
  EXPECT_FALSE(p.qkv_bias || p.output_bias || p.feed_forward_bias || p.tied_head);
  EXPECT_THAT(p.rope_factors, IsEmpty());
  EXPECT_THAT(p.stop_tokens, IsEmpty());
  EXPECT_FALSE(p.begin_token);
  EXPECT_EQ(p.layer_count(), 4U);
}

TEST(ConfigJsonTest, StopTokensAreANumberOrAListAndGenerationConfigOverridesThem) {
  HyperParameters p = read(with(llama(), {{"eos_token_id", 2}, {"bos_token_id", 1}}));
  EXPECT_THAT(p.stop_tokens, ElementsAre(2));
  EXPECT_EQ(p.begin_token, 1U);
  ASSERT_TRUE(apply_generation_config(R"({"eos_token_id": [5, 7], "temperature": 1})", p));
  EXPECT_THAT(p.stop_tokens, ElementsAre(5, 7));
  EXPECT_EQ(p.begin_token, 1U);
  EXPECT_FALSE(apply_generation_config(R"({"eos_token_id": 512})", p));
  EXPECT_FALSE(apply_generation_config(R"({"eos_token_id": "x"})", p));
}

TEST(ConfigJsonTest, AnUnknownArchitectureIsRefusedByNameWithTheKnownOnes) {
  const Error error = refused(with(llama(), {{"architectures", {"GPTNeoXForCausalLM"}}}));
  EXPECT_EQ(error.code, Errc::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("'GPTNeoXForCausalLM'"));
  EXPECT_EQ(error.hint,
            "known are LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, "
            "SmolLM3ForCausalLM");
}

TEST(ConfigJsonTest, WhatWouldChangeTheResultIsRefusedNotIgnored) {
  const std::pair<json, const char*> cases[] = {
      {{{"hidden_act", "gelu"}}, "'hidden_act' is 'gelu'"},
      {{{"quantization_config", {{"bits", 4}}}}, "quantization_config"},
      {{{"partial_rotary_factor", 0.5}}, "partial_rotary_factor"},
      {{{"sliding_window", 4096}}, "'sliding_window' of 4096"},
      {{{"rope_scaling", {{"type", "yarn"}, {"factor", 4}}}}, "RoPE scaling 'yarn'"},
      {{{"num_key_value_heads", 3}}, "8 query heads do not share 3"},
      {{{"head_dim", 7}}, "head size 7 is odd"},
      {{{"hidden_size", 0}}, "hidden size is 0"},
      {{{"hidden_size", -1}}, "'hidden_size' is -1"},
      {{{"vocab_size", "many"}}, "'vocab_size' is \"many\""},
      {{{"num_hidden_layers", 100'000}}, "100000 layers"},
      {{{"eos_token_id", 512}}, "stop token 512 of 512"},
      {{{"rms_norm_eps", 0}}, "norm epsilon is 0"},
  };
  for (const auto& [change, message] : cases) {
    EXPECT_THAT(refused(with(llama(), change)).message, HasSubstr(message)) << change;
  }
  EXPECT_FALSE(parse_config_json("[]"));
  EXPECT_FALSE(parse_config_json("{"));
  EXPECT_FALSE(parse_config_json(std::string(100'000, '[')));
}

TEST(ConfigJsonTest, Qwen2HasBiasesAndAWindowOnlyWhereItSaysSo) {
  const json qwen = with(
      llama(),
      {{"architectures", {"Qwen2ForCausalLM"}}, {"sliding_window", 128}, {"max_window_layers", 3}});
  const HyperParameters plain = read(qwen);
  EXPECT_TRUE(plain.qkv_bias);
  EXPECT_FALSE(plain.output_bias);
  EXPECT_EQ(plain.layers[3].window, 0U);
  const HyperParameters windowed = read(with(qwen, {{"use_sliding_window", true}}));
  EXPECT_EQ(windowed.layers[2].window, 0U);
  EXPECT_EQ(windowed.layers[3].window, 128U);
}

TEST(ConfigJsonTest, MistralHasItsWindowInAllLayersUnlessNull) {
  const json mistral = with(llama(), {{"architectures", {"MistralForCausalLM"}}});
  EXPECT_EQ(read(with(mistral, {{"sliding_window", 64}})).layers[0].window, 64U);
  EXPECT_EQ(read(with(mistral, {{"sliding_window", nullptr}})).layers[0].window, 0U);
}

TEST(ConfigJsonTest, SmolLm3SkipsRotationInEveryFourthLayerOrAsListed) {
  const json smollm3 = with(llama(), {{"architectures", {"SmolLM3ForCausalLM"}}});
  const auto rotating = [](const HyperParameters& p) {
    std::string row;
    for (const LayerRules& layer : p.layers) row += layer.rotates ? 'r' : '-';
    return row;
  };
  EXPECT_EQ(rotating(read(smollm3)), "rrr-");
  EXPECT_EQ(rotating(read(with(smollm3, {{"no_rope_layers", {0, 1, 1, 0}}}))), "-rr-");
  EXPECT_THAT(refused(with(smollm3, {{"no_rope_layers", {0, 1}}})).message, HasSubstr("layer 2"));
}

TEST(ConfigJsonTest, Qwen3NormalisesQueriesAndKeys) {
  EXPECT_TRUE(
      read(with(llama(), {{"architectures", {"Qwen3ForCausalLM"}}})).architecture->query_key_norm);
}

// The frequencies of transformers' _compute_llama3_parameters, in its own words.
TEST(RopeScalingTest, Llama3FactorsAreThoseOfTheReference) {
  const HyperParameters p = read(with(llama(), {{"head_dim", 64},
                                                {"rope_theta", 500'000.0},
                                                {"rope_scaling",
                                                 {{"rope_type", "llama3"},
                                                  {"factor", 8.0},
                                                  {"low_freq_factor", 1.0},
                                                  {"high_freq_factor", 4.0},
                                                  {"original_max_position_embeddings", 8192}}}}));
  ASSERT_THAT(p.rope_factors, SizeIs(32));
  for (std::size_t i = 0; i < 32; ++i) {
    const double frequency = 1 / std::pow(500'000.0, static_cast<double>(2 * i) / 64);
    const double wavelength = 2 * M_PI / frequency;
    double scaled = frequency;
    if (wavelength > 8192 / 1.0) {
      scaled = frequency / 8;
    } else if (wavelength >= 8192 / 4.0) {
      const double smooth = (8192 / wavelength - 1.0) / (4.0 - 1.0);
      scaled = (1 - smooth) * frequency / 8 + smooth * frequency;
    }
    EXPECT_NEAR(p.rope_factors[i], frequency / scaled, 1e-5) << i;
  }
  EXPECT_EQ(p.rope_factors.front(), 1.0F);
  EXPECT_EQ(p.rope_factors.back(), 8.0F);
}

TEST(RopeScalingTest, LinearScalingDividesAllFrequenciesAlsoInNewerFiles) {
  const json scaling = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 20'000.0}};
  const HyperParameters p = read(with(llama(), {{"rope_parameters", scaling}}));
  EXPECT_EQ(p.rope_theta, 20'000.0F);
  EXPECT_THAT(p.rope_factors, SizeIs(4));
  EXPECT_THAT(p.rope_factors, Each(2.0F));
}

TEST(GgufParametersTest, ReadsAFileOfAnIndependentWriter) {
  const auto file = GgufFile::open(testing::test_data("gguf/qwen3.gguf"));
  ASSERT_TRUE(file) << file.error().to_string();
  const auto p = hyper_parameters_of(*file);
  ASSERT_TRUE(p) << p.error().to_string();
  EXPECT_EQ(p->architecture->name, "qwen3");
  EXPECT_EQ(p->rope_pairs, RopePairs::kHalves);
  EXPECT_EQ(p->hidden, 32U);
  EXPECT_EQ(p->feed_forward, 96U);
  EXPECT_EQ(p->query_heads, 4U);
  EXPECT_EQ(p->kv_heads, 2U);
  EXPECT_EQ(p->head_size, 16U);
  EXPECT_EQ(p->vocabulary, 7U);
  EXPECT_EQ(p->context, 128U);
  EXPECT_EQ(p->norm_epsilon, 1e-6F);
  EXPECT_EQ(p->rope_theta, 1e6F);
  EXPECT_THAT(p->stop_tokens, ElementsAre(2));
  EXPECT_EQ(p->begin_token, 1U);
  EXPECT_TRUE(p->tied_head);
  EXPECT_EQ(p->layer_count(), 1U);
}

TEST(GgufParametersTest, AnUnknownArchitectureIsRefusedByName) {
  const auto file = GgufFile::open(testing::test_data("gguf/unknown.gguf"));
  ASSERT_TRUE(file) << file.error().to_string();
  const auto p = hyper_parameters_of(*file);
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().message, "unknown architecture 'rwkv7'");
  EXPECT_EQ(p.error().hint, "known are llama, mistral, qwen2, qwen3, smollm3");
}

}  // namespace
}  // namespace imex::inference
