/// Randomness from the kernel.
#pragma once

#include "base/random.hpp"
#include "base/uuid.hpp"

namespace imex::os {

class SystemRandom final : public Random {
 public:
  void fill(std::span<std::byte> out) override;
};

/// 122 random bits in the layout of UUID version 4.
[[nodiscard]] Uuid random_uuid();

}  // namespace imex::os
