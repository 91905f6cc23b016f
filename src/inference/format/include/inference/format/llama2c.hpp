/// Checkpoints of llama2.c ("legacy" layout): seven numbers, then float32 matrices in fixed order.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "inference/format/tensor.hpp"
#include "os/memory.hpp"

namespace imex::inference {

struct Llama2cSizes {
  std::uint32_t hidden = 0, feed_forward = 0, layers = 0, query_heads = 0, kv_heads = 0,
                vocabulary = 0, context = 0;
  bool tied = false;
};

/// Immutable after opening. Tensors carry the names of Meta's checkpoints, from which these files
/// are made: tok_embeddings.weight, layers.N.attention.wq.weight, ..., norm.weight, output.weight.
class Llama2cFile {
 public:
  /// Errors: those of os::map_file and of parse().
  [[nodiscard]] static Result<Llama2cFile> open(const std::string& path);
  /// Borrows `bytes`. Errors: kDataLoss (sizes that are none, or that do not give exactly this many
  /// bytes).
  [[nodiscard]] static Result<Llama2cFile> parse(std::span<const std::byte> bytes);

  [[nodiscard]] const Llama2cSizes& sizes() const noexcept { return sizes_; }
  [[nodiscard]] const std::vector<Tensor>& tensors() const noexcept { return tensors_; }

 private:
  os::Mapping mapping_;  // empty for parse()
  Llama2cSizes sizes_;
  std::vector<Tensor> tensors_;
};

}  // namespace imex::inference
