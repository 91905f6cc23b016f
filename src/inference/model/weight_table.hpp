/// The tensors of a file by what they are for.
#pragma once

#include <span>
#include <vector>

#include "inference/format/tensor.hpp"
#include "inference/model/weight_role.hpp"

namespace imex::inference {

struct WeightTable {
  std::vector<Tensor> weights;          // in the order of weights_of()
  std::vector<std::size_t> role_begin;  // per role: its first weight; SIZE_MAX: none
};

/// Each weight that the model has finds its tensor, in its shape; nothing else is in the file, and
/// nothing twice. Looks at names, types and shapes only. Of a tied pair the embedding counts, as in
/// Hugging Face's own loader, and the head may be there beside it or in its stead. Errors:
/// kNotFound (a weight), kUnsupported (a tensor of no weight), kDataLoss (shape, type, two tensors
/// of one weight), each by name.
[[nodiscard]] Result<WeightTable> assign_weights(std::span<const Tensor> tensors,
                                                 NamingScheme scheme,
                                                 const HyperParameters& parameters);

}  // namespace imex::inference
