/// The clock of all times in this room: the same for all processes of a machine.
#pragma once

#include <chrono>
#include <cstdint>

namespace imex::inference {

[[nodiscard]] inline std::uint64_t steady_ns() noexcept {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace imex::inference
