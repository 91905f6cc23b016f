/// What a call is, in words that ranks can compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <imex/communicator.hpp>

namespace imex::exchange {

/// What a call is, for errors, counters and checked mode.
struct CallFacts {
  enum class Kind : std::uint8_t {
    kAllReduce,
    kReduceScatter,
    kAllGather,
    kBroadcast,
    kReduce,
    kAllToAll,
    kAllToAllV,
    kSend,
    kReceive,
    kBarrier,
    kAllocate,
    kPut,
    kWaitSignal,
    kSendReceive,
  };
  Kind kind = Kind::kBarrier;
  std::size_t bytes = 0;  ///< of one rank's vector or part
  DataType type = DataType::kUint8;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t root = kNoRank;  ///< or the peer
  bool registered = false;

  [[nodiscard]] std::string_view name() const noexcept;
  [[nodiscard]] std::string to_string() const;
  /// All but `bytes`, in a word.
  [[nodiscard]] std::uint64_t packed() const noexcept;
  [[nodiscard]] static CallFacts unpacked(std::uint64_t word, std::uint64_t bytes) noexcept;
  /// Each rank of a collective calls with the same.
  [[nodiscard]] bool collective() const noexcept {
    return kind != Kind::kSend && kind != Kind::kReceive && kind != Kind::kSendReceive &&
           kind != Kind::kPut && kind != Kind::kWaitSignal;
  }
};

}  // namespace imex::exchange
