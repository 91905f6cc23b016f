/// Test help: a random source that is the same on every run.
#pragma once

#include <random>
#include <span>

#include "base/random.hpp"

namespace imex::domain {

class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : engine_(seed) {}
  void fill(std::span<std::byte> out) override {
    for (std::byte& b : out) b = static_cast<std::byte>(engine_() >> 56U);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace imex::domain
