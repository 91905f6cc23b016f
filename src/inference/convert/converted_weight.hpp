/// One weight in another element type and in the row order of Hugging Face.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "inference/format/tensor.hpp"
#include "inference/model/weight_role.hpp"

namespace imex::inference {

/// The type that `weight` is written in. Errors: kInvalidArgument.
[[nodiscard]] Result<TensorType> converted_type(const Tensor& weight,
                                                std::optional<TensorType> wanted);

/// Fills `out`, which is as large as the weight in `type`. Errors: kDataLoss (beyond its range).
[[nodiscard]] Result<void> convert_weight(const Tensor& weight, WeightRole role,
                                          const HyperParameters& parameters, TensorType type,
                                          std::span<std::byte> out);

}  // namespace imex::inference
