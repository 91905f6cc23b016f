/// Multiplies vectors by a scalar, element by element, for sums of scaled inputs.
#pragma once

#include <array>
#include <cstddef>

#include <imex/data_type.hpp>

namespace imex::nccl {

/// A number of some DataType, in its first bytes.
using Scalar = std::array<std::byte, 8>;

/// out[i] = in[i] * scalar, rounded once to nearest even; integers wrap. `type` is one that NCCL
/// has. Any alignment; `in` and `out` are the same or apart.
void scale(DataType type, const std::byte* in, std::byte* out, std::size_t count,
           const Scalar& scalar) noexcept;

}  // namespace imex::nccl
