#include "inference/matrix/matrix.hpp"

#include <fmt/format.h>

#include "base/assert.hpp"
#include "packed_layout.hpp"

namespace imex::inference {

namespace {

std::uint64_t tiles_of(std::uint64_t rows) { return (rows + kTileRows - 1) / kTileRows; }

std::uint64_t tile_bytes(const PackedLayout& layout, std::uint64_t columns) {
  return columns / layout.block_columns() * layout.block_bytes();
}

bool is_plain(TensorType type) { return type <= TensorType::kBf16; }

}  // namespace

Result<MatrixFormat> matrix_format(TensorType type) {
  if (is_plain(type)) return MatrixFormat{.type = type};
  const PackedLayout layout = packed_layout(type);
  if (layout.bits == 0) {
    return fail(Errc::kUnsupported,
                fmt::format("no matrix products with elements of type {}", layout_of(type).name));
  }
  return MatrixFormat{
      .type = type, .packed = true, .column_unit = layout.block_columns(), .row_unit = kTileRows};
}

std::uint64_t packed_bytes(TensorType type, std::uint64_t rows, std::uint64_t columns) noexcept {
  const PackedLayout layout = packed_layout(type);
  IMEX_ASSERT(layout.bits != 0, "only quantised types are packed");
  IMEX_ASSERT(columns % layout.block_columns() == 0, "rows are whole blocks");
  return tiles_of(rows) * tile_bytes(layout, columns);
}

MatrixView MatrixView::plain(TensorType type, std::span<const std::byte> bytes, std::uint64_t rows,
                             std::uint64_t columns) noexcept {
  IMEX_ASSERT(is_plain(type), "quantised matrices are packed first");
  MatrixView view;
  view.type_ = type;
  view.data_ = bytes.data();
  view.stride_bytes_ = columns * layout_of(type).block_bytes;
  view.rows_ = rows;
  view.columns_ = columns;
  IMEX_ASSERT(bytes.size() == rows * view.stride_bytes_, "exactly the bytes of the matrix");
  return view;
}

MatrixView MatrixView::packed(TensorType type, std::span<const std::byte> image, std::uint64_t rows,
                              std::uint64_t columns) noexcept {
  IMEX_ASSERT(image.size() == packed_bytes(type, rows, columns), "exactly the packed image");
  MatrixView view;
  view.type_ = type;
  view.packed_ = true;
  view.data_ = image.data();
  view.stride_bytes_ = tile_bytes(packed_layout(type), columns);
  view.rows_ = rows;
  view.columns_ = columns;
  return view;
}

MatrixView MatrixView::rows(std::uint64_t begin, std::uint64_t end) const noexcept {
  IMEX_ASSERT(begin <= end && end <= rows_, "rows of this view");
  MatrixView part = *this;
  part.rows_ = end - begin;
  if (packed_) {
    const std::uint64_t first = skipped_rows_ + begin;
    part.data_ += first / kTileRows * stride_bytes_;
    part.skipped_rows_ = static_cast<std::uint32_t>(first % kTileRows);
  } else {
    part.data_ += begin * stride_bytes_;
  }
  return part;
}

MatrixView MatrixView::columns(std::uint64_t begin, std::uint64_t end) const noexcept {
  IMEX_ASSERT(begin <= end && end <= columns_, "columns of this view");
  MatrixView part = *this;
  part.columns_ = end - begin;
  if (packed_) {
    const PackedLayout layout = packed_layout(type_);
    const std::uint32_t unit = layout.block_columns();
    IMEX_ASSERT(begin % unit == 0 && end % unit == 0, "columns are cut between blocks");
    part.data_ += tile_bytes(layout, begin);
  } else {
    part.data_ += begin * layout_of(type_).block_bytes;
  }
  return part;
}

std::uint64_t MatrixView::bytes() const noexcept {
  if (!packed_) return rows_ * columns_ * layout_of(type_).block_bytes;
  const std::uint64_t tiles = rows_ == 0 ? 0 : tiles_of(skipped_rows_ + rows_);
  return tiles * tile_bytes(packed_layout(type_), columns_);
}

}  // namespace imex::inference
