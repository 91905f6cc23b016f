#include "inference/matrix/product.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/assert.hpp"
#include "kernels.hpp"
#include "packed_layout.hpp"

namespace imex::inference {

namespace {

std::atomic<const Kernels*> chosen_kernels{nullptr};  // relaxed: the tables are constants

/// Inputs that stay in the second-level cache while all rows pass; plain weights likewise.
constexpr std::size_t kInputsBytes = std::size_t{512} << 10U;
constexpr std::size_t kWeightsBytes = std::size_t{256} << 10U;
/// Groups of 32 columns that are expanded at once: 10 KB, in the first-level cache with the inputs
/// of a tile of tokens. A block of every type.
constexpr std::size_t kExpandedGroups = 8;
/// Tokens that pass while a tile of rows is expanded: enough to pay for it even if their inputs do
/// not stay in the cache, and at most what `edge` has room for.
constexpr std::size_t kTokensMin = 32;
constexpr std::size_t kTokensMax = 256;

/// Tokens whose inputs fit, in whole tiles.
std::size_t tokens_at_once(std::size_t token_bytes) {
  const std::size_t fitting = kInputsBytes / std::max<std::size_t>(1, token_bytes);
  return std::clamp(fitting, kTokensMin, kTokensMax) / Activations::kTokenTile *
         Activations::kTokenTile;
}

/// A product with a packed matrix, tile by tile of rows.
class PackedProduct {
 public:
  PackedProduct(const MatrixView& matrix, const InputView& in, float* out, std::size_t out_stride)
      : matrix_(matrix),
        activations_(*in.activations),
        first_input_(in.first_column / 32),
        out_(out),
        out_stride_(out_stride),
        layout_(packed_layout(matrix.type())),
        blocks_(matrix.column_count() / layout_.block_columns()),
        end_(matrix.skipped_rows() + matrix.row_count()) {
    IMEX_ASSERT(activations_.has(Activations::Form::kPacked), "set() made the packed form");
    IMEX_ASSERT(in.first_column % 32 == 0, "inputs are cut between blocks");
  }

  void run() const {
    const std::size_t tokens = activations_.tokens();
    const std::size_t wide = tokens / Activations::kTokenTile * Activations::kTokenTile;
    const std::size_t tiles = (end_ + kTileRows - 1) / kTileRows;
    const std::size_t at_once = tokens_at_once(matrix_.column_count() / 32 * sizeof(InputBlock));
    for (std::size_t token = 0; token < wide; token += at_once) {
      for (std::size_t tile = 0; tile < tiles; tile += kWideTiles) {
        multiply_wide(tile, std::min(tiles - tile, kWideTiles), token,
                      std::min(wide, token + at_once));
      }
    }
    if (wide == tokens) return;
    const Tiles streamed = tokens - wide == 1 ? multiply_streams(wide) : Tiles{};
    for (std::size_t tile = 0; tile != streamed.first; ++tile) multiply_narrow(tile, wide);
    for (std::size_t tile = streamed.last; tile != tiles; ++tile) multiply_narrow(tile, wide);
  }

 private:
  /// Of some tiles, those rows that are part of the matrix.
  struct Rows {
    std::size_t first, last;
  };
  [[nodiscard]] Rows rows_of(std::size_t tile, std::size_t count) const noexcept {
    return {.first = tile == 0 ? matrix_.skipped_rows() : 0,
            .last = std::min(count * kTileRows, end_ - tile * kTileRows)};
  }
  [[nodiscard]] bool whole(std::size_t tile, std::size_t count) const noexcept {
    const Rows rows = rows_of(tile, count);
    return rows.last - rows.first == count * kTileRows;
  }
  [[nodiscard]] const std::byte* weights_of(std::size_t tile) const noexcept {
    return matrix_.data() + tile * matrix_.stride_bytes();
  }
  [[nodiscard]] std::size_t type_index() const noexcept {
    return static_cast<std::size_t>(matrix_.type()) - static_cast<std::size_t>(TensorType::kQ40);
  }
  /// Where the first row of a tile that is a part of the matrix goes.
  [[nodiscard]] float* out_of(std::size_t tile, std::size_t token) const noexcept {
    const std::size_t row = tile == 0 ? 0 : tile * kTileRows - matrix_.skipped_rows();
    return out_ + token * out_stride_ + row;
  }
  /// From tiles of which all rows were computed, those that are part of the matrix.
  void copy(const float* computed, std::size_t tile, std::size_t count, std::size_t token,
            std::size_t tokens) const {
    const Rows rows = rows_of(tile, count);
    for (std::size_t i = 0; i != tokens; ++i) {
      std::memcpy(out_of(tile, token + i), computed + i * count * kTileRows + rows.first,
                  (rows.last - rows.first) * sizeof(float));
    }
  }

  /// Tokens that fill tiles: their kernel reads weights taken apart, once for all of them.
  void multiply_wide(std::size_t tile, std::size_t tiles, std::size_t begin,
                     std::size_t end) const {
    const Kernels& use = kernels();
    const ExpandedKind kind = layout_.group_columns == 16 ? ExpandedKind::kHalves
                              : layout_.minimum           ? ExpandedKind::kMinimum
                                                          : ExpandedKind::kPlain;
    const WideKernel kernel = use.wide[static_cast<std::size_t>(kind)][tiles - 1];
    const bool direct = whole(tile, tiles);
    alignas(64) float edge[kTokensMax * kWideTiles * kTileRows];
    float* const out = direct ? out_of(tile, begin) : edge;
    const std::size_t out_stride = direct ? out_stride_ : tiles * kTileRows;
    const std::size_t per_block = layout_.block_columns() / 32;
    const std::size_t blocks_at_once = kExpandedGroups / per_block;
    ExpandedGroup expanded[kExpandedGroups];
    for (std::size_t block = 0; block < blocks_; block += blocks_at_once) {
      const std::size_t count = std::min(blocks_at_once, blocks_ - block);
      for (std::size_t i = 0; i != tiles; ++i) {
        use.expand[type_index()](weights_of(tile + i) + block * layout_.block_bytes(), count, i,
                                 expanded);
      }
      for (std::size_t token = begin; token != end; token += Activations::kTokenTile) {
        kernel({.weights = expanded,
                .groups = count * per_block,
                .in = activations_.tile(token) +
                      (first_input_ + block * per_block) * Activations::kTokenTile,
                .out = out + (token - begin) * out_stride,
                .out_stride = out_stride,
                .add = block != 0});
      }
    }
    if (!direct) copy(edge, tile, tiles, begin, end - begin);
  }

  struct Tiles {
    std::size_t first = 0, last = 0;
  };
  /// One token and the tiles of which every row counts, kStreams parts of them at once: but for the
  /// few that are over.
  [[nodiscard]] Tiles multiply_streams(std::size_t token) const {
    const Tiles whole{.first = matrix_.skipped_rows() == 0 ? std::size_t{0} : 1,
                      .last = end_ / kTileRows};
    const std::size_t part = whole.last <= whole.first ? 0 : (whole.last - whole.first) / kStreams;
    if (part == 0) return {};
    const StreamKernel kernel = kernels().streams[type_index()];
    for (std::size_t tile = whole.first; tile != whole.first + part; ++tile) {
      kernel({.weights = weights_of(tile),
              .weights_stride_bytes = part * matrix_.stride_bytes(),
              .next_bytes = matrix_.stride_bytes(),
              .blocks = blocks_,
              .in = activations_.tile(token) + first_input_,
              .out = out_of(tile, token),
              .out_stride = part * kTileRows});
    }
    return {.first = whole.first, .last = whole.first + part * kStreams};
  }

  /// The tokens from `begin` on: fewer than a whole tile.
  void multiply_narrow(std::size_t tile, std::size_t begin) const {
    const auto& by_width = kernels().packed[type_index()];
    const std::size_t tokens = activations_.tokens();
    const bool direct = whole(tile, 1);
    for (std::size_t token = begin; token != tokens;) {
      const std::size_t width = Activations::tile_width(token, tokens);
      alignas(64) float edge[kTileRows * Activations::kTokenTile];
      by_width[static_cast<std::size_t>(std::countr_zero(width))](
          {.weights = weights_of(tile),
           .blocks = blocks_,
           .in = activations_.tile(token) + first_input_ * width,
           .out = direct ? out_of(tile, token) : edge,
           .out_stride = direct ? out_stride_ : kTileRows});
      if (!direct) copy(edge, tile, 1, token, width);
      token += width;
    }
  }

  const MatrixView& matrix_;
  const Activations& activations_;
  std::size_t first_input_;
  float* out_;
  std::size_t out_stride_;
  PackedLayout layout_;
  std::size_t blocks_;
  std::size_t end_;  ///< of the rows, counted from the first tile's first
};

void multiply_plain(const MatrixView& matrix, const InputView& in, float* out,
                    std::size_t out_stride) {
  const Activations& activations = *in.activations;
  IMEX_ASSERT(activations.has(Activations::Form::kPlain), "set() made the plain form");
  const auto& by_width = kernels().plain[static_cast<std::size_t>(matrix.type())];
  constexpr std::size_t kWidest = std::size_t{1} << (kNarrowWidths - 1);
  const std::size_t tokens = activations.tokens();
  const std::size_t rows = matrix.row_count();
  // One token has nothing to come back for, and its kernel reads rows far apart.
  const std::size_t rows_at_once =
      tokens == 1 ? std::max<std::size_t>(1, rows)
                  : std::max<std::size_t>(
                        4, kWeightsBytes / std::max<std::size_t>(1, matrix.stride_bytes()));
  const std::size_t tokens_fit = tokens_at_once(matrix.column_count() * sizeof(float));
  for (std::size_t first = 0; first < tokens; first += tokens_fit) {
    const std::size_t end = std::min(tokens, first + tokens_fit);
    for (std::size_t row = 0; row < rows; row += rows_at_once) {
      for (std::size_t token = first; token != end;) {
        const std::size_t width = std::min(kWidest, std::bit_floor(end - token));
        by_width[static_cast<std::size_t>(std::countr_zero(width))](
            {.weights = matrix.data() + row * matrix.stride_bytes(),
             .weights_stride_bytes = matrix.stride_bytes(),
             .rows = std::min(rows_at_once, rows - row),
             .columns = matrix.column_count(),
             .in = activations.plain(token) + in.first_column,
             .in_stride = activations.plain_stride(),
             .out = out + token * out_stride + row,
             .out_stride = out_stride});
        token += width;
      }
    }
  }
}

}  // namespace

const Kernels& kernels() noexcept {
  const Kernels* const chosen = chosen_kernels.load(std::memory_order_relaxed);
  return chosen != nullptr ? *chosen : *available_kernels().front();
}

void multiply(const MatrixView& matrix, const InputView& in, float* out,
              std::size_t out_stride) noexcept {
  IMEX_ASSERT(in.first_column + matrix.column_count() <= in.activations->columns(),
              "an input for each column");
  if (matrix.is_packed()) {
    PackedProduct(matrix, in, out, out_stride).run();
  } else {
    multiply_plain(matrix, in, out, out_stride);
  }
}

std::string_view kernel_target() noexcept { return kernels().name; }

std::vector<std::string_view> kernel_targets() {
  std::vector<std::string_view> names;
  for (const Kernels* const found : available_kernels()) names.push_back(found->name);
  return names;
}

void use_kernel_target(std::string_view name) noexcept {
  for (const Kernels* const found : available_kernels()) {
    if (found->name == name) {
      chosen_kernels.store(found, std::memory_order_relaxed);
      return;
    }
  }
  IMEX_ASSERT(false, "a name that kernel_targets() gave");
}

}  // namespace imex::inference
