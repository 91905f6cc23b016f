/// What futex_wait_either() does on kernels without futex_waitv(); private, for its test.
#pragma once

#include "os/futex.hpp"

namespace imex::os {

/// Sleeps on `a` in slices of 1 ms and looks at both words in between.
[[nodiscard]] FutexResult futex_wait_either_sliced(
    const std::atomic<std::uint32_t>* a, std::uint32_t expected_a,
    const std::atomic<std::uint32_t>* b, std::uint32_t expected_b,
    std::chrono::steady_clock::time_point deadline) noexcept;

}  // namespace imex::os
