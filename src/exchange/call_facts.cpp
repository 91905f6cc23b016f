#include "call_facts.hpp"

#include <array>

#include <fmt/format.h>

namespace imex::exchange {

namespace {

constexpr auto kKindNames =
    std::to_array<std::string_view>({"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                     "reduce", "all_to_all", "all_to_all_v", "send", "receive",
                                     "barrier", "allocate", "put", "wait_signal", "send_receive"});

}  // namespace

std::string_view CallFacts::name() const noexcept {
  return kKindNames[static_cast<std::size_t>(kind)];
}

std::string CallFacts::to_string() const {
  std::string text = fmt::format("{} of {} bytes", name(), bytes);
  if (kind == Kind::kAllReduce || kind == Kind::kReduceScatter || kind == Kind::kReduce) {
    text += fmt::format(" ({} of {})", reduce_op_name(op), data_type_name(type));
  }
  if (root != kNoRank) {
    text += fmt::format(", {} {}", collective() ? "root" : "peer", root);
  }
  if (registered) text += ", registered buffers";
  return text;
}

std::uint64_t CallFacts::packed() const noexcept {
  return static_cast<std::uint64_t>(kind) | static_cast<std::uint64_t>(type) << 8U |
         static_cast<std::uint64_t>(op) << 16U |
         static_cast<std::uint64_t>(registered ? 1 : 0) << 24U | std::uint64_t{root} << 32U;
}

CallFacts CallFacts::unpacked(std::uint64_t word, std::uint64_t bytes) noexcept {
  CallFacts call{.bytes = bytes};
  const auto kind = static_cast<std::uint8_t>(word);
  call.kind = static_cast<Kind>(kind < kKindNames.size() ? kind : 0);
  call.type = static_cast<DataType>(word >> 8U & 0xffU);
  call.op = static_cast<ReduceOp>(word >> 16U & 0xffU);
  call.registered = (word >> 24U & 1U) != 0;
  call.root = static_cast<std::uint32_t>(word >> 32U);
  return call;
}

}  // namespace imex::exchange
