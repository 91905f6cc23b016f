#include "inference/model/architecture.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace imex::inference {

namespace {

// GGUF files of Mistral and of SmolLM 1 and 2 say "llama". Defaults as of transformers 4.57 and 5.
constexpr std::array kArchitectures{
    Architecture{.name = "llama",
                 .hugging_face = "LlamaForCausalLM",
                 .gguf = "llama",
                 .gguf_pairs = RopePairs::kInterleaved,
                 .qkv_bias = false,
                 .query_key_norm = false,
                 .window = WindowRule::kNone,
                 .no_rope_interval = 0,
                 .defaults = {.context = 2048, .begin_token = 1, .end_token = 2}},
    Architecture{
        .name = "mistral",
        .hugging_face = "MistralForCausalLM",
        .gguf = "mistral",
        .gguf_pairs = RopePairs::kInterleaved,
        .qkv_bias = false,
        .query_key_norm = false,
        .window = WindowRule::kAllLayers,
        .no_rope_interval = 0,
        .defaults =
            {.kv_heads = 8, .context = 131'072, .window = 4096, .begin_token = 1, .end_token = 2}},
    Architecture{
        .name = "qwen2",
        .hugging_face = "Qwen2ForCausalLM",
        .gguf = "qwen2",
        .gguf_pairs = RopePairs::kHalves,
        .qkv_bias = true,
        .query_key_norm = false,
        .window = WindowRule::kUpperLayers,
        .no_rope_interval = 0,
        .defaults = {.kv_heads = 32, .context = 32'768, .window = 4096, .max_window_layers = 28}},
    Architecture{.name = "qwen3",
                 .hugging_face = "Qwen3ForCausalLM",
                 .gguf = "qwen3",
                 .gguf_pairs = RopePairs::kHalves,
                 .qkv_bias = false,
                 .query_key_norm = true,
                 .window = WindowRule::kUpperLayers,
                 .no_rope_interval = 0,
                 .defaults = {.kv_heads = 32,
                              .head_size = 128,
                              .context = 32'768,
                              .window = 4096,
                              .max_window_layers = 28}},
    Architecture{.name = "smollm3",
                 .hugging_face = "SmolLM3ForCausalLM",
                 .gguf = "smollm3",
                 .gguf_pairs = RopePairs::kInterleaved,
                 .qkv_bias = false,
                 .query_key_norm = false,
                 .window = WindowRule::kUnrotatedLayers,
                 .no_rope_interval = 4,
                 .defaults = {.kv_heads = 4,
                              .context = 32'768,
                              .rope_theta = 2'000'000,
                              .tied_head = true,
                              .begin_token = 128'000,
                              .end_token = 128'001}},
};

Result<const Architecture*> find(std::string_view name, std::string_view Architecture::* column) {
  const auto* const found = std::ranges::find(kArchitectures, name, column);
  if (found != kArchitectures.end()) return found;
  std::string known;
  for (const Architecture& one : kArchitectures) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", one.*column);
  }
  return fail(Errc::kUnsupported, fmt::format("unknown architecture '{}'", name),
              fmt::format("known are {}", known));
}

}  // namespace

std::span<const Architecture> architectures() noexcept { return kArchitectures; }

Result<const Architecture*> find_gguf_architecture(std::string_view name) {
  return find(name, &Architecture::gguf);
}

Result<const Architecture*> find_hugging_face_architecture(std::string_view name) {
  return find(name, &Architecture::hugging_face);
}

}  // namespace imex::inference
