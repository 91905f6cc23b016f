#include "exchange/floor.hpp"

#include <algorithm>
#include <cmath>

namespace imex::bench {
namespace {

constexpr double kFloorLineBytes = 64;
constexpr double kFloorNsPerUs = 1000;

double at_least_one(double lines) { return lines > 0 ? std::max(lines, 1.0) : 0; }

}  // namespace

Moves moves_of(Operation operation, std::uint64_t bytes, std::uint32_t ranks,
               bool registered) noexcept {
  const double all = std::ceil(static_cast<double>(bytes) / kFloorLineBytes);
  const double peers = ranks - 1.0;
  const double others = peers / ranks;
  Moves moves;
  switch (operation) {
    case Operation::kAllReduce:
      moves.swapped = registered ? others * all : 0;
      moves.written = moves.read = registered ? 0 : 2 * others * all;
      break;
    case Operation::kReduceScatter:
    case Operation::kAllGather:
    case Operation::kAllToAll:
      moves.read = others * all;
      moves.written = registered ? 0 : moves.read;
      break;
    case Operation::kReduce:
      moves.read = std::min((registered ? 2 : 3) * others, peers) * all;
      break;
    case Operation::kBroadcast:
      moves.read = all;
      break;
    case Operation::kSendRecv:
      moves.read = all;
      moves.written = registered ? 0 : all;
      break;
    case Operation::kPut:
      moves.hand_offs = 0;
      [[fallthrough]];
    case Operation::kPutSignal:
      moves.written = all;
      break;
    case Operation::kBarrier:
      break;
  }
  moves.swapped = at_least_one(moves.swapped);
  moves.read = at_least_one(moves.read);
  moves.written = at_least_one(moves.written);
  return moves;
}

double floor_us(const Moves& moves, const LineCosts& costs) noexcept {
  return (moves.hand_offs * costs.hand_off + moves.swapped * costs.swapped +
          moves.read * costs.read + moves.written * costs.written) /
         kFloorNsPerUs;
}

}  // namespace imex::bench
