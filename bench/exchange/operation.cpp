#include "bench/operation.hpp"

#include <array>

namespace imex::bench {
namespace {

constexpr std::array<OperationFacts, kOperationCount> kOperations{{
    {Operation::kAllReduce, "all-reduce", "every rank gets the reduction of all vectors",
     Extent::kVector, Placing::kEither, true, false},
    {Operation::kAllGather, "all-gather", "every rank gets the shares of all", Extent::kShares,
     Placing::kEither, false, false},
    {Operation::kReduceScatter, "reduce-scatter", "every rank gets its share of the reduction",
     Extent::kShares, Placing::kEither, true, false},
    {Operation::kReduce, "reduce", "rank 0 gets the reduction of all vectors", Extent::kVector,
     Placing::kEither, true, true},
    {Operation::kBroadcast, "broadcast", "every rank gets the vector of rank 0", Extent::kVector,
     Placing::kInPlace, false, true},
    {Operation::kAllToAll, "all-to-all", "every rank sends a share of its vector to each",
     Extent::kShares, Placing::kApart, false, false},
    {Operation::kSendRecv, "send-recv", "every rank sends to the next, receives from the previous",
     Extent::kVector, Placing::kApart, false, false},
    {Operation::kPut, "put", "every rank writes into the memory of the next", Extent::kVector,
     Placing::kApart, false, false},
    {Operation::kPutSignal, "put-signal",
     "every rank writes into the memory of the next, and waits for the previous", Extent::kVector,
     Placing::kApart, false, false},
    {Operation::kBarrier, "barrier", "no rank leaves before all have come", Extent::kNothing,
     Placing::kInPlace, false, false},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i != kOperations.size(); ++i) {
    if (static_cast<std::size_t>(kOperations[i].operation) != i) return false;
  }
  return true;
}
static_assert(in_order(), "facts_of() looks up by number");

}  // namespace

std::span<const OperationFacts> operations() noexcept { return kOperations; }

const OperationFacts& facts_of(Operation operation) noexcept {
  return kOperations[static_cast<std::size_t>(operation)];
}

std::optional<Operation> operation_from_name(std::string_view name) noexcept {
  for (const OperationFacts& facts : kOperations) {
    if (facts.name == name) return facts.operation;
  }
  return std::nullopt;
}

double bus_factor(Operation operation, std::uint32_t ranks) noexcept {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (operation) {
    case Operation::kAllReduce:
      return 2 * others;
    case Operation::kAllGather:
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
      return others;
    case Operation::kReduce:
    case Operation::kBroadcast:
    case Operation::kSendRecv:
    case Operation::kPut:
    case Operation::kPutSignal:
    case Operation::kBarrier:
      return 1;
  }
  return 1;
}

std::uint64_t granularity(Operation operation, DataType type, std::uint32_t ranks) noexcept {
  switch (facts_of(operation).extent) {
    case Extent::kVector:
      return element_bytes(type);
    case Extent::kShares:
      return element_bytes(type) * ranks;
    case Extent::kNothing:
      break;
  }
  return 0;
}

}  // namespace imex::bench
