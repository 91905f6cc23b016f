/// What a `.tensors` reader needs of libsodium.
#pragma once

#include <array>
#include <span>

#include "inference/format/tensors.hpp"

namespace imex::inference {

/// Starts libsodium once; false if it cannot.
[[nodiscard]] bool prepare_sodium() noexcept;

[[nodiscard]] std::array<std::byte, 32> sha256_of(std::span<const std::byte> header,
                                                  std::span<const std::byte> data) noexcept;

/// `stored` into `out` of the same size. Errors: kPermissionDenied.
[[nodiscard]] Result<void> decrypt(const TensorsCipher& cipher, const TensorsKey& key,
                                   std::span<const std::byte> stored, std::span<std::byte> out);

}  // namespace imex::inference
