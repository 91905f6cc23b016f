#include "inference/format/tensor.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace imex::inference {

namespace {

constexpr std::array<TypeLayout, 23> kLayouts{{
    {"F32", 1, 4, true},      {"F16", 1, 2, true},      {"BF16", 1, 2, true},
    {"Q4_0", 32, 18, true},   {"Q4_1", 32, 20, true},   {"Q5_0", 32, 22, true},
    {"Q5_1", 32, 24, true},   {"Q8_0", 32, 34, true},   {"Q4_K", 256, 144, true},
    {"Q5_K", 256, 176, true}, {"Q6_K", 256, 210, true}, {"F64", 1, 8, false},
    {"F8_E4M3", 1, 1, false}, {"F8_E5M2", 1, 1, false}, {"BOOL", 1, 1, false},
    {"U8", 1, 1, false},      {"I8", 1, 1, false},      {"U16", 1, 2, false},
    {"I16", 1, 2, false},     {"U32", 1, 4, false},     {"I32", 1, 4, false},
    {"U64", 1, 8, false},     {"I64", 1, 8, false},
}};
static_assert(kLayouts.size() == static_cast<std::size_t>(TensorType::kI64) + 1);

}  // namespace

const TypeLayout& layout_of(TensorType type) noexcept {
  return kLayouts[static_cast<std::size_t>(type)];
}

std::optional<TensorType> find_type(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kLayouts, name, &TypeLayout::name);
  if (found == kLayouts.end()) return std::nullopt;
  return static_cast<TensorType>(found - kLayouts.begin());
}

Result<std::uint64_t> tensor_bytes(TensorType type, std::span<const std::uint64_t> shape) {
  const TypeLayout& layout = layout_of(type);
  const std::uint64_t row = shape.empty() ? 1 : shape.back();
  if (row % layout.block_elements != 0) {
    return fail(Errc::kDataLoss, fmt::format("rows of {} elements are not whole blocks of {} ({})",
                                             row, layout.block_elements, layout.name));
  }
  std::uint64_t bytes = row / layout.block_elements;
  bool overflow = __builtin_mul_overflow(bytes, layout.block_bytes, &bytes);
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) {
    overflow = __builtin_mul_overflow(bytes, shape[i], &bytes) || overflow;
  }
  if (overflow || bytes > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return fail(Errc::kDataLoss,
                fmt::format("a tensor of shape {} and type {} is larger than any file",
                            format_shape(shape), layout.name));
  }
  return bytes;
}

std::string format_shape(std::span<const std::uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace imex::inference
