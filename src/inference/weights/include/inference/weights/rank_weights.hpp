/// One rank's part of a model's weights, as views into what all ranks share.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "inference/matrix/matrix.hpp"
#include "inference/model/model_file.hpp"
#include "inference/split/split_plan.hpp"
#include "inference/weights/packed_image.hpp"

namespace imex::inference {

/// Matrices are [out, in]. What a model does not have is empty.
struct LayerWeights {
  std::span<const float> attention_norm, feed_forward_norm;
  std::span<const float> query_norm, key_norm;  ///< of one head
  MatrixView query, key, value;                 ///< rows of the rank's heads
  MatrixView output;                            ///< columns of the rank's query heads
  MatrixView gate, up;                          ///< rows of the rank's feed-forward range
  MatrixView down;                              ///< columns of it
  std::span<const float> query_bias, key_bias, value_bias, gate_bias, up_bias;  ///< own rows
  std::span<const float> output_bias, down_bias;  ///< whole: added after the sum over ranks
};

/// Borrows the model and the image. Norms and biases are copied to float32.
class RankWeights {
 public:
  /// Errors: kUnsupported (a type of weights without kernels).
  [[nodiscard]] static Result<RankWeights> cut(const ModelFile& model, const PackedImage& image,
                                               const SplitPlan& plan, std::uint32_t rank);

  [[nodiscard]] const LayerWeights& layer(std::uint32_t number) const { return layers_[number]; }
  [[nodiscard]] std::span<const float> final_norm() const noexcept { return final_norm_; }
  /// Rows of the rank's part of the vocabulary.
  [[nodiscard]] const MatrixView& head() const noexcept { return head_; }
  /// Reads every byte of the rank's matrices, as a step at batch 1 does, and computes nothing: the
  /// lower limit of its time. `places`: that it reads from at once (1, 4 or 8): prefetchers follow
  /// each, and how many are best depends on the processor. The sum keeps the compiler from leaving
  /// it out.
  [[nodiscard]] std::uint64_t read_all(std::size_t places) const noexcept;
  /// Writes the embedding of a token: `hidden` values. `token` < vocabulary.
  void embed(std::uint32_t token, std::span<float> out) const noexcept;

 private:
  friend class WeightCutter;
  std::vector<LayerWeights> layers_;
  std::span<const float> final_norm_;
  MatrixView head_;
  const Tensor* embedding_ = nullptr;
  std::vector<std::unique_ptr<std::vector<float>>> vectors_;  // what the spans above look at
};

}  // namespace imex::inference
