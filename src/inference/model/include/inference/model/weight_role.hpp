/// What each weight is for, and what the formats call it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inference/model/hyper_parameters.hpp"

namespace imex::inference {

enum class WeightRole : std::uint8_t {
  kEmbedding,
  kFinalNorm,
  kHead,
  // One per layer:
  kAttentionNorm,
  kQuery,
  kKey,
  kValue,
  kOutput,
  kQueryBias,
  kKeyBias,
  kValueBias,
  kOutputBias,
  kQueryNorm,
  kKeyNorm,
  kFeedForwardNorm,
  kGate,
  kUp,
  kDown,
  kGateBias,
  kUpBias,
  kDownBias,
};
inline constexpr std::size_t kWeightRoles = static_cast<std::size_t>(WeightRole::kDownBias) + 1;

/// Who named the tensors of a file.
enum class NamingScheme : std::uint8_t { kGguf, kHuggingFace, kMeta };

struct WeightPlace {
  WeightRole role = WeightRole::kEmbedding;
  std::uint32_t layer = 0;  ///< 0 for weights of no layer

  friend bool operator==(const WeightPlace&, const WeightPlace&) = default;
};

/// "query weight". Static storage.
[[nodiscard]] std::string_view role_name(WeightRole role) noexcept;
/// "query weight of layer 3".
[[nodiscard]] std::string describe(const WeightPlace& place);
/// The tensor's name in a file of that scheme.
[[nodiscard]] std::string weight_name(NamingScheme scheme, const WeightPlace& place);
/// The other way; none for names of nothing that this model has.
[[nodiscard]] std::optional<WeightPlace> find_weight(NamingScheme scheme, std::string_view name,
                                                     std::uint32_t layers);
/// What belongs to no weight and may be left out: tables that the model computes by itself.
[[nodiscard]] bool is_ignorable(std::string_view name) noexcept;

/// All weights that a model of these parameters has, the head only if it is not tied.
[[nodiscard]] std::vector<WeightPlace> weights_of(const HyperParameters& parameters);
/// [out, in] of a matrix, [size] of a norm or bias.
[[nodiscard]] std::vector<std::uint64_t> weight_shape(const HyperParameters& parameters,
                                                      WeightRole role);

}  // namespace imex::inference
