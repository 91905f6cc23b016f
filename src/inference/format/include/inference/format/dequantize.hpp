/// The value of every stored element, as the formats define it: the reference that kernels are
/// tested against, and the way to read a few rows. Plain loops; not for the hot path.
///
/// A block has scales in float16 (d, m) and small integers q, little-endian:
///
///   Q4_0  32: d, 16 bytes               d (q - 8); low nibbles are elements 0-15, high ones 16-31
///   Q4_1  32: d, m, 16 bytes            d q + m
///   Q5_0  32: d, 32 high bits, 16 bytes d (q - 16)
///   Q5_1  32: d, m, high bits, 16 bytes d q + m
///   Q8_0  32: d, 32 signed bytes        d q
///   Q4_K 256: d, dmin, 12, 128 bytes    d s q - dmin m; 8 groups of 32, s and m of 6 bits each
///   Q5_K 256: d, dmin, 12, 32, 128      the same with a fifth bit of q in the 32 bytes
///   Q6_K 256: 128, 64, 16 scales, d     d s (q - 32); 16 groups of 16, s signed
#pragma once

#include <cstddef>
#include <span>

#include "inference/format/tensor.hpp"

namespace imex::inference {

/// Writes all elements of `blocks` to `out`, in float arithmetic without fused operations, so that
/// the bits are the same on every machine. `type` is a weight type, `blocks` are whole, `out` has
/// room for exactly their elements: anything else is the caller's mistake. Any alignment.
void dequantize(TensorType type, std::span<const std::byte> blocks, std::span<float> out) noexcept;

}  // namespace imex::inference
