// Hyper-parameters from the metadata of a GGUF file.
#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "inference/format/dequantize.hpp"
#include "inference/model/hyper_parameters.hpp"

namespace imex::inference {

namespace {

/// The keys of one architecture: "llama.block_count".
class Keys {
 public:
  Keys(const GgufFile& file, std::string_view prefix) : file_(file), prefix_(prefix) {}

  [[nodiscard]] std::string key(std::string_view name) const {
    return fmt::format("{}.{}", prefix_, name);
  }
  [[nodiscard]] bool has(std::string_view name) const { return file_.find(key(name)) != nullptr; }
  [[nodiscard]] Result<std::uint32_t> count(std::string_view name) const {
    IMEX_TRY(const auto value, file_.integer(key(name)));
    if (value > std::numeric_limits<std::uint32_t>::max()) {
      return fail(Errc::kDataLoss, fmt::format("value '{}' is {}", key(name), value));
    }
    return static_cast<std::uint32_t>(value);
  }
  [[nodiscard]] Result<std::uint32_t> count_or(std::string_view name, std::uint32_t missing) const {
    if (!has(name)) return missing;
    return count(name);
  }
  [[nodiscard]] Result<double> number_or(std::string_view name, double missing) const {
    if (!has(name)) return missing;
    return file_.number(key(name));
  }

 private:
  const GgufFile& file_;
  std::string_view prefix_;
};

/// The tensor of divisors that converters make of Llama 3's scaling; empty: none.
Result<std::vector<float>> stored_factors(const GgufFile& file) {
  std::vector<float> factors;
  const Tensor* const stored = file.find_tensor("rope_freqs.weight");
  if (stored == nullptr) return factors;
  if (stored->type != TensorType::kF32 || stored->shape.size() != 1 || stored->shape[0] > 4096) {
    return fail(Errc::kDataLoss, "tensor 'rope_freqs.weight' is not a short row of F32");
  }
  factors.resize(stored->shape[0]);
  dequantize(stored->type, stored->bytes, factors);
  return factors;
}

/// The one factor of all frequencies, as llama.cpp reads it: "linear" where no kind is told, of an
/// older name if need be, and none for the kind "none".
Result<double> linear_factor(const GgufFile& file, const Keys& keys) {
  std::string_view kind = "linear";
  if (keys.has("rope.scaling.type")) {
    IMEX_TRY(kind, file.text(keys.key("rope.scaling.type")));
  }
  if (kind != "none" && kind != "linear") {
    return fail(Errc::kUnsupported, fmt::format("RoPE scaling '{}'", kind),
                "known are none, linear and the factors of Llama 3");
  }
  IMEX_TRY(const auto older, keys.number_or("rope.scale_linear", 0));
  IMEX_TRY(const auto factor, keys.number_or("rope.scaling.factor", older));
  if (keys.has("rope.scale_linear") && factor != older) {
    return fail(Errc::kDataLoss, fmt::format("RoPE scaling by {} and by {}", factor, older));
  }
  return kind == "none" || factor == 0 ? 1.0 : factor;
}

/// Every key about RoPE is one that is applied, or that says something about training only.
Result<void> refuse_unknown_rope(const GgufFile& file, const Keys& keys) {
  constexpr std::array<std::string_view, 8> kKnown{"rope.dimension_count",
                                                   "rope.freq_base",
                                                   "rope.scaling.type",
                                                   "rope.scaling.factor",
                                                   "rope.scale_linear",
                                                   "rope.scaling.attn_factor",
                                                   "rope.scaling.original_context_length",
                                                   "rope.scaling.finetuned"};
  const std::string prefix = keys.key("rope.");
  for (const auto& [key, value] : file.metadata()) {
    if (!key.starts_with(prefix)) continue;
    const std::string_view name = key.substr(prefix.size() - std::string_view("rope.").size());
    if (std::ranges::find(kKnown, name) == kKnown.end()) {
      return fail(Errc::kUnsupported, fmt::format("value '{}' is not known", key));
    }
  }
  IMEX_TRY(const auto attention, keys.number_or("rope.scaling.attn_factor", 1));
  if (attention == 1) return {};
  return fail(Errc::kUnsupported,
              fmt::format("'{}' is {}, not 1", keys.key("rope.scaling.attn_factor"), attention));
}

/// The tensor's divisors and the one factor apply together.
Result<std::vector<float>> rope_factors(const GgufFile& file, const Keys& keys,
                                        std::uint32_t head_size) {
  IMEX_CHECK_OK(refuse_unknown_rope(file, keys));
  IMEX_TRY(auto factors, stored_factors(file));
  IMEX_TRY(const auto linear, linear_factor(file, keys));
  if (linear == 1) return factors;
  if (factors.empty()) factors.assign(head_size / 2, 1.0F);
  for (float& factor : factors) factor = static_cast<float>(factor * linear);
  return factors;
}

Result<void> read_heads(const Keys& keys, HyperParameters& p) {
  IMEX_TRY(p.query_heads, keys.count("attention.head_count"));
  IMEX_TRY(p.kv_heads, keys.count_or("attention.head_count_kv", p.query_heads));
  const std::uint32_t even_share = p.query_heads == 0 ? 0 : p.hidden / p.query_heads;
  IMEX_TRY(p.head_size, keys.count_or("attention.key_length", even_share));
  IMEX_TRY(const auto value_size, keys.count_or("attention.value_length", p.head_size));
  IMEX_TRY(const auto rotated, keys.count_or("rope.dimension_count", p.head_size));
  if (value_size != p.head_size || rotated != p.head_size) {
    return fail(Errc::kUnsupported,
                fmt::format("heads of {} with values of {} of which {} rotate; all must be equal",
                            p.head_size, value_size, rotated));
  }
  return check_sizes(p);
}

Result<void> read_layers(const Keys& keys, HyperParameters& p) {
  IMEX_TRY(const auto count, keys.count("block_count"));
  if (count > 65'536) return fail(Errc::kDataLoss, fmt::format("{} layers", count));
  IMEX_TRY(const auto window, keys.count_or("attention.sliding_window", 0));
  const WindowRule rule = p.architecture->window;
  const bool some = rule == WindowRule::kUpperLayers || rule == WindowRule::kUnrotatedLayers;
  if (window != 0 && some) {
    return fail(Errc::kUnsupported, fmt::format("a sliding window of {} tokens", window),
                "which layers have it is not told in the file");
  }
  const std::uint32_t step = p.architecture->no_rope_interval;
  for (std::uint32_t i = 0; i < count; ++i) {
    p.layers.push_back({.rotates = step == 0 || (i + 1) % step != 0, .window = window});
  }
  return {};
}

Result<void> read_tokens(const GgufFile& file, const Keys& keys, HyperParameters& p) {
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  IMEX_TRY(p.vocabulary, keys.count_or("vocab_size", 0));
  if (p.vocabulary == 0) {
    IMEX_TRY(const auto tokens, file.texts(kTokens));
    p.vocabulary = static_cast<std::uint32_t>(tokens.size());
  }
  // Larger than any vocabulary stays larger than any: validate() finds it.
  const auto narrow = [](std::uint64_t id) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(id, UINT32_MAX));
  };
  if (file.find("tokenizer.ggml.bos_token_id") != nullptr) {
    IMEX_TRY(const auto id, file.integer("tokenizer.ggml.bos_token_id"));
    p.begin_token = narrow(id);
  }
  for (const auto* const key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    if (file.find(key) == nullptr) continue;
    IMEX_TRY(const auto id, file.integer(key));
    p.stop_tokens.push_back(narrow(id));
  }
  return {};
}

}  // namespace

Result<HyperParameters> hyper_parameters_of(const GgufFile& file) {
  HyperParameters p;
  IMEX_TRY(const auto name, file.text("general.architecture"));
  IMEX_TRY(p.architecture, find_gguf_architecture(name));
  const Keys keys(file, name);
  IMEX_TRY(p.hidden, keys.count("embedding_length"));
  IMEX_TRY(p.feed_forward, keys.count("feed_forward_length"));
  IMEX_TRY(p.context, keys.count("context_length"));
  IMEX_TRY(const auto epsilon, file.number(keys.key("attention.layer_norm_rms_epsilon")));
  p.norm_epsilon = static_cast<float>(epsilon);
  IMEX_TRY(const auto theta, keys.number_or("rope.freq_base", 10'000));
  p.rope_theta = static_cast<float>(theta);
  p.rope_pairs = p.architecture->gguf_pairs;
  IMEX_CHECK_OK(read_heads(keys, p));
  IMEX_TRY(p.rope_factors, rope_factors(file, keys, p.head_size));
  IMEX_CHECK_OK(read_layers(keys, p));
  IMEX_CHECK_OK(read_tokens(file, keys, p));
  p.tied_head = file.find_tensor("output.weight") == nullptr;
  p.qkv_bias = file.find_tensor("blk.0.attn_q.bias") != nullptr;
  p.output_bias = file.find_tensor("blk.0.attn_output.bias") != nullptr;
  p.feed_forward_bias = file.find_tensor("blk.0.ffn_gate.bias") != nullptr;
  IMEX_CHECK_OK(validate(p));
  return p;
}

}  // namespace imex::inference
