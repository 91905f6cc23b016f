/// Sleeping on words of shared memory. Always the shared (not private) form: the peers are
/// processes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace imex::os {

enum class FutexResult : std::uint8_t { kWoken, kChanged, kTimedOut, kInterrupted };

/// Sleeps while *word == expected, until woken or `deadline` (steady clock; time_point::max():
/// none).
[[nodiscard]] FutexResult futex_wait(const std::atomic<std::uint32_t>* word, std::uint32_t expected,
                                     std::chrono::steady_clock::time_point deadline) noexcept;

/// Sleeps while both words hold their expected values. Kernels before 5.16 lack the call: there it
/// sleeps on the first word in slices of 1 ms.
[[nodiscard]] FutexResult futex_wait_either(
    const std::atomic<std::uint32_t>* a, std::uint32_t expected_a,
    const std::atomic<std::uint32_t>* b, std::uint32_t expected_b,
    std::chrono::steady_clock::time_point deadline) noexcept;

/// Wakes all who sleep on the word.
void futex_wake_all(const std::atomic<std::uint32_t>* word) noexcept;

/// The low half of a 64-bit word (little-endian), as futexes see it.
[[nodiscard]] inline const std::atomic<std::uint32_t>* low_half(
    const std::atomic<std::uint64_t>& word) noexcept {
  return reinterpret_cast<const std::atomic<std::uint32_t>*>(&word);
}

}  // namespace imex::os
