/// Randomness as state machines see it: an interface, so that a simulation's seed fixes everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace imex {

class Random {
 public:
  virtual ~Random() = default;
  virtual void fill(std::span<std::byte> out) = 0;

  [[nodiscard]] std::uint64_t next_u64() {
    std::uint64_t value = 0;
    fill(std::as_writable_bytes(std::span<std::uint64_t, 1>(&value, 1)));
    return value;
  }
  /// Uniform in [0, bound), bound > 0. The bias of the modulo is below 2^-32 for bounds below 2^32.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) { return next_u64() % bound; }
};

}  // namespace imex
