/// Reduction of several vectors into one, or into several copies of it.
#pragma once

#include <cstddef>

#include <imex/data_type.hpp>

namespace imex::exchange {

/// Sources in rank order; each target receives the result. A target may be the same range as a
/// source, but not overlap one otherwise. No alignment is asked for.
struct Reduction {
  const std::byte* const* sources = nullptr;
  std::size_t source_count = 0;  ///< > 0; the divisor of kAvg
  std::byte* const* targets = nullptr;
  std::size_t target_count = 0;
  std::size_t elements = 0;
};

using ReduceKernel = void (*)(const Reduction&);

/// The best one for this processor; null for a number that is no type or no operation.
[[nodiscard]] ReduceKernel reduce_kernel(DataType type, ReduceOp op) noexcept;

/// The name of the instruction set that reduce_kernel() chooses.
[[nodiscard]] const char* reduce_target() noexcept;

}  // namespace imex::exchange
