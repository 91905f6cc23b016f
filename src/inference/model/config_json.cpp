// Hyper-parameters from config.json and generation_config.json of Hugging Face.
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "inference/model/hyper_parameters.hpp"
#include "json_object.hpp"

namespace imex::inference {

namespace {

using Json = nlohmann::json;

/// For messages; what nests is only named, for depth has no bound.
std::string shown(const Json& value) {
  return value.is_structured() ? value.type_name()
                               : value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

/// An object whose values are asked for by name and kind; null counts as absent unless `is_null` is
/// asked.
class Config {
 public:
  explicit Config(const Json& object) : object_(object) {}

  [[nodiscard]] const Json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] bool is_null(const char* name) const {
    const auto found = object_.find(name);
    return found != object_.end() && found->is_null();
  }
  [[nodiscard]] Result<std::uint32_t> count(const char* name,
                                            std::optional<std::uint32_t> missing = {}) const {
    const Json* const value = find(name);
    if (value == nullptr && missing) return *missing;
    if (value == nullptr) return fail(Errc::kNotFound, fmt::format("'{}' is missing", name));
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() > UINT32_MAX) {
      return fail(Errc::kDataLoss, fmt::format("'{}' is {}, not a count", name, shown(*value)));
    }
    return value->get<std::uint32_t>();
  }
  [[nodiscard]] Result<double> number(const char* name, std::optional<double> missing = {}) const {
    const Json* const value = find(name);
    if (value == nullptr && missing) return *missing;
    if (value == nullptr) return fail(Errc::kNotFound, fmt::format("'{}' is missing", name));
    if (!value->is_number()) {
      return fail(Errc::kDataLoss, fmt::format("'{}' is {}, not a number", name, shown(*value)));
    }
    return value->get<double>();
  }
  [[nodiscard]] Result<bool> flag(const char* name, bool missing) const {
    const Json* const value = find(name);
    if (value == nullptr) return missing;
    if (!value->is_boolean()) {
      return fail(Errc::kDataLoss,
                  fmt::format("'{}' is {}, not true or false", name, shown(*value)));
    }
    return value->get<bool>();
  }
  [[nodiscard]] Result<std::string> text(const char* name, std::string missing) const {
    const Json* const value = find(name);
    if (value == nullptr) return missing;
    if (!value->is_string()) {
      return fail(Errc::kDataLoss, fmt::format("'{}' is {}, not a string", name, shown(*value)));
    }
    return value->get<std::string>();
  }

 private:
  const Json& object_;
};

Result<const Architecture*> architecture_of(const Config& config) {
  const Json* const names = config.find("architectures");
  if (names == nullptr || !names->is_array() || names->size() != 1 || !names->front().is_string()) {
    return fail(Errc::kDataLoss, "'architectures' is not a list of one name");
  }
  return find_hugging_face_architecture(names->front().get<std::string>());
}

Result<void> refuse_unknown(const Config& config) {
  if (config.find("quantization_config") != nullptr) {
    return fail(Errc::kUnsupported, "'quantization_config': quantised Hugging Face models",
                "use the unquantised model, or a GGUF file of it");
  }
  IMEX_TRY(const auto activation, config.text("hidden_act", "silu"));
  if (activation != "silu") {
    return fail(Errc::kUnsupported, fmt::format("'hidden_act' is '{}', not 'silu'", activation));
  }
  IMEX_TRY(const auto rotated, config.number("partial_rotary_factor", 1.0));
  if (rotated != 1.0) {
    return fail(Errc::kUnsupported, fmt::format("'partial_rotary_factor' is {}, not 1", rotated));
  }
  return {};
}

/// `object` is what `scaling` asks.
Result<std::vector<float>> factors_of(const Config& scaling, const Json& object,
                                      const HyperParameters& p) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      return fail(Errc::kUnsupported, fmt::format("RoPE of its own for '{}'", name));
    }
  }
  IMEX_TRY(const auto older, scaling.text("type", "default"));
  IMEX_TRY(const auto kind, scaling.text("rope_type", older));
  if (scaling.find("type") != nullptr && kind != older) {
    return fail(Errc::kDataLoss, fmt::format("RoPE scaling '{}' and '{}' at once", kind, older));
  }
  IMEX_TRY(const auto rotated, scaling.number("partial_rotary_factor", 1.0));
  if (rotated != 1.0) {
    return fail(Errc::kUnsupported, fmt::format("'partial_rotary_factor' is {}, not 1", rotated));
  }
  if (kind == "default") {
    IMEX_TRY(const auto unused, scaling.number("factor", 1.0));
    if (unused == 1.0) return std::vector<float>{};
    return fail(Errc::kDataLoss, fmt::format("RoPE scaling by {} of no kind", unused),
                "name its 'rope_type'");
  }
  if (kind != "linear" && kind != "llama3") {
    return fail(Errc::kUnsupported, fmt::format("RoPE scaling '{}'", kind),
                "known are default, linear and llama3");
  }
  IMEX_TRY(const auto factor, scaling.number("factor"));
  if (!(factor >= 1 && std::isfinite(factor))) {
    return fail(Errc::kDataLoss, fmt::format("RoPE scaling by {}", factor));
  }
  if (kind == "linear") return std::vector<float>(p.head_size / 2, static_cast<float>(factor));
  Llama3Scaling llama3{.factor = factor};
  IMEX_TRY(llama3.low, scaling.number("low_freq_factor"));
  IMEX_TRY(llama3.high, scaling.number("high_freq_factor"));
  IMEX_TRY(llama3.original_context, scaling.count("original_max_position_embeddings"));
  if (!(llama3.low > 0 && llama3.low < llama3.high)) {
    return fail(Errc::kDataLoss,
                fmt::format("RoPE scaling from {} to {} waves", llama3.low, llama3.high));
  }
  return llama3_rope_factors(llama3, p.rope_theta, p.head_size);
}

/// `rope_theta` and `rope_scaling`; newer files have both in `rope_parameters`.
Result<void> read_rope(const Config& config, HyperParameters& p) {
  const Json* const newer = config.find("rope_parameters");
  const Json* const older = config.find("rope_scaling");
  const Json* const scaling = newer != nullptr ? newer : older;
  if (newer != nullptr && older != nullptr && *newer != *older) {
    return fail(Errc::kDataLoss, "'rope_parameters' and 'rope_scaling' differ", "keep one of them");
  }
  if (scaling != nullptr && !scaling->is_object()) {
    return fail(Errc::kDataLoss, "the parameters of RoPE are no object");
  }
  IMEX_TRY(double theta, config.number("rope_theta", p.architecture->defaults.rope_theta));
  if (newer != nullptr) {
    IMEX_TRY(theta, Config(*newer).number("rope_theta", theta));
  }
  p.rope_theta = static_cast<float>(theta);
  if (scaling != nullptr) {
    IMEX_TRY(p.rope_factors, factors_of(Config(*scaling), *scaling, p));
  }
  return {};
}

/// Tokens of the window; 0: no layer has one.
Result<std::uint32_t> window_of(const Config& config, const Architecture& architecture) {
  const std::uint32_t absent = config.is_null("sliding_window") ? 0 : architecture.defaults.window;
  IMEX_TRY(const auto tokens, config.count("sliding_window", absent));
  switch (architecture.window) {
    case WindowRule::kNone:
      if (tokens == 0) return 0;
      return fail(Errc::kUnsupported,
                  fmt::format("'sliding_window' of {} tokens for {}", tokens, architecture.name));
    case WindowRule::kAllLayers:
      return tokens;
    case WindowRule::kUpperLayers:
    case WindowRule::kUnrotatedLayers:
      break;
  }
  IMEX_TRY(const bool used, config.flag("use_sliding_window", false));
  return used ? tokens : 0;
}

Result<bool> rotates(const Config& config, std::uint32_t layer, std::uint32_t interval) {
  if (interval == 0) return true;
  const Json* const listed = config.find("no_rope_layers");  // 1: this layer does rotate
  if (listed == nullptr) return (layer + 1) % interval != 0;
  if (!listed->is_array() || layer >= listed->size() || !listed->at(layer).is_number_unsigned()) {
    return fail(Errc::kDataLoss, fmt::format("'no_rope_layers' says nothing of layer {}", layer));
  }
  return listed->at(layer).get<std::uint64_t>() != 0;
}

/// Whether `layer` has the window: as `layer_types` lists it, else by the rule of the architecture,
/// which a list may only change where the rule tells layers apart.
Result<bool> windowed(const Config& config, const Architecture& architecture, std::uint32_t layer,
                      bool rotated) {
  IMEX_TRY(const auto first,
           config.count("max_window_layers", architecture.defaults.max_window_layers));
  const WindowRule rule = architecture.window;
  const bool by_rule = rule == WindowRule::kAllLayers ||
                       (rule == WindowRule::kUpperLayers && layer >= first) ||
                       (rule == WindowRule::kUnrotatedLayers && !rotated);
  const Json* const listed = config.find("layer_types");
  if (listed == nullptr) return by_rule;
  if (!listed->is_array() || layer >= listed->size()) {
    return fail(Errc::kDataLoss, fmt::format("'layer_types' says nothing of layer {}", layer));
  }
  const Json& kind = listed->at(layer);
  const bool sliding = kind == "sliding_attention";
  const bool fixed = rule == WindowRule::kNone || rule == WindowRule::kAllLayers;
  if ((!sliding && kind != "full_attention") || (fixed && sliding != by_rule)) {
    return fail(Errc::kUnsupported,
                fmt::format("layer {} is {} for {}", layer, shown(kind), architecture.name));
  }
  return sliding;
}

Result<void> read_layers(const Config& config, HyperParameters& p) {
  IMEX_TRY(const auto count, config.count("num_hidden_layers"));
  if (count > 65'536) return fail(Errc::kDataLoss, fmt::format("{} layers", count));
  IMEX_TRY(const auto window, window_of(config, *p.architecture));
  std::uint32_t interval = p.architecture->no_rope_interval;
  if (interval != 0) {
    IMEX_TRY(interval, config.count("no_rope_layer_interval", interval));
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    IMEX_TRY(const bool rotated, rotates(config, i, interval));
    IMEX_TRY(const bool has_window, windowed(config, *p.architecture, i, rotated));
    p.layers.push_back({.rotates = rotated, .window = has_window ? window : 0});
  }
  return {};
}

Result<void> read_tokens(const Config& config, HyperParameters& p) {
  if (config.find("bos_token_id") != nullptr) {
    IMEX_TRY(p.begin_token, config.count("bos_token_id"));
  }
  const Json* const stop = config.find("eos_token_id");
  if (stop == nullptr) return {};
  p.stop_tokens.clear();
  for (const Json& id : stop->is_array() ? *stop : Json::array({*stop})) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > UINT32_MAX) {
      return fail(Errc::kDataLoss, fmt::format("'eos_token_id' holds {}", shown(id)));
    }
    p.stop_tokens.push_back(id.get<std::uint32_t>());
  }
  return {};
}

/// Those of the architecture, where the vocabulary is as large as the one they were chosen for.
void set_default_tokens(const Config& config, HyperParameters& p) {
  const ConfigDefaults& missing = p.architecture->defaults;
  if (missing.begin_token.value_or(UINT32_MAX) < p.vocabulary && !config.is_null("bos_token_id")) {
    p.begin_token = missing.begin_token;
  }
  if (missing.end_token.value_or(UINT32_MAX) < p.vocabulary && !config.is_null("eos_token_id")) {
    p.stop_tokens = {*missing.end_token};
  }
}

Result<void> read_sizes(const Config& config, HyperParameters& p) {
  IMEX_TRY(p.hidden, config.count("hidden_size"));
  IMEX_TRY(p.feed_forward, config.count("intermediate_size"));
  IMEX_TRY(p.query_heads, config.count("num_attention_heads"));
  const ConfigDefaults& missing = p.architecture->defaults;
  const bool even_heads = missing.kv_heads == 0 || config.is_null("num_key_value_heads");
  IMEX_TRY(p.kv_heads,
           config.count("num_key_value_heads", even_heads ? p.query_heads : missing.kv_heads));
  const std::uint32_t share = p.query_heads == 0 ? 0 : p.hidden / p.query_heads;
  const bool even_sizes = missing.head_size == 0 || config.is_null("head_dim");
  IMEX_TRY(p.head_size, config.count("head_dim", even_sizes ? share : missing.head_size));
  IMEX_TRY(p.vocabulary, config.count("vocab_size"));
  IMEX_TRY(p.context, config.count("max_position_embeddings", missing.context));
  IMEX_TRY(const auto epsilon, config.number("rms_norm_eps", 1e-6));
  p.norm_epsilon = static_cast<float>(epsilon);
  return check_sizes(p);
}

}  // namespace

Result<HyperParameters> parse_config_json(std::string_view text) {
  IMEX_TRY(const Json json, parse_json_object(text, "config.json"));
  const Config config(json);
  HyperParameters p;
  IMEX_TRY(p.architecture, architecture_of(config));
  IMEX_CHECK_OK(refuse_unknown(config));
  IMEX_CHECK_OK(read_sizes(config, p));
  IMEX_CHECK_OK(read_rope(config, p));
  IMEX_CHECK_OK(read_layers(config, p));
  IMEX_TRY(p.output_bias, config.flag("attention_bias", false));
  p.qkv_bias = p.architecture->qkv_bias || p.output_bias;
  IMEX_TRY(p.feed_forward_bias, config.flag("mlp_bias", false));
  IMEX_TRY(p.tied_head, config.flag("tie_word_embeddings", p.architecture->defaults.tied_head));
  set_default_tokens(config, p);
  IMEX_CHECK_OK(read_tokens(config, p));
  IMEX_CHECK_OK(validate(p));
  return p;
}

Result<void> apply_generation_config(std::string_view text, HyperParameters& parameters) {
  IMEX_TRY(const Json json, parse_json_object(text, "generation_config.json"));
  IMEX_CHECK_OK(read_tokens(Config(json), parameters));
  return validate(parameters);
}

}  // namespace imex::inference
