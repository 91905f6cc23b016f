#include "inference/weights/rank_weights.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/assert.hpp"
#include "inference/format/dequantize.hpp"

namespace imex::inference {
namespace {

constexpr std::size_t kLineWords = 8, kLineBytes = 64;
// Far enough ahead that memory answers in time; what lies behind the end is asked for in vain.
constexpr std::size_t kAhead = 1024;

/// `bytes` from each of several places, `stride` apart. Independent sums and lines asked for early,
/// so that nothing but memory limits it.
template <std::size_t kPlaces>
std::uint64_t sum_places(const std::byte* at, std::size_t stride, std::size_t bytes) noexcept {
  std::array<std::uint64_t, kLineWords> sums{};
  std::array<std::uint64_t, kLineWords> line;
  for (std::size_t offset = 0; offset + kLineBytes <= bytes; offset += kLineBytes) {
    for (std::size_t place = 0; place < kPlaces; ++place) {
      const std::byte* const from = at + place * stride + offset;
      __builtin_prefetch(from + kAhead);
      std::memcpy(line.data(), from, kLineBytes);
      for (std::size_t i = 0; i < kLineWords; ++i) sums[i] += line[i];
    }
  }
  return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
}

/// Whole lines of all pieces (rows or tiles), but for the few that do not fill all places.
template <std::size_t kPlaces>
std::uint64_t sum_matrix(const MatrixView& matrix) noexcept {
  const std::uint64_t pieces =
      matrix.is_packed() ? (matrix.skipped_rows() + matrix.row_count() + kTileRows - 1) / kTileRows
                         : matrix.row_count();
  const std::uint64_t each = pieces / kPlaces, stride = matrix.stride_bytes();
  const std::uint64_t bytes = matrix.bytes() / std::max<std::uint64_t>(1, pieces);
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < each; ++i) {
    sum += sum_places<kPlaces>(matrix.data() + i * stride, each * stride, bytes);
  }
  for (std::uint64_t i = each * kPlaces; i < pieces; ++i) {
    sum += sum_places<kPlaces>(matrix.data() + i * stride, bytes / kPlaces, bytes / kPlaces);
  }
  return sum;
}

}  // namespace

/// Cuts the weights of a model for one rank.
class WeightCutter {
 public:
  WeightCutter(const ModelFile& model, const PackedImage& image, const RankShare& share)
      : model_(model), image_(image), share_(share) {}

  Result<RankWeights> run() && {
    const HyperParameters& p = model_.parameters();
    for (std::uint32_t layer = 0; layer < p.layer_count(); ++layer) {
      IMEX_TRY(LayerWeights cut, cut_layer(layer));
      weights_.layers_.push_back(cut);
    }
    weights_.final_norm_ = vector({WeightRole::kFinalNorm, 0});
    IMEX_TRY(const MatrixView head, matrix({WeightRole::kHead, 0}));
    weights_.head_ = head.rows(share_.vocabulary.begin, share_.vocabulary.end);
    weights_.embedding_ = model_.weight({WeightRole::kEmbedding, 0});
    return std::move(weights_);
  }

 private:
  Result<LayerWeights> cut_layer(std::uint32_t layer) {
    const std::uint32_t size = model_.parameters().head_size;
    const Range q{share_.query_heads.begin * size, share_.query_heads.end * size};
    const Range kv{share_.kv_heads.begin * size, share_.kv_heads.end * size};
    const Range f = share_.feed_forward;
    const auto rows = [&](WeightRole role, const Range& range) -> Result<MatrixView> {
      IMEX_TRY(const MatrixView whole, matrix({role, layer}));
      return whole.rows(range.begin, range.end);
    };
    const auto columns = [&](WeightRole role, const Range& range) -> Result<MatrixView> {
      IMEX_TRY(const MatrixView whole, matrix({role, layer}));
      return whole.columns(range.begin, range.end);
    };
    const auto whole = [&](WeightRole role) { return vector({role, layer}); };
    const auto part = [&](WeightRole role, const Range& range) {
      const auto values = vector({role, layer});
      return values.empty() ? values : values.subspan(range.begin, range.size());
    };
    LayerWeights cut;
    cut.attention_norm = whole(WeightRole::kAttentionNorm);
    cut.feed_forward_norm = whole(WeightRole::kFeedForwardNorm);
    cut.query_norm = whole(WeightRole::kQueryNorm);
    cut.key_norm = whole(WeightRole::kKeyNorm);
    IMEX_TRY(cut.query, rows(WeightRole::kQuery, q));
    IMEX_TRY(cut.key, rows(WeightRole::kKey, kv));
    IMEX_TRY(cut.value, rows(WeightRole::kValue, kv));
    IMEX_TRY(cut.output, columns(WeightRole::kOutput, q));
    IMEX_TRY(cut.gate, rows(WeightRole::kGate, f));
    IMEX_TRY(cut.up, rows(WeightRole::kUp, f));
    IMEX_TRY(cut.down, columns(WeightRole::kDown, f));
    cut.query_bias = part(WeightRole::kQueryBias, q);
    cut.key_bias = part(WeightRole::kKeyBias, kv);
    cut.value_bias = part(WeightRole::kValueBias, kv);
    cut.gate_bias = part(WeightRole::kGateBias, f);
    cut.up_bias = part(WeightRole::kUpBias, f);
    cut.output_bias = whole(WeightRole::kOutputBias);
    cut.down_bias = whole(WeightRole::kDownBias);
    return cut;
  }

  Result<MatrixView> matrix(const WeightPlace& place) {
    const Tensor* const tensor = model_.weight(place);
    IMEX_ASSERT(tensor != nullptr && tensor->shape.size() == 2, "checked when it was opened");
    if (const auto packed = image_.find(place)) {
      return MatrixView::packed(tensor->type, *packed, tensor->shape[0], tensor->shape[1]);
    }
    return MatrixView::plain(tensor->type, tensor->bytes, tensor->shape[0], tensor->shape[1]);
  }

  std::span<const float> vector(const WeightPlace& place) {
    const Tensor* const tensor = model_.weight(place);
    if (tensor == nullptr) return {};
    auto values = std::make_unique<std::vector<float>>(tensor->shape.back());
    dequantize(tensor->type, tensor->bytes, *values);
    weights_.vectors_.push_back(std::move(values));
    return *weights_.vectors_.back();
  }

  const ModelFile& model_;
  const PackedImage& image_;
  const RankShare& share_;
  RankWeights weights_;
};

Result<RankWeights> RankWeights::cut(const ModelFile& model, const PackedImage& image,
                                     const SplitPlan& plan, std::uint32_t rank) {
  return WeightCutter(model, image, plan.shares[rank]).run();
}

std::uint64_t RankWeights::read_all(std::size_t places) const noexcept {
  const auto sum_matrix = places == 1   ? inference::sum_matrix<1>
                          : places == 4 ? inference::sum_matrix<4>
                                        : inference::sum_matrix<8>;
  std::uint64_t sum = sum_matrix(head_);
  for (const LayerWeights& layer : layers_) {
    for (const MatrixView* const matrix : {&layer.query, &layer.key, &layer.value, &layer.output,
                                           &layer.gate, &layer.up, &layer.down}) {
      sum += sum_matrix(*matrix);
    }
  }
  return sum;
}

void RankWeights::embed(std::uint32_t token, std::span<float> out) const noexcept {
  const std::uint64_t row = embedding_->bytes.size() / embedding_->shape[0];
  dequantize(embedding_->type, embedding_->bytes.subspan(token * row, row), out);
}

}  // namespace imex::inference
