/// What every format of model files has in common: named tensors of typed elements.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace imex::inference {

/// How the elements of a tensor are stored. The kQ types hold blocks of quantised values along the
/// last dimension (docs of each: dequantize.hpp).
enum class TensorType : std::uint8_t {
  kF32,
  kF16,
  kBf16,
  kQ40,
  kQ41,
  kQ50,
  kQ51,
  kQ80,
  kQ4K,
  kQ5K,
  kQ6K,
  // Never weights of a model that runs here; files carry them all the same.
  kF64,
  kF8E4M3,
  kF8E5M2,
  kBool,
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
};

struct TypeLayout {
  std::string_view name;         ///< "Q4_K"
  std::uint32_t block_elements;  ///< 1 for plain types
  std::uint32_t block_bytes;
  bool weight;  ///< dequantize() takes it
};
[[nodiscard]] const TypeLayout& layout_of(TensorType type) noexcept;
/// The type of that name; none if there is none.
[[nodiscard]] std::optional<TensorType> find_type(std::string_view name) noexcept;

/// Bytes of a tensor; rows (the last dimension) are whole blocks. No dimensions: one element.
/// Errors: kDataLoss (rows that are not whole blocks, more than 2^63 bytes).
[[nodiscard]] Result<std::uint64_t> tensor_bytes(TensorType type,
                                                 std::span<const std::uint64_t> shape);

/// One tensor of a file. `bytes` lie in the file's mapping and live as long as its reader; they are
/// aligned only as far as the format promises.
struct Tensor {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<std::uint64_t> shape;  ///< slowest dimension first: [out, in]; row-major
  std::span<const std::byte> bytes;  ///< exactly tensor_bytes(type, shape)
};

/// "[49152, 576]".
[[nodiscard]] std::string format_shape(std::span<const std::uint64_t> shape);

}  // namespace imex::inference
