/// Element types and reductions of collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <imex/export.h>

namespace imex {

/// The numbers are those of NCCL where it has the type; they travel in the C API.
enum class DataType : std::uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8E4m3 = 10,  ///< no infinities; beyond 448 becomes NaN
  kFloat8E5m2 = 11,
  kInt16 = 12,
  kUint16 = 13,
};
inline constexpr std::uint32_t kDataTypeCount = 14;

/// Floats accumulate in f32 (f64 for f64) and are rounded once, to nearest even. Integers wrap;
/// their average is the wrapped sum divided toward zero. Sums start from +0.0, so that a sum of
/// -0.0 is +0.0. The minimum or maximum with a NaN is a NaN.
enum class ReduceOp : std::uint8_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4 };
inline constexpr std::uint32_t kReduceOpCount = 5;

[[nodiscard]] constexpr std::size_t element_bytes(DataType type) noexcept {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kFloat8E4m3:
    case DataType::kFloat8E5m2:
      return 1;
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kInt16:
    case DataType::kUint16:
      return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64:
      return 8;
  }
  return 0;  // a number that is no type
}

/// "f32", "bf16", "e4m3", "i8", ...; "sum", "avg", ... Static storage.
[[nodiscard]] IMEX_API std::string_view data_type_name(DataType type) noexcept;
[[nodiscard]] IMEX_API std::string_view reduce_op_name(ReduceOp op) noexcept;
[[nodiscard]] IMEX_API std::optional<DataType> data_type_from_name(std::string_view name) noexcept;
[[nodiscard]] IMEX_API std::optional<ReduceOp> reduce_op_from_name(std::string_view name) noexcept;

}  // namespace imex
