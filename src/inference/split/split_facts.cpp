#include <numeric>

#include "base/assert.hpp"
#include "inference/matrix/matrix.hpp"
#include "inference/split/split_plan.hpp"

namespace imex::inference {
namespace {

// Of matrices that may be cut anywhere: a vector register's worth, but cheap to balance.
constexpr std::uint32_t kPlainUnit = 4;

struct Matrix {
  MatrixFormat format;
  std::uint64_t rows = 0, columns = 0, bytes = 0;
};

Result<Matrix> matrix_of(const ModelFile& model, WeightRole role) {
  const Tensor* const tensor = model.weight({role, 0});
  IMEX_ASSERT(tensor != nullptr && tensor->shape.size() == 2, "checked when it was opened");
  IMEX_TRY(const MatrixFormat format, matrix_format(tensor->type));
  return Matrix{format, tensor->shape[0], tensor->shape[1], tensor->bytes.size()};
}

/// Layers may differ in type: what is cut must suit all of them.
Result<std::uint32_t> unit_of(const ModelFile& model, WeightRole role,
                              std::uint32_t MatrixFormat::* unit) {
  std::uint32_t common = 1;
  for (std::uint32_t layer = 0; layer < model.parameters().layer_count(); ++layer) {
    IMEX_TRY(const MatrixFormat format, matrix_format(model.weight({role, layer})->type));
    common = std::lcm(common, format.*unit);
  }
  return common;
}

}  // namespace

Result<SplitFacts> split_facts_of(const ModelFile& model) {
  const HyperParameters& p = model.parameters();
  SplitFacts facts;
  facts.query_heads = p.query_heads;
  facts.kv_heads = p.kv_heads;
  facts.feed_forward = p.feed_forward;
  facts.vocabulary = p.vocabulary;
  facts.layers = p.layer_count();

  IMEX_TRY(const std::uint32_t output_unit,
           unit_of(model, WeightRole::kOutput, &MatrixFormat::column_unit));
  facts.head_unit = output_unit / std::gcd(output_unit, p.head_size);
  IMEX_TRY(const std::uint32_t down_unit,
           unit_of(model, WeightRole::kDown, &MatrixFormat::column_unit));
  IMEX_TRY(const std::uint32_t gate_unit,
           unit_of(model, WeightRole::kGate, &MatrixFormat::row_unit));
  facts.feed_forward_unit = std::lcm(std::lcm(down_unit, gate_unit), kPlainUnit);
  IMEX_TRY(const Matrix head, matrix_of(model, WeightRole::kHead));
  facts.vocabulary_unit = std::lcm(head.format.row_unit, kPlainUnit);
  facts.vocabulary_bytes = head.bytes / head.rows;

  IMEX_TRY(const Matrix query, matrix_of(model, WeightRole::kQuery));
  IMEX_TRY(const Matrix key, matrix_of(model, WeightRole::kKey));
  IMEX_TRY(const Matrix value, matrix_of(model, WeightRole::kValue));
  IMEX_TRY(const Matrix output, matrix_of(model, WeightRole::kOutput));
  facts.query_head_bytes = (query.bytes + output.bytes) / p.query_heads;
  facts.kv_head_bytes = (key.bytes + value.bytes) / p.kv_heads;
  IMEX_TRY(const Matrix gate, matrix_of(model, WeightRole::kGate));
  IMEX_TRY(const Matrix up, matrix_of(model, WeightRole::kUp));
  IMEX_TRY(const Matrix down, matrix_of(model, WeightRole::kDown));
  facts.feed_forward_bytes = (gate.bytes + up.bytes + down.bytes) / p.feed_forward;
  return facts;
}

}  // namespace imex::inference
