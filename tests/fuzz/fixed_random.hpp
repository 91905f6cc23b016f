/// Randomness of fuzz targets: the same for each input, so that a finding can be replayed.
#pragma once

#include <cstddef>
#include <span>

#include "base/random.hpp"

namespace imex::fuzz {

class FixedRandom : public Random {
 public:
  void fill(std::span<std::byte> out) override {
    for (std::byte& b : out) b = static_cast<std::byte>(++next_);
  }

 private:
  unsigned next_ = 0;
};

}  // namespace imex::fuzz
