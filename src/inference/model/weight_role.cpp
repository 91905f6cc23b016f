#include "inference/model/weight_role.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

namespace imex::inference {

namespace {

struct Row {
  std::string_view words;
  std::string_view gguf, hugging_face, meta;  ///< without the part that names the layer
};

// In the order of WeightRole. Empty: the scheme has no such tensor.
constexpr std::array<Row, kWeightRoles> kRows{{
    {"embedding", "token_embd.weight", "model.embed_tokens.weight", "tok_embeddings.weight"},
    {"final norm", "output_norm.weight", "model.norm.weight", "norm.weight"},
    {"head", "output.weight", "lm_head.weight", "output.weight"},
    {"attention norm", "attn_norm.weight", "input_layernorm.weight", "attention_norm.weight"},
    {"query weight", "attn_q.weight", "self_attn.q_proj.weight", "attention.wq.weight"},
    {"key weight", "attn_k.weight", "self_attn.k_proj.weight", "attention.wk.weight"},
    {"value weight", "attn_v.weight", "self_attn.v_proj.weight", "attention.wv.weight"},
    {"attention output weight", "attn_output.weight", "self_attn.o_proj.weight",
     "attention.wo.weight"},
    {"query bias", "attn_q.bias", "self_attn.q_proj.bias", ""},
    {"key bias", "attn_k.bias", "self_attn.k_proj.bias", ""},
    {"value bias", "attn_v.bias", "self_attn.v_proj.bias", ""},
    {"attention output bias", "attn_output.bias", "self_attn.o_proj.bias", ""},
    {"query norm", "attn_q_norm.weight", "self_attn.q_norm.weight", ""},
    {"key norm", "attn_k_norm.weight", "self_attn.k_norm.weight", ""},
    {"feed-forward norm", "ffn_norm.weight", "post_attention_layernorm.weight", "ffn_norm.weight"},
    {"gate weight", "ffn_gate.weight", "mlp.gate_proj.weight", "feed_forward.w1.weight"},
    {"up weight", "ffn_up.weight", "mlp.up_proj.weight", "feed_forward.w3.weight"},
    {"down weight", "ffn_down.weight", "mlp.down_proj.weight", "feed_forward.w2.weight"},
    {"gate bias", "ffn_gate.bias", "mlp.gate_proj.bias", ""},
    {"up bias", "ffn_up.bias", "mlp.up_proj.bias", ""},
    {"down bias", "ffn_down.bias", "mlp.down_proj.bias", ""},
}};

constexpr bool in_layer(WeightRole role) noexcept { return role >= WeightRole::kAttentionNorm; }

constexpr std::string_view name_in(const Row& row, NamingScheme scheme) noexcept {
  switch (scheme) {
    case NamingScheme::kGguf:
      return row.gguf;
    case NamingScheme::kHuggingFace:
      return row.hugging_face;
    case NamingScheme::kMeta:
      return row.meta;
  }
  return {};
}

constexpr std::string_view layer_prefix(NamingScheme scheme) noexcept {
  switch (scheme) {
    case NamingScheme::kGguf:
      return "blk.";
    case NamingScheme::kHuggingFace:
      return "model.layers.";
    case NamingScheme::kMeta:
      return "layers.";
  }
  return {};
}

const Row& row_of(WeightRole role) noexcept { return kRows[static_cast<std::size_t>(role)]; }

}  // namespace

std::string_view role_name(WeightRole role) noexcept { return row_of(role).words; }

std::string describe(const WeightPlace& place) {
  const std::string_view words = role_name(place.role);
  return in_layer(place.role) ? fmt::format("{} of layer {}", words, place.layer)
                              : std::string(words);
}

std::string weight_name(NamingScheme scheme, const WeightPlace& place) {
  const std::string_view name = name_in(row_of(place.role), scheme);
  if (!in_layer(place.role)) return std::string(name);
  return fmt::format("{}{}.{}", layer_prefix(scheme), place.layer, name);
}

std::optional<WeightPlace> find_weight(NamingScheme scheme, std::string_view name,
                                       std::uint32_t layers) {
  std::uint32_t layer = 0;
  const std::string_view prefix = layer_prefix(scheme);
  const bool layered = name.starts_with(prefix);
  if (layered) {
    const char* const end = name.data() + name.size();
    const char* const first = name.data() + prefix.size();
    const auto number = std::from_chars(first, end, layer);
    if (number.ec != std::errc{} || number.ptr == end || *number.ptr != '.' || layer >= layers) {
      return std::nullopt;
    }
    const bool padded = *first == '0' && number.ptr != first + 1;
    if (padded) return std::nullopt;  // "01" would be a second name of layer 1
    name = {number.ptr + 1, static_cast<std::size_t>(end - number.ptr - 1)};
  }
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    const auto role = static_cast<WeightRole>(i);
    if (in_layer(role) == layered && name == name_in(kRows[i], scheme))
      return WeightPlace{role, layer};
  }
  return std::nullopt;
}

bool is_ignorable(std::string_view name) noexcept {
  return name.ends_with("rotary_emb.inv_freq") || name == "rope_freqs.weight";
}

std::vector<WeightPlace> weights_of(const HyperParameters& p) {
  const auto has = [&](WeightRole role) {
    switch (role) {
      case WeightRole::kHead:
        return !p.tied_head;
      case WeightRole::kQueryBias:
      case WeightRole::kKeyBias:
      case WeightRole::kValueBias:
        return p.qkv_bias;
      case WeightRole::kOutputBias:
        return p.output_bias;
      case WeightRole::kQueryNorm:
      case WeightRole::kKeyNorm:
        return p.architecture->query_key_norm;
      case WeightRole::kGateBias:
      case WeightRole::kUpBias:
      case WeightRole::kDownBias:
        return p.feed_forward_bias;
      default:
        return true;
    }
  };
  std::vector<WeightPlace> places;
  for (std::size_t i = 0; i < kWeightRoles; ++i) {
    const auto role = static_cast<WeightRole>(i);
    if (!has(role)) continue;
    const std::uint32_t count = in_layer(role) ? p.layer_count() : 1;
    for (std::uint32_t layer = 0; layer < count; ++layer) places.push_back({role, layer});
  }
  return places;
}

std::vector<std::uint64_t> weight_shape(const HyperParameters& p, WeightRole role) {
  const std::uint64_t query = std::uint64_t{p.query_heads} * p.head_size;
  const std::uint64_t kv = std::uint64_t{p.kv_heads} * p.head_size;
  switch (role) {
    case WeightRole::kEmbedding:
    case WeightRole::kHead:
      return {p.vocabulary, p.hidden};
    case WeightRole::kQuery:
      return {query, p.hidden};
    case WeightRole::kKey:
    case WeightRole::kValue:
      return {kv, p.hidden};
    case WeightRole::kOutput:
      return {p.hidden, query};
    case WeightRole::kGate:
    case WeightRole::kUp:
      return {p.feed_forward, p.hidden};
    case WeightRole::kDown:
      return {p.hidden, p.feed_forward};
    case WeightRole::kQueryBias:
      return {query};
    case WeightRole::kKeyBias:
    case WeightRole::kValueBias:
      return {kv};
    case WeightRole::kQueryNorm:
    case WeightRole::kKeyNorm:
      return {p.head_size};
    case WeightRole::kGateBias:
    case WeightRole::kUpBias:
      return {p.feed_forward};
    case WeightRole::kFinalNorm:
    case WeightRole::kAttentionNorm:
    case WeightRole::kFeedForwardNorm:
    case WeightRole::kOutputBias:
    case WeightRole::kDownBias:
      break;
  }
  return {p.hidden};
}

}  // namespace imex::inference
