// config.json from the numbers of a model.
#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "inference/convert/convert.hpp"

namespace imex::inference {

namespace {

using Json = nlohmann::ordered_json;

/// The shortest number that is this float, not its value as a double.
double shortest(float value) { return std::stod(fmt::format("{}", value)); }

Result<Json> scaling_of(const HyperParameters& p) {
  if (p.rope_factors.empty()) return Json(nullptr);
  const float first = p.rope_factors.front();
  if (!std::ranges::all_of(p.rope_factors, [&](float factor) { return factor == first; })) {
    return fail(Errc::kUnsupported,
                "divisors of RoPE that differ: which scaling they are of is not told",
                "put the model's own config.json where the copy is to be");
  }
  return Json{{"rope_type", "linear"}, {"factor", shortest(first)}};
}

}  // namespace

Result<std::string> make_config_json(const HyperParameters& p) {
  Json config{{"architectures", {p.architecture->hugging_face}},
              {"model_type", p.architecture->name},
              {"hidden_size", p.hidden},
              {"intermediate_size", p.feed_forward},
              {"num_hidden_layers", p.layer_count()},
              {"num_attention_heads", p.query_heads},
              {"num_key_value_heads", p.kv_heads},
              {"head_dim", p.head_size},
              {"vocab_size", p.vocabulary},
              {"max_position_embeddings", p.context},
              {"rms_norm_eps", shortest(p.norm_epsilon)},
              {"rope_theta", shortest(p.rope_theta)},
              {"hidden_act", "silu"},
              {"attention_bias", p.output_bias},
              {"mlp_bias", p.feed_forward_bias},
              {"tie_word_embeddings", p.tied_head},
              {"bos_token_id", p.begin_token ? Json(*p.begin_token) : Json(nullptr)},
              {"eos_token_id", p.stop_tokens.empty() ? Json(nullptr) : Json(p.stop_tokens)}};
  IMEX_TRY(config["rope_scaling"], scaling_of(p));
  const bool all = p.architecture->window == WindowRule::kAllLayers;
  const std::uint32_t window = p.layers.empty() ? 0 : p.layers.front().window;
  config["sliding_window"] = all && window != 0 ? Json(window) : Json(nullptr);
  if (p.architecture->no_rope_interval != 0) {
    Json rotating = Json::array();
    for (const LayerRules& layer : p.layers) rotating.push_back(layer.rotates ? 1 : 0);
    config["no_rope_layers"] = std::move(rotating);
  }
  return config.dump(2) + "\n";
}

std::string make_tokenizer_config(const ModelFile& model, const Tokenizer& tokenizer) {
  const HyperParameters& p = model.parameters();
  const auto text = [&](std::uint32_t id) {
    return id < tokenizer.size() ? Json(tokenizer.bytes_of(id)) : Json(nullptr);
  };
  Json config{{"tokenizer_class", "PreTrainedTokenizerFast"},
              {"bos_token", p.begin_token ? text(*p.begin_token) : Json(nullptr)},
              {"eos_token", p.stop_tokens.empty() ? Json(nullptr) : text(p.stop_tokens.front())},
              {"model_max_length", p.context},
              {"clean_up_tokenization_spaces", false}};
  if (model.chat_template()) config["chat_template"] = *model.chat_template();
  return config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace imex::inference
