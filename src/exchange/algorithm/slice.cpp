#include <algorithm>

#include "algorithm/all_reduce.hpp"

namespace imex::exchange {

Slice slice_of(std::size_t elements, std::size_t element_bytes, std::uint32_t rank,
               std::uint32_t ranks) noexcept {
  const std::size_t per_line = 64 / element_bytes;
  const std::size_t share = (elements + ranks - 1) / ranks;
  const std::size_t run = (share + per_line - 1) / per_line * per_line;
  const std::size_t begin = std::min(rank * run, elements);
  return {.begin = begin, .count = std::min(run, elements - begin)};
}

}  // namespace imex::exchange
