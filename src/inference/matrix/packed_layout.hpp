/// Bytes of a packed matrix: [tile of 16 rows][block of columns]. A block is the unit that its type
/// has scales for, and begins at no particular alignment. In this order, little-endian:
///
///   d        f16 x 16 rows, and the same of dmin    only K types (blocks of 256 columns)
///   scales   x 16 rows, per group: f16, of K types 8 bits
///   minimums likewise, after the scales of their group, where the type has them
///   integers per group of 32 (Q6_K: 16) columns, unsigned:
///              4 low bits   [4 (2)][16 rows] u32 of eight each        all but Q8_0
///              rest         [16 rows] u32: bit 5 of 32, or bits 5 and 6 of 16
///              8 bits       [8][16 rows] u32 of four each             Q8_0
///
/// One 32-bit lane belongs to one row, so that no kernel adds across lanes. A kernel takes a lane
/// apart by shift and mask into two 16-bit halves: a pair. Pair p of 32 inputs are those that
/// pair_input() names, an order in which the u32 of Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 are those of
/// the file. In a u32 of eight, pair 4k + j of u32 k is ((u32 >> 4j) & 0x000f000f); in one of four,
/// the bytes 0 and 2, then 1 and 3 (byte_pair()). Values are integer - offset, where the type has
/// one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "inference/format/tensor.hpp"
#include "inference/matrix/matrix.hpp"

namespace imex::inference {

struct PackedLayout {
  std::uint32_t bits = 0;
  std::uint32_t group_columns = 32;
  std::uint32_t groups = 1;        ///< of a block
  std::uint32_t offset_shift = 0;  ///< the offset is 2 to this power; 0: none
  bool minimum = false;            ///< value = scale * integer + minimum; K types: - minimum
  bool nested = false;             ///< K types: scales of 8 bits times d; Q6_K's are signed

  [[nodiscard]] constexpr std::uint32_t block_columns() const noexcept {
    return group_columns * groups;
  }
  /// Of one group, minimums included.
  [[nodiscard]] constexpr std::uint32_t scale_bytes() const noexcept {
    return kTileRows * (nested ? 1U : 2U) * (minimum ? 2U : 1U);
  }
  [[nodiscard]] constexpr std::uint32_t scales_at(std::uint32_t group) const noexcept {
    return (nested ? kTileRows * 2 * (minimum ? 2U : 1U) : 0) + group * scale_bytes();
  }
  [[nodiscard]] constexpr std::uint32_t minimums_at(std::uint32_t group) const noexcept {
    return scales_at(group) + kTileRows * (nested ? 1U : 2U);
  }
  [[nodiscard]] constexpr std::uint32_t integers_at(std::uint32_t group) const noexcept {
    return scales_at(groups) + group * integer_bytes();
  }
  /// Of a group's integers: where the bits above the lower four are.
  [[nodiscard]] constexpr std::uint32_t rest_at() const noexcept {
    return kTileRows * group_columns / 2;
  }
  [[nodiscard]] constexpr std::uint32_t integer_bytes() const noexcept {
    return kTileRows * group_columns * bits / 8;
  }
  [[nodiscard]] constexpr std::uint32_t block_bytes() const noexcept { return integers_at(groups); }
};

/// bits == 0: not a packed type.
[[nodiscard]] constexpr PackedLayout packed_layout(TensorType type) noexcept {
  switch (type) {
    case TensorType::kQ40:
      return {.bits = 4, .offset_shift = 3};
    case TensorType::kQ41:
      return {.bits = 4, .minimum = true};
    case TensorType::kQ50:
      return {.bits = 5, .offset_shift = 4};
    case TensorType::kQ51:
      return {.bits = 5, .minimum = true};
    case TensorType::kQ80:
      return {.bits = 8, .offset_shift = 7};
    case TensorType::kQ4K:
      return {.bits = 4, .groups = 8, .minimum = true, .nested = true};
    case TensorType::kQ5K:
      return {.bits = 5, .groups = 8, .minimum = true, .nested = true};
    case TensorType::kQ6K:
      return {.bits = 6, .group_columns = 16, .groups = 16, .offset_shift = 5, .nested = true};
    default:
      return {};
  }
}

/// Side 0 or 1 (low or high half) of pair 0-15, as one of 32 inputs. Inputs 0-15 are the pairs with
/// even numbers, which is what makes groups of 16 possible.
[[nodiscard]] constexpr std::uint32_t pair_input(std::uint32_t pair, std::uint32_t side) noexcept {
  return pair / 4 * 4 + pair % 2 * 16 + pair % 4 / 2 + side * 2;
}
/// The pair of u32 0-7 of a row's 8-bit integers: of bytes 0 and 2, or (`odd`) 1 and 3.
[[nodiscard]] constexpr std::uint32_t byte_pair(std::uint32_t word, std::uint32_t odd) noexcept {
  return word % 4 * 4 + word / 4 + odd * 2;
}
/// The pair of 32 inputs that is pair 0-7 of the first or second group of 16.
[[nodiscard]] constexpr std::uint32_t half_pair(std::uint32_t pair, std::uint32_t half) noexcept {
  return pair * 2 + half;
}

}  // namespace imex::inference
