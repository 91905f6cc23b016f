/// The operations of `imex bench`: what each is called, what the `bytes` of its rows are, how its
/// bandwidth is reckoned. One table; options, measuring, tables and tests ask it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <imex/data_type.hpp>

namespace imex::bench {

enum class Operation : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kReduce,
  kBroadcast,
  kAllToAll,
  kSendRecv,
  kPut,
  kPutSignal,
  kBarrier,
};
inline constexpr std::uint32_t kOperationCount = 10;

/// What the `bytes` of a row are, as in nccl-tests.
enum class Extent : std::uint8_t {
  kVector,  ///< each rank's vector, or message
  kShares,  ///< the whole vector; a share of it belongs to each rank
  kNothing,
};

/// Where the result goes.
enum class Placing : std::uint8_t {
  kEither,   ///< over the input, or elsewhere
  kInPlace,  ///< there is one buffer
  kApart,    ///< always elsewhere
};

struct OperationFacts {
  Operation operation;
  std::string_view name;  ///< of the command
  std::string_view help;
  Extent extent;
  Placing placing;
  bool reduces;  ///< has an --op
  bool rooted;   ///< at rank 0
};

/// In the order of the enumeration.
[[nodiscard]] std::span<const OperationFacts> operations() noexcept;
[[nodiscard]] const OperationFacts& facts_of(Operation operation) noexcept;
[[nodiscard]] std::optional<Operation> operation_from_name(std::string_view name) noexcept;

/// busbw / algbw: the share of a vector that must cross each rank's link (exchange.md 8.1).
[[nodiscard]] double bus_factor(Operation operation, std::uint32_t ranks) noexcept;

/// Sizes are whole multiples of this; 0 for an operation without data.
[[nodiscard]] std::uint64_t granularity(Operation operation, DataType type,
                                        std::uint32_t ranks) noexcept;

}  // namespace imex::bench
