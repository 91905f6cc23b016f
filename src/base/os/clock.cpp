#include "os/clock.hpp"

#include <time.h>

namespace imex::os {

std::uint64_t coarse_clock_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);  // cannot fail: the clock is always there
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace imex::os
