/// The innermost loops, one set per instruction set. product.cpp cuts matrices for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "inference/format/tensor.hpp"
#include "inference/matrix/activations.hpp"
#include "inference/matrix/matrix.hpp"

namespace imex::inference {

/// Widths of tiles of tokens with kernels that read weights as they lie: 1, 2, 4. The next,
/// kTokenTile, has a kernel for packed matrices that reads them taken apart.
inline constexpr std::size_t kNarrowWidths = 3;
static_assert(1U << kNarrowWidths == Activations::kTokenTile);

/// One tile of 16 rows and the tokens of one tile: out[token * out_stride + row].
struct PackedWork {
  const std::byte* weights;
  std::size_t blocks;    ///< of columns, as large as the type's
  const InputBlock* in;  ///< [32 columns each][token]
  float* out;
  std::size_t out_stride;
};
using PackedKernel = void (*)(const PackedWork& work);

/// Places far apart that a product with one token reads at once: the prefetchers of a processor
/// follow each of them, so that more requests are under way (Zen 4: 18 GB/s from one, 26 from
/// four).
inline constexpr std::size_t kStreams = 4;

/// kStreams tiles and one token: tile i begins at weights + i * weights_stride_bytes, and its rows
/// go to out + i * out_stride.
struct StreamWork {
  const std::byte* weights;
  std::size_t weights_stride_bytes;
  std::size_t next_bytes;  ///< from a tile to the one that its stream has next: asked for early
  std::size_t blocks;
  const InputBlock* in;
  float* out;
  std::size_t out_stride;
};
using StreamKernel = void (*)(const StreamWork& work);

/// Tiles of rows that a wide kernel takes at once, sharing what it reads of the inputs.
inline constexpr std::size_t kWideTiles = 2;

/// 32 columns of these tiles, taken apart: what multiply_tile() works out of them.
struct alignas(64) ExpandedGroup {
  using Floats = float[kWideTiles][kTileRows];
  std::uint32_t pairs[16][kWideTiles][kTileRows];  ///< two signed integers each
  Floats scales[2];  ///< second: of the second 16 inputs, if they have their own
  Floats minimums;
};
/// Takes blocks of one tile apart, which is the first or second of `out`.
using ExpandKernel = void (*)(const std::byte* block, std::size_t blocks, std::size_t tile,
                              ExpandedGroup* out);

/// What tells types apart once they are expanded.
enum class ExpandedKind : std::uint8_t { kPlain, kMinimum, kHalves };

struct WideWork {
  const ExpandedGroup* weights;
  std::size_t groups;
  const InputBlock* in;
  float* out;
  std::size_t out_stride;
  bool add;  ///< to what `out` has: the columns before these
};
using WideKernel = void (*)(const WideWork& work);

struct PlainWork {
  const std::byte* weights;
  std::size_t weights_stride_bytes;
  std::size_t rows;
  std::size_t columns;
  const float* in;
  std::size_t in_stride;
  float* out;
  std::size_t out_stride;
};
using PlainKernel = void (*)(const PlainWork& work);

struct Kernels {
  std::string_view name;
  /// [type - kQ40][log2 of tokens]
  std::array<std::array<PackedKernel, kNarrowWidths>, 8> packed;
  std::array<StreamKernel, 8> streams;                     ///< [type - kQ40]
  std::array<ExpandKernel, 8> expand;                      ///< [type - kQ40]
  std::array<std::array<WideKernel, kWideTiles>, 3> wide;  ///< [ExpandedKind][tiles - 1]
  /// [type - kF32][log2 of tokens]
  std::array<std::array<PlainKernel, kNarrowWidths>, 3> plain;
  /// Rounds `blocks` times 32 values of one token; block b goes to out[b * out_stride].
  void (*round)(const float* values, std::size_t blocks, InputBlock* out, std::size_t out_stride);
};

/// What this processor runs, best first; the last one runs everywhere.
[[nodiscard]] std::span<const Kernels* const> available_kernels() noexcept;
/// The chosen ones: the best, unless use_kernel_target() said otherwise.
[[nodiscard]] const Kernels& kernels() noexcept;

}  // namespace imex::inference
