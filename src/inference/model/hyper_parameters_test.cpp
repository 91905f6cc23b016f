#include "inference/model/hyper_parameters.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "inference/testing/data.hpp"
#include "inference/testing/gguf_writer.hpp"

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
  EXPECT_THAT(p.stop_tokens, ElementsAre(2));
  EXPECT_EQ(p.begin_token, 1U);
  EXPECT_EQ(p.layer_count(), 4U);
  const HyperParameters none =
      read(with(llama(), {{"eos_token_id", nullptr}, {"bos_token_id", nullptr}}));
  EXPECT_THAT(none.stop_tokens, IsEmpty());
  EXPECT_FALSE(none.begin_token);
}

// The classes of transformers, one for each architecture; null is a value of its own.
TEST(ConfigJsonTest, EachArchitectureHasTheDefaultsOfItsOwnClass) {
  json bare =
      with(llama(), {{"num_attention_heads", 64}, {"hidden_size", 256}, {"vocab_size", 128'256}});
  bare.erase("max_position_embeddings");
  const auto named = [&](const char* architecture, const json& changes = json::object()) {
    return read(with(with(bare, {{"architectures", {architecture}}}), changes));
  };
  const HyperParameters mistral = named("MistralForCausalLM");
  EXPECT_EQ(mistral.kv_heads, 8U);
  EXPECT_EQ(mistral.context, 131'072U);
  EXPECT_EQ(mistral.layers[0].window, 4096U);
  EXPECT_EQ(mistral.rope_theta, 10'000.0F);
  EXPECT_THAT(mistral.stop_tokens, ElementsAre(2));
  EXPECT_EQ(named("MistralForCausalLM", {{"num_key_value_heads", nullptr}}).kv_heads, 64U);

  const HyperParameters smollm3 = named("SmolLM3ForCausalLM");
  EXPECT_EQ(smollm3.kv_heads, 4U);
  EXPECT_EQ(smollm3.context, 32'768U);
  EXPECT_EQ(smollm3.rope_theta, 2'000'000.0F);
  EXPECT_TRUE(smollm3.tied_head);
  EXPECT_EQ(smollm3.begin_token, 128'000U);
  EXPECT_THAT(smollm3.stop_tokens, ElementsAre(128'001));

  const HyperParameters qwen3 = named("Qwen3ForCausalLM", {{"hidden_size", 1024}});
  EXPECT_EQ(qwen3.kv_heads, 32U);
  EXPECT_EQ(qwen3.head_size, 128U);
  EXPECT_EQ(qwen3.layers[3].window, 0U);
  EXPECT_THAT(qwen3.stop_tokens, IsEmpty());
  EXPECT_EQ(named("Qwen2ForCausalLM", {{"hidden_size", 1024}}).head_size, 16U);
  EXPECT_EQ(named("LlamaForCausalLM", {{"hidden_size", 1024}}).context, 2048U);
}

TEST(ConfigJsonTest, AKeyThatAppearsTwiceIsRefused) {
  const auto error = parse_config_json(R"({"architectures":["LlamaForCausalLM"],"hidden_size":64,)"
                                       R"("hidden_size":128})");
  EXPECT_EQ(error.error().message, "config.json: key 'hidden_size' appears twice");
  HyperParameters p = read(llama());
  EXPECT_EQ(apply_generation_config(R"({"eos_token_id":1,"eos_token_id":2})", p).error().message,
            "generation_config.json: key 'eos_token_id' appears twice");
}

TEST(ConfigJsonTest, NumbersThatNoIntegerHoldsDoNotMatterWhereTheyAreNotRead) {
  std::string text = llama().dump();
  text.insert(1, R"("model_max_length":1000000000000000019884624838656,)");
  EXPECT_TRUE(parse_config_json(text));
  EXPECT_THAT(refused({{"a", json::parse(std::string(70, '[') + std::string(70, ']'))}}).message,
              HasSubstr("too deep"));
}

TEST(ConfigJsonTest, LayerTypesDecideWhereTheRuleTellsLayersApart) {
  const json types = {"sliding_attention", "full_attention", "full_attention", "sliding_attention"};
  const auto windows = [](const HyperParameters& p) {
    std::vector<std::uint32_t> all;
    for (const LayerRules& layer : p.layers) all.push_back(layer.window);
    return all;
  };
  const json qwen = with(llama(), {{"architectures", {"Qwen2ForCausalLM"}},
                                   {"num_key_value_heads", 8},
                                   {"sliding_window", 64},
                                   {"use_sliding_window", true},
                                   {"layer_types", types}});
  EXPECT_THAT(windows(read(qwen)), ElementsAre(64, 0, 0, 64));
  EXPECT_THAT(windows(read(with(qwen, {{"use_sliding_window", false}}))), Each(0U));
  EXPECT_THAT(refused(with(qwen, {{"layer_types", {"full_attention"}}})).message,
              HasSubstr("nothing of layer 1"));
  EXPECT_THAT(refused(with(qwen, {{"layer_types", {"chunked_attention"}}})).message,
              HasSubstr("layer 0 is \"chunked_attention\""));
  EXPECT_THAT(refused(with(llama(), {{"layer_types", types}})).message,
              HasSubstr("layer 0 is \"sliding_attention\""));
  const json smollm3 = with(llama(), {{"architectures", {"SmolLM3ForCausalLM"}},
                                      {"sliding_window", 64},
                                      {"use_sliding_window", true}});
  EXPECT_THAT(windows(read(smollm3)), ElementsAre(0, 0, 0, 64));  // where nothing rotates
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
      {{{"rope_scaling", {{"factor", 4}}}}, "RoPE scaling by 4 of no kind"},
      {{{"rope_scaling", {{"type", "linear"}, {"rope_type", "default"}, {"factor", 4}}}},
       "'default' and 'linear' at once"},
      {{{"rope_scaling", {{"type", "linear"}, {"factor", 4}}},
        {"rope_parameters", {{"rope_theta", 1e6}}}},
       "'rope_parameters' and 'rope_scaling' differ"},
      {{{"rope_parameters", {{"partial_rotary_factor", 0.5}}}}, "partial_rotary_factor"},
      {{{"rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}}},
       "of its own for 'full_attention'"},
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
  const json qwen = with(llama(), {{"architectures", {"Qwen2ForCausalLM"}},
                                   {"num_key_value_heads", 8},
                                   {"sliding_window", 128},
                                   {"max_window_layers", 3}});
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
      read(with(llama(), {{"architectures", {"Qwen3ForCausalLM"}}, {"num_key_value_heads", 8}}))
          .architecture->query_key_norm);
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

TEST(RopeScalingTest, SizesAreCheckedBeforeFactorsAreMadeForThem) {
  const json linear = {{"type", "linear"}, {"factor", 2.0}};
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 8192}};
  for (const json& scaling : {linear, llama3}) {
    EXPECT_EQ(
        refused(with(llama(), {{"head_dim", 4'294'967'294U}, {"rope_scaling", scaling}})).message,
        "hyper-parameters: head size is 4294967294, not from 1 to 4096");
  }
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

/// A llama with heads of 4, and what the test says of RoPE.
std::vector<std::byte> gguf_with(const std::function<void(testing::GgufWriter&)>& rope,
                                 std::uint64_t pairs, bool divisors = false) {
  testing::GgufWriter writer;
  writer.header(divisors ? 1 : 0, 8 + pairs).pair("general.architecture", "llama");
  for (const auto* const key : {"embedding_length", "feed_forward_length", "context_length"}) {
    writer.pair(std::string("llama.") + key, 8U);
  }
  writer.pair("llama.attention.head_count", 2U).pair("llama.block_count", 1U);
  writer.pair("llama.vocab_size", 4U).pair("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  rope(writer);
  if (divisors) {
    writer.tensor("rope_freqs.weight", {2}, 0, 0).data(8);
    std::vector<std::byte> bytes = writer.bytes();
    const std::array<float, 2> values{1, 8};
    std::memcpy(bytes.data() + bytes.size() - sizeof values, values.data(), sizeof values);
    return bytes;
  }
  return writer.bytes();
}

Result<HyperParameters> gguf_parameters(const std::vector<std::byte>& bytes) {
  const auto file = GgufFile::parse(bytes);
  EXPECT_TRUE(file) << file.error().to_string();
  return hyper_parameters_of(*file);
}

TEST(GgufParametersTest, EveryCombinationOfRopeScalingIsAppliedOrRefused) {
  using Writer = testing::GgufWriter;
  const auto factors = [](const auto& rope, std::uint64_t pairs, bool divisors = false) {
    const auto p = gguf_parameters(gguf_with(rope, pairs, divisors));
    EXPECT_TRUE(p) << p.error().to_string();
    return p ? p->rope_factors : std::vector<float>{};
  };
  const auto linear = [](Writer& out) { out.pair("llama.rope.scaling.factor", 4.0F); };
  EXPECT_THAT(factors([](Writer&) {}, 0), IsEmpty());
  EXPECT_THAT(factors(linear, 1), ElementsAre(4, 4));  // "linear" where no kind is told
  EXPECT_THAT(factors([](Writer& out) { out.pair("llama.rope.scale_linear", 2.0F); }, 1),
              ElementsAre(2, 2));
  EXPECT_THAT(factors([](Writer&) {}, 0, true), ElementsAre(1, 8));
  EXPECT_THAT(factors(linear, 1, true), ElementsAre(4, 32));
  const auto none = [](Writer& out) {
    out.pair("llama.rope.scaling.type", "none").pair("llama.rope.scaling.factor", 4.0F);
  };
  EXPECT_THAT(factors(none, 2, true), ElementsAre(1, 8));

  const auto refusal = [](const auto& rope, std::uint64_t pairs, bool divisors = false) {
    const auto p = gguf_parameters(gguf_with(rope, pairs, divisors));
    return p ? "was read" : p.error().message;
  };
  const auto yarn = [](Writer& out) { out.pair("llama.rope.scaling.type", "yarn"); };
  EXPECT_THAT(refusal(yarn, 1), HasSubstr("'yarn'"));
  EXPECT_THAT(refusal(yarn, 1, true), HasSubstr("'yarn'"));  // also beside divisors
  const auto two = [](Writer& out) {
    out.pair("llama.rope.scaling.factor", 4.0F).pair("llama.rope.scale_linear", 2.0F);
  };
  EXPECT_THAT(refusal(two, 2), HasSubstr("by 4 and by 2"));
  EXPECT_THAT(refusal([](Writer& out) { out.pair("llama.rope.scaling.attn_factor", 1.5F); }, 1),
              HasSubstr("attn_factor' is 1.5"));
  EXPECT_THAT(refusal([](Writer& out) { out.pair("llama.rope.dimension_sections", 2U); }, 1),
              HasSubstr("'llama.rope.dimension_sections' is not known"));
  EXPECT_THAT(refusal([](Writer& out) { out.pair("llama.rope.scaling.factor", -1.0F); }, 1),
              HasSubstr("RoPE factor -1 is not above 0"));
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
