/// The time that an operation cannot be faster than, from what a hand-off and a cache line cost in
/// the same run (exchange.md 8.1).
///
/// Lines that one rank moves, the slowest rank's, where L = bytes / 64 and s = (ranks - 1) / ranks.
/// `read`: the peer wrote them last. `written`: the peer read them last. `swapped`: both, one rank
/// after the other. Private vectors pass through slots: who sends writes a slot's lines, who
/// receives reads them. Registered vectors are read, or written, in place.
///
///     operation       private                      registered     hand-offs
///     all-reduce      2sL written, 2sL read        sL swapped     1
///     reduce-scatter  sL written, sL read          sL read        1
///     all-gather      sL written, sL read          sL read        1
///     reduce          min(3s, ranks-1) L read      min(2s, ranks-1) L read   1
///     broadcast       L read                       L read         1
///     all-to-all      sL written, sL read          sL read        1
///     send-recv       L written, L read            L read         1
///     put             L written                    L written      0
///     put-signal      L written                    L written      1
///     barrier         -                            -              1
///
/// `bytes` is the row's: for operations with shares the whole vector. For two ranks and all-reduce
/// these are the 2N/64 and N/2/64 lines of exchange.md. A moved kind counts at least one line.
/// What a line costs is measured on a block of the vector's length, so that from some 4 MiB on it
/// is the bandwidth of the memory.
#pragma once

#include <cstdint>

#include "bench/operation.hpp"

namespace imex::bench {

struct Moves {
  double swapped = 0, read = 0, written = 0;  ///< lines
  double hand_offs = 1;
};
[[nodiscard]] Moves moves_of(Operation operation, std::uint64_t bytes, std::uint32_t ranks,
                             bool registered) noexcept;

/// Of this run, in nanoseconds.
struct LineCosts {
  double hand_off = 0;  ///< one way
  double swapped = 0, read = 0, written = 0;
};
[[nodiscard]] double floor_us(const Moves& moves, const LineCosts& costs) noexcept;

}  // namespace imex::bench
