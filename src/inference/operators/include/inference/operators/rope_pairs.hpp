#pragma once

#include <cstdint>

namespace imex::inference {

/// Which elements of a head RoPE rotates together: i with i + d/2, or 2i with 2i + 1. The two are a
/// permutation of the rows of Wq and Wk, so it is a property of the file, not of the model.
enum class RopePairs : std::uint8_t { kHalves, kInterleaved };

}  // namespace imex::inference
