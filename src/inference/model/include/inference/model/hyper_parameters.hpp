/// The numbers that a forward pass of the Llama family needs, whatever file they came from.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "inference/format/gguf.hpp"
#include "inference/model/architecture.hpp"

namespace imex::inference {

/// What differs from layer to layer.
struct LayerRules {
  bool rotates = true;       ///< RoPE on q and k
  std::uint32_t window = 0;  ///< tokens that a query sees, itself included; 0: all
};

struct HyperParameters {
  const Architecture* architecture = nullptr;  ///< static storage
  std::uint32_t hidden = 0;
  std::uint32_t feed_forward = 0;
  std::uint32_t query_heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_size = 0;
  std::uint32_t vocabulary = 0;
  std::uint32_t context = 0;  ///< tokens
  float norm_epsilon = 0;
  float rope_theta = 10'000;
  RopePairs rope_pairs = RopePairs::kHalves;
  /// Divisor of the frequency of each pair of a head (head_size / 2 of them); empty: all one.
  std::vector<float> rope_factors;
  bool qkv_bias = false, output_bias = false, feed_forward_bias = false;
  bool tied_head = false;  ///< embedding and head are one matrix
  std::vector<LayerRules> layers;
  std::optional<std::uint32_t> begin_token;
  std::vector<std::uint32_t> stop_tokens;

  [[nodiscard]] std::uint32_t layer_count() const noexcept {
    return static_cast<std::uint32_t>(layers.size());
  }
};

/// Sizes, heads and context in their ranges: what a loader must know before it makes anything as
/// large as they say. Errors: kDataLoss with all that is wrong.
[[nodiscard]] Result<void> check_sizes(const HyperParameters& parameters);

/// Every number in its range and fitting the others: heads divide, sizes are even, floats positive.
/// Errors: kDataLoss with all that is wrong.
[[nodiscard]] Result<void> validate(const HyperParameters& parameters);

/// From the metadata and, for scaled RoPE, the tensor `rope_freqs.weight`. Errors: kUnsupported
/// (architecture, scaling), kNotFound or kDataLoss (values).
[[nodiscard]] Result<HyperParameters> hyper_parameters_of(const GgufFile& file);

/// From the text of config.json. Errors: kUnsupported (architecture, activation, quantisation, kind
/// of scaling, windows where the architecture has none), kDataLoss.
[[nodiscard]] Result<HyperParameters> parse_config_json(std::string_view text);

/// Replaces begin and stop tokens by those of generation_config.json where it has them.
[[nodiscard]] Result<void> apply_generation_config(std::string_view text,
                                                   HyperParameters& parameters);

/// The divisors of Llama 3.1's scaling for a head of `head_size`: long waves by `factor`, short
/// ones by one, a ramp between (`low` and `high` are waves per original context).
struct Llama3Scaling {
  double factor = 0, low = 0, high = 0;
  std::uint32_t original_context = 0;
};
[[nodiscard]] std::vector<float> llama3_rope_factors(const Llama3Scaling& scaling, double theta,
                                                     std::uint32_t head_size);

}  // namespace imex::inference
