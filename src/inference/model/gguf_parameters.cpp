// Hyper-parameters from the metadata of a GGUF file.
#include <algorithm>
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

/// Scaling is told by a tensor of divisors (Llama 3), or by a kind and a factor.
Result<std::vector<float>> rope_factors(const GgufFile& file, const Keys& keys,
                                        std::uint32_t head_size) {
  std::vector<float> factors;
  if (const Tensor* const stored = file.find_tensor("rope_freqs.weight"); stored != nullptr) {
    if (stored->type != TensorType::kF32 || stored->shape.size() != 1) {
      return fail(Errc::kDataLoss, "tensor 'rope_freqs.weight' is not a row of F32");
    }
    factors.resize(stored->shape[0]);
    dequantize(stored->type, stored->bytes, factors);
  }
  if (!keys.has("rope.scaling.type")) return factors;
  IMEX_TRY(const auto kind, file.text(keys.key("rope.scaling.type")));
  if (kind == "none" || !factors.empty()) return factors;
  if (kind == "linear") {
    IMEX_TRY(const auto factor, file.number(keys.key("rope.scaling.factor")));
    return std::vector<float>(head_size / 2, static_cast<float>(factor));
  }
  return fail(Errc::kUnsupported, fmt::format("RoPE scaling '{}'", kind),
              "known are none, linear and the factors of Llama 3");
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
  return {};
}

Result<void> read_layers(const Keys& keys, HyperParameters& p) {
  IMEX_TRY(const auto count, keys.count("block_count"));
  if (count > 65'536) return fail(Errc::kDataLoss, fmt::format("{} layers", count));
  IMEX_TRY(const auto window, keys.count_or("attention.sliding_window", 0));
  if (window != 0 && p.architecture->window == WindowRule::kUpperLayers) {
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
