// From the blocks of files to packed tiles, and one row back.
#include <array>
#include <cstring>

#include "base/assert.hpp"
#include "inference/format/dequantize.hpp"
#include "inference/format/half.hpp"
#include "inference/matrix/matrix.hpp"
#include "packed_layout.hpp"

namespace imex::inference {

namespace {

/// What one row has in one group.
struct Group {
  std::array<std::uint32_t, 8> words{};  ///< of four low bits, or of 8
  std::uint32_t rest = 0;
  std::uint16_t scale = 0;  ///< f16, or the 8 bits of K types
  std::uint16_t minimum = 0;
};

template <class T>
T load(const std::byte* from) {
  T value{};
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}
unsigned byte_at(const std::byte* from, std::size_t at) {
  return std::to_integer<unsigned>(from[at]);
}

/// From a fifth bit per input to one per half of each pair: inputs 0-15 and 16-31 alternate, and of
/// four pairs the low halves come first.
std::uint32_t paired_bits(std::uint32_t by_input) {
  const auto spread = [](std::uint32_t bits) {  // 16 bits to the even places of 32
    bits = (bits | bits << 8U) & 0x00ff00ffU;
    bits = (bits | bits << 4U) & 0x0f0f0f0fU;
    bits = (bits | bits << 2U) & 0x33333333U;
    return (bits | bits << 1U) & 0x55555555U;
  };
  const auto gathered = [](std::uint32_t bits) {  // the low nibbles of four bytes
    bits &= 0x0f0f0f0fU;
    bits = (bits | bits >> 4U) & 0x00ff00ffU;
    return (bits | bits >> 8U) & 0xffffU;
  };
  const std::uint32_t alternating = spread(by_input & 0xffffU) | spread(by_input >> 16U) << 1U;
  return gathered(alternating) | gathered(alternating >> 4U) << 16U;
}

template <TensorType kType>
Group legacy_group(const std::byte* block) {
  constexpr PackedLayout kLayout = packed_layout(kType);
  Group group;
  group.scale = load<std::uint16_t>(block);
  block += 2;
  if (kLayout.minimum) {
    group.minimum = load<std::uint16_t>(block);
    block += 2;
  }
  if (kLayout.bits == 5) {
    group.rest = paired_bits(load<std::uint32_t>(block));
    block += 4;
  }
  const std::size_t words = kLayout.bits == 8 ? 8 : 4;
  std::memcpy(group.words.data(), block, words * 4);
  if (kLayout.bits == 8) {
    for (std::uint32_t& word : group.words) word ^= 0x80808080U;  // from signed to plus 128
  }
  return group;
}

/// Q4_K and Q5_K; dequantize.hpp has the layout of the 12 bytes of scales.
template <TensorType kType>
Group k_group(const std::byte* block, std::uint32_t number) {
  Group group;
  const std::byte* const scales = block + 4;
  if (number < 4) {
    group.scale = static_cast<std::uint16_t>(byte_at(scales, number) & 63U);
    group.minimum = static_cast<std::uint16_t>(byte_at(scales, number + 4) & 63U);
  } else {
    const unsigned low = byte_at(scales, number + 4);
    group.scale = static_cast<std::uint16_t>((low & 15U) | byte_at(scales, number - 4) >> 6U << 4U);
    group.minimum = static_cast<std::uint16_t>(low >> 4U | byte_at(scales, number) >> 6U << 4U);
  }
  constexpr bool kFive = kType == TensorType::kQ5K;
  const std::byte* const nibbles = block + (kFive ? 48 : 16) + number / 2 * std::size_t{32};
  const std::uint32_t shift = number % 2 * 4;
  for (std::size_t word = 0; word != 4; ++word) {
    const std::uint32_t low = load<std::uint32_t>(nibbles + word * 4) >> shift & 0x0f0f0f0fU;
    const std::uint32_t high = load<std::uint32_t>(nibbles + 16 + word * 4) >> shift & 0x0f0f0f0fU;
    group.words[word] = low | high << 4U;
  }
  if (kFive) {
    std::uint32_t fifth = 0;
    for (std::uint32_t i = 0; i != 32; i += 8) {
      // One bit of each of eight bytes: the product moves that of byte k to bit 56 + k.
      const std::uint64_t bits =
          load<std::uint64_t>(block + 16 + i) >> number & 0x0101'0101'0101'0101U;
      fifth |= static_cast<std::uint32_t>(bits * 0x0102'0408'1020'4080U >> 56U) << i;
    }
    group.rest = paired_bits(fifth);
  }
  return group;
}

Group q6_k_group(const std::byte* block, std::uint32_t number) {
  Group group;
  group.scale = static_cast<std::uint16_t>(byte_at(block, 192 + number));
  const std::size_t half = number / 8;
  const std::size_t row = number / 2 % 4;
  const std::size_t column = number % 2 * 16;
  const std::byte* const low = block + half * 64 + row % 2 * 32 + column;
  const std::byte* const high = block + 128 + half * 32 + column;
  for (std::uint32_t k = 0; k != 4; ++k) {  // four inputs are two pairs, inputs 0 and 2, 1 and 3
    const std::uint32_t nibbles =
        load<std::uint32_t>(low + k * std::size_t{4}) >> row / 2 * 4 & 0x0f0f0f0fU;
    group.words[k / 2] |= ((nibbles | nibbles >> 4U) & 0x00ff00ffU) << k % 2 * 8;
    const std::uint32_t top =
        load<std::uint32_t>(high + k * std::size_t{4}) >> row * 2 & 0x03030303U;
    group.rest |= ((top | top >> 6U) & 0x000f000fU) << k * 4;
  }
  return group;
}

/// The factors of a block that its groups share.
void pack_shared(TensorType type, const std::byte* block, std::uint32_t row, std::byte* out) {
  if (type == TensorType::kQ6K) {
    std::memcpy(out + row * std::size_t{2}, block + 208, 2);
  } else {
    std::memcpy(out + row * std::size_t{2}, block, 2);
    std::memcpy(out + (kTileRows + row) * std::size_t{2}, block + 2, 2);
  }
}

template <TensorType kType>
Group take_group(const std::byte* block, std::uint32_t number) {
  if constexpr (!packed_layout(kType).nested) {
    return legacy_group<kType>(block);
  } else if constexpr (kType == TensorType::kQ6K) {
    return q6_k_group(block, number);
  } else {
    return k_group<kType>(block, number);
  }
}

template <TensorType kType>
void pack_block(const std::byte* block, std::uint32_t row, std::byte* out) {
  constexpr PackedLayout kLayout = packed_layout(kType);
  if (kLayout.nested) pack_shared(kType, block, row, out);
  for (std::uint32_t number = 0; number != kLayout.groups; ++number) {
    const Group group = take_group<kType>(block, number);
    std::byte* const scale = out + kLayout.scales_at(number);
    std::byte* const minimum = out + kLayout.minimums_at(number);
    if (kLayout.nested) {
      scale[row] = static_cast<std::byte>(group.scale);
      if (kLayout.minimum) minimum[row] = static_cast<std::byte>(group.minimum);
    } else {
      store(scale + row * std::size_t{2}, group.scale);
      if (kLayout.minimum) store(minimum + row * std::size_t{2}, group.minimum);
    }
    std::byte* const integers = out + kLayout.integers_at(number);
    const std::size_t words = kLayout.bits == 8 ? 8 : kLayout.group_columns / 8;
    for (std::size_t word = 0; word != words; ++word) {
      store(integers + (word * kTileRows + row) * 4, group.words[word]);
    }
    if (kLayout.bits != 4 && kLayout.bits != 8) {
      store(integers + kLayout.rest_at() + row * std::size_t{4}, group.rest);
    }
  }
}

using PackBlock = void (*)(const std::byte* block, std::uint32_t row, std::byte* out);
constexpr std::array<PackBlock, 8> kPackBlock{
    pack_block<TensorType::kQ40>, pack_block<TensorType::kQ41>, pack_block<TensorType::kQ50>,
    pack_block<TensorType::kQ51>, pack_block<TensorType::kQ80>, pack_block<TensorType::kQ4K>,
    pack_block<TensorType::kQ5K>, pack_block<TensorType::kQ6K>};

/// Where pair 0-7 of a group of 16 has its input of `side`, counted in the group.
constexpr std::uint32_t input_of_16(std::uint32_t pair, std::uint32_t side) {
  return pair_input(half_pair(pair, 0), side);
}

/// The integers of a row's group, in the order of columns.
void unpack_integers(const PackedLayout& layout, const std::byte* integers, std::uint32_t row,
                     float* out) {
  const auto word = [&](std::size_t index) {
    return load<std::uint32_t>(integers + (index * kTileRows + row) * 4);
  };
  const float offset =
      layout.offset_shift == 0 ? 0.0F : static_cast<float>(1U << layout.offset_shift);
  if (layout.bits == 8) {
    for (std::uint32_t i = 0; i != 32; ++i) {
      out[i] = static_cast<float>(word(i / 4) >> i % 4 * 8 & 255U) - offset;
    }
    return;
  }
  const std::uint32_t rest_bits = layout.bits - 4;
  const std::uint32_t rest =
      rest_bits == 0 ? 0 : load<std::uint32_t>(integers + layout.rest_at() + row * std::size_t{4});
  for (std::uint32_t pair = 0; pair != layout.group_columns / 2; ++pair) {
    for (std::uint32_t side = 0; side != 2; ++side) {
      const std::uint32_t low = word(pair / 4) >> (pair % 4 * 4 + side * 16) & 15U;
      const std::uint32_t high = rest >> (pair * rest_bits + side * 16) & ((1U << rest_bits) - 1);
      const std::uint32_t input =
          layout.group_columns == 32 ? pair_input(pair, side) : input_of_16(pair, side);
      out[input] = static_cast<float>(low | high << 4U) - offset;
    }
  }
}

/// The same operations as dequantize(), so the same bits.
void unpack_block(const PackedLayout& layout, const std::byte* block, std::uint32_t row,
                  float* out) {
  const auto half = [&](std::size_t at) {
    return f16_to_f32(load<std::uint16_t>(block + at + row * std::size_t{2}));
  };
  for (std::uint32_t number = 0; number != layout.groups; ++number) {
    const std::size_t scale_at = layout.scales_at(number);
    const std::size_t minimum_at = layout.minimums_at(number);
    float scale = 0;
    float minimum = 0;
    if (!layout.nested) {
      scale = half(scale_at);
      if (layout.minimum) minimum = half(minimum_at);
    } else if (layout.minimum) {
      scale = half(0) * static_cast<float>(byte_at(block, scale_at + row));
      minimum = -(half(std::size_t{kTileRows} * 2) *
                  static_cast<float>(byte_at(block, minimum_at + row)));
    } else {
      scale =
          half(0) * static_cast<float>(static_cast<std::int8_t>(byte_at(block, scale_at + row)));
    }
    float* const values = out + number * std::size_t{layout.group_columns};
    unpack_integers(layout, block + layout.integers_at(number), row, values);
    for (std::uint32_t i = 0; i != layout.group_columns; ++i) {
      values[i] = layout.minimum ? scale * values[i] + minimum : scale * values[i];
    }
  }
}

}  // namespace

void pack_rows(const QuantisedSource& source, std::uint64_t first_tile, std::uint64_t last_tile,
               std::span<std::byte> image) noexcept {
  const PackedLayout layout = packed_layout(source.type);
  const std::uint64_t tiles = (source.rows + kTileRows - 1) / kTileRows;
  IMEX_ASSERT(image.size() == packed_bytes(source.type, source.rows, source.columns),
              "the image of the whole matrix");
  IMEX_ASSERT(first_tile <= last_tile && last_tile <= tiles, "tiles of this matrix");
  const std::size_t blocks = source.columns / layout.block_columns();
  const std::size_t source_block_bytes = layout_of(source.type).block_bytes;
  const PackBlock pack = kPackBlock[static_cast<std::size_t>(source.type) -
                                    static_cast<std::size_t>(TensorType::kQ40)];
  IMEX_ASSERT(source.bytes.size() == source.rows * blocks * source_block_bytes,
              "all blocks of the matrix");
  for (std::uint64_t tile = first_tile; tile != last_tile; ++tile) {
    const std::uint64_t first_row = tile * kTileRows;
    const auto rows = static_cast<std::uint32_t>(
        source.rows - first_row < kTileRows ? source.rows - first_row : kTileRows);
    std::byte* out = image.data() + tile * blocks * layout.block_bytes();
    for (std::size_t b = 0; b != blocks; ++b, out += layout.block_bytes()) {
      if (rows != kTileRows) std::memset(out, 0, layout.block_bytes());
      for (std::uint32_t row = 0; row != rows; ++row) {
        pack(source.bytes.data() + ((first_row + row) * blocks + b) * source_block_bytes, row, out);
      }
    }
  }
}

void read_row(const MatrixView& matrix, std::uint64_t row, std::span<float> out) noexcept {
  IMEX_ASSERT(row < matrix.row_count() && out.size() == matrix.column_count(),
              "a row of the matrix, and room for exactly its columns");
  if (!matrix.is_packed()) {
    const std::size_t row_bytes = out.size() * layout_of(matrix.type()).block_bytes;
    dequantize(matrix.type(), {matrix.data() + row * matrix.stride_bytes(), row_bytes}, out);
    return;
  }
  const PackedLayout layout = packed_layout(matrix.type());
  const std::uint64_t in_image = matrix.skipped_rows() + row;
  const std::byte* block = matrix.data() + in_image / kTileRows * matrix.stride_bytes();
  for (std::size_t column = 0; column != out.size(); column += layout.block_columns()) {
    unpack_block(layout, block, static_cast<std::uint32_t>(in_image % kTileRows),
                 out.data() + column);
    block += layout.block_bytes();
  }
}

}  // namespace imex::inference
