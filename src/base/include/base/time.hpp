/// Time as state machines see it: an argument, never a call.
#pragma once

#include <chrono>
#include <cstdint>

namespace imex {

using Nanos = std::chrono::nanoseconds;

/// Monotonic time that also counts while the machine sleeps (CLOCK_BOOTTIME at run time, a counter
/// in simulations). Wall-clock jumps do not touch it.
struct Time {
  std::int64_t ns = 0;

  friend auto operator<=>(const Time&, const Time&) = default;
  friend Time operator+(Time t, Nanos d) noexcept { return {t.ns + d.count()}; }
  friend Time operator-(Time t, Nanos d) noexcept { return {t.ns - d.count()}; }
  friend Nanos operator-(Time a, Time b) noexcept { return Nanos(a.ns - b.ns); }
};
inline constexpr Time kNever{INT64_MAX};

}  // namespace imex
