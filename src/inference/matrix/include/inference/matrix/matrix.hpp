/// Weight matrices as the kernels read them.
///
/// F32, F16 and BF16 stay as they lie in a file: row-major, at any alignment. Quantised types are
/// repacked once into tiles of 16 rows (packed_layout.hpp), which keep every bit of the source and
/// about its size. A packed image has no pointers: it may lie in shared memory, be written by
/// several processes, each its own tiles, and be read in part by ranks that hold a range of rows or
/// columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "inference/format/tensor.hpp"

namespace imex::inference {

/// Rows of a tile of a packed matrix; the last tile is filled up with zeros.
inline constexpr std::uint32_t kTileRows = 16;

/// How a matrix of `type` is stored for the kernels.
struct MatrixFormat {
  TensorType type = TensorType::kF32;
  bool packed = false;
  std::uint32_t column_unit = 1;  ///< column ranges begin and end at multiples
  std::uint32_t row_unit = 1;     ///< row ranges may cut anywhere, but cost least at multiples
};
/// Errors: kUnsupported (no type of weights).
[[nodiscard]] Result<MatrixFormat> matrix_format(TensorType type);

/// Size of the packed image. `type` is quantised, `columns` are multiples of its column unit.
[[nodiscard]] std::uint64_t packed_bytes(TensorType type, std::uint64_t rows,
                                         std::uint64_t columns) noexcept;

/// What pack_rows() reads: all blocks of a quantised matrix, row-major, as files hold them.
struct QuantisedSource {
  TensorType type = TensorType::kQ80;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::span<const std::byte> bytes;
};
/// Writes tiles `first_tile` up to `last_tile` (not included) of the packed image of all rows,
/// which is `image`. Calls for different tiles may run at the same time, in any process.
void pack_rows(const QuantisedSource& source, std::uint64_t first_tile, std::uint64_t last_tile,
               std::span<std::byte> image) noexcept;

/// A matrix [rows, columns] or a part of one: a view, cheap to copy. Borrows the bytes.
class MatrixView {
 public:
  MatrixView() = default;

  /// F32, F16 or BF16, row-major, as many bytes as that takes.
  [[nodiscard]] static MatrixView plain(TensorType type, std::span<const std::byte> bytes,
                                        std::uint64_t rows, std::uint64_t columns) noexcept;
  /// The image that pack_rows() wrote.
  [[nodiscard]] static MatrixView packed(TensorType type, std::span<const std::byte> image,
                                         std::uint64_t rows, std::uint64_t columns) noexcept;

  /// Rows `begin` up to `end` (not included). A packed part that does not begin or end at a tile
  /// costs as much as its whole tiles.
  [[nodiscard]] MatrixView rows(std::uint64_t begin, std::uint64_t end) const noexcept;
  /// Columns `begin` up to `end` (not included), both multiples of the column unit.
  [[nodiscard]] MatrixView columns(std::uint64_t begin, std::uint64_t end) const noexcept;

  [[nodiscard]] TensorType type() const noexcept { return type_; }
  [[nodiscard]] bool is_packed() const noexcept { return packed_; }
  [[nodiscard]] std::uint64_t row_count() const noexcept { return rows_; }
  [[nodiscard]] std::uint64_t column_count() const noexcept { return columns_; }
  /// What one product reads.
  [[nodiscard]] std::uint64_t bytes() const noexcept;

  /// For kernels. Plain: the first row. Packed: the tile of the first row, at the first column.
  [[nodiscard]] const std::byte* data() const noexcept { return data_; }
  /// For kernels. Bytes from a row, or from a tile, to the next.
  [[nodiscard]] std::uint64_t stride_bytes() const noexcept { return stride_bytes_; }
  /// For kernels. Rows of the first tile that are not part of the view.
  [[nodiscard]] std::uint32_t skipped_rows() const noexcept { return skipped_rows_; }

 private:
  const std::byte* data_ = nullptr;
  std::uint64_t stride_bytes_ = 0;
  std::uint64_t rows_ = 0;
  std::uint64_t columns_ = 0;
  std::uint32_t skipped_rows_ = 0;
  TensorType type_ = TensorType::kF32;
  bool packed_ = false;
};

/// Writes the values of one row to `out`, one float per column; the same values as dequantize().
/// For looking up embeddings.
void read_row(const MatrixView& matrix, std::uint64_t row, std::span<float> out) noexcept;

}  // namespace imex::inference
