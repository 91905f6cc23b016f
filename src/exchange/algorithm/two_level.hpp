/// All_reduce in two levels: every group of near ranks reduces to its first rank, these exchange,
/// and hand the result back. Few lines go the long way, and each of those once per group.
#pragma once

#include <cstddef>

#include "algorithm/all_reduce.hpp"
#include "lane.hpp"
#include "tuner.hpp"

namespace imex::exchange {

struct TwoLevelCall {
  Lane* group = nullptr;    ///< of the near ranks, its leader first; null for a rank that is alone
  Lane* leaders = nullptr;  ///< of the first ranks of all groups; null for the others
  /// Of what the leaders do; the same in all of them.
  const TuningTable& among_leaders;
  std::size_t chunk_bytes_max = 0;  ///< at most a ring slot of any group; the same in all ranks
};

/// Null when it is done, else the lane in which a wait has ended early.
[[nodiscard]] const Lane* all_reduce_two_level(const TwoLevelCall& ranks, const ReduceCall& call);

}  // namespace imex::exchange
