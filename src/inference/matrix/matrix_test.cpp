#include "inference/matrix/matrix.hpp"

#include <bit>

#include "testing_matrices.hpp"

namespace imex::inference {
namespace {

using testing::kWeightTypes;
using testing::TestMatrix;

TEST(MatrixTest, RowsHaveTheBitsOfDequantize) {
  for (const TensorType type : kWeightTypes) {
    const std::size_t unit = matrix_format(type)->column_unit;
    const std::size_t columns = unit == 1 ? 37 : unit * 3;
    const TestMatrix matrix = TestMatrix::random(type, 37, columns, 11);
    const auto same = [&](const MatrixView& view, std::size_t first_row, std::size_t first_column) {
      std::vector<float> values(view.column_count());
      for (std::size_t row = 0; row != view.row_count(); ++row) {
        read_row(view, row, values);
        for (std::size_t c = 0; c != values.size(); ++c) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(values[c]),
                    std::bit_cast<std::uint32_t>(matrix.value(first_row + row, first_column + c)))
              << layout_of(type).name << " row " << row << " column " << c;
        }
      }
    };
    ASSERT_NO_FATAL_FAILURE(same(matrix.view(), 0, 0));
    ASSERT_NO_FATAL_FAILURE(same(matrix.view().rows(3, 35), 3, 0));
    ASSERT_NO_FATAL_FAILURE(same(matrix.view().columns(unit, 2 * unit).rows(17, 18), 17, unit));
  }
}

TEST(MatrixTest, PackedImagesAreAboutAsLargeAsTheirSource) {
  for (const TensorType type : kWeightTypes) {
    const MatrixFormat format = *matrix_format(type);
    EXPECT_EQ(format.type, type);
    if (!format.packed) continue;
    const std::uint64_t source = *tensor_bytes(type, std::vector<std::uint64_t>{160, 1536});
    const std::uint64_t packed = packed_bytes(type, 160, 1536);
    EXPECT_GE(packed, source) << layout_of(type).name;
    EXPECT_LE(static_cast<double>(packed), static_cast<double>(source) * 1.03)
        << layout_of(type).name;
    EXPECT_EQ(packed_bytes(type, 17, 256), packed_bytes(type, 32, 256));
  }
}

TEST(MatrixTest, ViewsSayWhatAProductReads) {
  const TestMatrix packed = TestMatrix::random(TensorType::kQ41, 48, 96, 1);
  const std::uint64_t all = packed_bytes(TensorType::kQ41, 48, 96);
  EXPECT_EQ(packed.view().bytes(), all);
  EXPECT_EQ(packed.view().rows(16, 32).bytes(), all / 3);
  EXPECT_EQ(packed.view().rows(15, 17).bytes(), all / 3 * 2);  // cuts two tiles
  EXPECT_EQ(packed.view().rows(5, 5).bytes(), 0U);
  EXPECT_EQ(packed.view().columns(32, 64).bytes(), all / 3);
  const TestMatrix plain = TestMatrix::random(TensorType::kBf16, 10, 7, 1);
  EXPECT_EQ(plain.view().rows(2, 5).columns(1, 3).bytes(), 3U * 2 * 2);
}

TEST(MatrixTest, TypesThatAreNoWeightsAreRefused) {
  for (const TensorType type : {TensorType::kF64, TensorType::kI8, TensorType::kF8E4M3}) {
    const auto format = matrix_format(type);
    ASSERT_FALSE(format);
    EXPECT_EQ(format.error().code, Errc::kUnsupported);
    EXPECT_NE(format.error().to_string().find(layout_of(type).name), std::string::npos);
  }
}

TEST(MatrixDeathTest, CutsThroughBlocksAreRefused) {
  const TestMatrix matrix = TestMatrix::random(TensorType::kQ4K, 16, 512, 1);
  EXPECT_DEATH(static_cast<void>(matrix.view().columns(32, 256)), "columns are cut between blocks");
  EXPECT_DEATH(static_cast<void>(matrix.view().rows(3, 17)), "rows of this view");
}

}  // namespace
}  // namespace imex::inference
