#include "converted_weight.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "inference/format/dequantize.hpp"
#include "inference/format/half.hpp"

namespace imex::inference {

namespace {

void store(std::span<const float> values, TensorType type, std::span<std::byte> out) {
  if (type == TensorType::kF32) {
    std::ranges::copy(std::as_bytes(values), out.begin());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half =
        type == TensorType::kF16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
    std::memcpy(out.data() + i * sizeof half, &half, sizeof half);
  }
}

/// Row by row, so that little is held as float.
Result<void> convert_rows(const Tensor& weight, TensorType type, std::span<std::byte> out) {
  const std::size_t elements = weight.shape.back();
  const std::size_t rows = elements == 0 ? 0 : out.size() / layout_of(type).block_bytes / elements;
  const std::size_t row_in = rows == 0 ? 0 : weight.bytes.size() / rows;
  const std::size_t row_out = rows == 0 ? 0 : out.size() / rows;
  const float largest = type == TensorType::kF16 ? 65'504.0F : INFINITY;
  std::vector<float> values(elements);
  for (std::size_t row = 0; row < rows; ++row) {
    dequantize(weight.type, weight.bytes.subspan(row * row_in, row_in), values);
    const auto beyond = [&](float value) {
      return std::isfinite(value) && std::abs(value) > largest;
    };
    if (const auto found = std::ranges::find_if(values, beyond); found != values.end()) {
      return fail(Errc::kDataLoss,
                  fmt::format("tensor '{}' holds {}, which F16 does not", weight.name, *found),
                  "BF16 has the range of F32");
    }
    store(values, type, out.subspan(row * row_out, row_out));
  }
  return {};
}

/// Heads of this role, whose rows are pairs in two possible orders; 0: it has no such rows.
std::uint32_t rotated_heads(WeightRole role, const HyperParameters& p) {
  switch (role) {
    case WeightRole::kQuery:
    case WeightRole::kQueryBias:
      return p.query_heads;
    case WeightRole::kKey:
    case WeightRole::kKeyBias:
      return p.kv_heads;
    default:
      return 0;
  }
}

/// Rows 2i and 2i + 1 of each head become rows i and i + d/2.
void separate_pairs(std::span<std::byte> data, std::uint32_t heads, std::uint32_t head_size) {
  const std::size_t row = data.size() / heads / head_size;
  std::vector<std::byte> head(row * head_size);
  for (std::uint32_t h = 0; h < heads; ++h) {
    const auto place = data.subspan(h * head.size(), head.size());
    std::ranges::copy(place, head.begin());
    for (std::uint32_t from = 0; from < head_size; ++from) {
      const std::size_t to = from / 2 + from % 2 * (head_size / 2);
      std::memcpy(place.data() + to * row, head.data() + from * row, row);
    }
  }
}

}  // namespace

Result<TensorType> converted_type(const Tensor& weight, std::optional<TensorType> wanted) {
  const bool plain = !wanted || *wanted == TensorType::kF32 || *wanted == TensorType::kF16 ||
                     *wanted == TensorType::kBf16;
  if (!plain) {
    return fail(Errc::kInvalidArgument, fmt::format("weights in {}", layout_of(*wanted).name),
                "F32, F16 and BF16 are written");
  }
  if (wanted) return *wanted;
  if (layout_of(weight.type).block_elements == 1) return weight.type;
  return fail(Errc::kInvalidArgument,
              fmt::format("tensor '{}' is {}, which only GGUF files hold", weight.name,
                          layout_of(weight.type).name),
              "choose F32, F16 or BF16 for the copy");
}

Result<void> convert_weight(const Tensor& weight, WeightRole role, const HyperParameters& p,
                            TensorType type, std::span<std::byte> out) {
  if (weight.type == type) {
    std::ranges::copy(weight.bytes, out.begin());
  } else {
    IMEX_CHECK_OK(convert_rows(weight, type, out));
  }
  const std::uint32_t heads = rotated_heads(role, p);
  if (heads != 0 && p.rope_pairs == RopePairs::kInterleaved) {
    separate_pairs(out, heads, p.head_size);
  }
  return {};
}

}  // namespace imex::inference
