/// The architectures that run here, one row each: what differs between members of the Llama family.
/// A new member is a row; whatever no column can say is no member.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "inference/operators/rope_pairs.hpp"

namespace imex::inference {

/// Which layers attend to a window only, by the configuration of Hugging Face.
enum class WindowRule : std::uint8_t {
  kNone,         ///< a window is refused
  kAllLayers,    ///< `sliding_window`, unless null
  kUpperLayers,  ///< `sliding_window` from layer `max_window_layers` on, if `use_sliding_window`
  kUnrotatedLayers,  ///< `sliding_window` where RoPE does not rotate, if `use_sliding_window`
};

/// What Hugging Face's configuration class takes for a key that config.json does not have. A key
/// that is null has no value, whatever stands here.
struct ConfigDefaults {
  std::uint32_t kv_heads = 0;   ///< 0: as many as query heads
  std::uint32_t head_size = 0;  ///< 0: hidden size / query heads
  std::uint32_t context = 0;
  double rope_theta = 10'000;
  std::uint32_t window = 0, max_window_layers = 0;
  bool tied_head = false;
  std::optional<std::uint32_t> begin_token{}, end_token{};
};

struct Architecture {
  std::string_view name;
  std::string_view hugging_face;  ///< `architectures` of config.json
  std::string_view gguf;          ///< `general.architecture`; prefix of its keys
  RopePairs gguf_pairs;           ///< Hugging Face: always halves
  bool qkv_bias;                  ///< always has; others by `attention_bias`
  bool query_key_norm;            ///< RMSNorm of each head of q and k before rotation
  WindowRule window;
  std::uint32_t no_rope_interval;  ///< every n-th layer does not rotate; 0: all rotate
  ConfigDefaults defaults;
};

[[nodiscard]] std::span<const Architecture> architectures() noexcept;

/// By the name in a GGUF file or in config.json. Errors: kUnsupported, with the list of known ones.
[[nodiscard]] Result<const Architecture*> find_gguf_architecture(std::string_view name);
[[nodiscard]] Result<const Architecture*> find_hugging_face_architecture(std::string_view name);

}  // namespace imex::inference
