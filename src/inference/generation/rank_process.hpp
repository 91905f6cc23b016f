/// What the process of one rank does, from its fork to its end.
#pragma once

#include <cstdint>

#include "board.hpp"

namespace imex::inference {

/// Meets the other ranks, loads, answers requests of the board until it is shut down. What goes
/// wrong stands on the board. Returns the exit status.
[[nodiscard]] int run_rank(const Board& board, const GeneratorOptions& options,
                           std::uint32_t rank) noexcept;

}  // namespace imex::inference
