/// The inputs of matrix products.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace imex::inference {

/// 32 inputs of one token as packed matrices want them: integers of 16 bits and one scale. (8 bits
/// move the logits of a 135M model by 0.19, 16 bits by 0.001.)
struct alignas(32) InputBlock {
  /// Two integers each, in the order in which kernels take weights apart (packed_layout.hpp).
  std::array<std::uint32_t, 16> pairs;
  float scale;                                     ///< of the integers
  float scaled_sum;                                ///< scale times the sum of all integers
  std::int32_t negative_sum;                       ///< of all integers
  std::array<std::int32_t, 2> half_negative_sums;  ///< of inputs 0-15 and 16-31
  std::array<std::uint32_t, 3> unused;
};
static_assert(sizeof(InputBlock) == 96);

/// Inputs of up to `tokens_max` tokens. All memory is taken at once, none by set(). Not for several
/// threads while set() runs; products only read.
class Activations {
 public:
  /// Tokens are kept in tiles that a kernel takes at once: as many of this width as there are, then
  /// at most one each of half, a quarter and an eighth.
  static constexpr std::size_t kTokenTile = 8;

  /// Who will read the inputs: saves the form that nobody does.
  enum class Form : std::uint8_t { kPlain = 1, kPacked = 2, kBoth = 3 };

  Activations(std::size_t tokens_max, std::size_t columns_max);

  /// Copies `values`, [tokens, columns] row-major. Of a rest of columns that fills no block of 32
  /// only the plain form is made. An infinity or NaN makes NaN or infinity of what its token meets
  /// it in.
  void set(std::span<const float> values, std::size_t tokens, std::size_t columns,
           Form form = Form::kBoth) noexcept;

  [[nodiscard]] std::size_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::size_t columns() const noexcept { return columns_; }
  [[nodiscard]] bool has(Form form) const noexcept {
    return (static_cast<unsigned>(form_) & static_cast<unsigned>(form)) != 0;
  }

  /// For kernels: the values of a token; those of the next follow after plain_stride().
  [[nodiscard]] const float* plain(std::size_t token) const noexcept {
    return plain_[0].data() + token * plain_stride_;
  }
  [[nodiscard]] std::size_t plain_stride() const noexcept { return plain_stride_; }
  /// For kernels: blocks [column / 32][tokens of the tile] of the tile that begins with `token`.
  [[nodiscard]] const InputBlock* tile(std::size_t token) const noexcept {
    return blocks_.data() + token * (columns_ / 32);
  }
  /// Width of the tile that begins with `token`, of so many tokens in all.
  [[nodiscard]] static std::size_t tile_width(std::size_t token, std::size_t tokens) noexcept;

 private:
  struct alignas(64) Line : std::array<float, 16> {};  // rows begin at cache lines

  std::size_t tokens_max_;
  std::size_t columns_max_;
  std::vector<Line> plain_;
  std::vector<InputBlock> blocks_;
  std::size_t tokens_ = 0;
  std::size_t columns_ = 0;
  std::size_t plain_stride_ = 0;
  Form form_ = Form::kBoth;
};

/// The columns of activations from `first_column` on, for a part of a matrix's columns. Borrows.
struct InputView {
  // Implicit: the whole is the usual case.
  InputView(const Activations& from,  // NOLINT(google-explicit-constructor)
            std::size_t column = 0) noexcept
      : activations(&from), first_column(column) {}

  const Activations* activations;
  std::size_t first_column;  ///< for packed matrices a multiple of 32
};

}  // namespace imex::inference
