/// The architectures that run here, one row each: what differs between members of the Llama family.
/// A new member is a row; whatever no column can say is no member.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace imex::inference {

/// Which elements of a head RoPE rotates together: i with i + d/2, or 2i with 2i + 1. The two are a
/// permutation of the rows of Wq and Wk, so it is a property of the file, not of the model.
enum class RopePairs : std::uint8_t { kHalves, kInterleaved };

/// Which layers attend to a window only, by the configuration of Hugging Face.
enum class WindowRule : std::uint8_t {
  kNone,         ///< a window is refused
  kAllLayers,    ///< `sliding_window`, unless null
  kUpperLayers,  ///< `sliding_window` from layer `max_window_layers` on, if `use_sliding_window`
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
};

[[nodiscard]] std::span<const Architecture> architectures() noexcept;

/// By the name in a GGUF file or in config.json. Errors: kUnsupported, with the list of known ones.
[[nodiscard]] Result<const Architecture*> find_gguf_architecture(std::string_view name);
[[nodiscard]] Result<const Architecture*> find_hugging_face_architecture(std::string_view name);

}  // namespace imex::inference
